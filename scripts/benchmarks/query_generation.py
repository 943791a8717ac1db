"""Passages a second of the teacher that asks how likely the query is, beside a plain loop, in one run.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/query_generation.py

The strategy ``query_generation`` of the stage ``label`` with SmolLM2-135M-Instruct (``--model`` takes any
decoder-only one) on passages of TREC DL 2019's BM25 lists, cut to 100 words. The plain loop reads passage
and query in batches of ten in the order of the list, padded to the longest, takes the logarithm of the
softmax over the whole vocabulary at every position, and the mean over the query's tokens.

First the scores are compared: in fp32 they must be the same. Then all take turns, each from texts to scores;
medians count. One JSON line is appended to ``docs/benchmarks/label.jsonl``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from label_throughput import dl19_lists
from measuring import Timed, append, data_folder, line_of, parser, table, take_turns, timed
from shared_prefix import SMOLLM2, tiny_llama
from student_scoring import (
    MAX_LENGTH,
    OURS,
    PLAIN,
    PLAIN_BATCH,
    Key,
    check_scores,
    difference,
    rate_for,
    results_of,
    speedups,
)

from instruct_distill.errors import InputError
from instruct_distill.inference.local import LocalEngine
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.precision import DTYPES
from instruct_distill.prompts.named import named_prompt
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context

Lists = Sequence[CandidateTexts]


def engine_of(loaded: LoadedModel) -> LocalEngine:
    """This library's engine, that has tokenised nothing yet."""
    return LocalEngine(loaded, named_prompt("query-generation"), max_length=MAX_LENGTH)


def with_library(loaded: LoadedModel, lists: Lists) -> Timed:
    """Label the lists as the stage ``label`` does."""
    parameters = TeacherParameters(model=loaded.name, strategy="query_generation", max_length=MAX_LENGTH)
    strategy = strategy_of(parameters, Context(qrels=lambda: None, query_ids=list))
    engine = engine_of(loaded)
    done = timed(lambda: label_chunk(strategy, engine, lists))
    return done._replace(answers=np.array([score for label in done.answers for score in label.scores]))


def with_plain_loop(loaded: LoadedModel, lists: Lists) -> Timed:
    """Batches of ten, the logits of the whole vocabulary at every position."""
    model, tokenizer, encoder = loaded.model.model, loaded.tokenizer, engine_of(loaded).encoder
    field = encoder.prompt.document_fields[0]

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def scores() -> Any:
        found: list[float] = []
        pairs = [(item.query.text, d.full_text) for item in lists for d in item.documents]
        with torch.inference_mode():
            for position in range(0, len(pairs), PLAIN_BATCH):
                rows = []
                for query, text in pairs[position : position + PLAIN_BATCH]:
                    rows.append((ids(encoder.template.format(**{field: text})), ids(query)))
                longest = max(len(prompt) + len(query) for prompt, query in rows)
                tokens = torch.full((len(rows), longest), loaded.model.pad_id)
                mask = torch.zeros_like(tokens)
                for row, (prompt_ids, query_ids) in enumerate(rows):
                    both = prompt_ids + query_ids
                    tokens[row, : len(both)] = torch.tensor(both)
                    mask[row, : len(both)] = 1
                logits = model(input_ids=tokens, attention_mask=mask).logits
                likely = torch.log_softmax(logits.float(), dim=-1)
                for row, (prompt_ids, query_ids) in enumerate(rows):
                    places = torch.arange(len(query_ids)) + len(prompt_ids) - 1
                    found.append(float(likely[row, places, torch.tensor(query_ids)].mean()))
        return np.array(found)

    return timed(scores)


def benchmark(
    data: Path, model: str, queries: int, documents: int, rounds: int, smoke: bool
) -> dict[str, Any]:
    """Compare the scores in both number formats, then let all take turns.

    Raises:
        InputError: the lists or the model are not there, or the scores are not the same in fp32.
    """
    lists = dl19_lists(data, queries, documents)
    some = [CandidateTexts(lists[0].query, lists[0].documents[: PLAIN_BATCH + 1])]
    systems: dict[Key, Callable[[], Timed]] = {}
    for dtype in ("fp32", "bf16"):
        loaded = tiny_llama(data) if smoke else load_model(model, dtype=dtype)
        loaded.model.to(DTYPES[dtype])
        ours, theirs = with_library(loaded, some), with_plain_loop(loaded, some)
        check_scores(difference(ours.answers, theirs.answers), dtype)
        systems[dtype, OURS] = functools.partial(with_library, loaded, lists)
        systems[dtype, PLAIN] = functools.partial(with_plain_loop, loaded, lists)
    encoder, config = engine_of(loaded).encoder, loaded.model.model.config
    lengths = [
        len(prompt) + len(encoder.encode_continuation(item.query.text))
        for item in lists
        for prompt in encoder.encode((item.query.text, [d.full_text]) for d in item.documents)
    ]
    turns = take_turns(systems, rounds, functools.partial(rate_for, config, smoke))
    return results_of(turns, config, lengths)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the line."""
    made = parser(__doc__)
    made.add_argument("--model", default=SMOLLM2, help="a decoder-only model, as in a recipe")
    made.add_argument("--queries", type=int, default=2)
    made.add_argument("--documents", type=int, default=100, help="of each query's list (100)")
    chosen = made.parse_args(arguments)
    data = data_folder(made)
    queries, documents, rounds = (
        (2, 6, 1) if chosen.smoke else (chosen.queries, chosen.documents, chosen.rounds)
    )
    try:
        results = benchmark(data, chosen.model, queries, documents, rounds, chosen.smoke)
    except InputError as error:
        made.error(str(error))
    given = ["--queries", str(queries), "--documents", str(documents), "--rounds", str(rounds)]
    line = line_of(
        "label-query-generation",
        "query_generation.py",
        given,
        smoke=chosen.smoke,
        model="Llama, random weights" if chosen.smoke else Path(chosen.model.partition("#")[0]).name,
        passages=queries * documents,
        results=results,
        speedup=speedups(results, PLAIN),
    )
    append(line, chosen.out, "label.jsonl")
    rows = [
        [f"{dtype}, {system}", f"{each['passages_per_second']:.2f}", f"{each['share']:.0%}"]
        for dtype, result in results.items()
        for system, each in result["systems"].items()
    ]
    print(table(["system", "passages/s", "of the matrix rate"], rows))
    print("times as fast as the plain loop:", line["speedup"])


if __name__ == "__main__":
    main()

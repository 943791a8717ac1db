"""Pairs a second of the pairwise teacher: this library, llm-rankers and a plain loop, in one run.

    pip install --no-deps --target PEERS llm-rankers==0.0.2
    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/label_throughput.py --llm-rankers PEERS

The model has the shape of T5-base and random weights (what it answers takes as long as what a trained one
answers), the tokenizer is T5's, the lists are those of TREC DL 2019 with passages cut to 100 words. The plain
loop does what scripts of papers do: batches of ten prompts in the order of the list, padded to the longest,
logits of the whole vocabulary. llm-rankers is its ``PairwiseLlmRanker`` with method ``allpair`` and batches
of two, as it comes. All are given the same prompts and the same start of the answer, that of llm-rankers.

First the winners of one list are compared: in fp32 they must be the same. Then the systems take turns, for
some rounds, each from texts to answers, tokenisation included; medians count. Own defaults are fp32 for
llm-rankers and the plain loop, and for this library bf16 where the processor has it.

``share`` is the rate of the work that the prompts' real tokens need by the model's own definition (without
padding and without logits, but with the decoder's keys and values of every token, which this library gets
around) over the rate of plain matrix products of this model's shapes in the same dtype, measured between the
turns. One JSON line is appended to ``docs/benchmarks/label.jsonl``. About six minutes on two free cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib.metadata
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import transformers
from measuring import ROOT as ROOT
from measuring import append, matrix_rate, share_of, take_turns
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

from instruct_distill.environment import processor as processor
from instruct_distill.errors import InputError
from instruct_distill.inference.local import LocalEngine
from instruct_distill.models.batch import by_length, pad
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.loading import LoadedModel
from instruct_distill.models.precision import DTYPES, has_native_bf16
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.records import Document
from instruct_distill.sources import open_collection
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context
from instruct_distill.version import __version__

WORDS = 100
MAX_LENGTH = 512
TOKENS_PER_BATCH = 4096
PLAIN_BATCH = 10
SHAPE = {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
SMOKE_SHAPE = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
PROMPT = dataclasses.replace(named_prompt("pairwise-passage"), name="benchmark", answer_prefix="Passage")
OURS, PLAIN, PEER = "instruct_distill", "plain loop", "llm-rankers"
_DECIDED = 1e-3
"""A margin below this share of the margins' spread is a tie: two orders of summation may part there."""


class Timed(NamedTuple):
    """One measurement.

    Args:
        answers: of each ordered pair, in the order of ``pairs_of``: the margin, or +1 and -1 where only the
            winner is known.
        seconds: from texts to answers.
        padded: tokens with padding.
    """

    answers: npt.NDArray[np.float64]
    seconds: float
    padded: int


def dl19_lists(data: Path, queries: int, documents: int) -> list[CandidateTexts]:
    """The first queries with the first passages of their lists, cut to a number of words."""
    collection = open_collection(f"rankgpt:{data}/trec-dl/candidates/dl19.bm25.json")
    given = collection.given() or {}
    lists = []
    for query in collection.queries()[:queries]:
        ids = [candidate.doc_id for candidate in given[query.query_id][:documents]]
        found = collection.fetch(ids)
        cut = (" ".join(found[doc_id].full_text.split()[:WORDS]) for doc_id in ids)
        lists.append(CandidateTexts(query, tuple(Document(*item) for item in zip(ids, cut, strict=True))))
    return lists


def random_t5(shape: dict[str, int], tokenizer: Any) -> Any:
    """A T5 with random weights in float32, whose output layer is one of its own."""
    torch.manual_seed(13)
    settings: dict[str, Any] = dict(
        vocab_size=32128,
        decoder_start_token_id=0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **shape,
    )
    make: Any = T5ForConditionalGeneration
    model = make(T5Config(**settings)).eval()
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    return model


def make_decisive(model: Any, engine: LocalEngine, lists: Sequence[CandidateTexts]) -> None:
    """Let the likeliest word be one of the two answers, each about as often.

    The rows of the two answers in the output layer become opposite, long, and the direction in which the
    states of these prompts differ most: a system that writes the likeliest word writes an answer.
    """
    answers = engine.encoder.answers
    assert answers is not None
    first, second = (continuation[0] for continuation in answers.continuations)
    prompts = engine.encoder.encode(pairs_of(lists))
    with torch.inference_mode():
        batch = pad(prompts, engine.model.pad_id, engine.model.device)
        states = engine.model.answer_rows(batch, answers)
        centred = states - states.mean(dim=0)
        direction = torch.linalg.svd(centred, full_matrices=False).Vh[0]
        # what all states share is taken out of it, or one answer would always win
        shared = states.mean(dim=0)
        direction = direction - (direction @ shared) / (shared @ shared) * shared
        model.lm_head.weight.mul_(0.01)
        model.lm_head.weight[first] = 10.0 * direction
        model.lm_head.weight[second] = -10.0 * direction


def with_library(engine: LocalEngine, lists: Sequence[CandidateTexts]) -> Timed:
    """Label the lists as the stage ``label`` does."""
    parameters = TeacherParameters(model="random", max_length=MAX_LENGTH)
    strategy = strategy_of(parameters, Context(qrels=lambda: None, query_ids=list))
    began = time.perf_counter()
    labels = label_chunk(strategy, engine, lists)
    seconds = time.perf_counter() - began
    lengths = [len(ids) for ids in engine.encoder.encode(pairs_of(lists))]
    padded = sum(
        len(batch) * max(lengths[i] for i in batch) for batch in by_length(lengths, TOKENS_PER_BATCH)
    )
    margins = [comparison.margin for label in labels for comparison in label.comparisons]
    return Timed(np.array(margins), seconds, padded)


def with_plain_loop(
    model: Any, tokenizer: Any, prompt: Prompt, engine: LocalEngine, lists: Sequence[CandidateTexts]
) -> Timed:
    """Batches of ten in list order, padded to the longest, full-vocabulary logits."""
    assert engine.encoder.answers is not None
    first, second = (continuation[0] for continuation in engine.encoder.answers.continuations)
    start = torch.tensor([engine.encoder.answers.prefix])
    fields = prompt.document_fields
    margins: list[float] = []
    padded = 0
    began = time.perf_counter()
    with torch.inference_mode():
        for item in lists:
            texts = [
                prompt.template.format(query=item.query.text, **dict(zip(fields, pair, strict=True)))
                for _, pair in pairs_of([item])
            ]
            for position in range(0, len(texts), PLAIN_BATCH):
                batch = tokenizer(
                    texts[position : position + PLAIN_BATCH],
                    padding=True,
                    truncation=True,
                    max_length=MAX_LENGTH,
                    return_tensors="pt",
                )
                padded += batch["input_ids"].numel()
                logits = model(
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    decoder_input_ids=start.repeat(len(batch["input_ids"]), 1),
                ).logits[:, -1]
                margins += (logits[:, first] - logits[:, second]).float().tolist()
    return Timed(np.array(margins), time.perf_counter() - began, padded)


def llm_rankers(folder: Path, model: Any, tokenizer_folder: Path) -> Any:
    """Its ranker, around our model.

    Raises:
        InputError: the folder does not hold it.
    """
    sys.path.insert(0, str(folder))
    for client in ("openai", "tiktoken"):
        # imported beside the class and not used by it
        sys.modules.setdefault(client, ModuleType(client))
    try:
        from llmrankers.pairwise import PairwiseLlmRanker
    except ImportError as error:
        raise InputError(
            f"{folder}: {error}; pip install --no-deps --target {folder} llm-rankers==0.0.2"
        ) from None
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        ranker = PairwiseLlmRanker(saved, str(tokenizer_folder), "cpu", method="allpair")
    fields = dict(zip(PROMPT.document_fields, ("{doc1}", "{doc2}"), strict=True))
    ranker.prompt = PROMPT.template.format(query="{query}", **fields)
    return ranker


def with_llm_rankers(ranker: Any, lists: Sequence[CandidateTexts]) -> Timed:
    """Its all-pairs method; what the model wrote is looked at on the way, since it returns only ranks."""
    from llmrankers.rankers import SearchResult

    written: list[str] = []
    decode = ranker.tokenizer.batch_decode

    def watched(*args: Any, **kwargs: Any) -> Any:
        texts = decode(*args, **kwargs)
        written.extend(texts)
        return texts

    ranker.tokenizer.batch_decode = watched
    winners: list[float] = []
    padded = 0
    began = time.perf_counter()
    try:
        for item in lists:
            written.clear()
            ranker.rerank(item.query.text, [SearchResult(d.doc_id, 0.0, d.full_text) for d in item.documents])
            padded += ranker.total_prompt_tokens
            winners += _in_our_order(len(item.documents), written)
    finally:
        ranker.tokenizer.batch_decode = decode
    return Timed(np.array(winners), time.perf_counter() - began, padded)


def _in_our_order(documents: int, written: Sequence[str]) -> list[float]:
    """Its answers come pair by pair in both orders; ours by the first document, then by the second."""
    found = {}
    for (i, j), there, back in zip(
        combinations(range(documents), 2), written[0::2], written[1::2], strict=True
    ):
        found[i, j], found[j, i] = _winner(there), _winner(back)
    return [found[pair] for pair in permutations(range(documents), 2)]


def _winner(text: str) -> float:
    """+1 for A, -1 for B, 0 for anything else; a random model goes on writing after its answer."""
    answer = text.removeprefix("Passage").split()[:1]
    return {"A": 1.0, "B": -1.0}.get(answer[0][:1] if answer else "", 0.0)


def pairs_of(lists: Sequence[CandidateTexts]) -> list[tuple[str, tuple[str, ...]]]:
    """Every ordered pair of each list as (query, texts)."""
    return [
        (item.query.text, tuple(document.full_text for document in pair))
        for item in lists
        for pair in permutations(item.documents, 2)
    ]


def operations(shape: dict[str, int], prompt: int, decoder: int) -> float:
    """Floating-point operations that one prompt needs: matrix products of real tokens.

    Args:
        shape: the model's.
        prompt: tokens that the encoder reads.
        decoder: tokens that the decoder reads.
    """
    width, inner = shape["d_model"], shape["num_heads"] * shape["d_kv"]
    attention, feed_forward = 4 * width * inner, 2 * width * shape["d_ff"]
    encoder = 2 * prompt * (attention + feed_forward) + 4 * prompt * prompt * inner
    cross = 2 * decoder * 2 * width * inner + 2 * prompt * 2 * width * inner + 4 * prompt * decoder * inner
    own = 2 * decoder * (attention + feed_forward) + 4 * decoder * decoder * inner
    return float(shape["num_layers"] * (encoder + own + cross))


def same_winners(one: Timed, other: Timed) -> float:
    """Share of equal winners among the pairs that neither leaves undecided."""
    decided = np.ones(len(one.answers), dtype=bool)
    for each in (one, other):
        decided &= np.abs(each.answers) > _DECIDED * each.answers.std()
    return float(np.mean(np.sign(one.answers[decided]) == np.sign(other.answers[decided])))


def check_winners(found: dict[str, Timed], dtype: str) -> None:
    """Make sure that the systems do the same work; in bf16 close decisions may part.

    Raises:
        InputError: in fp32 two systems name different winners.
    """
    equal = {system: same_winners(found[OURS], timed) for system, timed in found.items()}
    if dtype == "fp32" and min(equal.values()) < 1.0:
        raise InputError(f"not the same winners in fp32: {equal}; the times would compare different things")


def benchmark(
    data: Path, peers: Path | None, *, queries: int, documents: int, rounds: int, smoke: bool
) -> dict[str, Any]:
    """Compare the winners, then let the systems take turns in each dtype.

    Raises:
        InputError: the lists or llm-rankers are not there, or two systems disagree in fp32.
    """
    shape = SMOKE_SHAPE if smoke else SHAPE
    lists = dl19_lists(data, queries, documents)
    tokenizer: Any = AutoTokenizer.from_pretrained(data / "t5-tokenizer")
    model = random_t5(shape, tokenizer)
    make_decisive(model, engine_of(model, tokenizer), lists[:3])
    ranker = llm_rankers(peers, model, data / "t5-tokenizer") if peers else None
    tokens = 0
    measured: list[dict[str, Any]] = []
    rates: dict[str, float] = {}
    for name in ("fp32", "bf16"):
        dtype = DTYPES[name]
        model = (ranker.llm if ranker else model).to(dtype)
        engine = engine_of(model, tokenizer)
        lengths = [len(ids) for ids in engine.encoder.encode(pairs_of(lists))]
        assert engine.encoder.answers is not None
        tokens = sum(lengths)
        useful = sum(operations(shape, length, len(engine.encoder.answers.prefix)) for length in lengths)

        def library(part: Sequence[CandidateTexts], model: Any = model) -> Timed:
            # an engine of its own, that has tokenised nothing yet
            return with_library(engine_of(model, tokenizer), part)

        def plain(part: Sequence[CandidateTexts], engine: LocalEngine = engine, model: Any = model) -> Timed:
            return with_plain_loop(model, tokenizer, PROMPT, engine, part)

        systems: dict[str, Callable[[Sequence[CandidateTexts]], Timed]] = {OURS: library, PLAIN: plain}
        if ranker:
            systems[PEER] = lambda part: with_llm_rankers(ranker, part)
        check_winners({system: measure(lists[:1]) for system, measure in systems.items()}, name)
        turns = take_turns(
            {
                system: lambda measure=measure: measure(lists)  # type: ignore[misc]
                for system, measure in systems.items()
            },
            rounds,
            lambda system, dtype=dtype: matrix_rate(  # type: ignore[misc]
                shape["d_model"], shape["d_ff"], dtype, 0.1 if smoke else 1.0
            ),
        )
        rates[name] = median(rate for each in turns.values() for _, rate in each)
        found = {system: [timed for timed, _ in each] for system, each in turns.items()}
        for system, each in found.items():
            seconds = median(timed.seconds for timed in each)
            measured.append(
                {
                    "system": system,
                    "dtype": name,
                    "default": name == default_dtype(system),
                    "pairs_per_second": round(len(lengths) / seconds, 3),
                    "seconds": [round(timed.seconds, 3) for timed in each],
                    "padding": round(1 - tokens / each[0].padded, 4),
                    "share": round(share_of(turns[system], useful), 4),
                    "first_wins": round(float(np.mean(each[0].answers > 0)), 4),
                    "same_winners": round(same_winners(found[OURS][0], each[0]), 4),
                }
            )
    return {
        "work": "label",
        "date": datetime.date.today().isoformat(),
        "smoke": smoke,
        "machine": {"processor": processor(), "threads": torch.get_num_threads()},
        "versions": {
            "instruct_distill": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            **({"llm-rankers": importlib.metadata.version("llm-rankers")} if ranker else {}),
        },
        "model": {"kind": "T5, random weights", **shape},
        "lists": {"collection": "TREC DL 2019", "queries": queries, "documents": documents, "words": WORDS},
        "rounds": rounds,
        "pairs": queries * documents * (documents - 1),
        "tokens": tokens,
        "matrix_gflops": {name: round(rate / 1e9, 1) for name, rate in rates.items()},
        "results": measured,
        "speedup": speedups(measured),
    }


def engine_of(model: Any, tokenizer: Any) -> LocalEngine:
    """This library's engine around a model, at its own defaults."""
    loaded = LoadedModel(EncoderDecoder(model, tokenizer.pad_token_id).eval(), tokenizer, "random", "")
    return LocalEngine(loaded, PROMPT, max_length=MAX_LENGTH, tokens_per_batch=TOKENS_PER_BATCH)


def default_dtype(system: str) -> str:
    """What a system computes in on a CPU where nobody says anything."""
    return "bf16" if system == OURS and has_native_bf16(torch.device("cpu")) else "fp32"


def speedups(measured: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Times as many pairs a second as the others, in the same dtype and each at its own default."""
    speed = {(each["system"], each["dtype"]): each["pairs_per_second"] for each in measured}
    others = list(dict.fromkeys(each["system"] for each in measured if each["system"] != OURS))
    found = {
        name: {other: round(speed[OURS, name] / speed[other, name], 3) for other in others}
        for name in ("fp32", "bf16")
    }
    found["default"] = {
        other: round(speed[OURS, default_dtype(OURS)] / speed[other, default_dtype(other)], 3)
        for other in others
    }
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a tiny model, two short lists, one round")
    parser.add_argument("--llm-rankers", type=Path, metavar="FOLDER", help="where it is; left out without")
    parser.add_argument("--queries", type=int, default=4)
    parser.add_argument("--documents", type=int, default=4, help="of each query's list")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="where the line goes; nowhere with --smoke")
    chosen = parser.parse_args(arguments)
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl and t5-tokenizer")
    try:
        found = benchmark(
            Path(folder),
            chosen.llm_rankers,
            queries=2 if chosen.smoke else chosen.queries,
            documents=3 if chosen.smoke else chosen.documents,
            rounds=1 if chosen.smoke else chosen.rounds,
            smoke=chosen.smoke,
        )
    except InputError as error:
        parser.error(str(error))
    for each in found["results"]:
        print(
            f"{each['dtype']}{'*' if each['default'] else ' '} {each['system']:<17} "
            f"{each['pairs_per_second']:>9.2f} pairs/s  "
            f"{each['share']:>5.0%} of the matrix rate  {each['padding']:>5.1%} padding  "
            f"{each['same_winners']:.1%} same winners"
        )
    print(f"* a system's own default; matrix rate {found['matrix_gflops']} Gflop/s")
    for name, ratios in found["speedup"].items():
        print(f"{name}: {', '.join(f'{ratio} times {other}' for other, ratio in ratios.items())}")
    append(found, chosen.out, "label.jsonl")


if __name__ == "__main__":
    main()

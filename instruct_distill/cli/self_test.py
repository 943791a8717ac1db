"""The whole path on a made-up model of some thousand weights: no network, no files that stay, no figures."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from instruct_distill.errors import InstructDistillError
from instruct_distill.labels import read_labels
from instruct_distill.pipeline.distill import distill
from instruct_distill.recipe import Recipe
from instruct_distill.reranker import Reranker
from instruct_distill.trec import read_run

DOCUMENTS = {
    "d1": "A kettle boils water for tea.",
    "d2": "Green tea needs water below boiling.",
    "d3": "A kettle is descaled with vinegar and water.",
}
QUERIES = {"q1": "water for tea", "q2": "kettle water"}
SAME = 1e-3
"""Scores of the same student in float32, once from memory and once from its folder, on any device."""


class SelfTest(NamedTuple):
    """What came of it.

    Args:
        problem: what went wrong, in words; None where all went well.
        seconds: how long it took.
        done: what was done, in words.
    """

    problem: str | None
    seconds: float
    done: str


def self_test() -> SelfTest:
    """Search, label in pairs, train, evaluate, write, load and rank, in a folder that is removed again."""
    began = time.perf_counter()
    said = io.StringIO()  # progress bars and notices about a model that means nothing
    problem: str | None = None
    done = ""
    with tempfile.TemporaryDirectory(prefix="instruct-distill-") as name, _settings_kept():
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                problem, done = _whole_path(Path(name))
        except (InstructDistillError, OSError, RuntimeError, ImportError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
    return SelfTest(problem, time.perf_counter() - began, done)


@contextlib.contextmanager
def _settings_kept() -> Iterator[None]:
    """Keep the index of the made-up documents out of the user's cache, and the random numbers as they are."""
    before = os.environ.get("INSTRUCT_DISTILL_CACHE")
    with tempfile.TemporaryDirectory(prefix="instruct-distill-") as cache, torch.random.fork_rng():
        os.environ["INSTRUCT_DISTILL_CACHE"] = cache
        try:
            yield
        finally:
            if before is None:
                del os.environ["INSTRUCT_DISTILL_CACHE"]
            else:
                os.environ["INSTRUCT_DISTILL_CACHE"] = before


def _whole_path(folder: Path) -> tuple[str | None, str]:
    model, collection = str(_made_up_model(folder / "model")), f"beir:{_collection(folder / 'collection')}"
    result = distill(
        Recipe.from_dict(
            {
                "name": "self-test",
                "runs": str(folder),
                "collection": collection,
                "candidates": {"method": "bm25", "depth": 3},
                "teacher": {"model": model, "strategy": "allpairs", "prompt": "pairwise-passage"},
                "student": {
                    "model": model,
                    "prompt": "pointwise-passage",
                    "max_length": 256,
                    "dtype": "fp32",
                },
                "training": {
                    "learning_rate": 1e-3,
                    "lists_per_step": 1,
                    "epochs": 1,
                    "precision": "fp32",
                    "ties": "first_stage",
                },
                "evaluation": [{"collection": collection, "candidates": {"method": "bm25", "depth": 3}}],
            }
        )
    )
    pairs = sum(len(label.comparisons) for label in read_labels(result.folder / "labels.jsonl"))
    lists = read_run(next((result.folder / "evaluation").glob("*/student.trec")))
    student = Reranker.from_pretrained(result.student, dtype="fp32", local_files_only=True)
    for query_id, ranked in lists.items():
        found = student.rank(QUERIES[query_id], [DOCUMENTS[document.doc_id] for document in ranked])
        for before, after in zip(ranked, found, strict=True):
            if abs(before.score - after.score) > SAME:
                return (
                    f"the student scores {query_id}/{before.doc_id} {before.score:.5f} before it is written "
                    f"and {after.score:.5f} after it is loaded",
                    "",
                )
    steps = json.loads((result.folder / "train.done.json").read_text(encoding="utf-8"))["outcome"]["steps"]
    return None, f"{pairs} pairs asked, {steps} steps trained, scores equal after loading"


def _made_up_model(folder: Path) -> Path:
    """A decoder-only model that reads bytes."""
    special = ["<|end|>", "<|pad|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*special, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    make: Any = PreTrainedTokenizerFast
    make(tokenizer_object=tokenizer, eos_token=special[0], pad_token=special[1]).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=1024,
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def _collection(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    for file, texts in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        lines = [json.dumps({"_id": each, "title": "", "text": text}) for each, text in texts.items()]
        (folder / f"{file}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for split in ("train", "test"):
        (folder / "qrels" / f"{split}.tsv").write_text("q1\td2\t1\nq2\td1\t1\n", encoding="utf-8")
    return folder

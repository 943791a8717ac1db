"""Labelling holds a chunk in memory, whatever the number of queries."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.labels import LabelStore, read_labels
from instruct_distill.records import Document, Query
from instruct_distill.teachers.labelling import CandidateTexts, chunk, label_chunk, strategy_of
from instruct_distill.teachers.statistics import label_statistics
from tests.teachers.stub_engine import StubEngine, context, parameters

PER_QUERY = 200
"""Bytes for each query and process: an id in two tables, its place, its chunk; a label has more."""


class ForgetfulEngine(StubEngine):
    """Keeps no list of what it was asked."""

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        return np.tile(np.array([0.75, 0.5], dtype=np.float32), (len(questions), 1))


def texts(number: int) -> CandidateTexts:
    """A list, made when it is labelled: the inputs are not what is measured."""
    documents = tuple(Document(f"document-{number}-{i}", "x") for i in range(2))
    return CandidateTexts(Query(f"query-{number}", "which"), documents)


def peak(folder: Path, queries: int, processes: int) -> int:
    """Bytes at most while that many queries are labelled, merged and counted."""
    strategy = strategy_of(parameters(strategy="allpairs"), context())
    engine = ForgetfulEngine(lambda question: 0.0)
    positions = chunk([2] * queries, 600)
    ids = [[f"query-{i}" for i in each] for each in positions]
    path = folder / "labels.jsonl"
    tracemalloc.start()
    stores = [
        LabelStore(path, {"lists": queries}, ids, rank=rank, processes=processes) for rank in range(processes)
    ]
    for store in stores:
        for number in store.pending():
            store.append(number, label_chunk(strategy, engine, [texts(i) for i in positions[number]]))
    assert stores[0].complete()
    stores[0].merge()
    assert label_statistics(read_labels(path)).comparisons == 2 * queries
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.parametrize(("few", "many", "processes"), [(2_000, 20_000, 1), (1_000, 5_000, 2)])
def test_memory_does_not_grow_with_the_number_of_queries(
    tmp_path: Path, few: int, many: int, processes: int
) -> None:
    grown = peak(tmp_path / "many", many, processes) - peak(tmp_path / "few", few, processes)
    assert grown < (many - few) * PER_QUERY * processes

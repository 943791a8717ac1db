"""Figures that other people's tools gave for the same files, to four digits."""

from __future__ import annotations

from pathlib import Path

import pytest

from instruct_distill.evaluation.results import evaluate_run, recall_ceiling
from instruct_distill.files import read_json
from instruct_distill.records import Run, ScoredDocument
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.trec import read_run

METRICS = ["nDCG@1", "nDCG@5", "nDCG@10"]


def lists_of(path: Path) -> Run:
    """The lists of a RankGPT file, in the order given."""
    return {
        str(record["hits"][0]["qid"]): [
            ScoredDocument(str(hit["docid"]), float(len(record["hits"]) - i))
            for i, hit in enumerate(record["hits"])
        ]
        for record in read_json(path)
    }


@pytest.mark.parametrize(
    ("task", "queries", "figure"), [("dl19", 43, 0.5058), ("dl20", 54, 0.4796), ("dl21", 53, 0.4458)]
)
def test_bm25_lists_as_given(shared_data: Path, task: str, queries: int, figure: float) -> None:
    qrels = read_qrels(shared_data / f"trec-dl/qrels.{task}-passage.txt")
    run = lists_of(shared_data / f"trec-dl/candidates/{task}.bm25.json")
    found = evaluate_run(qrels, run, METRICS)
    assert found.means["nDCG@10"] == pytest.approx(figure, abs=5e-5)
    assert len(found.per_query) == queries
    assert found.without_documents == ()
    ceiling = recall_ceiling(qrels, run, METRICS)
    assert all(found.means[metric] < ceiling[metric] <= 1 for metric in METRICS)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("dl19.rankvicuna-7b", (0.7791, 0.7115, 0.6665)),
        ("dl20.rankvicuna-7b", (0.7963, 0.6939, 0.6648)),
        ("dl19.rankgpt-gpt-3.5-turbo", (0.7713, 0.7122, 0.6799)),
        ("dl20.rankgpt-gpt-3.5-turbo", (0.8086, 0.6802, 0.6385)),
    ],
)
def test_published_rerankings(shared_data: Path, name: str, figures: tuple[float, ...]) -> None:
    qrels = read_qrels(shared_data / f"trec-dl/qrels.{name[:4]}-passage.txt")
    found = evaluate_run(qrels, read_run(shared_data / f"trec-dl/runs/{name}.run"), METRICS)
    assert tuple(found.means.values()) == pytest.approx(figures, abs=5e-5)


def test_a_failed_teacher_is_bm25(shared_data: Path) -> None:
    qrels = read_qrels(shared_data / "trec-dl/qrels.dl19-passage.txt")
    failed = read_run(shared_data / "trec-dl/runs/dl19.vicuna-7b-v1.5-failed.run")
    assert evaluate_run(qrels, failed, METRICS).means["nDCG@10"] == pytest.approx(0.5058, abs=5e-5)


def test_noveleval_as_given(shared_data: Path) -> None:
    qrels = read_qrels(shared_data / "noveleval/qrels.txt")
    run: Run = {
        query_id: [ScoredDocument(doc_id, float(-i)) for i, doc_id in enumerate(judgements)]
        for query_id, judgements in qrels.items()
    }
    found = evaluate_run(qrels, run, METRICS)
    assert len(found.per_query) == 21
    assert tuple(found.means.values()) == pytest.approx((0.643, 0.582, 0.650), abs=5e-4)

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.evaluation.evaluate import evaluate
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.table import task_table
from instruct_distill.records import Document, Query, RankedDocument
from instruct_distill.sources.parameters import QueriesParameters

CORPUS = {
    "d1": "Ferries leave the harbour every twenty minutes.",
    "d2": "Clean and oil the chain after wet rides.",
    "d3": "Tomato plants need full sun and steady water.",
    "d4": "Tides rise and fall twice a day along the coast. Ferries wait.",
    "d5": "A drop of oil stops a bicycle hinge from squeaking, and a drop of oil is enough oil.",
    "d6": "",
}
QUERIES = {"q1": "how to oil a bicycle chain", "q2": "when do ferries leave", "q3": "growing tomato plants"}
QRELS = "query-id corpus-id score\nq1 d2 2\nq1 d5 1\nq2 d1 1\n"


class Scores:
    """A ranker that scores by a table of document ids, and keeps the lengths of the lists it saw."""

    def __init__(self, **scores: float) -> None:
        self.scores = scores
        self.lengths: list[int] = []

    def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
        self.lengths.append(len(documents))
        scores = [self.scores.get(document.doc_id, 0.0) for document in documents]
        return [
            RankedDocument(int(i), documents[i].doc_id, scores[i], rank, documents[i].text)
            for rank, i in enumerate(np.argsort(-np.array(scores), kind="stable"), start=1)
        ]


@pytest.fixture
def collection(tmp_path: Path) -> str:
    (tmp_path / "qrels").mkdir()
    for name, content in (("corpus", CORPUS), ("queries", QUERIES)):
        lines = [json.dumps({"_id": key, "text": text}) for key, text in content.items()]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "qrels" / "test.tsv").write_text(QRELS.replace(" ", "\t"), encoding="utf-8")
    return f"beir:{tmp_path}"


def test_the_reranker_stands_beside_the_first_stage(collection: str, tmp_path: Path) -> None:
    ranker = Scores(d2=3.0, d5=2.0, d1=1.0)
    result = evaluate(ranker, collection, metrics=["nDCG@10", "nDCG@1"])
    assert result.name == tmp_path.name
    assert list(result.evaluations) == ["first_stage", "reranker"]
    assert result.evaluations["reranker"].means == {"nDCG@10": 1.0, "nDCG@1": 1.0}
    # BM25 finds d5 (bicycle, oil) before d2 (chain, oil) for q1; for q2 the one relevant document is first
    q1 = (1 + 2 / np.log2(3)) / (2 + 1 / np.log2(3))
    first_stage = result.evaluations["first_stage"]
    assert first_stage.means["nDCG@10"] == pytest.approx((q1 + 1) / 2, abs=1e-6)
    assert first_stage.means["nDCG@1"] == pytest.approx((0.5 + 1) / 2, abs=1e-6)
    assert result.ceiling == {"nDCG@10": 1.0, "nDCG@1": 1.0}
    difference = result.differences["reranker"]["first_stage"]["nDCG@10"]
    assert difference[0] == pytest.approx((1 - q1) / 2, abs=1e-6)
    assert ranker.lengths == [2, 2]
    assert "reranker - first_stage" in task_table(result)


def test_each_query_has_its_value(collection: str) -> None:
    result = evaluate(Scores(d4=9.0, d5=9.0), collection, metrics=["nDCG@1"])
    assert result.evaluations["reranker"].values("nDCG@1") == {"q1": 0.5, "q2": 0.0}


def test_depth_is_the_length_of_the_candidate_lists(collection: str) -> None:
    ranker = Scores(d2=3.0, d1=1.0)
    result = evaluate(ranker, collection, depth=1, metrics=["nDCG@1", "R@10"])
    assert ranker.lengths == [1, 1]
    assert result.evaluations["reranker"].means == result.evaluations["first_stage"].means
    assert result.evaluations["reranker"].means["R@10"] == pytest.approx(0.75)
    assert result.ceiling["nDCG@1"] == pytest.approx(0.75)


def test_a_task_section_says_depth_and_metrics_itself(collection: str) -> None:
    ranker = Scores(d2=3.0)
    section = EvaluationParameters(collection=collection, name="mine", metrics=["RR@10"], depth=1)
    result = evaluate(ranker, section, depth=100)
    assert ranker.lengths == [1, 1]
    assert result.name == "mine"
    assert list(result.evaluations["reranker"].means) == ["RR@10"]


def test_b43_the_same_figures_at_every_call(collection: str) -> None:
    once = evaluate(Scores(d2=3.0, d4=1.0), collection)
    again = evaluate(Scores(d2=3.0, d4=1.0), collection)
    assert once.evaluations == again.evaluations
    assert once.differences == again.differences


def test_b48_a_score_that_is_no_number_stops_the_evaluation(collection: str) -> None:
    with pytest.raises(NonFiniteScoreError, match="query q1, document d5: score nan"):
        evaluate(Scores(d5=float("nan")), collection)


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("nothing", {}, "unknown prefix 'nothing'"),
        ("bier:x", {}, "did you mean 'beir'"),
        ("beir:no-such-folder", {}, r"no-such-folder: no corpus\.jsonl"),
        ("beir:x", {"depth": 0}, "depth: Input should be greater than 0"),
        ("beir:x", {"metrics": ["nDGC@10"]}, "metrics: unknown metric 'nDGC@10'; did you mean 'nDCG@10'"),
        ("beir:x", {"metrics": "nDCG@10"}, "metrics: Input should be a valid list"),
        ("x", {"metrics": ["x"], "depth": -1}, "depth: .*; metrics: .*; collection: "),
    ],
)
def test_what_cannot_be_evaluated_is_said(task: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(Scores(), task, **settings)  # type: ignore[arg-type]


def test_an_empty_corpus_is_named(collection: str, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="the collection has no documents"):
        evaluate(Scores(), collection)


def test_a_query_without_candidates_counts_0(collection: str, tmp_path: Path) -> None:
    lines = [json.dumps({"_id": "q1", "text": QUERIES["q1"]}), json.dumps({"_id": "q2", "text": "zzz qqq"})]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines), encoding="utf-8")
    ranker = Scores(d2=3.0, d5=2.0)
    result = evaluate(ranker, collection, metrics=["nDCG@10"])
    assert ranker.lengths == [2]
    assert result.evaluations["reranker"].values("nDCG@10") == {"q1": 1.0, "q2": 0.0}


def test_a_sample_of_queries(collection: str) -> None:
    section = EvaluationParameters(
        collection=collection, metrics=["nDCG@10"], queries=QueriesParameters(sample=1)
    )
    assert len(evaluate(Scores(), section).evaluations["reranker"].values("nDCG@10")) == 1


def test_an_evaluation_with_a_folder_goes_on_where_it_stopped(collection: str, tmp_path: Path) -> None:
    class Stops(Scores):
        def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
            if query.query_id == "q2":
                raise KeyboardInterrupt
            return super().rank(query, documents)

    folder = tmp_path / "out"
    task = EvaluationParameters(collection=collection, name="t", metrics=["nDCG@1"])
    with pytest.raises(KeyboardInterrupt):
        evaluate(Stops(d2=3.0), task, folder=folder)
    (folder / "t" / "systems.json").unlink()  # another class is another ranker
    again = Scores(d1=1.0)
    found = evaluate(again, task, folder=folder)
    assert len(again.lengths) == 1
    assert found.evaluations["reranker"].values("nDCG@1") == {"q1": 1.0, "q2": 1.0}
    assert (folder / "t" / "reranker.trec").is_file()


def test_a_folder_of_another_ranker_is_refused(collection: str, tmp_path: Path) -> None:
    task = EvaluationParameters(collection=collection, name="t", metrics=["nDCG@1"])
    evaluate(Scores(), task, folder=tmp_path / "out")
    other = Scores()
    other.identity = {"model": "another"}  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="systems changed; give another folder"):
        evaluate(other, task, folder=tmp_path / "out")

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from instruct_distill.errors import InputError
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.prompt_sensitivity import prompt_sensitivity
from instruct_distill.records import Document, Query, RankedDocument


class Favours:
    """Ranks one document first."""

    def __init__(self, doc_id: str) -> None:
        self.doc_id = doc_id

    def rank(self, query: Query, documents: list[Document]) -> list[RankedDocument]:
        scores = np.array([float(document.doc_id == self.doc_id) for document in documents])
        return [
            RankedDocument(int(i), documents[i].doc_id, scores[i], rank, documents[i].text)
            for rank, i in enumerate(np.argsort(-scores, kind="stable"), start=1)
        ]


@pytest.fixture
def task(tmp_path: Path) -> EvaluationParameters:
    (tmp_path / "qrels").mkdir()
    texts = {"d1": "red boat", "d2": "red boat at sea", "d3": "red boat on the green sea"}
    for name, content in (("corpus", texts), ("queries", {"q": "red boat"})):
        lines = [json.dumps({"_id": key, "text": text}) for key, text in content.items()]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq\td1\t3\nq\td2\t1\n", encoding="utf-8"
    )
    return EvaluationParameters(collection=f"beir:{tmp_path}", metrics=["nDCG@1"])


def test_mean_spread_best_and_worst(task: EvaluationParameters) -> None:
    found = prompt_sensitivity({"a": Favours("d2"), "b": Favours("d1"), "c": Favours("d3")}, task)
    mean, deviation, best, worst = found.spread("nDCG@1")
    # gains 1/3, 3/3 and 0
    assert mean == pytest.approx(4 / 9)
    assert deviation == pytest.approx(float(np.std([1 / 3, 1, 0], ddof=1)))
    assert (best, worst) == ("b", "c")
    line = found.table().split("\n")[-1].split()
    assert line == ["nDCG@1", "0.4444", "0.5092", "b", "c", "1.0000"]


def test_one_wording_has_no_spread(task: EvaluationParameters) -> None:
    with pytest.raises(InputError, match="a spread needs two or more"):
        prompt_sensitivity({"a": Favours("d1")}, task)

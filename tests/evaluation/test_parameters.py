from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from instruct_distill.evaluation.parameters import EvaluationParameters, TeacherRun, task_name


def load(**keys: Any) -> EvaluationParameters:
    return TypeAdapter(EvaluationParameters).validate_python({"collection": "python-docs", **keys})


def test_defaults() -> None:
    found = load()
    assert found.metrics == ["nDCG@1", "nDCG@5", "nDCG@10"]
    assert (found.depth, found.teacher, found.relevance_level, found.all_judged) == (None, "none", 1, False)
    assert (found.expected, found.tolerance) == ({}, 0.01)
    assert found.task == "python-docs"


def test_values_as_yaml_brings_them() -> None:
    found = load(
        name="dl19",
        depth="20",
        teacher={"run": "teacher.trec"},
        metrics=["R@100", "RR@10"],
        relevance_level="2",
        all_judged="true",
        expected={"student": {"RR@10": "0.7"}},
        tolerance="1e-3",
        queries={"split": "test", "sample": "10"},
    )
    assert found.task == "dl19"
    assert found.teacher == TeacherRun(run="teacher.trec")
    assert (found.depth, found.relevance_level, found.all_judged, found.tolerance) == (20, 2, True, 0.001)
    assert found.expected == {"student": {"RR@10": 0.7}}
    assert (found.queries.split, found.queries.sample) == ("test", 10)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"metrics": ["nDGC@10", "mrr@10"]},
            "'nDGC@10'; did you mean 'nDCG@10'.*'mrr@10'; did you mean 'RR@10'",
        ),
        ({"metrics": []}, "no metric"),
        ({"teacher": "other"}, "teacher"),
        ({"depth": 0}, "greater than 0"),
        ({"relevance_level": 0}, "greater than 0"),
        ({"tolerance": -1}, "greater than or equal to 0"),
        ({"name": "a/b"}, "cannot name a folder"),
        ({"name": "_meta"}, "cannot name a folder"),
        ({"name": ".."}, "cannot name a folder"),
        ({"expected": {"studnet": {"nDCG@10": 0.7}}}, "did you mean 'student'"),
        ({"expected": {"student": {"AP": 0.7}}}, "student AP is not among the metrics"),
        ({"expected": {"teacher": {"nDCG@10": 0.7}}}, "the teacher is not evaluated"),
        ({"expected": {"student": {"nDCG@10": "nan"}}}, "finite"),
        ({"dept": 5}, "dept"),
    ],
)
def test_what_cannot_be_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        load(**keys)


@pytest.mark.parametrize(
    ("collection", "name"),
    [
        ("irds:msmarco-passage/trec-dl-2019/judged", "msmarco-passage-trec-dl-2019-judged"),
        ("beir:/data/beir/scifact/", "scifact"),
        ("beir:C:\\data\\scifact", "scifact"),
        ("rankgpt:trec-dl/candidates/dl19.bm25.json", "dl19.bm25"),
        ("rankgpt:a b/lists (1).jsonl.gz", "lists-1"),
        ("python-docs", "python-docs"),
        ("files:..", "task"),
    ],
)
def test_task_names_are_safe_file_names(collection: str, name: str) -> None:
    assert task_name(collection) == name

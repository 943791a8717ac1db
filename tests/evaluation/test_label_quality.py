from __future__ import annotations

import pytest

from instruct_distill.errors import InputError
from instruct_distill.evaluation.label_quality import label_quality
from instruct_distill.records import ListLabel

LABELS = [
    ListLabel("q1", ("a", "b"), (0.0, 1.0)),
    ListLabel("q2", ("c", "d"), (1.0, 1.0)),  # a tie keeps the candidates' order
    ListLabel("q3", ("e",), (0.0,)),
]


def test_teacher_and_first_stage() -> None:
    qrels = {"q1": {"b": 1}, "q2": {"c": 2}, "q9": {"x": 1}}
    found = label_quality(iter(LABELS), qrels, ["RR", "Success@1"])
    assert found == {
        "queries": 2,  # q3 is not judged, q9 not labelled
        "first_stage": {"RR": 0.75, "Success@1": 0.5},
        "teacher": {"RR": 1.0, "Success@1": 1.0},
    }


def test_judgements_of_other_queries() -> None:
    with pytest.raises(InputError, match="none of the labelled queries has a judgement"):
        label_quality(LABELS, {"x": {"a": 1}}, ["nDCG@10"])

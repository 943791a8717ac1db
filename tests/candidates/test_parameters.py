from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruct_distill.candidates.parameters import METHODS, CandidateParameters


def test_the_members_are_the_methods() -> None:
    assert METHODS.names() == ["bm25", "given", "pool", "popular", "run"]


@pytest.mark.parametrize("none", ["none", "null", "", None])
def test_no_stemmer(none: str | None) -> None:
    assert CandidateParameters(stemmer=none).stemmer is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "bm52"}, "did you mean 'bm25'"),
        ({"method": "engine"}, "unknown candidates method"),
        ({"engine": "lucene"}, "'bm25s' or 'rank_bm25'"),
        ({"k1": -0.1}, "greater than or equal to 0"),
        ({"k1": "inf"}, "finite"),
        ({"b": 1.5}, "less than or equal to 1"),
        ({"depth": 0}, "greater than 0"),
        ({"stemmer": "englsh"}, "did you mean 'english'"),
        ({"method": "run"}, "needs 'file'"),
        ({"file": "x.trec"}, "reads no 'file'"),
        ({"detph": 3}, "detph"),
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CandidateParameters(**wrong)

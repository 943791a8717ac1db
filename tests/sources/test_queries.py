from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Query
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.parameters import QueriesParameters
from instruct_distill.sources.queries import (
    check_judged_documents,
    check_judged_queries,
    select_queries,
    select_split,
)


class Stub(Collection):
    def __init__(self, queries: dict[str, list[str]], has_splits: bool = True) -> None:
        super().__init__("stub")
        self._queries, self._has_splits = queries, has_splits

    def splits(self) -> tuple[str, ...]:
        return tuple(self._queries) if self._has_splits else ()

    def queries(self, split: str | None = None) -> list[Query]:
        chosen = list(self._queries) if self.check_split(split) in (None, "all") else [split]
        return [Query(query_id, "text") for each in chosen for query_id in self._queries[str(each)]]

    def documents(self) -> Iterator[Document]:
        return iter(())

    def fingerprint(self) -> str:
        return ""


TWO = Stub({"train": ["q3", "q1", "q2"], "test": ["q9"]})
MANY = Stub({"": [f"q{number}" for number in range(100)]}, has_splits=False)


def ids(collection: Collection, *, seed: int = 13, default: str = "train", **keys: object) -> list[str]:
    parameters = QueriesParameters(**keys)  # type: ignore[arg-type]
    chosen = select_queries(collection, parameters, seed=seed, default_split=default)
    return [query.query_id for query in chosen]


def test_split() -> None:
    assert ids(TWO) == ["q3", "q1", "q2"]
    assert ids(TWO, default="test") == ["q9"]
    assert ids(TWO, split="test") == ["q9"]
    assert ids(TWO, split="all") == ["q3", "q1", "q2", "q9"]
    assert len(ids(MANY)) == 100
    assert select_split(MANY, None, "train") is None
    assert select_split(TWO, None, "train") == "train"


def test_splits_that_are_not_there() -> None:
    with pytest.raises(InputError, match=r"stub has no split 'dev'"):
        ids(TWO, split="dev")
    with pytest.raises(
        InputError, match=r"no split 'train', the one used where none is named \(it has: a, b\)"
    ):
        ids(Stub({"a": ["q1"], "b": ["q2"]}))
    with pytest.raises(InputError, match=r"has no splits, but split 'train'"):
        ids(MANY, split="train")
    with pytest.raises(InputError, match=r"stub: no queries in split 'train'"):
        ids(Stub({"train": []}))


def test_sample_is_drawn_by_seed_and_keeps_the_order() -> None:
    whole = ids(MANY)
    sample = ids(MANY, sample=10)
    assert len(sample) == len(set(sample)) == 10
    assert sample == [query_id for query_id in whole if query_id in set(sample)]
    assert sample == ids(MANY, sample=10)
    assert sample != ids(MANY, sample=10, seed=14)
    assert set(sample) < set(ids(MANY, sample=20))
    reversed_source = Stub({"": list(reversed(whole))}, has_splits=False)
    assert ids(reversed_source, sample=10) == list(reversed(sample))


def test_a_sample_above_the_number_of_queries_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert ids(TWO, sample=5) == ["q3", "q1", "q2"]
    assert caplog.messages == ["stub: 5 queries asked for, 3 found; all of them are used"]


@pytest.mark.parametrize("keys", [{"sample": 0}, {"sample": -1}, {"smaple": 3}])
def test_parameters_are_checked(keys: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        QueriesParameters(**keys)  # type: ignore[arg-type]


def test_parameters_are_read_from_text() -> None:
    assert QueriesParameters(sample="100").sample == 100  # type: ignore[arg-type]
    assert QueriesParameters() == QueriesParameters(split=None, sample=None)


def test_b54_missing_ids_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    qrels = {"q1": {"gone": 1, "b": 1}, "q2": {"b": 0}}
    with caplog.at_level(logging.WARNING):
        assert check_judged_queries("stub", qrels, [Query("q1", "x"), Query("q3", "y")]) == 1
        assert check_judged_documents("stub", qrels, {"b"}, "b") == 1
    assert [message.split(";")[0] for message in caplog.messages] == [
        "stub: 1 of 2 judged queries are not in the collection (the first: 'q2')",
        "stub: 1 of 2 judged documents are not in the collection (the first: 'gone')",
    ]


def test_b54_nothing_is_said_where_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert check_judged_queries("stub", {"q1": {"b": 1}}, [Query("q1", "x")]) == 0
        assert check_judged_documents("stub", {"q1": {"b": 1}}, {"b"}, "b") == 0
        assert check_judged_documents("stub", {}, set(), None) == 0
    assert caplog.messages == []


def test_b54_no_overlap_is_an_error_with_both_sides() -> None:
    with pytest.raises(
        InputError, match=r"none of the 2 judged documents .*have '12', .*collection has 'msmarco_12'"
    ):
        check_judged_documents("stub", {"q1": {"12": 1, "13": 1}}, set(), "msmarco_12")
    with pytest.raises(
        InputError, match=r"none of the 1 judged queries .*have '007', the collection has '7'"
    ):
        check_judged_queries("stub", {"007": {"d": 1}}, [Query("7", "x")])
    with pytest.raises(InputError, match=r"the collection has none\)"):
        check_judged_documents("stub", {"q1": {"d": 1}}, set(), None)

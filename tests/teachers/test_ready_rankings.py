from __future__ import annotations

import logging
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.records import ListLabel
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, strategy_of
from tests.teachers.stub_engine import D1, D2, D3, D6, Q1, Q2, context, parameters, write


def label(documents: tuple[object, ...] = (D1, D2, D3), query: object = Q1, **teacher: object) -> ListLabel:
    queries = context(["q1", "q2"], {"q1": {"d2": 2, "d3": -1, "d9": 3}})
    chosen = parameters(model=None, **teacher)
    (found,) = label_chunk(
        strategy_of(chosen, queries),
        None,
        [CandidateTexts(query, documents)],  # type: ignore[arg-type]
    )
    return found


# -- a TREC run ---------------------------------------------------------------------------------------------


def test_a_run_is_taken_by_its_order(tmp_path: Path) -> None:
    run = write(tmp_path / "x.trec", "q1 Q0 d3 1 9.5 t\nq1 Q0 d9 2 9.4 t\nq1 Q0 d1 3 -7 t\n")
    # d9 is no candidate, d2 is not ranked
    assert label(run=run) == ListLabel("q1", ("d1", "d2", "d3"), (1.0, 0.0, 3.0))
    assert label(run=run, query=Q2).scores == (0.0, 0.0, 0.0)


def test_an_empty_document_keeps_the_place_that_a_ranking_gave_it(tmp_path: Path) -> None:
    run = write(tmp_path / "x.trec", "q1 Q0 d6 1 2 t\nq1 Q0 d1 2 1 t\n")
    assert label((D1, D6), run=run).scores == (1.0, 2.0)


def test_a_run_of_other_queries(tmp_path: Path) -> None:
    run = write(tmp_path / "x.trec", "7 Q0 d1 1 1 t\n")
    with pytest.raises(InputError, match=r"ranks none of the queries: it has '7', the collection 'q1'"):
        label(run=run)


# -- permutations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permutation", "ranks", "complaint"),
    [
        ("3 > 1 > 2", (2, 3, 1), None),
        ("[3] > [1] > [2]", (2, 3, 1), None),
        ("2", (2, 1, 3), "1 of 3 positions usable"),  # the others follow in first-stage order
        ("2 > 2 > 3 > 2 > 1", (3, 1, 2), "3 of 3 positions usable"),  # repeated: the first one counts
        ("9 > 3 > 0 > 2 > 1", (3, 2, 1), "3 of 3 positions usable"),  # beyond the list: passed over
        ("3 > 3", (2, 3, 1), "1 of 3 positions usable"),
        ("", (1, 2, 3), "0 of 3 positions usable"),
        ("none of them", (1, 2, 3), "0 of 3 positions usable"),
    ],
)
def test_permutations(
    tmp_path: Path,
    permutation: str,
    ranks: tuple[int, ...],
    complaint: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = write(tmp_path / "x.json", f'["{permutation}", "1 > 2"]')
    with caplog.at_level(logging.WARNING):
        found = label(permutations=file)
    assert found == ListLabel("q1", ("d1", "d2", "d3"), tuple(1 / rank for rank in ranks))
    messages = [record.message for record in caplog.records]
    assert messages == ([] if complaint is None else [f"permutation of query 'q1': {complaint}"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('["1 > 2"]', "1 permutations for 2 queries of the collection"),
        ('{"q1": "1 > 2"}', "expected a JSON list of strings"),
        ("[[1, 2], [2, 1]]", "expected a JSON list of strings"),
        ("[", "not JSON"),
    ],
)
def test_files_that_are_no_permutations(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"x\.json: {message}"):
        label(permutations=write(tmp_path / "x.json", content))


# -- judgements ---------------------------------------------------------------------------------------------


def test_judgements() -> None:
    assert label(qrels=True) == ListLabel("q1", ("d1", "d2", "d3"), (0.0, 2.0, -1.0))
    assert label(qrels=True, query=Q2).scores == (0.0, 0.0, 0.0)


def test_a_collection_without_judgements() -> None:
    teacher = strategy_of(parameters(model=None, qrels=True), context(["q1"]))
    with pytest.raises(InputError, match="the collection brings no judgements"):
        label_chunk(teacher, None, [CandidateTexts(Q1, (D1, D2))])


def test_ready_rankings_ask_nothing(tmp_path: Path) -> None:
    for teacher in ({"run": "x"}, {"permutations": "x"}, {"qrels": True}):
        assert strategy_of(parameters(model=None, **teacher), context()).prompts(10) == 0

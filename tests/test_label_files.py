from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from instruct_distill.errors import InputError
from instruct_distill.label_files import find_label, merge_labels, verify_labels
from instruct_distill.labels import LabelStore, header_line, read_header, read_labels, to_line
from instruct_distill.records import Comparison, ListLabel, Run, ScoredDocument

FINGERPRINT = {"teacher": "tiny", "strategy": "allpairs", "lists": 3, "texts": "aa"}
CANDIDATES: Run = {
    "q1": [ScoredDocument("d1", 2.0), ScoredDocument("d2", 1.0)],
    "q2": [ScoredDocument("d3", 1.0)],
}


def label(query_id: str, *doc_ids: str) -> ListLabel:
    comparisons = (Comparison(0, 1, 0.5),) if len(doc_ids) > 1 else ()
    return ListLabel(query_id, doc_ids, tuple(map(float, range(len(doc_ids)))), comparisons)


LABELS = [label("q1", "d1", "d2"), label("q2", "d3"), label("q3")]


def write(path: Path, labels: list[ListLabel], **changes: Any) -> Path:
    path.write_text(header_line(FINGERPRINT | changes) + "".join(map(to_line, labels)), "utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "labels.jsonl", LABELS)


# -- verify -------------------------------------------------------------------------------------------------


def test_a_good_file(file: Path) -> None:
    assert verify_labels(file) == (3, [])
    assert verify_labels(file, CANDIDATES) == (3, [])  # q3 has no candidates, and is labelled all the same


def test_every_problem_is_found_with_its_line(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()
    lines += [
        lines[1],
        '{"query_id":',
        lines[2].replace("[0.0]", "[0.0,1.0]"),
        to_line(label("q5", "d1", "d1"))[:-1],
    ]
    file.write_text("\n".join([*lines, lines[1][:30]]), "utf-8")
    lists, problems = verify_labels(file)
    assert lists == 5
    assert [problem.removeprefix(str(file)).split(";")[0] for problem in problems] == [
        " line 5: query 'q1' has a label already (line 2)",
        " line 6: damaged (Expecting value: line 2 column 1 (char 13))",
        " line 7: 2 scores for 1 documents of query 'q2'",
        " line 8: document 'd1' is twice in the list of query 'q5'",
        " line 9: torn",
        ": the header promises 3 lists, 4 are there",
    ]


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (
            [label("q1", "d2", "d1"), *LABELS[1:]],
            "line 2: the documents of query 'q1' are not in the order of",
        ),
        (
            [label("q1", "d1", "d9", "d8"), *LABELS[1:]],
            "line 2: query 'q1' has 3 documents, its candidates are 2, 1 of them the same",
        ),
        ([*LABELS[:2], label("q9", "d1")], "line 4: query 'q9' is not in the candidate file"),
        ([LABELS[0], LABELS[2], label("q4")], "1 candidate lists have no label (the first: 'q2')"),
    ],
)
def test_labels_of_other_candidates(tmp_path: Path, labels: list[ListLabel], problem: str) -> None:
    file = write(tmp_path / "labels.jsonl", labels)
    (found,) = verify_labels(file, CANDIDATES).problems
    assert problem in found
    assert verify_labels(file).problems == []


@pytest.mark.parametrize("header", ["", '{"labels": 9, "fingerprint": {}}\n', '{"labels": 1}\n'])
def test_a_file_without_a_header(tmp_path: Path, header: str) -> None:
    (tmp_path / "x").write_text(header, "utf-8")
    (problem,) = verify_labels(tmp_path / "x").problems
    assert "header" in problem


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such label file"):
        verify_labels(tmp_path / "x")
    with pytest.raises(InputError, match="no such label file"):
        merge_labels([tmp_path / "x"], tmp_path / "y")


# -- find ---------------------------------------------------------------------------------------------------


def test_find(file: Path) -> None:
    assert find_label(file, "q1") == LABELS[0]
    with pytest.raises(InputError, match=r"no label of query 'q7' \(it has 3, the first is 'q1'\)"):
        find_label(file, "q7")


# -- merge --------------------------------------------------------------------------------------------------


def test_shards_become_the_file_of_one_process(tmp_path: Path) -> None:
    chunks = [["q1"], ["q2"], ["q3"]]
    whole = LabelStore(tmp_path / "whole" / "labels.jsonl", FINGERPRINT, chunks)
    for number, item in enumerate(LABELS):
        whole.append(number, [item])
    shards = []
    for rank in (0, 1):
        store = LabelStore(tmp_path / "labels.jsonl", FINGERPRINT, chunks, rank=rank, processes=2)
        for number in store.pending():
            store.append(number, [LABELS[number]])
        shards.append(tmp_path / f"labels.jsonl.process-{rank}")
    order: Run = {"q1": [], "q2": [], "q3": []}
    assert merge_labels(shards, tmp_path / "merged.jsonl", order) == 3
    assert (tmp_path / "merged.jsonl").read_bytes() == whole.path.read_bytes()
    assert merge_labels(shards, tmp_path / "in-order-of-shards.jsonl") == 3
    assert [x.query_id for x in read_labels(tmp_path / "in-order-of-shards.jsonl")] == ["q1", "q3", "q2"]


def test_files_of_different_queries(tmp_path: Path) -> None:
    one = write(tmp_path / "1", LABELS[:1], lists=1, texts="aa")
    two = write(tmp_path / "2", LABELS[1:], lists=2, texts="bb")
    assert merge_labels([two, one], tmp_path / "merged", CANDIDATES) == 3
    assert list(read_labels(tmp_path / "merged")) == LABELS  # q3 is in no list, and comes last
    header = read_header(tmp_path / "merged")
    assert header == {**FINGERPRINT, "texts": hashlib.sha256(b"bb\naa").hexdigest()[:32]}
    assert verify_labels(tmp_path / "merged", CANDIDATES).problems == []


def test_what_cannot_be_merged(file: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", [label("q8")], strategy="setwise", texts="cc")
    with pytest.raises(InputError, match=r"made differently \(strategy: 'allpairs' and 'setwise'\)"):
        merge_labels([file, other], tmp_path / "merged")
    with pytest.raises(InputError, match=r"query 'q2' has a label in .*labels\.jsonl already"):
        merge_labels([file, write(tmp_path / "again", LABELS[1:2])], tmp_path / "merged")
    with pytest.raises(InputError, match="is there already"):
        merge_labels([file], file)
    file.write_text(file.read_text("utf-8").replace("0.5", "NaN"), "utf-8")
    with pytest.raises(InputError, match="line 2: query 'q1' has a number that is not finite"):
        merge_labels([file], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
    assert json.loads(file.read_text("utf-8").split("\n")[0])["labels"] == 1

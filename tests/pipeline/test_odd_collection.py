"""A collection of odd texts and ids through every stage: nothing breaks, nothing is lost or invented."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import NamedTuple

import pytest

from instruct_distill.labels import read_labels
from instruct_distill.pipeline.distill import Result, distill
from instruct_distill.recipe import Recipe
from instruct_distill.sources import open_collection
from instruct_distill.trec import read_run

DOCUMENTS = {
    "1": ("Kettles", "A kettle boils water\u2028in a café.\u0085"),
    "01": ("", "Water {braces} and {query}: Passage B: none.\n\nAnswer: Passage A"),
    "001": ("Vinegar", "water </s> <|im_end|> <pad> <extra_id_0> vinegar"),
    "1E5": ("null", ""),
    "NA": ("", ""),
    "nan": ("", "\n\t "),
}
QUERIES = {
    "7": "water in a café",
    "007": "vinegar and water",
    "true": "null",
    "1e5": "",
    "x": " \t ",
    "y": "what is the",
    "z": "zzz qqq",
}
QRELS = "7\t1\t2\n7\t01\t1\n007\t001\t1\n007\tgone\t1\nz\t1\t1\n"
ANSWERED = {"7", "007", "true"}


class Ran(NamedTuple):
    """A finished run."""

    recipe: Recipe
    result: Result
    warnings: str


@pytest.fixture(scope="module")
def ran(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("odd") / "café"
    (folder / "qrels").mkdir(parents=True)
    records = [
        json.dumps({"_id": name, "title": title, "text": text}, ensure_ascii=False)
        for name, (title, text) in DOCUMENTS.items()
    ]
    (folder / "corpus.jsonl").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(records).encode())
    questions = [json.dumps({"_id": name, "text": text}) for name, text in QUERIES.items()]
    (folder / "queries.jsonl").write_text("\n".join(questions), encoding="utf-8")
    for split in ("train", "test"):
        (folder / "qrels" / f"{split}.tsv").write_text(QRELS, encoding="utf-8")
    recipe = Recipe.from_dict(
        {
            "name": "odd",
            "runs": str(folder / "runs"),
            "collection": f"beir:{folder}",
            "queries": {"split": "all"},
            "candidates": {"method": "bm25", "depth": 100},
            "teacher": {"model": str(tiny_llama), "strategy": "relevance_generation", "dtype": "fp32"},
            "student": {"model": str(tiny_llama), "dtype": "fp32", "max_length": 256},
            "training": {"learning_rate": 1e-3, "lists_per_step": 2, "epochs": 2, "precision": "fp32"},
            "evaluation": [{"name": "odd", "collection": f"beir:{folder}", "candidates": {"depth": 10}}],
        }
    )
    said: list[str] = []
    collecting = _Collecting(said)
    logging.getLogger("instruct_distill").addHandler(collecting)
    try:
        result = distill(recipe)
    finally:
        logging.getLogger("instruct_distill").removeHandler(collecting)
    return Ran(recipe, result, "\n".join(said))


class _Collecting(logging.Handler):
    """Keeps what is said while the run is made, which is before any test's own records."""

    def __init__(self, said: list[str]) -> None:
        super().__init__()
        self.said = said

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def test_b03_queries_that_find_nothing_are_labelled_with_nothing(ran: Ran) -> None:
    labels = {label.query_id: label for label in read_labels(ran.result.folder / "labels.jsonl")}
    assert {name for name, label in labels.items() if label.doc_ids} <= ANSWERED
    assert {"7", "007"} <= {name for name, label in labels.items() if label.doc_ids}
    for name in ("1e5", "x", "y", "z"):
        assert (labels[name].doc_ids, labels[name].scores) == ((), ())
    assert "find no document and have an empty list" in ran.warnings


def test_b20_documents_without_text_are_no_candidates(ran: Ran) -> None:
    for file in ("candidates.trec", "evaluation/odd/student.trec"):
        listed = {item.doc_id for ranked in read_run(ran.result.folder / file).values() for item in ranked}
        assert {"1", "01", "001"} <= listed
        assert not listed & {"NA", "nan"}


def test_b51_ids_and_texts_stay_what_they_are(ran: Ran) -> None:
    collection = open_collection(ran.recipe.collection)
    assert {document.doc_id: (document.title, document.text) for document in collection.documents()} == {
        name: (title, text) for name, (title, text) in DOCUMENTS.items()
    }
    assert {query.query_id: query.text for query in collection.queries("all")} == QUERIES


def test_b54_what_the_collection_lacks_is_said_and_counts(ran: Ran) -> None:
    assert "1 of 4 judged documents are not in the collection (the first: 'gone')" in ran.warnings
    run = read_run(ran.result.folder / "evaluation" / "odd" / "first_stage.trec")

    def gain(order: list[int]) -> float:
        return sum(grade / math.log2(place + 2) for place, grade in enumerate(order))

    found = [
        gain([grades.get(item.doc_id, 0) for item in run.get(name, [])]) / gain(ideal)
        for name, grades, ideal in (
            ("7", {"1": 2, "01": 1}, [2, 1]),
            ("007", {"001": 1}, [1, 1]),  # the document that is gone is in the ideal
            ("z", {"1": 1}, [1]),  # judged, and finds nothing: counts 0
        )
    ]
    assert found[2] == 0.0
    assert 0.5 < found[1] < 0.62
    assert ran.result.summary["odd"]["first_stage"]["nDCG@10"] == pytest.approx(sum(found) / 3, abs=1e-6)

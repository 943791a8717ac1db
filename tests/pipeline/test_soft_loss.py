"""A recipe with soft targets and a choice of documents, from its text to the student's record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.pipeline.distill import distill
from instruct_distill.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]


def load(tiny_t5: Path, runs: Path, patch: pytest.MonkeyPatch, *overrides: str) -> Recipe:
    patch.setenv("INSTRUCT_DISTILL_TINY_T5", str(tiny_t5))
    patch.chdir(ROOT)
    return Recipe.load(
        "recipes/tiny.yaml",
        [
            f"runs={runs}",
            f"collection=beir:{ROOT}/data/example/beir",
            "evaluation=[]",
            "training.epochs=1",
            "training.loss={name: ranknet, targets: soft, weights: margin}",
            "training.documents_per_list={top_and_random: {top: 1, random: 2}}",
            *overrides,
        ],
    )


def test_soft_targets_from_the_teachers_comparisons(
    tiny_t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = distill(load(tiny_t5, tmp_path, monkeypatch), until="train")
    record = json.loads((result.folder / "student" / "reranker.json").read_text(encoding="utf-8"))
    assert record["training"]["loss"] == {"name": "ranknet", "targets": "soft", "weights": "margin"}
    lines = (result.folder / "training.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert all(0 < json.loads(line)["loss"] < 2 for line in lines)


def test_a_teacher_that_compares_nothing_is_told_before_training(
    tiny_t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointwise = ["teacher.strategy=relevance_generation", "teacher.prompt=pointwise-passage"]
    recipe = load(tiny_t5, tmp_path, monkeypatch, *pointwise)
    with pytest.raises(InputError, match=r"has no comparisons.*use targets: hard"):
        distill(recipe, until="train")

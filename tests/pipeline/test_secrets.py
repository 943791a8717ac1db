"""Keys and tokens of the environment: in no file of a run, in no report, in no log, in nothing published."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from instruct_distill.errors import RecipeError
from instruct_distill.hub import publish
from instruct_distill.pipeline.distill import distill
from instruct_distill.recipe import Recipe

EXAMPLE = Path(__file__).resolve().parents[2] / "data" / "example" / "beir"
SECRETS = {
    name: f"secret-{number}-of-{name.lower()}"
    for number, name in enumerate(
        [
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "OPENAI_API_KEY",
            "INSTRUCT_DISTILL_API_KEYS",
            "WANDB_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
        ]
    )
}


def test_no_secret_of_the_environment_is_written_down(
    tiny_llama: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    task = {"collection": f"beir:{EXAMPLE}", "queries": {"sample": 2}, "candidates": {"depth": 3}}
    recipe = Recipe.from_dict(
        {
            "name": "r",
            "runs": str(tmp_path),
            "collection": f"beir:{EXAMPLE}",
            "queries": {"split": "train", "sample": 2},
            "candidates": {"depth": 3},
            "teacher": {"model": str(tiny_llama), "strategy": "relevance_generation", "dtype": "fp32"},
            "student": {"model": str(tiny_llama), "dtype": "fp32", "max_length": 128},
            "training": {"epochs": 1, "lists_per_step": 2, "precision": "fp32"},
            "evaluation": [task],
        }
    )
    with caplog.at_level(logging.DEBUG):
        result = distill(recipe)
        offered = publish(result.folder, "org/name", base_model="org/base", dry_run=True)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {
        "recipe.yaml",
        "labels.jsonl",
        "report.html",
        "summary.json",
        "reranker.json",
        "README.md",
    } <= names
    assert set(offered.files) <= names
    said = caplog.text + "".join(capfd.readouterr())
    for secret in SECRETS.values():
        assert secret not in said
        for path in files:
            assert secret.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("name", [*SECRETS, "DB_PASSWORD", "my_secret", "TOKEN"])
def test_a_recipe_takes_no_secret_from_the_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "open sesame")
    file = tmp_path / "r.yaml"
    file.write_text(
        f"name: r\ncollection: beir:x\nteacher: {{model: a, server: {{url: 'http://h/${{{name}}}'}}}}\n"
        "student: {model: m}\n",
        encoding="utf-8",
    )
    with pytest.raises(RecipeError, match=rf"teacher\.server\.url .*: {name} looks like a key") as caught:
        Recipe.load(file)
    assert "open sesame" not in str(caught.value)


@pytest.mark.parametrize("name", ["INSTRUCT_DISTILL_DATA", "TOKENIZER_FOLDER", "MONKEY", "KEYBOARD_LOGS"])
def test_names_that_only_resemble_secrets_are_variables(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/data")
    file = tmp_path / "r.yaml"
    file.write_text(
        f"name: r\ncollection: beir:${{{name}}}/x\nteacher: {{run: x}}\nstudent: {{model: m}}\n",
        encoding="utf-8",
    )
    assert Recipe.load(file).collection == "beir:/data/x"

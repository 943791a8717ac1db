"""Encoder students in use: sentence-transformers loads what we write, and we load what it publishes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instruct_distill import Reranker
from instruct_distill.errors import InputError
from instruct_distill.model_card import model_card
from instruct_distill.models.loading import load_model
from instruct_distill.pipeline.distill import distill
from instruct_distill.prompts.named import named_prompt
from instruct_distill.recipe import Recipe
from instruct_distill.student_folder import StudentRecord, write_student

EXAMPLE = Path(__file__).resolve().parents[1] / "data" / "example"
PAIRS = [
    ("how to oil a chain", "Clean and oil the chain."),
    ("how to oil a chain", "fern amber " * 60),
    ("ferries", "Ferries leave."),
]
CARD = "---\nlibrary_name: sentence-transformers\npipeline_tag: text-ranking\n---\n# A cross-encoder\n"


@pytest.fixture(scope="module")
def student(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Path:
    folder = tmp_path_factory.mktemp("encoder") / "student"
    loaded = load_model(str(tiny_bert), dtype="fp32", device=device)
    limit = loaded.tokenizer.model_max_length
    record = StudentRecord(
        family="encoder",
        prompt=named_prompt("pair"),
        score="head",
        max_length=48,
        document_words=None,
        dtype="fp32",
        base_model="org/base",
        base_revision="0" * 40,
        training={},
    )
    write_student(folder, loaded, record)
    # what the files say to others is no change of the model in memory
    assert loaded.tokenizer.model_max_length == limit
    assert not hasattr(loaded.model.model.config, "sentence_transformers")
    return folder


def scores(folder: Path, device: torch.device, **keys: Any) -> list[float]:
    found: list[float] = (
        Reranker.from_pretrained(folder, dtype="fp32", device=device, **keys).score(PAIRS).tolist()
    )
    return found


def test_cross_encoder_gives_the_same_logits(student: Path, device: torch.device) -> None:
    """The long document is cut to the same tokens; the card's program is what is run."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    ours = scores(student, device)
    theirs = sentence_transformers.CrossEncoder(str(student), device=str(device)).predict(PAIRS)
    np.testing.assert_allclose(theirs, ours, atol=1e-4)
    assert not 0 < min(ours) < max(ours) < 1  # a sigmoid's values would not be told apart from logits
    program = (
        model_card(student).split("sentence-transformers alone:")[1].split("```python\n")[1].split("```")[0]
    )
    found: dict[str, Any] = {}
    exec(program.replace("ORG/NAME", str(student)), found)
    assert found["score"](*PAIRS[1]) == pytest.approx(ours[1], abs=1e-4)


def test_b31_a_record_with_a_head_that_is_not_in_the_files(
    student: Path, headless_bert: Path, tmp_path: Path, device: torch.device
) -> None:
    folder = shutil.copytree(headless_bert, tmp_path / "student")
    shutil.copy(student / "reranker.json", folder)
    with pytest.raises(InputError, match="has no score head"):
        scores(folder, device)


@pytest.mark.parametrize("sign", ["card", "config", "prompt"])
def test_published_cross_encoders_are_known(
    tiny_bert: Path, tmp_path: Path, device: torch.device, sign: str
) -> None:
    loaded = Reranker(
        load_model(str(tiny_bert), dtype="fp32", device=device),
        named_prompt("pair"),
        score="head",
        max_length=64,
    )
    folder = shutil.copytree(tiny_bert, tmp_path / "published")
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "model_max_length": 64}), "utf-8")
    with pytest.raises(InputError, match=r"no reranker\.json"):
        scores(folder, device)  # a regression on texts is none by itself
    keys: dict[str, Any] = {}
    if sign == "card":
        (folder / "README.md").write_text(CARD, "utf-8")
    elif sign == "config":
        config = json.loads((folder / "config.json").read_text("utf-8"))
        config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.activation.Sigmoid"}
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
    else:
        keys = {"prompt": "pair", "max_length": 64}
    np.testing.assert_allclose(scores(folder, device, **keys), loaded.score(PAIRS), atol=1e-5)


def test_a_classifier_with_such_a_card_is_not(tiny_bert: Path, tmp_path: Path, device: torch.device) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "published")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "id2label": {"0": "a", "1": "b"}}), "utf-8")
    (folder / "README.md").write_text(CARD, "utf-8")
    with pytest.raises(InputError, match=r"no reranker\.json"):
        scores(folder, device)


def recipe(runs: Path, model: Path, **student: Any) -> Recipe:
    return Recipe.from_dict(
        {
            "name": "encoder",
            "runs": str(runs),
            "collection": f"beir:{EXAMPLE}/beir",
            "candidates": {"method": "bm25", "engine": "rank_bm25", "k1": 1.5, "b": 0.75, "depth": 4},
            "teacher": "qrels",
            "student": {"model": str(model), "score": "head", "dtype": "fp32", "max_length": 96, **student},
            "training": {"epochs": 2, "lists_per_step": 4, "learning_rate": 1e-3, "precision": "fp32"},
            "evaluation": [
                {"collection": f"beir:{EXAMPLE}/beir", "name": "test", "candidates": {"depth": 3}}
            ],
        }
    )


def test_a_run_that_starts_without_a_head(headless_bert: Path, tmp_path: Path) -> None:
    """An untrained head scores at random: zero_shot is left out, and everything else is there."""
    result = distill(recipe(tmp_path / "one", headless_bert))
    assert set(result.summary["test"]) == {"first_stage", "student"}
    assert "zero_shot" not in result.table
    again = distill(recipe(tmp_path / "two", headless_bert))  # the head is drawn by the recipe's seed
    one, two = ((r.student / "model.safetensors").read_bytes() for r in (result, again))
    assert one == two
    record = json.loads((result.student / "reranker.json").read_text("utf-8"))
    assert (record["family"], record["score"], record["prompt"]["name"]) == ("encoder", "head", "pair")


def test_score_and_family_must_fit(tiny_bert: Path, tiny_llama: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"this model is an encoder.*use score: head"):
        distill(recipe(tmp_path, tiny_bert, score="yes_logit"), until="train")
    with pytest.raises(InputError, match=r"this model is decoder-only.*use score: yes_logit"):
        distill(recipe(tmp_path / "other", tiny_llama), until="train")

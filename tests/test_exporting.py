from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instruct_distill.errors import InputError
from instruct_distill.exporting import export_onnx
from instruct_distill.models.loading import load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.reranker import Reranker
from instruct_distill.student_folder import StudentRecord, write_student

PAIRS = [
    ("what is it", "It is a test."),
    ("what is it", "A much longer text, which goes on and on, and on again. " * 3),
    ("where", "x"),
]


@pytest.fixture(scope="module", params=["tiny_t5", "tiny_llama", "tiny_bert"])
def student(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model: Path = request.getfixturevalue(request.param)
    loaded = load_model(str(model), dtype="fp32", device=torch.device("cpu"))
    encoder = loaded.model.family == "encoder"
    folder = tmp_path_factory.mktemp("export") / "student"
    score: Any = "head" if encoder else "yes_logit"
    record = StudentRecord(
        family=loaded.model.family,
        prompt=named_prompt("pair" if encoder else "pointwise-short"),
        score=score,
        max_length=128,
        document_words=None,
        dtype="fp32",
        base_model=str(model),
        base_revision=loaded.revision,
        training={},
    )
    write_student(folder, loaded, record)
    return folder


def test_an_exported_student_scores_as_the_original(student: Path, tmp_path: Path) -> None:
    exported = export_onnx(student, tmp_path / "onnx")
    assert exported.difference < 1e-4
    assert not (tmp_path / ".onnx.tmp").exists()
    original = Reranker.from_pretrained(student, dtype="fp32", device="cpu")
    found = Reranker.from_pretrained(tmp_path / "onnx")
    np.testing.assert_allclose(found.score(PAIRS), original.score(PAIRS), atol=1e-4)
    together, alone = found.score(PAIRS), [found.score([pair])[0] for pair in PAIRS]
    np.testing.assert_allclose(together, alone, atol=1e-4)
    assert found.score([]).shape == (0,)
    with pytest.raises(InputError, match="is there already"):
        export_onnx(student, tmp_path / "onnx")


def test_eight_bits_are_smaller_and_near(student: Path, tmp_path: Path) -> None:
    whole = export_onnx(student, tmp_path / "whole")
    small = export_onnx(student, tmp_path / "small", int8=True)
    assert small.megabytes < whole.megabytes
    assert np.isfinite(Reranker.from_pretrained(tmp_path / "small").score(PAIRS)).all()


def test_a_damaged_export(student: Path, tmp_path: Path) -> None:
    export_onnx(student, tmp_path / "onnx")
    file = tmp_path / "onnx" / "model.onnx"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(InputError, match=r"model\.onnx cannot be loaded"):
        Reranker.from_pretrained(tmp_path / "onnx")

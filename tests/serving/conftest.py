"""A server whose model is small: it knows no words, but its scores are those of the library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from instruct_distill.models.loading import load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.reranker import Reranker
from instruct_distill.student_folder import StudentRecord, write_student
from tests.serving.server_process import Process


@pytest.fixture(scope="session")
def served(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's folder."""
    folder = tmp_path_factory.mktemp("served") / "student"
    loaded = load_model(str(tiny_llama), dtype="fp32", device=torch.device("cpu"))
    record = StudentRecord(
        family=loaded.model.family,
        prompt=named_prompt("pointwise-short"),
        score="yes_logit",
        max_length=192,
        document_words=None,
        dtype="fp32",
        base_model="tiny",
        base_revision="0",
        training={},
    )
    write_student(folder, loaded, record)
    return folder


@pytest.fixture(scope="session")
def reranker(served: Path) -> Reranker:
    """The same student in this process."""
    return Reranker.from_pretrained(served, dtype="fp32", device="cpu")


@pytest.fixture(scope="session")
def server(served: Path) -> Iterator[Process]:
    """The student behind a server that is a process of its own."""
    process = Process(served, "--max-documents", "8")
    yield process
    process.process.kill()
    process.process.wait()

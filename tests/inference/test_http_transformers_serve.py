"""Against a server that others wrote: ``transformers serve``, which gives no log-probabilities."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import Question
from instruct_distill.inference.http import HttpEngine
from instruct_distill.inference.local import LocalEngine
from instruct_distill.inference.parameters import ServerParameters
from instruct_distill.inference.written_answers import WrittenAnswers
from instruct_distill.models.loading import load_model
from instruct_distill.pipeline.teacher import load_teacher
from instruct_distill.prompts.named import named_prompt
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context
from tests.teachers.stub_engine import D1, D2, D3, Q1, Q2

COMMAND = "from transformers.cli.transformers import main; main()"


@pytest.fixture(scope="module")
def server(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerParameters]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    log = tmp_path_factory.mktemp("transformers-serve") / "server.log"
    arguments = ["serve", str(tiny_llama), "--host", "127.0.0.1", "--port", port, "--device", "cpu"]
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        for _ in range(1200):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            time.sleep(0.1)
        else:
            pytest.fail(f"no server after two minutes: {log.read_text(encoding='utf-8')}")
        yield ServerParameters(url=f"http://127.0.0.1:{port}/v1", concurrency=2)
    finally:
        process.kill()
        process.wait()


def test_it_writes_what_the_model_writes(
    server: ServerParameters, tiny_llama: Path, device: torch.device
) -> None:
    sets = [Question(Q1, (D1, D2, D3)), Question(Q2, (D3, D2))]
    prompt = named_prompt("listwise-passage")
    loaded = load_model(str(tiny_llama), dtype="fp32", device=device)
    served = HttpEngine(str(tiny_llama), server, prompt, asks="generate")
    assert served.offer == ("chat", 0, str(tiny_llama))
    # what decodes to no text is decoded in other pieces there
    expected = [text.split("�")[0] for text in LocalEngine(loaded, prompt, max_length=2000).generate(sets, 8)]
    found = served.generate(sets, 8)
    assert [text.split("�")[0] for text in found] == expected
    assert any(expected)
    assert served.tokens > 100


def test_answers_are_read_from_what_it_writes(
    server: ServerParameters, tiny_llama: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parameters = TeacherParameters(model=str(tiny_llama), server=server)
    with caplog.at_level(logging.WARNING):
        teacher = load_teacher(parameters, Context(lambda: None, list))
    assert isinstance(teacher.engine, WrittenAnswers)
    assert "gives no log-probabilities" in caplog.text
    (label,) = label_chunk(teacher.strategy, teacher.engine, [CandidateTexts(Q1, (D1, D2))])
    assert {comparison.margin for comparison in label.comparisons} <= {-1.0, 0.0, 1.0}
    assert teacher.engine.asked == 2
    assert teacher.fingerprint([])["server"] == {"api": "chat", "top_logprobs": 0}


def test_it_gives_no_likelihoods(server: ServerParameters, tiny_llama: Path) -> None:
    with pytest.raises(InputError, match="does not give the log-probabilities of a prompt"):
        HttpEngine(str(tiny_llama), server, named_prompt("query-generation"), asks="log_likelihood")


def test_another_model_is_not_there(server: ServerParameters) -> None:
    with pytest.raises(InputError, match=r"chat: HTTP 400: Server is pinned to .*; requested 'other'"):
        HttpEngine("other", server, named_prompt("pairwise-passage"), asks="answer_logits")

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instruct_distill.prompts.named import named_prompt
from instruct_distill.public_record import is_local_model, without_paths
from instruct_distill.student_folder import StudentRecord

COMMIT, DIGEST = "a" * 40, "0123456789abcdef"


@pytest.mark.parametrize(
    ("model", "revision", "local"),
    [
        ("google/flan-t5-base", COMMIT, False),
        ("gpt2", COMMIT, False),
        ("pypi:llm-x==1.0/x.gguf#sha256=0", DIGEST, False),
        ("models/flan", DIGEST, True),  # looks like a hub id, and has no commit
        ("/models/flan", DIGEST, True),
        ("./flan", "", True),
        ("a/b/c", "", True),
        ("C:\\flan", "", True),
        ("flan.gguf", DIGEST, True),
        ("org/base", "", False),
    ],
)
def test_what_is_local(model: str, revision: str, local: bool) -> None:
    assert is_local_model(model, revision) is local


def test_a_folder_that_exists_is_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "base").mkdir(parents=True)
    assert is_local_model("org/base", "")


@pytest.mark.parametrize(
    ("key", "value", "public"),
    [
        ("collection", "beir:/home/me/scifact/", "beir:scifact"),
        ("collection", "rankgpt:data/lists.jsonl", "rankgpt:lists.jsonl"),
        ("collection", "irds:msmarco-passage/train", "irds:msmarco-passage/train"),
        ("collection", "python-docs", "python-docs"),
        ("other", "/home/me/x.trec", "x.trec"),
        ("other", "~/x.trec", "x.trec"),
        ("other", "../x.trec", "x.trec"),
        ("other", "C:\\me\\x.trec", "x.trec"),
        ("other", "and/or", "and/or"),
        ("other", ["/home/me/x", 3], ["x", 3]),
        ("loss", "ranknet", "ranknet"),
        ("teacher", {"teacher": "/m/flan", "revision": DIGEST}, {"teacher": "flan", "revision": DIGEST}),
        ("teacher", {"teacher": "m/flan", "revision": DIGEST}, {"teacher": "flan", "revision": DIGEST}),
        ("teacher", {"teacher": "m/flan", "revision": COMMIT}, {"teacher": "m/flan", "revision": COMMIT}),
        ("teacher", {"teacher": "qrels", "revision": ""}, {"teacher": "qrels", "revision": ""}),
        ("teacher", {"prompt": {"template": "/a/b"}}, {"prompt": {"template": "/a/b"}}),
    ],
)
def test_paths_become_their_last_part(key: str, value: Any, public: Any) -> None:
    record = StudentRecord(
        family="decoder-only",
        prompt=named_prompt("pointwise-short"),
        score="yes_logit",
        max_length=8,
        document_words=None,
        dtype="fp32",
        base_model="org/base",
        base_revision=COMMIT,
        training={key: value},
    )
    assert without_paths(record).training == {key: public}
    assert record.training == {key: value}

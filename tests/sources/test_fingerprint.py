from __future__ import annotations

import os
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.sources import fingerprint
from instruct_distill.sources.fingerprint import files_fingerprint


def test_small_files_are_hashed_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one")
    before = files_fingerprint([path])
    os.utime(path, (1, 1))
    assert files_fingerprint([path]) == before
    path.write_bytes(b"two")
    assert files_fingerprint([path]) != before


def test_large_files_are_sampled_and_dated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "WHOLE", 1000)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a" * 200_000)
    os.utime(path, (1, 1))
    before = files_fingerprint([path])
    assert files_fingerprint([path]) == before
    os.utime(path, (2, 2))
    assert files_fingerprint([path]) != before
    for place in (0, 100_000, 199_999):
        path.write_bytes(b"a" * place + b"b" + b"a" * (199_999 - place))
        os.utime(path, (1, 1))
        assert files_fingerprint([path]) != before


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read \(No such file"):
        files_fingerprint([tmp_path / "nothing"])

from __future__ import annotations

import pytest

from instruct_distill import doctor
from instruct_distill.cli import main


def test_what_this_machine_has_and_that_it_works(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    assert not ended.value.code
    out, err = capsys.readouterr()
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if not line.startswith("["))
    assert {"system", "torch", "transformers", "processor", "cpu", "cache", "hub"} <= set(lines)
    assert lines["cpu"] in ("dtype auto is bf16", "dtype auto is fp32")
    assert lines["hub"].endswith("a token is set")
    assert "3 lists labelled" in lines["self-test"]
    assert "4 documents ranked" in lines["self-test"]
    assert "hf_secret" not in out + err


def test_what_is_broken_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> str:
        raise ImportError("libgomp is missing")

    monkeypatch.setattr(doctor, "self_test", broken)
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    assert ended.value.code == 2
    assert "error: the self-test failed: ImportError: libgomp is missing" in capsys.readouterr().err

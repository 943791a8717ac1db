"""What ``doctor`` says, and what it never says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from instruct_distill.cli import app, doctor, self_test
from instruct_distill.errors import InputError
from instruct_distill.version import __version__

SECRET = "hf_abcdefghijklmnop"


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*doctor.SECRETS, *doctor.SETTINGS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INSTRUCT_DISTILL_CACHE", str(tmp_path / "own" / "cache"))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "irds"))
    return tmp_path


def test_b36_the_whole_path_works_without_a_network_and_leaves_nothing(surroundings: Path) -> None:
    settings = {
        "HF_TOKEN": SECRET,
        "OPENAI_API_KEY": SECRET,
        "HF_HUB_OFFLINE": "0",
        "HF_ENDPOINT": f"http://user:{SECRET}@127.0.0.1:9",
        "HF_HUB_CACHE": str(surroundings / "hub"),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(surroundings),
    }
    done = subprocess.run(
        [sys.executable, "-m", "instruct_distill", "doctor"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert f"instruct_distill {__version__}" in said["versions"]
    assert "torch" in said["versions"]
    assert str(surroundings / "own" / "cache") in done.stdout
    assert str(surroundings / "hub") in done.stdout
    assert "12 pairs asked, 2 steps trained, scores equal after loading" in said["self-test"]
    assert said["HF_TOKEN"].split() == ["HF_TOKEN", "is", "set"]
    assert said["HF_ENDPOINT"].split()[1] == "http://127.0.0.1:9"
    assert SECRET not in done.stdout + done.stderr
    assert list(surroundings.iterdir()) == []


def test_a_student_that_scores_otherwise_after_loading_is_a_problem(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_test, "SAME", -1.0)
    said = CliRunner().invoke(app, ["doctor"])
    assert said.exit_code == 1
    assert "problem: self-test, after" in said.stdout
    assert "after it is loaded" in said.stdout
    assert os.environ["INSTRUCT_DISTILL_CACHE"] == str(surroundings / "own" / "cache")


def test_a_stage_that_fails_is_named(surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(recipe: object) -> None:
        raise InputError("no space left")

    monkeypatch.setattr(self_test, "distill", fail)
    found = self_test.self_test()
    assert found.problem == "InputError: no space left"
    assert found.done == ""


def test_a_place_that_cannot_be_written_is_a_problem(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (surroundings / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("INSTRUCT_DISTILL_CACHE", str(surroundings / "file" / "cache"))
    said = CliRunner().invoke(app, ["doctor", "--quick"])
    assert said.exit_code == 1
    assert f"problem: own cache: {surroundings}/file/cache cannot be written" in said.stdout
    assert "self-test" not in said.stdout


def test_little_space_is_said(surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LITTLE", 2**80)
    said = CliRunner().invoke(app, ["doctor", "--quick"])
    assert said.exit_code == 0
    assert said.stdout.count("which is little") == len(doctor.places())

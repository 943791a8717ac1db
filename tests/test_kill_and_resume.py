"""A run that is killed at random moments ends like one that was left alone; the script does more of it."""

from __future__ import annotations

import importlib.util
import random
import signal
import subprocess
import time
from pathlib import Path
from types import ModuleType

import psutil
import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "kill_and_resume.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kill_and_resume", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_killed_runs_end_like_undisturbed_ones(
    script: ModuleType, tiny_t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_TINY_T5", str(tiny_t5))
    log = script.kill_and_resume(script.Run("recipes/tiny.yaml"), kills=4, seed=3, work=tmp_path)
    assert len(log) == 4


def test_lists_on_the_disk_are_counted_over_shards(script: ModuleType, tmp_path: Path) -> None:
    assert script.labelled(tmp_path) == 0
    run = tmp_path / "r"
    run.mkdir()
    (run / "labels.jsonl.process-0").write_text("header\nq1\nq2\ntorn", "utf-8")
    (run / "labels.jsonl.process-1").write_text("header\n", "utf-8")
    assert script.labelled(tmp_path) == 2


def test_a_moment_comes_after_its_list_and_not_after_the_stage(script: ModuleType, tmp_path: Path) -> None:
    run = tmp_path / "r"
    run.mkdir()
    moment = script._Moment(tmp_path, 2, 0.0)
    assert not moment.due_or_done()
    (run / "labels.jsonl").write_text("header\nq1\nq2\n", "utf-8")
    assert moment.due_or_done()
    assert not moment.done
    (run / "label.done.json").touch()
    assert moment.due_or_done()
    assert moment.done


def test_all_processes_of_a_launcher_are_killed(script: ModuleType) -> None:
    launcher = subprocess.Popen(["bash", "-c", "sleep 60 & sleep 60 & wait"])
    while len(family := psutil.Process(launcher.pid).children()) < 2:
        time.sleep(0.01)
    script.kill(launcher)
    assert not any(each.is_running() for each in family)
    assert launcher.returncode == -signal.SIGKILL


def test_one_process_of_a_launcher_is_killed_and_the_launcher_ends(script: ModuleType) -> None:
    # as torchrun: it ends the others when one is gone
    launcher = subprocess.Popen(["bash", "-c", "sleep 60 & sleep 60 & wait -n; kill %1 %2; exit 1"])
    while len(psutil.Process(launcher.pid).children()) < 2:
        time.sleep(0.01)
    assert script.kill_one(launcher, random.Random(1)) in (0, 1)
    assert launcher.returncode == 1

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_launchers", ROOT / "scripts" / "check_launchers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_launchers"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        ("cpu", 8, (1, "")),
        ("gpu", 0, (0, "no GPU")),
        ("gpu", 8, (1, "")),
        ("multi-gpu", 1, (0, "needs 2 GPUs, here: 1")),
        ("multi-gpu", 8, (8, "")),
        ("multi-node", 3, (2, "")),
        ("fsdp2", 0, (2, "")),
        ("fsdp2", 4, (4, "")),
    ],
)
def test_processes(script: ModuleType, name: str, gpus: int, expected: tuple[int, str]) -> None:
    assert script.processes_of(name, gpus) == expected


def test_what_is_missing_is_said(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "find_spec", lambda name: None)
    assert script.processes_of("deepspeed-zero2", 8) == (0, "the extra deepspeed is not installed")


def test_two_machines_on_one(script: ModuleType) -> None:
    started = script.commands("multi-node", 8, ["-m", "instruct_distill", "train"])
    assert [command[command.index("--machine_rank") + 1] for command in started] == ["0", "1"]
    assert all(command[-3:] == ["-m", "instruct_distill", "train"] for command in started)
    assert [script.visible(8, rank, 2)["CUDA_VISIBLE_DEVICES"] for rank in (0, 1)] == ["0,1,2,3", "4,5,6,7"]
    (alone,) = script.commands("fsdp2", 2, [])
    assert str(ROOT / "recipes" / "launch" / "fsdp2.yaml") in alone
    assert script.visible(2, 0, 1) == {}


def test_what_was_learned_is_compared(script: ModuleType) -> None:
    expected = script.Outcome([2.0, 1.0], [4.0, -1.0])
    row = script.compare("fsdp2", 2, 3.0, expected, script.Outcome([2.0, 1.0005], [4.0, -1.002]))
    assert (row.result, row.failed) == ("ok", False)
    assert row.loss == pytest.approx(5e-4)
    assert row.score == pytest.approx(5e-4)
    other = script.compare("fsdp2", 2, 3.0, expected, script.Outcome([2.0, 1.1], [4.0, -1.0]))
    assert other.failed
    left_out = script.Row("gpu", 0, "no GPU")
    assert not left_out.failed
    lines = script.table([row, other, left_out]).splitlines()
    assert lines[1].endswith("ok")
    assert lines[2].endswith("learned something else")
    assert lines[3].endswith("left out: no GPU")


def test_a_launch_file_is_checked(
    script: ModuleType, tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way for one file; the others take as long each."""
    monkeypatch.setenv("INSTRUCT_DISTILL_TINY_T5", str(tiny_llama))
    recipe = ROOT / "recipes" / "tiny.yaml"
    longer = ["teacher.max_length=700", "student.max_length=400"]  # for a tokenizer of letters
    rows = script.check(str(tiny_llama), recipe, longer, ["cpu", "gpu"], 0, tmp_path)
    assert [(row.name, row.result) for row in rows] == [("cpu", "ok"), ("gpu", "no GPU")]
    assert rows[0].loss == rows[0].score == 0.0

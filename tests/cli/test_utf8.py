"""Arguments and names of files in a process whose locale knows ASCII alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def in_c_locale(*command: str, mode: str | None = "0") -> subprocess.CompletedProcess[bytes]:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONUTF8", "LANG")}
    environment.update({"LC_ALL": "C", "PYTHONPATH": str(ROOT)})
    if mode is not None:
        environment["PYTHONUTF8"] = mode
    return subprocess.run(
        [sys.executable, *command], env=environment, cwd=ROOT, capture_output=True, check=False
    )


@pytest.mark.parametrize("mode", ["0", None])
def test_b52_names_beyond_ascii_in_the_c_locale(mode: str | None, tmp_path: Path) -> None:
    """A stage writes its folder below a name that the recipe gives and the command line gives again."""
    folder = tmp_path / "café"
    (folder / "beir").mkdir(parents=True)
    document = '{"_id": "d1", "title": "", "text": "un café noir"}\n'
    (folder / "beir" / "corpus.jsonl").write_text(document, encoding="utf-8")
    (folder / "beir" / "queries.jsonl").write_text('{"_id": "q1", "text": "café"}\n', encoding="utf-8")
    recipe = folder / "recette.yaml"
    recipe.write_text(
        f"name: r\nruns: {folder}/runs\ncollection: beir:{folder}/beir\nqueries: {{split: all}}\n"
        "candidates: {method: bm25, depth: 2}\nteacher: {model: org/x}\nstudent: {model: org/x}\n",
        encoding="utf-8",
    )
    done = in_c_locale("-m", "instruct_distill", "retrieve", str(recipe), mode=mode)
    assert done.returncode == 0, done.stderr.decode()
    assert (folder / "runs" / "r" / "candidates.trec").read_text(encoding="utf-8").startswith("q1 Q0 d1 1 ")


def test_b52_a_query_beyond_ascii_arrives_as_it_is(tmp_path: Path) -> None:
    """The message repeats the argument: whole characters, and not their halves."""
    for command in (("-m", "instruct_distill", "validate"), ("train.py",)):
        done = in_c_locale(*command, str(tmp_path / "nicht-da-é.yaml"))
        assert done.returncode == 2
        assert "nicht-da-é.yaml: no such file" in done.stderr.decode("utf-8")

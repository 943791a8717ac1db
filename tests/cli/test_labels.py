"""``instruct-distill labels`` on the labels of the example collection."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruct_distill.cli import main

EXAMPLE = Path(__file__).parents[2] / "data" / "example"

RECIPE = f"""\
name: r
collection: files:{EXAMPLE}/files
candidates: {{method: bm25, depth: 4}}
teacher: {{run: {EXAMPLE}/files/candidates.trec}}
student: {{model: org/student}}
"""


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Path]:
    """A labelled run."""
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(RECIPE, encoding="utf-8")
    ours = logging.getLogger("instruct_distill")
    level, handlers = ours.level, list(ours.handlers)
    ours.handlers.clear()  # one that an earlier test left writes to that test's stream, which is closed
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["label", "r.yaml"])
    capsys.readouterr()
    yield Path("runs/r")
    ours.setLevel(level)
    ours.handlers[:] = handlers


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        main(["labels", *arguments])
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "labels.jsonl"
    query_id = json.loads(file.read_text("utf-8").split("\n")[1])["query_id"]
    code, out, _ = said(capsys, "show", str(file), query_id)
    assert code == 0
    assert out.startswith(f"query {query_id}: ")
    assert "rank  first stage  score     document     text" in out
    code, out, _ = said(capsys, "show", str(file), query_id, "--json")
    content = json.loads(out)
    assert len(content["texts"]) == len(content["doc_ids"])
    assert all(content["texts"])
    code, _, err = said(capsys, "show", str(file), "nobody")
    assert code == 2
    assert err.startswith(f"error: {file}: no label of query 'nobody'")


def test_show_without_the_collection(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "labels.jsonl"
    query_id = json.loads(file.read_text("utf-8").split("\n")[1])["query_id"]
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text("utf-8").replace(str(EXAMPLE), "/nowhere"), "utf-8")
    code, out, err = said(capsys, "show", str(file), query_id)
    assert (code, out.split("\n")[0]) == (0, f"query {query_id}")
    assert err.startswith("without texts: ")
    code, _, err = said(capsys, "show", str(file), query_id, "--collection", "beir:/nowhere")
    assert (code, err.split(":")[0]) == (2, "error")


def test_verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "labels.jsonl"
    assert said(capsys, "verify", str(file)) == (
        0,
        f"{file}: 10 labels, nothing wrong, as in {folder / 'candidates.trec'}\n",
        "",
    )
    file.write_text(file.read_text("utf-8") * 5, "utf-8")
    code, out, err = said(capsys, "verify", str(file))
    assert (code, out) == (2, "")
    lines = err.rstrip("\n").split("\n")
    assert lines[0] == f"error: {file}: 50 whole labels, 44 problems"
    assert lines[-1] == "... and 29 more"


def test_verify_without_candidates(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copy(folder / "labels.jsonl", "x.jsonl")
    assert said(capsys, "verify", "x.jsonl")[1] == (
        "x.jsonl: 10 labels, nothing wrong; no candidate file to compare with\n"
    )


def test_merge(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (folder / "labels.jsonl").read_text("utf-8").splitlines(keepends=True)
    Path("a").write_text("".join([whole[0], *whole[2::2]]), "utf-8")
    Path("b").write_text("".join([whole[0], *whole[1::2]]), "utf-8")
    order = str(folder / "candidates.trec")
    assert said(capsys, "merge", "a", "b", "--to", "c", "--candidates", order) == (
        0,
        f"c: 10 labels in the order of {order}\n",
        "",
    )
    assert Path("c").read_bytes() == (folder / "labels.jsonl").read_bytes()
    code, _, err = said(capsys, "merge", "a", "b", "--to", "c")
    assert (code, err) == (2, "error: c is there already; choose another name, or move it aside\n")


def test_stats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(folder / "labels.jsonl")
    code, out, _ = said(capsys, "stats", file, "--qrels", f"{EXAMPLE}/files/qrels.txt")
    assert code == 0
    lines = out.rstrip("\n").split("\n")
    assert lines[0] == "lists                  10"
    assert lines[5] == "inconsistent           -"
    assert lines[-1].startswith("nDCG@10                first stage 0.")
    found = json.loads(said(capsys, "stats", file, "--json")[1])
    stored = json.loads((folder / "label.done.json").read_text("utf-8"))["outcome"]
    assert found == stored


@pytest.mark.parametrize("verb", ["show", "verify", "merge", "stats"])
def test_every_verb_has_help(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, _ = said(capsys, verb, "--help")
    assert code == 0
    assert f"labels {verb}" in out


def test_a_plan_with_hours_needs_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(RECIPE, encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "r.yaml", "--calibrate"])
    assert "run 'instruct-distill retrieve RECIPE' first" in capsys.readouterr().err

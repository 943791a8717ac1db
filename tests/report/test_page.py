from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from instruct_distill.errors import InputError
from instruct_distill.evaluation.evaluate import task_result
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.ranker import Timing
from instruct_distill.evaluation.summary import summary, write_summary
from instruct_distill.files import write_json
from instruct_distill.records import Document, Qrels, Query, Run, ScoredDocument
from instruct_distill.report.facts import read_run_facts
from instruct_distill.report.page import write_report
from instruct_distill.trec import write_qrels, write_run

QRELS: Qrels = {"q1": {"d1": 2, "d2": 0}, "q2": {"d1": 1}, "q<3>": {"d2": 1}}
SCRIPT = "<script>alert('x')</script>"
VOID = {"meta", "link", "br", "img", "input", "hr"}


def ranking(*doc_ids: str) -> list[ScoredDocument]:
    return [ScoredDocument(doc_id, float(-place)) for place, doc_id in enumerate(doc_ids)]


RUNS: dict[str, Run] = {
    "first_stage": {query_id: ranking("d2", "d1") for query_id in QRELS},
    "teacher": {"q1": ranking("d1", "d2"), "q2": ranking("d2", "d1"), "q<3>": ranking("d2", "d1")},
    "student": {query_id: ranking("d1", "d2") for query_id in QRELS},
}


def run(folder: Path, seconds: float = 1.0, weights: int = 6) -> Path:
    """A run's folder as the stages leave it."""
    parameters = EvaluationParameters(collection="files:nowhere", name="task", metrics=["nDCG@10", "P@1"])
    timings = {
        "teacher": Timing(3, 30.0 * seconds, 30.0 * seconds, 0.1),
        "student": Timing(3, seconds, seconds, 2.0),
    }
    result = task_result(parameters, QRELS, RUNS, timings, seed=1)
    found = {
        "count": 1,
        "examples": [{"test": "q1", "test_text": SCRIPT, "training": "t", "training_text": "u"}],
    }
    contamination = {
        "compared": {"training_queries": 5, "training_documents": 9, "test_queries": 3, "test_documents": 2},
        "queries": {"found": 1, "near_duplicate": found},
        "documents": {"equal": {"count": 2, "examples": []}},
        "without_found_queries": {
            "queries": 3,
            "queries_left": 2,
            "systems": {"student": {"nDCG@10": {"all": 0.8769, "left": 0.8155}}},
        },
    }
    about = {
        "contamination": {"task": contamination},
        "environment": {"python": "3.11", "versions": {"a": "1"}},
    }
    task = folder / "evaluation" / "task"
    task.mkdir(parents=True)
    write_summary(folder / "evaluation" / "summary.json", summary([result], about=about))
    write_qrels(task / "qrels.txt", QRELS)
    for system, lists in RUNS.items():
        write_run(task / f"{system}.trec", lists, system)
    write_json(
        folder / "label.done.json", {"outcome": {"lists": 7, "inconsistent": 0.25, "position_bias": None}}
    )
    write_json(folder / "train.done.json", {"outcome": {"steps": 2, "agreement": 0.5}})
    lines = [{"step": step, "loss": 1.0 / step, "seconds": 3.0} for step in (1, 2)]
    (folder / "training.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (folder / "recipe.yaml").write_text(f"name: r  # {SCRIPT}\n", encoding="utf-8")
    (folder / "student").mkdir()
    save_file({"w": np.zeros((2, weights // 2), dtype=np.float32)}, folder / "student" / "model.safetensors")
    return folder


class Texts:
    """A collection whose texts try to be markup."""

    name = "texts"

    def queries(self, split: str | None = None) -> list[Query]:
        return [Query(query_id, f"{SCRIPT} {query_id}") for query_id in QRELS]

    def fetch(self, doc_ids: object) -> dict[str, Document]:
        return {doc_id: Document(doc_id, f"<img src=x onerror=alert({doc_id})>") for doc_id in ("d1", "d2")}


class Page(HTMLParser):
    """Tags in their order; what a page would fetch or run; its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "iframe")
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not (value or "").startswith(("#", "data:")):
                self.fetched.append(value or "")
            assert not name.startswith("on")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open = self.open[:-1] if tag not in VOID else self.open

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def read(file: Path) -> Page:
    page = Page(file.read_text(encoding="utf-8"))
    assert not page.open
    page.text = re.sub(r"\s+", " ", page.text)
    return page


def test_the_page_is_whole_and_fetches_nothing(tmp_path: Path) -> None:
    folder = run(tmp_path / "r")
    written = write_report([folder], texts=lambda found, task: Texts())  # type: ignore[arg-type,return-value]
    assert written == folder / "report.html"
    page = read(written)
    assert page.fetched == []
    # two of three queries have the only relevant document first, the third has it second
    assert f"student {(2 + 1 / np.log2(3)) / 3:.4f} 0.6667" in page.text
    assert "Lost most" in page.text
    assert "Gained most" in page.text
    assert SCRIPT in page.text  # as text: a tag of that name would have been refused
    assert "<img src=x onerror=alert(d1)>" in page.text
    assert "inconsistent" in page.text
    assert "near duplicate 1" in page.text
    assert "python" in page.text


def test_the_same_files_make_the_same_page(tmp_path: Path) -> None:
    folder = run(tmp_path / "r")
    first = write_report([folder]).read_bytes()
    assert write_report([folder]).read_bytes() == first


def test_times_are_relative_to_the_reference(tmp_path: Path) -> None:
    folder = run(tmp_path / "r")
    assert "relative to student" in read(write_report([folder])).text
    assert "relative to teacher" in read(write_report([folder], reference="teacher")).text
    with pytest.raises(InputError, match="no system 'x' was timed; reference is one of teacher, student"):
        write_report([folder], reference="x")


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    folders = [run(tmp_path / "small", 1.0, weights=4), run(tmp_path / "large", 2.0, weights=40)]
    page = read(write_report(folders, tmp_path / "both.html"))
    assert "small: student" in page.text
    assert "large: student" in page.text
    assert page.text.count("small: first_stage") == page.text.count("small: teacher") - 1  # it is not timed
    assert "large: first_stage" not in page.text  # the same lists
    assert "against the number of weights" in page.text
    with pytest.raises(InputError, match="2 runs were given; name the file"):
        write_report(folders)
    with pytest.raises(InputError, match="have one name"):
        write_report([folders[0], folders[0]], tmp_path / "x.html")


def test_weights_are_counted_in_the_files(tmp_path: Path) -> None:
    assert read_run_facts(run(tmp_path / "r", weights=40)).parameters == 40


def test_a_folder_without_an_evaluation(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no summary\.json"):
        write_report([tmp_path])
    folder = run(tmp_path / "r")
    (folder / "evaluation" / "task" / "qrels.txt").unlink()
    with pytest.raises(InputError, match="needs the judgements of the task"):
        write_report([folder])

"""The study of sampled pairs, in a size that shows that it measures what it says."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from instruct_distill.labels import header_line, to_line
from instruct_distill.records import ListLabel, Qrels

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "benchmarks" / "sampled_pairs.py"
IDS = tuple(f"d{i}" for i in range(12))
LABEL = ListLabel("7", IDS, tuple(float(-i) for i in range(12)))
QRELS: Qrels = {"7": {"d3": 3, "d5": 2, "d0": 1, "d1": 0}}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sampled_pairs_study", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_differences_of_scores_order_all_documents_right(script: ModuleType) -> None:
    margins = script.by_scores(LABEL, 1)
    assert margins[0, 1] == 1.0
    assert margins[4, 1] == -3.0
    every = script.asked(margins, "7", 1.0, soft=False, seed=1)
    assert np.argsort(every.scores)[::-1].tolist() == list(range(12))


def test_the_judge_knows_the_grades_and_errs_at_the_rate_asked_for(script: ModuleType) -> None:
    right = script.judge(QRELS, 0.0)(LABEL, 1)
    assert (right + right.T == 0).all()  # of one mind in both orders
    assert np.argsort(right.sum(axis=1))[::-1][:3].tolist() == [3, 5, 0]
    wrong = script.judge(QRELS, 0.3)(LABEL, 1)
    assert (np.abs(wrong) == np.abs(right)).all()
    off_diagonal = ~np.eye(12, dtype=bool)
    assert 0.15 < np.mean(np.sign(wrong) != np.sign(right), where=off_diagonal) < 0.45
    assert (wrong != script.judge(QRELS, 0.3)(LABEL, 2)).any()


def test_figures_of_all_pairs_are_those_of_the_judge(script: ModuleType) -> None:
    found = script.study([LABEL], QRELS, script.judge(QRELS, 0.0), depth=12, soft=False, seeds=2)
    assert list(found) == [0.1, 0.25, 0.5, 0.75, 1.0]
    assert found[1.0] == (1.0, 0.0, 1.0, 0.0)
    assert found[0.1].tau < found[0.5].tau < 1.0
    # the documents 3 and 5 lie outside of a list of three
    assert script.study([LABEL], QRELS, script.by_scores, depth=3, soft=True, seeds=1)[1.0].gain < 0.5


def test_the_whole_of_it(
    script: ModuleType,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))
    scores = tmp_path / "scores.jsonl"
    lists = [ListLabel(query_id, IDS, LABEL.scores) for query_id in ("264014", "104861")]
    scores.write_text(header_line({"teacher": "t"}) + "".join(map(to_line, lists)), "utf-8")
    page = tmp_path / "sampled-pairs.md"
    page.write_text("before\n<!-- tables -->\nold\n<!-- end of tables -->\nafter\n", "utf-8")
    script.main(["--scores", str(scores), "--seeds", "1", "--depths", "4", "12", "--out", str(tmp_path)])
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| 12 | 30% wrong |") for line in printed) == 4  # two rules, two tables
    assert "\n".join(printed[:3]) in page.read_text("utf-8")
    assert page.read_text("utf-8").startswith("before\n")
    assert page.read_text("utf-8").endswith("\n<!-- end of tables -->\nafter\n")
    assert "old" not in page.read_text("utf-8")
    written = json.loads((tmp_path / "sampled-pairs.json").read_text("utf-8"))
    assert (written["lists"], len(written["figures"])) == (2, 2 * 5 * 2 * 5)
    assert written["command"].startswith("python scripts/benchmarks/sampled_pairs.py")
    assert "n = 12" in (tmp_path / "sampled-pairs.svg").read_text("utf-8")

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.evaluation.ranker import Timing
from instruct_distill.evaluation.results import evaluate_run, recall_ceiling
from instruct_distill.evaluation.summary import check_expected, summary, write_summary
from instruct_distill.evaluation.task import TaskResult, compare_systems
from instruct_distill.records import Qrels, Run, ScoredDocument
from instruct_distill.version import __version__

QRELS: Qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 0}, "q4": {"a": 2}}


def run(*lists: str) -> Run:
    return {f"q{i}": [ScoredDocument(d, -j) for j, d in enumerate(text)] for i, text in enumerate(lists, 1)}


def result(name: str = "dl19", seconds: float = 0.25) -> TaskResult:
    runs = {"first_stage": run("xa", "xa"), "student": run("ax", "ax")}
    evaluations = {system: evaluate_run(QRELS, given, ["RR@10"]) for system, given in runs.items()}
    return TaskResult(
        name=name,
        evaluations=evaluations,
        ceiling=recall_ceiling(QRELS, runs["first_stage"], ["RR@10"]),
        timings={"student": Timing(queries=2, median=seconds, mean=seconds, documents_per_second=8.0)},
        differences=compare_systems(evaluations, seed=1),
    )


def test_summary() -> None:
    content = summary([result()], about={"contamination": {"dl19": 0}})
    third = pytest.approx(1 / 3)
    assert content == {
        "dl19": {"first_stage": {"RR@10": third}, "student": {"RR@10": pytest.approx(2 / 3)}},
        "_meta": {
            "library_version": __version__,
            "tasks": {
                "dl19": {
                    "queries": 3,
                    "queries_with_only_zero_grades": 1,
                    "queries_without_candidates": 1,
                    "queries_without_judgements": 0,
                    "all_judged": False,
                    "relevance_level": 1,
                    "recall_ceiling": {"RR@10": pytest.approx(2 / 3)},
                    "judged_at_10": {"first_stage": 0.5, "student": 0.5},
                    "ties": {"first_stage": 0, "student": 0},
                    "significance": {
                        "student": {"first_stage": {"RR@10": {"difference": third, "low": 0.0, "high": 0.5}}}
                    },
                }
            },
            "seconds_per_query": {
                "dl19": {
                    "student": {
                        "queries": 2,
                        "median": 0.25,
                        "mean": 0.25,
                        "documents_per_second": 8.0,
                        "process_peak_bytes": 0,
                        "device_peak_bytes": 0,
                    }
                }
            },
            "contamination": {"dl19": 0},
        },
    }


def test_everything_but_the_times_is_the_same_for_the_same_runs(tmp_path: Path) -> None:
    contents = []
    for seconds in (0.25, 0.5):
        path = tmp_path / f"{seconds}" / "summary.json"
        write_summary(path, summary([result("a", seconds), result("b", seconds)]))
        contents.append(json.loads(path.read_text(encoding="utf-8")))
    assert contents[0] != contents[1]
    assert [content["_meta"].pop("seconds_per_query") for content in contents]
    assert json.dumps(contents[0]) == json.dumps(contents[1])


def test_an_unknown_interval_can_be_written(tmp_path: Path) -> None:
    found = evaluate_run({"q1": {"a": 1}}, run("a"), ["AP"])
    alone = dataclasses.replace(
        result(),
        evaluations={"first_stage": found, "student": found},
        differences=compare_systems({"first_stage": found, "student": found}, seed=1),
    )
    write_summary(tmp_path / "summary.json", summary([alone]))
    content = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert content["_meta"]["tasks"]["dl19"]["significance"]["student"]["first_stage"] == {
        "AP": {"difference": 0.0, "low": None, "high": None}
    }


def test_names_that_cannot_stand_in_the_file() -> None:
    with pytest.raises(InputError, match="2 tasks are called 'dl19'"):
        summary([result(), result()])
    with pytest.raises(InputError, match="cannot be called '_meta'"):
        summary([result("_meta")])
    with pytest.raises(InputError, match="tasks are written by the summary itself"):
        summary([result()], about={"tasks": 1})


FOUND = {"student": {"nDCG@10": 0.698, "nDCG@1": 0.7}, "first_stage": {"nDCG@10": 0.5058}}


def test_expected_figures_within_the_tolerance_pass() -> None:
    assert check_expected(FOUND, {}, 0.01) == []
    assert check_expected(FOUND, {"student": {"nDCG@10": 0.70}, "first_stage": {"nDCG@10": 0.5}}, 0.01) == []
    assert check_expected({"student": {"AP": 0.69}}, {"student": {"AP": 0.70}}, 0.01) == []
    assert check_expected({"student": {"AP": 0.5}}, {"student": {"AP": 0.5}}, 0.0) == []


def test_expected_figures_that_are_missed_on_either_side_are_all_listed() -> None:
    expected = {
        "student": {"nDCG@10": 0.709, "nDCG@1": 0.689, "AP": 0.3},
        "teacher": {"nDCG@10": 0.7},
    }
    assert check_expected(FOUND, expected, 0.01) == [
        "student nDCG@10: expected 0.7090 within 0.01, found 0.6980 (-0.0110)",
        "student nDCG@1: expected 0.6890 within 0.01, found 0.7000 (+0.0110)",
        "student AP: expected 0.3000, but it was not evaluated",
        "teacher nDCG@10: expected 0.7000, but it was not evaluated",
    ]


def test_a_figure_that_is_not_a_number_fails() -> None:
    assert len(check_expected({"student": {"AP": float("nan")}}, {"student": {"AP": 0.5}}, 1.0)) == 1

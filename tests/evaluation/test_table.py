from __future__ import annotations

import dataclasses

from instruct_distill.evaluation.ranker import Timing
from instruct_distill.evaluation.results import evaluate_run, recall_ceiling
from instruct_distill.evaluation.summary import summary
from instruct_distill.evaluation.table import task_table
from instruct_distill.evaluation.task import TaskResult, compare_systems
from instruct_distill.records import Qrels, Run, ScoredDocument

QRELS: Qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 0}}


def run(*lists: str) -> Run:
    return {f"q{i}": [ScoredDocument(d, -j) for j, d in enumerate(text)] for i, text in enumerate(lists, 1)}


def result(metrics: list[str], **runs: Run) -> TaskResult:
    evaluations = {system: evaluate_run(QRELS, given, metrics) for system, given in runs.items()}
    return TaskResult(
        name="dl19",
        evaluations=evaluations,
        ceiling=recall_ceiling(QRELS, next(iter(runs.values())), metrics),
        timings={
            "student": Timing(
                queries=2, median=0.25, mean=0.5, documents_per_second=8.0, process_peak_bytes=3 * 2**29
            )
        },
        differences=compare_systems(evaluations, seed=1),
    )


def test_table() -> None:
    table = task_table(
        result(
            ["nDCG@1", "nDCG@10"],
            first_stage=run("xa", "xa"),
            zero_shot=run("ax", "xa"),
            student=run("ax", "ax"),
        )
    )
    assert (
        table
        == """\
dl19

system       nDCG@1  nDCG@10  queries  judged@10  s/query  docs/s  ties
-----------------------------------------------------------------------
first_stage  0.0000   0.6309        2      50.0%        -       -     0
zero_shot    0.5000   0.8155        2      50.0%        -       -     0
student      1.0000   1.0000        2      50.0%    0.250     8.0     0
ceiling      1.0000   1.0000        2          -        -       -     -

difference                                   nDCG@1                     nDCG@10
-------------------------------------------------------------------------------
zero_shot - first_stage  +0.5000 [+0.0000, +1.0000]  +0.1845 [+0.0000, +0.3691]
student - first_stage    +1.0000 [+1.0000, +1.0000]  +0.3691 [+0.3691, +0.3691]
student - zero_shot      +0.5000 [+0.0000, +1.0000]  +0.1845 [+0.0000, +0.3691]

ceiling: the best that any order of the candidates can reach
judged@10: share of the documents at the top 10 places that have a judgement
in brackets: paired 95% bootstrap interval over queries
peak memory of the whole process since its start: 1.50 GiB
judged queries without a grade above 0: 1 (not counted)"""
    )


def test_notes_say_what_was_left_out_or_counted_as_0() -> None:
    table = task_table(result(["AP"], first_stage=run("xy") | {"q9": [ScoredDocument("a", 1.0)]}))
    assert table.splitlines()[-6:] == [
        "relevant, for metrics other than nDCG: grade 1 or more",
        "peak memory of the whole process since its start: 1.50 GiB",
        "judged queries without a grade above 0: 1 (not counted)",
        "first_stage: queries without documents: 1 (counted as 0)",
        "first_stage: queries without judgements: 1 (left out)",
        "first_stage: no document is judged; do the document ids belong to these qrels?",
    ]
    assert "difference" not in table


def test_recommendations_stand_beside_a_random_order_and_say_what_popularity_is() -> None:
    pools = result(["Success@1"], first_stage=run("xa", "xa"), student=run("ax", "ax"))
    about = dataclasses.replace(pools, random_order={"Success@1": 0.1}, notes=("popularity: sales",))
    lines = task_table(about).splitlines()
    assert lines[6].split() == ["random", "order", "0.1000", "2", "-", "-", "-", "-"]
    assert lines[7].startswith("ceiling ")
    assert "popularity: sales" in lines
    assert "random order: the mean over all orders, in closed form" in lines
    (found,) = summary([about])["_meta"]["tasks"].values()
    assert found["random_order"] == {"Success@1": 0.1}
    assert found["notes"] == ["popularity: sales"]
    assert not {"random_order", "notes"} & summary([pools])["_meta"]["tasks"]["dl19"].keys()

"""Time of an evaluation's figures: this library beside ir_measures, 100 tasks' worth of runs, in one run.

    python scripts/benchmarks/evaluation.py

Each task has 50 queries with 100 documents each, drawn by a seed, of which one in ten is judged, with grades
from 0 to 3; asked are nDCG@1, nDCG@5, nDCG@10, AP and RR of every query. Each system is given the shape of
qrels and runs that it is used with. First the values are compared: they must be the same to 1e-9. Then the
two take turns; medians count. One JSON line is appended to ``docs/benchmarks/evaluation.jsonl``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import ir_measures
from measuring import Timed, append, line_of, parser, seconds_of, table, take_turns, timed

from instruct_distill.errors import InputError
from instruct_distill.evaluation.measures import per_query
from instruct_distill.records import Qrels, Run, ScoredDocument

METRICS = ("nDCG@1", "nDCG@5", "nDCG@10", "AP", "RR")
OURS, PEER = "instruct_distill", "ir_measures"
CLOSE = 1e-9

Task = tuple[Qrels, Run]
Values = list[dict[tuple[str, str], float]]


def made_tasks(tasks: int, queries: int, documents: int) -> list[Task]:
    """Draw tasks: every query has a relevant document, and scores without ties."""
    draw = random.Random(13)
    found: list[Task] = []
    for _ in range(tasks):
        qrels: Qrels = {}
        run: Run = {}
        for query in range(queries):
            ids = [f"d{number}" for number in draw.sample(range(10 * documents), documents)]
            run[f"q{query}"] = [ScoredDocument(each, float(-place)) for place, each in enumerate(ids)]
            judged = {each: draw.randint(0, 3) for each in draw.sample(ids, max(documents // 10, 1))}
            qrels[f"q{query}"] = {**judged, draw.choice(ids): 1, "not-found": 2}
        found.append((qrels, run))
    return found


def with_library(tasks: Sequence[Task]) -> Timed:
    """Every value, as the stage ``evaluate`` asks for it."""
    done = timed(lambda: [per_query(qrels, run, METRICS) for qrels, run in tasks])
    values: Values = [
        {(query, metric): value for query, each in task.items() for metric, value in each.items()}
        for task in done.answers
    ]
    return done._replace(answers=values)


def with_ir_measures(tasks: Sequence[tuple[Any, Any]]) -> Timed:
    """Every value, from dicts of dicts."""
    metrics = [ir_measures.parse_measure(name) for name in METRICS]
    done = timed(lambda: [list(ir_measures.iter_calc(metrics, qrels, run)) for qrels, run in tasks])
    values: Values = [
        {(found.query_id, str(found.measure)): found.value for found in task} for task in done.answers
    ]
    return done._replace(answers=values)


def check_values(ours: Values, theirs: Values) -> float:
    """Return the largest difference.

    Raises:
        InputError: a value is not the same, or one has a value that the other has not.
    """
    largest = 0.0
    for one, other in zip(ours, theirs, strict=True):
        if one.keys() != other.keys():
            raise InputError(f"not the same queries and metrics: {list(one.keys() ^ other.keys())[:3]}")
        for key, value in one.items():
            largest = max(largest, abs(value - other[key]))
            if not abs(value - other[key]) < CLOSE:
                raise InputError(f"{key[1]} of query {key[0]} is {value} here and {other[key]} there")
    return largest


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the line."""
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=100)
    chosen = made.parse_args(arguments)
    number, queries, documents, rounds = (
        (2, 3, 20, 1) if chosen.smoke else (chosen.tasks, 50, 100, chosen.rounds)
    )
    tasks = made_tasks(number, queries, documents)
    as_dicts = [(qrels, {query: dict(each) for query, each in run.items()}) for qrels, run in tasks]
    try:
        largest = check_values(with_library(tasks).answers, with_ir_measures(as_dicts).answers)
    except InputError as error:
        made.error(str(error))
    turns = take_turns({OURS: lambda: with_library(tasks), PEER: lambda: with_ir_measures(as_dicts)}, rounds)
    middle = {system: seconds_of(each) for system, each in turns.items()}
    line = line_of(
        "evaluation",
        "evaluation.py",
        ["--tasks", str(number), "--rounds", str(rounds)],
        smoke=chosen.smoke,
        tasks=number,
        queries=queries,
        documents=documents,
        metrics=METRICS,
        largest_difference=largest,
        results={
            system: {
                "seconds": [round(done.seconds, 4) for done, _ in each],
                "busy_seconds": [round(done.busy, 4) for done, _ in each],
                "tasks_per_second": round(number / middle[system], 2),
            }
            for system, each in turns.items()
        },
        speedup=round(middle[PEER] / middle[OURS], 3),
    )
    append(line, chosen.out, "evaluation.jsonl")
    print(
        table(["system", "s", "tasks/s"], [[s, f"{m:.3f}", f"{number / m:.1f}"] for s, m in middle.items()])
    )
    print(f"{line['speedup']} times as fast as ir_measures; the same values to {largest:.1g}")


if __name__ == "__main__":
    main()

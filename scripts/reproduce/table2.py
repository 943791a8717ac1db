"""Table 2 of arXiv 2311.01555: TREC DL 2019 and 2020, BM25's top 100 reranked.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/reproduce/table2.py --rows relevance_generation-base

Paper, ours and their difference side by side. Nothing is asked of a model unless its row is named by --rows:

    bm25, rankgpt-gpt-3.5-turbo   evaluated from the lists and the published run in the data, always
    monot5-*, relevance_generation-*, allpairs-*   need the model, from the hub or in the folder --models
    distilled-*                   read from runs/msmarco-flan-t5-SIZE, the finished run of that recipe
    cohere, rankgpt-gpt-4         quoted

Each row's rankings go to --output, a query at a time; stopped and started again, it goes on. The figures are
also written to table2.json there, which figure1.py and figure2.py read.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cells import Cell, cells_table, percent, summary_of
from published import METRICS, QUERIES, TABLE_2, Row

from instruct_distill.errors import InputError
from instruct_distill.evaluation.evaluate import side_by_side, task_result
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.ranker import Ranker
from instruct_distill.evaluation.summary import summary, write_summary
from instruct_distill.evaluation.task_data import task_queries
from instruct_distill.evaluation.task_names import task_sections
from instruct_distill.files import write_json
from instruct_distill.trec import read_run

ROOT = Path(__file__).resolve().parents[2]
LABELLED_PROMPTS = 10_000 * 10 * 9
"""What a distilled row asks its teacher: 10,000 queries, ten candidates, every ordered pair."""


def tasks(data: Path, depth: int) -> list[EvaluationParameters]:
    """The two tasks on the lists in the data."""
    return task_sections(
        [
            f"{name}=rankgpt:{data}/trec-dl/candidates/{name}.bm25.json,"
            f"qrels={data}/trec-dl/qrels.{name}-passage.txt"
            for name in QUERIES
        ],
        depth=depth,
        metrics=METRICS,
    )


def ranker_of(row: Row, models: str) -> Ranker:
    """The model of a row, asked as its method says."""
    from instruct_distill.pipeline.teacher import load_teacher
    from instruct_distill.reranker import Reranker
    from instruct_distill.teachers.parameters import TeacherParameters
    from instruct_distill.teachers.ranker import StrategyRanker
    from instruct_distill.teachers.strategy import Context

    name = place_of(row, models)
    if row.method == "supervised":
        return Reranker.from_pretrained(name)
    prompt = "pointwise-passage" if row.method == "relevance_generation" else "pairwise-passage"
    teacher = load_teacher(
        TeacherParameters(model=name, strategy=row.method, prompt=prompt),
        Context(qrels=lambda: None, query_ids=list),
    )
    return StrategyRanker(teacher.strategy, teacher.engine)


def place_of(row: Row, models: str) -> str:
    """Where a row's model is looked for."""
    return row.model if models == "hub" else str(Path(models) / row.model.rpartition("/")[2])


def measured(row: Row, sections: Sequence[EvaluationParameters], models: str, output: Path) -> dict[str, Any]:
    """Rank both tasks with a row's model, and return the summary."""
    ranker = ranker_of(row, models)
    results = [side_by_side({"reranker": ranker}, each, folder=output / row.key) for each in sections]
    content = summary(results)
    write_summary(output / row.key / "summary.json", content)
    return content


def published_run(name: str, sections: Sequence[EvaluationParameters], data: Path) -> dict[str, Any]:
    """Evaluate the lists as given, or a published run of them."""
    results = []
    for section in sections:
        task = task_queries(section, seed=13)
        given = task.candidates(section)
        run = given if name == "bm25" else read_run(data / "trec-dl" / "runs" / f"{section.task}.{name}.run")
        results.append(task_result(section, task.qrels, {"first_stage": given, "reranker": run}, {}, seed=13))
    return summary(results)


def needs(row: Row) -> str:
    """What a row that was not run needs."""
    queries = sum(QUERIES.values())
    if row.method == "quoted":
        return "quoted from the paper"
    if row.method == "distilled":
        teacher = next(r for r in TABLE_2 if r.method == "allpairs" and r.model == row.model)
        assert teacher.seconds is not None
        hours = LABELLED_PROMPTS / (100 * 99) * teacher.seconds / 3600
        return (
            f"recipes/{recipe_of(row)}.yaml: {row.model}, {LABELLED_PROMPTS:,} prompts to label, about "
            f"{hours:.1f} GPU hours at the paper's speed ('plan --calibrate' says what they are on yours)"
        )
    assert row.seconds is not None
    prompts = queries * (100 * 99 if row.method == "allpairs" else 100)
    return (
        f"--rows {row.key}: {row.model}, {prompts:,} prompts, about {queries * row.seconds / 3600:.2g} "
        "GPU hours at the paper's speed"
    )


def recipe_of(row: Row) -> str:
    """The recipe of a distilled row."""
    return f"msmarco-{row.model.rpartition('/')[2]}"


def cells_of(row: Row, found: Mapping[str, Any] | None, system: str, about: str) -> list[Cell]:
    """The six figures of a row."""
    cells = []
    for task, paper in (("dl19", row.dl19), ("dl20", row.dl20)):
        ours = percent(found[task][system], METRICS) if found else {}
        cells += [
            Cell(row.key, f"{task} {metric}", figure, ours.get(metric), about)
            for metric, figure in zip(METRICS, paper, strict=True)
        ]
    return cells


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run what was asked for, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="hub", help="a folder with the models' folders; 'hub' downloads")
    parser.add_argument("--rows", default="", help="rows whose model is asked, separated by commas")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="where finished runs are")
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "table2")
    parser.add_argument("--depth", type=int, default=100, help="candidates of a query that are reranked")
    chosen = parser.parse_args(arguments)
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl")
    rows = {row.key: row for row in TABLE_2}
    asked = [name.strip() for name in chosen.rows.split(",") if name.strip()]
    unknown = [
        name for name in asked if name not in rows or rows[name].method in ("quoted", "bm25", "distilled")
    ]
    if unknown:
        parser.error(f"--rows {', '.join(unknown)}: no row that asks a model")
    data = Path(folder)
    cells: list[Cell] = []
    kept: dict[str, Any] = {}
    try:
        sections = tasks(data, chosen.depth)
        for row in TABLE_2:
            system, about, found = "reranker", "", None
            if row.key in ("bm25", "rankgpt-gpt-3.5-turbo"):
                found = published_run(row.key, sections, data)
                about = "the lists as given" if row.key == "bm25" else "a published run of the same lists"
            elif row.method == "distilled":
                run = chosen.runs / recipe_of(row)
                found, system = summary_of(run), "student"
                about = str(run)
            elif row.key in asked:
                found = measured(row, sections, chosen.models, chosen.output)
                about = f"{place_of(row, chosen.models)}, depth {chosen.depth}"
            cells += cells_of(row, found, system, about if found else needs(row))
            if found:
                kept[row.key] = {
                    task: {
                        **percent(found[task][system], METRICS),
                        "seconds": found["_meta"]["seconds_per_query"]
                        .get(task, {})
                        .get(system, {})
                        .get("median"),
                    }
                    for task in QUERIES
                }
    except InputError as error:
        parser.error(str(error))
    write_json(chosen.output / "table2.json", kept)
    print(cells_table(cells))
    print(f"\nwritten: {chosen.output / 'table2.json'}")


if __name__ == "__main__":
    main()

"""``evaluate``, ``tasks`` and ``compare``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from instruct_distill.errors import InputError

if TYPE_CHECKING:
    from instruct_distill.evaluation.ranker import Ranker
    from instruct_distill.prompts.prompt import Prompt

app = typer.Typer()


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="A student's folder or hub id; any model with a prompt.")],
    tasks: Annotated[
        list[str],
        typer.Argument(
            metavar="TASK...",
            help="A known task or suite (see `tasks`), or a collection with judgements, such as beir:FOLDER.",
        ),
    ],
    depth: Annotated[int, typer.Option("--depth", help="Candidates of each query.")] = 100,
    metrics: Annotated[
        str | None, typer.Option("--metrics", help="Separated by commas; the task's own if left out.")
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            "--prompts",
            help="Prompts by name or YAML file, separated by commas: how the model is asked. With two or "
            "more, what the wording changes.",
        ),
    ] = None,
    document_words: Annotated[
        int | None,
        typer.Option("--document-words", help="With --prompts: words of a document that are shown at most."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option("--strategy", help="Rank as a teacher does: allpairs, heapsort, query_generation, ..."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", metavar="FOLDER", help="Write runs and summary.json; started again, it goes on."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="LABELS",
            help="A label file: print the agreement with the teacher, on the one collection that it labels.",
        ),
    ] = None,
) -> None:
    """Rerank the candidates of tasks and print nDCG beside the first stage's."""
    from instruct_distill.evaluation.evaluate import RERANKER, side_by_side
    from instruct_distill.evaluation.prompt_sensitivity import PromptSensitivity
    from instruct_distill.evaluation.several import with_means
    from instruct_distill.evaluation.summary import summary, write_summary
    from instruct_distill.evaluation.table import task_table
    from instruct_distill.evaluation.task_names import task_sections

    if against is not None:
        typer.echo(_agreement(model, tasks, against))
        return
    chosen = [metric.strip() for metric in metrics.split(",")] if metrics else None
    sections = task_sections(tasks, depth=depth, metrics=chosen)
    wordings = _prompts(prompts)
    rankers = (
        _teachers(model, strategy, wordings, document_words)
        if strategy
        else _rerankers(model, wordings, document_words)
    )
    results = []
    for section in sections:
        results.append(
            side_by_side(
                rankers if len(rankers) > 1 else {RERANKER: next(iter(rankers.values()))},
                section,
                folder=output,
            )
        )
        typer.echo(task_table(results[-1]) + "\n")
        if len(rankers) > 1:
            typer.echo(PromptSensitivity(results[-1], tuple(rankers)).table() + "\n")
    for name, ranker in rankers.items():
        if (asked := getattr(ranker, "prompts_a_query", None)) is not None:
            typer.echo(f"{name}: {asked:.1f} prompts a query")
    typer.echo(with_means(results).table())
    if output is not None:
        write_summary(os.path.join(output, "summary.json"), summary(results))


@app.command()
def tasks() -> None:
    """List the known tasks with their counts, and the suites."""
    from instruct_distill.evaluation.tasks import tasks_table

    typer.echo(tasks_table())


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN ...", help="TREC run files, the baseline first; rankgpt:FILE for its own lists."
        ),
    ],
    qrels: Annotated[str, typer.Option("--qrels", help="The judgements.")],
    metrics: Annotated[
        str, typer.Option("--metrics", help="Separated by commas; the first chooses the queries shown.")
    ] = "nDCG@10",
    collection: Annotated[
        str | None, typer.Option("--collection", help="Where the texts come from, such as beir:FOLDER.")
    ] = None,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Every two runs, instead of each with the first.")
    ] = False,
    relevance_level: Annotated[
        int, typer.Option("--relevance-level", help="Lowest relevant grade, for metrics other than nDCG.")
    ] = 1,
    all_judged: Annotated[
        bool, typer.Option("--all-judged", help="Count judged queries without a grade above 0, as 0.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="For randomisation and intervals.")] = 13,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with whole texts.")] = False,
) -> None:
    """Test whether runs differ, and show the queries that make the difference."""
    import json

    from instruct_distill.evaluation.compare import compare as compare_runs
    from instruct_distill.evaluation.compare import read_runs
    from instruct_distill.evaluation.compare_table import compare_table
    from instruct_distill.sources import open_collection
    from instruct_distill.sources.qrels import read_qrels

    found = compare_runs(
        read_runs(runs),
        read_qrels(qrels),
        metrics=[metric.strip() for metric in metrics.split(",")],
        collection=open_collection(collection) if collection else None,
        all_pairs=all_pairs,
        relevance_level=relevance_level,
        all_judged=all_judged,
        seed=seed,
    )
    typer.echo(json.dumps(found.as_dict(), ensure_ascii=False, indent=2) if as_json else compare_table(found))


def _agreement(model: str, collections: Sequence[str], labels: str) -> str:
    """Return the agreement of a model with a label file."""
    from instruct_distill.evaluation.agreement import agreement_table, agreement_with_teacher
    from instruct_distill.labels import read_header, read_labels
    from instruct_distill.reranker import Reranker
    from instruct_distill.sources import open_collection
    from instruct_distill.student_folder import read_record

    if len(collections) != 1:
        raise InputError(f"--against takes one collection, the one that {labels} labels")
    found = list(read_labels(labels))
    collection = open_collection(collections[0])
    queries = {query.query_id: query for query in collection.queries()}
    documents = collection.fetch(dict.fromkeys(doc_id for label in found for doc_id in label.doc_ids))
    ranker = Reranker.from_pretrained(model)
    notes = []
    if os.path.isdir(model) and read_record(model).training.get("teacher") == read_header(labels):
        notes.append("these are the labels that the student was trained on; held-back queries say more")
    return agreement_table(agreement_with_teacher(ranker, found, queries, documents), notes)


def _prompts(given: str | None) -> list[Prompt]:
    """The prompts of ``--prompts``."""
    from instruct_distill.prompts.named import read_prompt

    names = [name.strip() for name in given.split(",")] if given else []
    found = [read_prompt(name) for name in names]
    if len({prompt.name for prompt in found}) < len(found):
        raise InputError(f"--prompts {given}: two prompts have one name")
    return found


def _rerankers(model: str, prompts: Sequence[Prompt], document_words: int | None) -> dict[str, Ranker]:
    """The model in its own wording, or in each of the given ones."""
    from instruct_distill.reranker import Reranker
    from instruct_distill.student_folder import RECORD

    if not prompts:
        return {model: Reranker.from_pretrained(model, document_words=document_words)}
    known = os.path.exists(os.path.join(model, RECORD))
    loaded = Reranker.from_pretrained(
        model, prompt=None if known else prompts[0], document_words=document_words
    )
    return {prompt.name: loaded.with_prompt(prompt) for prompt in prompts}


def _teachers(
    model: str, strategy: str, prompts: Sequence[Prompt], document_words: int | None
) -> dict[str, Ranker]:
    """The model as a teacher, in the strategy's own wording or in each of the given ones."""
    from instruct_distill.inference.local import LocalEngine
    from instruct_distill.pipeline.teacher import load_teacher
    from instruct_distill.teachers.labelling import prompt_of
    from instruct_distill.teachers.parameters import TeacherParameters
    from instruct_distill.teachers.ranker import StrategyRanker
    from instruct_distill.teachers.strategy import Context

    wordings: list[Prompt | None] = [*prompts] or [None]
    sections = [
        TeacherParameters(model=model, strategy=strategy, prompt=prompt, document_words=document_words)
        for prompt in wordings
    ]
    teacher = load_teacher(sections[0], Context(qrels=lambda: None, query_ids=list))
    assert isinstance(teacher.engine, LocalEngine)
    rankers: dict[str, Ranker] = {}
    for section in sections:
        prompt = prompt_of(section, teacher.strategy)
        assert prompt is not None
        rankers[prompt.name] = StrategyRanker(teacher.strategy, teacher.engine.with_prompt(prompt))
    return rankers

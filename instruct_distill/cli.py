"""The command ``instruct-distill``: thin; every verb is a function of the library."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Optional, TextIO

import typer

from instruct_distill import cli_labels
from instruct_distill.errors import InputError, InstructDistillError
from instruct_distill.recipe import Recipe

app = typer.Typer(
    name="instruct-distill",
    help="Distil the ranking of large language models into fast rerankers.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_labels.app)

RecipeFile = Annotated[str, typer.Argument(metavar="RECIPE", help="A YAML file.")]
Overrides = Annotated[
    Optional[list[str]],  # noqa: UP045 (typer reads it at run time on Python 3.10 too)
    typer.Argument(
        metavar="[key=value ...]", help="Keys that win over the file; redo=STAGE makes a stage again."
    ),
]
Smoke = Annotated[
    bool, typer.Option("--smoke", help="A size that shows whether it works; its figures mean nothing.")
]


def _load(recipe: str, overrides: Sequence[str] | None, smoke: bool = False) -> tuple[Recipe, str | None]:
    """Return the recipe and the stage of ``redo=STAGE``, if that was given."""
    given = list(overrides or [])
    redo = next((each.partition("=")[2] for each in given if each.startswith("redo=")), None)
    loaded = Recipe.load(recipe, [each for each in given if not each.startswith("redo=")])
    return (loaded.smaller() if smoke else loaded), redo


def _run(recipe: str, overrides: Sequence[str] | None, until: str, smoke: bool = False) -> None:
    loaded, redo = _load(recipe, overrides, smoke)
    from instruct_distill.pipeline.distill import distill
    from instruct_distill.pipeline.stage import this_process

    if this_process()[0] == 0:
        typer.echo(f"{loaded.name}: everything goes to {loaded.folder}; started again, it goes on from there")
    try:
        result = distill(loaded, until=until, redo_from=redo)
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; the same command goes on from what is in {loaded.folder}", err=True)
        raise SystemExit(130) from None
    if this_process()[0] == 0 and result.table and until == "evaluate":
        typer.echo(f"\n{result.table}\nstudent: {result.student}")


@app.command()
def run(recipe: RecipeFile, overrides: Overrides = None, smoke: Smoke = False) -> None:
    """Run every stage of a recipe, going on from what is there."""
    _run(recipe, overrides, "evaluate", smoke)


@app.command()
def retrieve(recipe: RecipeFile, overrides: Overrides = None, smoke: Smoke = False) -> None:
    """Find candidates for the training queries and the tasks."""
    _run(recipe, overrides, "retrieve", smoke)


@app.command()
def label(recipe: RecipeFile, overrides: Overrides = None, smoke: Smoke = False) -> None:
    """Let the teacher label the candidates."""
    _run(recipe, overrides, "label", smoke)


@app.command()
def train(recipe: RecipeFile, overrides: Overrides = None, smoke: Smoke = False) -> None:
    """Train the student on the labels."""
    _run(recipe, overrides, "train", smoke)


@app.command()
def validate(
    recipe: RecipeFile,
    overrides: Overrides = None,
    strict: Annotated[bool, typer.Option("--strict", help="Missing files are errors.")] = False,
) -> None:
    """Check a recipe without loading anything."""
    loaded, _ = _load(recipe, overrides)
    missing = loaded.needed_files()
    for file in missing:
        typer.echo(f"needed at run time, not there: {file}", err=strict)
    if missing and strict:
        raise SystemExit(2)
    typer.echo(f"{recipe}: valid; its run is called {loaded.name}")


@app.command()
def plan(
    recipe: RecipeFile,
    overrides: Overrides = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Load the models and measure twenty prompts on this device.")
    ] = False,
) -> None:
    """Print what a recipe will cost: prompts, tokens, disk, and with --calibrate hours."""
    loaded, _ = _load(recipe, overrides)
    from instruct_distill.pipeline.plan import plan_of

    typer.echo(plan_of(loaded, measure=calibrate))


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="A student's folder or hub id.")],
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
    from instruct_distill.evaluation.evaluate import evaluate as evaluate_ranker
    from instruct_distill.evaluation.several import with_means
    from instruct_distill.evaluation.table import task_table
    from instruct_distill.evaluation.task_names import task_sections
    from instruct_distill.reranker import Reranker

    if against is not None:
        typer.echo(_agreement(model, tasks, against))
        return
    ranker: Reranker | None = None
    chosen = [metric.strip() for metric in metrics.split(",")] if metrics else None
    results = []
    for section in task_sections(tasks, depth=depth, metrics=chosen):
        ranker = ranker or Reranker.from_pretrained(model)
        results.append(evaluate_ranker(ranker, section))
        typer.echo(task_table(results[-1]) + "\n")
    typer.echo(with_means(results).table())


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


@app.command()
def rank(
    model: Annotated[str, typer.Argument(help="A student's folder or hub id.")],
    query: Annotated[str, typer.Option("--query", help="The query.")],
    documents: Annotated[
        str, typer.Option("--documents", help="A file with one document a line; - for stdin.")
    ],
    top_k: Annotated[int | None, typer.Option("--top-k", help="How many to print; all if left out.")] = None,
) -> None:
    """Rank the lines of a file for a query: rank, score and text, tab-separated."""
    from instruct_distill.files import read_lines
    from instruct_distill.reranker import Reranker

    texts = [line for _, line in read_lines("/dev/stdin" if documents == "-" else documents)]
    for item in Reranker.from_pretrained(model).rank(query, texts, top_k=top_k):
        typer.echo(f"{item.rank}\t{item.score:.4f}\t{item.text}")


@app.command()
def publish(
    student: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or a student's.")],
    to: Annotated[str, typer.Option("--to", metavar="ORG/NAME", help="The repository on the hub.")],
    public: Annotated[bool, typer.Option("--public", help="A repository that everybody can see.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the files that would be sent, and send nothing.")
    ] = False,
    base_model: Annotated[
        str | None,
        typer.Option("--base-model", help="Hub id of the base model, if the student's is a local folder."),
    ] = None,
    license: Annotated[
        str | None, typer.Option("--license", help="Its licence, as the hub calls it: apache-2.0, mit, ...")
    ] = None,
) -> None:
    """Put a student with its model card on the Hugging Face hub, private unless told otherwise."""
    from instruct_distill.hub import publish as publish_student

    found = publish_student(
        student, to, private=not public, dry_run=dry_run, base_model=base_model, license=license
    )
    for name, size in found.files.items():
        typer.echo(f"{size:>14,}  {name}")
    if found.url is None:
        typer.echo(
            f"dry run: nothing was sent; a new {to} would be {'private' if found.private else 'public'}, "
            "a card that is there would keep its text"
        )
    else:
        typer.echo(found.url)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is when something is said, not when the handler was made."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Only the base class sets it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; errors that a user can mend are printed without a traceback, with exit status 2."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    ours = logging.getLogger("instruct_distill")
    if not ours.handlers:
        handler = _StderrHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        ours.addHandler(handler)
        ours.propagate = False
    ours.setLevel(logging.INFO if os.environ.get("RANK", "0") == "0" else logging.WARNING)
    try:
        app(args=list(arguments) if arguments is not None else None)
    except (InstructDistillError, OSError) as error:  # OSError: no space, no right to read or write
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None

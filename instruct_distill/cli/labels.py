"""``instruct-distill labels``: look at, check, join and count label files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instruct_distill.errors import InputError

if TYPE_CHECKING:
    from instruct_distill.records import Run

app = typer.Typer(name="labels", help="Look at, check, join and count label files.", no_args_is_help=True)

LabelFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A label file, such as runs/NAME/labels.jsonl.")
]
Candidates = Annotated[
    str | None, typer.Option("--candidates", help="The TREC run whose lists were labelled.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_PROBLEMS_SHOWN = 15


@app.command()
def show(
    file: LabelFile,
    query_id: Annotated[str, typer.Argument(help="The query's id.")],
    collection: Annotated[
        str | None,
        typer.Option("--collection", help="Where the texts come from; that of recipe.yaml beside the file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a query's label: the teacher's ranking with the documents, and every margin."""
    from instruct_distill.label_files import find_label
    from instruct_distill.sources import open_collection
    from instruct_distill.teachers.label_text import label_text

    label = find_label(file, query_id)
    query, documents = None, None
    beside = file.parent / "recipe.yaml"
    try:
        chosen = collection or (_collection_of(beside) if beside.is_file() else None)
        if chosen is not None:
            opened = open_collection(chosen)
            query = next((query.text for query in opened.queries() if query.query_id == query_id), None)
            documents = opened.fetch(label.doc_ids)
    except InputError as error:
        if collection is not None:
            raise
        typer.echo(f"without texts: {error}", err=True)
    if not as_json:
        typer.echo(label_text(label, query, documents))
        return
    texts = {doc_id: document.full_text for doc_id, document in (documents or {}).items()}
    content = {**label._asdict(), "query": query, "texts": [texts.get(doc_id) for doc_id in label.doc_ids]}
    typer.echo(json.dumps(content, ensure_ascii=False))


@app.command()
def verify(file: LabelFile, candidates: Candidates = None) -> None:
    """Check every line of a label file; exit status 2 where something is wrong."""
    from instruct_distill.label_files import verify_labels

    beside = file.parent / "candidates.trec"
    if candidates is None and beside.is_file():
        candidates = str(beside)
    found = verify_labels(file, _lists(candidates))
    against = f", as in {candidates}" if candidates else "; no candidate file to compare with"
    if not found.problems:
        typer.echo(f"{file}: {found.lists:,} labels, nothing wrong{against}")
        return
    shown = found.problems[:_PROBLEMS_SHOWN]
    if len(shown) < len(found.problems):
        shown.append(f"... and {len(found.problems) - len(shown)} more")
    raise InputError(
        "\n".join([f"{file}: {found.lists} whole labels, {len(found.problems)} problems", *shown])
    )


@app.command()
def merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE ...", help="Label files or shards of one.")],
    target: Annotated[Path, typer.Option("--to", help="The file to make.")],
    candidates: Candidates = None,
) -> None:
    """Join files of different queries, or the shards of one run, that were made alike."""
    from instruct_distill.label_files import merge_labels

    count = merge_labels(files, target, _lists(candidates))
    order = f"in the order of {candidates}" if candidates else "in the order of the files"
    typer.echo(f"{target}: {count:,} labels {order}")


@app.command()
def stats(
    file: LabelFile,
    qrels: Annotated[
        str | None, typer.Option("--qrels", help="Judgements of the labelled queries, for the nDCG.")
    ] = None,
    metrics: Annotated[str, typer.Option("--metrics", help="Separated by commas.")] = "nDCG@1,nDCG@5,nDCG@10",
    as_json: AsJson = False,
) -> None:
    """Count lists, comparisons and ties; position bias; agreement with first stage and judgements."""
    from instruct_distill.labels import read_labels
    from instruct_distill.teachers.statistics import label_statistics

    found = label_statistics(read_labels(file)).as_dict()
    if qrels is not None:
        from instruct_distill.evaluation.label_quality import label_quality
        from instruct_distill.sources.qrels import read_qrels

        names = [metric.strip() for metric in metrics.split(",")]
        found["quality"] = label_quality(read_labels(file), read_qrels(qrels), names)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    quality = found.pop("quality", None)
    for name, value in found.items():
        shown = "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        typer.echo(f"{name:<22} {shown}")
    if quality is not None:
        typer.echo(f"{'judged queries':<22} {quality['queries']:,}")
        for metric in quality["teacher"]:
            typer.echo(
                f"{metric:<22} first stage {quality['first_stage'][metric]:.4f}, "
                f"teacher {quality['teacher'][metric]:.4f}"
            )


def _collection_of(recipe: Path) -> str:
    from instruct_distill.recipe import Recipe

    return Recipe.load(recipe).collection


def _lists(candidates: str | None) -> Run | None:
    if candidates is None:
        return None
    from instruct_distill.trec import read_run

    return read_run(candidates)

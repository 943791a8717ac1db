"""A student at work: ``rank`` and ``publish``."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer()


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

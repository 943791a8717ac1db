"""``report``: the page of one run or of several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from instruct_distill.report.facts import RunFacts
    from instruct_distill.sources.collection import Collection

app = typer.Typer()


@app.command()
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or of `evaluate --output`.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="The page; report.html in the folder of a single run."),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", help="The system whose time is 1; the last one that was timed if left out."
        ),
    ] = None,
) -> None:
    """Write one page with tables, plots and the queries that changed most; it needs no network."""
    from instruct_distill.report.page import write_report

    typer.echo(write_report(runs, output, reference=reference, texts=_texts))


def _texts(run: RunFacts, task: str) -> Collection | None:
    """The collection that the run's recipe names for a task, where it can still be opened."""
    import yaml

    from instruct_distill.errors import InputError
    from instruct_distill.evaluation.parameters import task_name
    from instruct_distill.sources import open_collection

    content = yaml.safe_load(run.recipe) if run.recipe else {}
    for section in content.get("evaluation", []):
        if (section.get("name") or task_name(section["collection"])) == task:
            try:
                return open_collection(section["collection"])
            except (InputError, OSError) as error:
                typer.echo(f"{task}: without texts ({error})", err=True)
    return None

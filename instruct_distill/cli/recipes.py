"""The stages of a recipe, and what it will cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from instruct_distill.recipe import Recipe

app = typer.Typer()

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
def init(
    documents: Annotated[str, typer.Option("--documents", help="Your documents, JSONL or TSV.")],
    queries: Annotated[
        str | None, typer.Option("--queries", help="Queries, JSONL or TSV; a model writes some if left out.")
    ] = None,
    output: Annotated[str, typer.Option("--output", metavar="FILE", help="The recipe.")] = "my-recipe.yaml",
    cost: Annotated[bool, typer.Option("--plan/--no-plan", help="Print what it will cost, too.")] = True,
) -> None:
    """Write a first recipe for your documents and this device, with what it will cost."""
    from instruct_distill.pipeline.first_recipe import this_device, write_first_recipe
    from instruct_distill.pipeline.plan import plan_of

    found = write_first_recipe(documents, queries, output, this_device())
    asked = f"{found.queries:,} queries" if found.queries else "no queries: a model will write some"
    typer.echo(f"{found.documents:,} documents of about {found.words:,} words, {asked}; {found.device.name}")
    if cost:
        typer.echo(plan_of(Recipe.load(output)))
    typer.echo(f"written: {found.recipe}; run it with: instruct-distill run {found.recipe}")


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


def _load(recipe: str, overrides: Sequence[str] | None, smoke: bool = False) -> tuple[Recipe, str | None]:
    """Return the recipe and the stage of ``redo=STAGE``, if that was given."""
    given = list(overrides or [])
    redo = next((each.partition("=")[2] for each in given if each.startswith("redo=")), None)
    loaded = Recipe.load(recipe, [each for each in given if not each.startswith("redo=")])
    return (loaded.smaller() if smoke else loaded), redo

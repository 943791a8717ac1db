"""``doctor``: what this machine has, and whether the installation works."""

from __future__ import annotations

import typer

from instruct_distill.errors import InputError

app = typer.Typer()


@app.command()
def doctor() -> None:
    """Print versions, devices, number formats and caches, then distil a made-up model for some seconds."""
    from instruct_distill.doctor import facts, self_test

    for name, what in facts():
        typer.echo(f"{name:<20} {what}")
    try:
        typer.echo(f"{'self-test':<20} {self_test()}")
    except Exception as error:
        raise InputError(
            f"the self-test failed: {type(error).__name__}: {error}\n"
            "reinstall into a new virtual environment; if it fails there, send the lines above with a report"
        ) from error

"""The command ``instruct-distill``: thin; every verb is a function of the library."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import TextIO

import typer

from instruct_distill.cli import doctor, evaluation, labels, recipes, reports, students
from instruct_distill.cli.utf8 import restart_in_utf8
from instruct_distill.errors import InstructDistillError

app = typer.Typer(
    name="instruct-distill",
    help="Distil the ranking of large language models into fast rerankers.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for verbs in (recipes, labels, evaluation, reports, students, doctor):
    app.add_typer(verbs.app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; errors that a user can mend are printed without a traceback, with exit status 2.

    Args:
        arguments: the command's words; those of this process if left out.
    """
    if arguments is None:
        restart_in_utf8()
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


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is when something is said, not when the handler was made."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Only the base class sets it."""

"""The errors that this library raises on purpose.

A message says what was given, what was expected and what to do. The command line prints it
without a traceback and exits with status 2.
"""

from __future__ import annotations


class InstructDistillError(Exception):
    """Base of every error that the library raises on purpose."""


class InputError(InstructDistillError, ValueError):
    """A recipe, file, model folder or argument is not usable as it is."""


class RecipeError(InputError):
    """One or more problems of a recipe; ``problems`` lists them all."""

    def __init__(self, where: str, problems: list[str]) -> None:
        self.problems = problems
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"{where}: {count}", *(f"  - {problem}" for problem in problems)]))


class StaleStageError(InputError):
    """A stage was made by another recipe than the one that is run now."""


class NonFiniteScoreError(InstructDistillError, ArithmeticError):
    """A model answered with NaN or infinity."""


class ServerError(InstructDistillError):
    """A server does not answer, or not as it should, however often it is asked."""


class MemoryShortageError(InstructDistillError, MemoryError):
    """The memory of the GPU, or of the machine, is not enough for what the recipe asks."""


class MissingExtraError(InstructDistillError, ImportError):
    """An optional package is needed and not installed.

    Args:
        package: the package that failed to import.
        extra: the extra of this library that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"the package {package!r} is not installed; install it with: "
            f"pip install 'instruct-distill[{extra}]'"
        )

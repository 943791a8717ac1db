"""Members of a part that are found by name: one module each, named as in recipes and commands."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType

from instruct_distill.errors import InputError


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the known name nearest to ``name``, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


class Registry:
    """The modules of a package, one a member, loaded when asked for.

    A new member is a new file: nothing else has to know of it.

    Args:
        package: dotted name of the package, such as ``instruct_distill.losses``.
        kind: what a member is called in messages, such as ``loss``.
        besides: modules of the package that are no members.
    """

    def __init__(self, package: str, kind: str, besides: Iterable[str] = ()) -> None:
        self.package = package
        self.kind = kind
        self._besides = frozenset(besides)

    def names(self) -> list[str]:
        """The members' names, sorted; a module ``python_docs`` is the member ``python_docs``."""
        path = importlib.import_module(self.package).__path__
        return sorted(m.name for m in pkgutil.iter_modules(path) if m.name not in self._besides)

    def check(self, name: str) -> str:
        """Return the name as it is.

        Raises:
            InputError: there is no member of that name; the message lists the names.
        """
        names = self.names()
        if name not in names:
            raise InputError(
                f"unknown {self.kind} {name!r}{nearest(name, names)} (known: {', '.join(names)})"
            )
        return name

    def load(self, name: str) -> ModuleType:
        """Import the member's module.

        Raises:
            InputError: there is no member of that name.
        """
        return importlib.import_module(f"{self.package}.{self.check(name)}")

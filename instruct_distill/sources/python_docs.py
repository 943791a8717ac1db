"""``python-docs``: known-item search in the documentation strings of Python's standard library.

The first sentence of a documentation string is the query, the rest of it the one relevant document. The
strings are read from the sources of the library that runs the program; no module is imported. It needs
no download and is therefore what the quick start trains on.
"""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import re
import sysconfig
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Qrels, Query
from instruct_distill.sources.collection import Collection

TEST_SHARE = 0.21
"""Share of the names whose hash puts them into the split ``test``."""

_SKIPPED_FOLDERS = frozenset(
    {
        "ensurepip",
        "idle_test",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
        "turtledemo",
    }
)
_QUERY_WORDS = range(4, 41)
_LEAST_BODY_WORDS = 20

# A sentence ends at a full stop before white space and the start of another sentence, "e.g. This" apart.
_SENTENCE_END = re.compile(r"(?<![ (.][a-zA-Z])(?<!\betc)(?<!\bvs)[.!?][\"')]?\s+(?=[A-Z0-9\"'(`*<\[])")
# A word of prose: "tree", "(tree)", "tree's" and "'tree'", but not "shutil.copytree" or "_tree".
_WORD = re.compile(r"(?<!\S)[^\w\s]*[A-Za-z][A-Za-z'/-]*[^\w\s]*(?!\S)")
# "name(arguments) -> value" describes a call and is no sentence.
_SIGNATURE = re.compile(r"->|^[\w.]+\(|[=<>{}|]")


class _Entry(NamedTuple):
    name: str
    query: str
    body: str

    @property
    def split(self) -> str:
        share = int(hashlib.sha256(self.name.encode()).hexdigest()[:8], 16) / 2**32
        return "test" if share < TEST_SHARE else "train"


class PythonDocsCollection(Collection):
    """The documentation strings under one folder of Python sources.

    Args:
        name: as it stands in a recipe.
        library: the folder; of the standard library where it comes from ``open_collection``.
    """

    python_version = platform.python_version()
    """The Python whose library is read; queries and documents differ a little between versions."""

    def __init__(self, name: str, library: Path) -> None:
        super().__init__(name)
        self._library = library

    def splits(self) -> tuple[str, ...]:
        """``test`` and ``train``; a hash of the qualified name decides."""
        return ("test", "train")

    @cached_property
    def _entries(self) -> list[_Entry]:
        entries = []
        seen: set[str] = set()
        for name, docstring in _docstrings(self._library):
            entry = _entry(name, docstring)
            if entry and not seen & {entry.name, entry.query.casefold(), entry.body.casefold()}:
                seen |= {entry.name, entry.query.casefold(), entry.body.casefold()}
                entries.append(entry)
        if not entries:
            raise InputError(
                f"{self.name}: no documentation strings under {self._library}; this Python was installed "
                "without the sources of its standard library"
            )
        return entries

    def _of_split(self, split: str | None) -> list[_Entry]:
        if self.check_split(split) in (None, "all"):
            return self._entries
        return [entry for entry in self._entries if entry.split == split]

    def queries(self, split: str | None = None) -> list[Query]:
        """Return first sentences, with ids such as ``q:shutil.copytree``."""
        return [Query(f"q:{entry.name}", entry.query) for entry in self._of_split(split)]

    def documents(self) -> Iterator[Document]:
        """Yield the rests of the documentation strings; id and title are the qualified name."""
        for entry in self._entries:
            yield Document(entry.name, entry.body, entry.name)

    def qrels(self, split: str | None = None) -> Qrels:
        """Return grade 1 for the document that the sentence was taken from."""
        return {f"q:{entry.name}": {entry.name: 1} for entry in self._of_split(split)}

    def fingerprint(self) -> str:
        """Return a digest of the Python version and of every text."""
        digest = hashlib.sha256(self.python_version.encode())
        for entry in self._entries:
            digest.update("\0".join(entry).encode())
        return digest.hexdigest()


def _entry(name: str, docstring: str) -> _Entry | None:
    """Cut a documentation string into query and body; None where either is too short or no prose."""
    first, *others = re.split(r"\n\s*\n", docstring.strip(), maxsplit=1)
    first = _collapse(_without_examples(first))
    end = _SENTENCE_END.search(first)
    query, remainder = (first[: end.end()].strip(), first[end.end() :]) if end else (first, "")
    body = _collapse(f"{remainder} {_without_examples(' '.join(others))}")
    words = _WORD.findall(query)
    if len(words) not in _QUERY_WORDS or len(words) < 0.6 * len(query.split()) or _SIGNATURE.search(query):
        return None
    if len(_WORD.findall(body)) < _LEAST_BODY_WORDS or query.casefold().rstrip(".") in body.casefold():
        return None
    return _Entry(name, query, body)


def _without_examples(text: str) -> str:
    """Drop interactive examples: from a line with ``>>>`` to the next blank line."""
    kept = []
    example = False
    for line in text.split("\n"):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            kept.append(line)
    return "\n".join(kept)


def _collapse(text: str) -> str:
    """Collapse white space and drop the rulers that underline headings."""
    return re.sub(r"\s+", " ", re.sub(r"([-=*~_])\1{3,}", " ", text)).strip()


def _docstrings(library: Path) -> Iterator[tuple[str, str]]:
    """Yield (qualified name, documentation string), modules in alphabetical order."""
    for module, path in sorted(_modules(library)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in old modules
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue  # not every file under the library is meant to compile
        if docstring := ast.get_docstring(tree):
            yield module, docstring
        yield from _members(module, tree.body)


def _modules(library: Path) -> Iterator[tuple[str, Path]]:
    """Yield (dotted name, file) of the public modules."""
    for folder, subfolders, files in os.walk(library):
        subfolders[:] = [name for name in subfolders if _is_public(name) and name not in _SKIPPED_FOLDERS]
        package = Path(folder).relative_to(library).parts
        for file in files:
            stem, ending = os.path.splitext(file)
            if ending == ".py" and stem == "__init__" and package:
                yield ".".join(package), Path(folder, file)
            elif ending == ".py" and _is_public(stem):
                yield ".".join([*package, stem]), Path(folder, file)


def _is_public(name: str) -> bool:
    return name.isidentifier() and not name.startswith("_")


def _members(owner: str, body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the public classes, methods and functions, those in branches of ``if`` and ``try`` included."""
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if _is_public(node.name):
                name = f"{owner}.{node.name}"
                if docstring := ast.get_docstring(node):
                    yield name, docstring
                if isinstance(node, ast.ClassDef):
                    yield from _members(name, node.body)
        elif isinstance(node, ast.If):
            yield from _members(owner, [*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            branches = [statement for handler in node.handlers for statement in handler.body]
            yield from _members(owner, [*node.body, *branches, *node.orelse])


def open_collection(name: str, location: str) -> Collection:
    """Open the documentation strings of the standard library that runs the program.

    Raises:
        InputError: a location is given.
    """
    if location:
        raise InputError(f"collection {name!r}: python-docs has no location; write python-docs alone")
    return PythonDocsCollection(name, Path(sysconfig.get_paths()["stdlib"]))

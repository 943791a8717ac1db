"""Where queries, documents and judgements come from: one module a source, named as its prefix."""

from __future__ import annotations

from instruct_distill.errors import InputError
from instruct_distill.registry import Registry, nearest
from instruct_distill.sources.collection import Collection

SOURCES = Registry(
    "instruct_distill.sources",
    "collection prefix",
    besides=(
        "collection",
        "document_store",
        "fingerprint",
        "item_files",
        "parameters",
        "qrels",
        "queries",
        "record_fields",
        "redial_dialogues",
        "redial_movies",
    ),
)


def prefixes() -> list[str]:
    """The prefixes of collection names, sorted: ``python-docs`` for the module ``python_docs``."""
    return [name.replace("_", "-") for name in SOURCES.names()]


def check_prefix(name: str) -> str:
    """Return a collection's name as it is.

    Raises:
        InputError: no source has its prefix.
    """
    prefix, known = name.partition(":")[0], prefixes()
    if prefix not in known:
        raise InputError(
            f"collection {name!r}: unknown prefix {prefix!r}{nearest(prefix, known)}; "
            f"expected PREFIX:LOCATION (known prefixes: {', '.join(known)})"
        )
    return name


def open_collection(name: str) -> Collection:
    """Open a collection by its name in a recipe, ``PREFIX:LOCATION`` or ``PREFIX``.

    Args:
        name: such as ``beir:data/example/beir``, ``irds:msmarco-passage/train/judged`` or ``python-docs``.

    Raises:
        InputError: no source has that prefix, or the source cannot use the location.
    """
    prefix, _, location = check_prefix(name).partition(":")
    collection: Collection = SOURCES.load(prefix.replace("-", "_")).open_collection(name, location)
    return collection

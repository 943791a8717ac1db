"""A prompt as stretches of literal text and fields that can be encoded one by one."""

from __future__ import annotations

import re
from typing import NamedTuple


class Part(NamedTuple):
    """A stretch of the prompt between two places where it may be cut into separately encoded pieces.

    Args:
        left: literal text glued to the field's left, the white space before it included.
        field: the field, or None for a stretch of literal text (which is then ``left``).
        right: literal text glued to the field's right.
    """

    left: str
    field: str | None = None
    right: str = ""


def glued(left: str, text: str, right: str) -> str:
    """Return a text with what is glued to it; an empty one takes the white space before it away."""
    return left + text + right if text else left.rstrip() + right


def shown(document: str, words: int | None) -> str:
    """Return the part of a document that a prompt shows: its first words, or all of it."""
    if words is None:
        return document.strip()
    return " ".join(document.split(maxsplit=words)[:words])


def split_parts(pieces: list[tuple[str, str | None]], special: re.Pattern[str]) -> list[Part]:
    """Cut a prompt at white space and special tokens: fields with the text glued to them, and the rest.

    The last part is always literal text, perhaps empty.
    """
    parts: list[Part] = []
    for literal, field in pieces:
        if parts:
            glue = special.split(re.split(r"\s", literal, maxsplit=1)[0], maxsplit=1)[0]
            parts[-1] = parts[-1]._replace(right=glue)
            literal = literal[len(glue) :]
        if field is None:
            parts.append(Part(literal))
            continue
        # the longest run of white space and then other characters at the end
        left = special.split(re.search(r"\s*\S*\Z", literal).group())[-1]  # type: ignore[union-attr]
        if literal != left:
            parts.append(Part(literal[: len(literal) - len(left)]))
        parts.append(Part(left, field))
    return parts

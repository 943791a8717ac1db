"""Texts that are no texts: JSON can spell half a surrogate pair, and Python holds it."""

from __future__ import annotations

from collections.abc import Iterable

from instruct_distill.errors import InputError


def check_unicode(texts: Iterable[str]) -> None:
    """Refuse what no tokenizer reads.

    Raises:
        InputError: a text has a lone surrogate such as ``\\ud83d``.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"the text {text[:60]!a} has half a surrogate pair ({text[error.start]!a} at character "
                f"{error.start}), which is no character; decode it again, or put U+FFFD in its place"
            ) from None

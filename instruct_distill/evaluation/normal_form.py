"""Texts without what may change and leave them the same text: case, punctuation, white space, encoding."""

from __future__ import annotations

import functools
import re
import unicodedata

# Scripts written without blanks between words: each character counts as a word.
_UNSPACED = re.compile(
    "(["
    "\u0e00-\u0eff"  # Thai and Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
    "\u3041-\u30ff\u3105-\u312f\u31f0-\u31ff"  # Hiragana, Katakana and Bopomofo
    "])"
)


def normalise(text: str) -> str:
    """Return a text after NFKC and case folding, without punctuation and white space.

    Invisible characters (a soft hyphen, a zero-width space) and spacing accents go with the punctuation;
    symbols such as ``+`` stay: C++ is not C.
    """
    return _fold(text).translate(_tables()[0])


def words_of(text: str) -> list[str]:
    """Return the words of a text after NFKC and case folding: its runs of letters, marks and digits.

    Of scripts that put no blanks between words, each character is a word.
    """
    separated = _fold(text).translate(_tables()[1])
    if not separated.isascii():
        separated = _UNSPACED.sub(r" \1 ", separated)
    return separated.split()


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Case folding undoes the composition of some characters.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


@functools.cache
def _tables() -> tuple[dict[int, str | None], dict[int, str | None]]:
    """Return what str.translate takes, for normal forms and for words."""
    without: dict[int, str | None] = {}
    separated: dict[int, str | None] = {}
    for code in (*range(0x20000), *range(0xE0000, 0xE0200)):  # beyond are ideographs and private characters
        category = unicodedata.category(chr(code))
        if category == "Cf":
            without[code] = separated[code] = None
        elif category[0] in "PZ" or category in ("Cc", "Sk"):
            without[code] = None
            separated[code] = " "
        elif category[0] == "S":
            separated[code] = " "
    return without, separated

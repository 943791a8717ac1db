"""Text to index terms: one function for documents and queries, in every script."""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import Stemmer

from instruct_distill.candidates.stop_words import ENGLISH
from instruct_distill.errors import InputError
from instruct_distill.registry import nearest

RULES_VERSION = 1
"""Raised with every change of the rules here, so that older indexes are built anew."""

_STOP_WORDS: dict[str, frozenset[str]] = {"english": ENGLISH, "none": frozenset()}

# Scripts written without blanks between words (Hangul has blanks, but glues particles to its words).
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ebd\u0ec0-\u0ecd"  # Lao
    "\u1000-\u103f"  # Myanmar
    "\u1780-\u17d3"  # Khmer
    "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
    "\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Hiragana and Katakana
    "\u3105-\u312f"  # Bopomofo
    "\u1100-\u11ff\uac00-\ud7a3"  # Hangul
)

# Invisible characters that stand inside words: soft hyphen, joiners, byte order mark.
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200c\u200d\u2060\ufeff"))

_ASCII_TERM = re.compile(r"[a-z0-9]+")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s(?!\w)")


def check_stemmer(language: str) -> str:
    """Return the name of a Snowball language as it is.

    Raises:
        InputError: Snowball has no such language.
    """
    known = Stemmer.algorithms()
    if language not in known:
        raise InputError(
            f"unknown stemmer {language!r}{nearest(language, known)} (known: none, {', '.join(known)})"
        )
    return language


@dataclass(frozen=True)
class Tokeniser:
    """Cuts a text into index terms.

    Unicode NFKC and case folding; words are letters and digits with their combining marks, single ones
    included; an English possessive ``'s`` is removed; runs of a script without blanks (Chinese, Japanese,
    Thai, ...) become single characters and pairs of neighbours, as in Lucene's CJKBigramFilter with unigrams.
    Then stop words are removed and what remains is stemmed, in Lucene's order.

    Args:
        stemmer: a Snowball language (https://snowballstem.org), or None.
        stop_words: ``english`` or ``none``.

    Raises:
        InputError: the stemmer or the list of stop words is not known.
    """

    stemmer: str | None = "english"
    stop_words: str = "english"

    def __post_init__(self) -> None:
        if self.stemmer is not None:
            check_stemmer(self.stemmer)
        if self.stop_words not in _STOP_WORDS:
            raise InputError(
                f"unknown stop words {self.stop_words!r}{nearest(self.stop_words, _STOP_WORDS)} "
                f"(known: {', '.join(_STOP_WORDS)})"
            )

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text in their order, repeated ones repeated."""
        words: list[str] = []
        if text.isascii():
            text = text.lower()
            if "'" in text:
                text = _POSSESSIVE.sub("", text)
            words = _ASCII_TERM.findall(text)
        else:
            for unspaced, word in _pattern().findall(_POSSESSIVE.sub("", _fold(text))):
                if word:
                    words.append(word)
                else:
                    words.extend(_singles_and_pairs(unspaced))
        terms = _terms(self.stemmer, self.stop_words)
        return [term for word in words if (term := terms[word])]

    def as_dict(self) -> dict[str, Any]:
        """Return what an index stores to tokenise its queries later."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Tokeniser:
        """Return the tokeniser that ``as_dict`` described."""
        return cls(**stored)


def _fold(text: str) -> str:
    """Return the text in Unicode's NFKC_Casefold form, with the dotted capital I of Turkish as a plain i."""
    folded = unicodedata.normalize("NFKC", text).translate(_INVISIBLE).casefold()
    # str.casefold turns İ into i and U+0307, which no query typed with a plain i would match.
    return unicodedata.normalize("NFKC", folded).replace("i\u0307", "i")


def _singles_and_pairs(run: str) -> Iterable[str]:
    """Yield the characters of a run (each with its combining marks) and all pairs of neighbours."""
    characters: list[str] = []
    for character in run:
        if characters and unicodedata.category(character).startswith("M"):
            characters[-1] += character
        else:
            characters.append(character)
    yield from characters
    yield from map(str.__add__, characters, characters[1:])


@functools.cache
def _pattern() -> re.Pattern[str]:
    """A pattern with two groups: a run of a script without blanks, or a word of any other."""
    # In the module re, \w has no combining marks: हिन्दी would fall to pieces.
    marks = "".join(
        chr(code) for code in range(0x300, 0x20000) if unicodedata.category(chr(code)).startswith("M")
    )
    letter = rf"[^\W_{_UNSPACED}]"
    # Most words of most texts are plain ASCII; trying that first makes the large classes' cost go away.
    ascii_word = r"[a-z0-9]+(?![a-z0-9]|[^\x00-\x7f])"
    return re.compile(rf"([{_UNSPACED}]+)|({ascii_word}|{letter}(?:{letter}|[{marks}])*)")


class _Terms(dict[str, str]):
    """Word → term, an empty one for a stop word; each word of a corpus is stemmed once."""

    _LIMIT = 1_000_000  # words; bounds the memory on corpora whose vocabulary never ends

    def __init__(self, stemmer: str | None, stop_words: str) -> None:
        super().__init__(dict.fromkeys(_STOP_WORDS[stop_words], ""))
        self._stem = Stemmer.Stemmer(stemmer, 0).stemWord if stemmer else str

    def __missing__(self, word: str) -> str:
        term: str = self._stem(word)
        if len(self) < self._LIMIT:
            self[word] = term
        return term


@functools.cache
def _terms(stemmer: str | None, stop_words: str) -> _Terms:
    return _Terms(stemmer, stop_words)


def rules() -> dict[str, Any]:
    """Return what decides the terms besides the tokeniser's own fields, for the digest of an index."""
    return {
        "version": RULES_VERSION,
        "stop_words": {name: sorted(words) for name, words in _STOP_WORDS.items()},
        "unicode": unicodedata.unidata_version,
        "snowball": Stemmer.version(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }

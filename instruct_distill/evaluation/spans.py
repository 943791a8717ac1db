"""Spans of words as 64-bit numbers: which of them two sets of texts share, in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SPAN = 13
"""Words of a span that is evidence of copying (Brown et al. 2020, appendix C)."""

SPANS_IN_MEMORY = 4_000_000
"""Spans that are held at once: 12 bytes each, some 200 MB in all while they are sorted."""

Hashes = NDArray[np.uint64]


def text_hash(text: str) -> int:
    """Return 64 bits that stand for a text, the same in every process."""
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


class _WordHashes(dict[str, int]):
    """Word → its `text_hash`."""

    _LIMIT = 1_000_000  # words; bounds the memory where the vocabulary never ends

    def __missing__(self, word: str) -> int:
        value = text_hash(word)
        if len(self) < self._LIMIT:
            self[word] = value
        return value


_WORD_HASHES = _WordHashes()
_MULTIPLIERS = np.array([pow(0x9E3779B97F4A7C15, place, 2**64) for place in range(SPAN)], dtype=np.uint64)


def span_hashes(words: Sequence[str]) -> Hashes:
    """Return one number for each span of ``SPAN`` consecutive words; none for a shorter text.

    The number is a polynomial in the words' hashes modulo 2**64: different spans share one by chance alone,
    once in 10**19 pairs.
    """
    count = max(0, len(words) - SPAN + 1)
    result = np.zeros(count, dtype=np.uint64)
    if count:
        hashes = np.fromiter(map(_WORD_HASHES.__getitem__, words), dtype=np.uint64, count=len(words))
        for place, multiplier in enumerate(_MULTIPLIERS):
            result += hashes[place : place + count] * multiplier
    return result


class Shared(NamedTuple):
    """A span that two texts have in common.

    Args:
        owner: the id of the text in the table.
        place: the span's first word in the text that was looked up.
    """

    owner: str
    place: int


class SpanTable:
    """The spans of some texts, to look other texts up in.

    Args:
        hashes: spans of each text.
        owners: the id of each text, as many as there are texts.
    """

    def __init__(self, hashes: Sequence[Hashes], owners: Sequence[str]) -> None:
        self._owners = list(owners)
        if not hashes:
            hashes = [np.zeros(0, dtype=np.uint64)]
        numbers = np.repeat(np.arange(len(hashes), dtype=np.int32), [each.size for each in hashes])
        # The first of equal spans is kept: np.unique sorts stably where it is asked for positions.
        self._hashes, first = np.unique(np.concatenate(hashes), return_index=True)
        self._numbers = numbers[first]

    def first_shared(self, spans: Hashes) -> Shared | None:
        """Return the first of these spans that one of the texts has, too."""
        if not spans.size or not self._hashes.size:
            return None
        places = np.minimum(np.searchsorted(self._hashes, spans), self._hashes.size - 1)
        found = np.flatnonzero(self._hashes[places] == spans)
        if not found.size:
            return None
        return Shared(self._owners[self._numbers[places[found[0]]]], int(found[0]))


def span_tables(texts: Iterable[tuple[str, Sequence[str]]]) -> Iterator[SpanTable]:
    """Yield tables that together hold the spans of all texts, each of bounded size.

    Args:
        texts: a text's id and its words.
    """
    hashes: list[Hashes] = []
    owners: list[str] = []
    held = 0
    for owner, words in texts:
        spans = span_hashes(words)
        if not spans.size:
            continue
        hashes.append(spans)
        owners.append(owner)
        held += spans.size
        if held >= SPANS_IN_MEMORY:
            yield SpanTable(hashes, owners)
            hashes, owners, held = [], [], 0
    if hashes:
        yield SpanTable(hashes, owners)

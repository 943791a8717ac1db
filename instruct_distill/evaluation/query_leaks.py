"""Test queries that a student may have seen in training, as queries or inside documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from instruct_distill.evaluation.normal_form import normalise, words_of
from instruct_distill.evaluation.spans import SPAN, SpanTable, span_hashes, span_tables
from instruct_distill.records import Query

KINDS = ("exact", "normalised", "near_duplicate", "contained", "shared_span")
"""From the plainest evidence to the weakest; each query counts once, under the first that applies."""

LEAST_CONTAINED_WORDS = 3
"""Shorter queries are not looked for inside documents: two words stand in many by chance."""


class QueryLeak(NamedTuple):
    """A test query and where it was found.

    Args:
        kind: one of ``KINDS``.
        query: the test query.
        training_id: the training query or document.
        training_text: the training query's text, or the words that the training document shares.
    """

    kind: str
    query: Query
    training_id: str
    training_text: str


class QueryLeaks:
    """The test queries of a task, compared with one training text after the other.

    Args:
        queries: the test queries.
    """

    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries = list(queries)
        self._words = [words_of(query.text) for query in self.queries]
        self._spans = [span_hashes(words) for words in self._words]
        self._found: dict[int, QueryLeak] = {}
        self._by_beginning: dict[tuple[str, ...], list[int]] = {}
        for number, words in enumerate(self._words):
            if len(words) >= LEAST_CONTAINED_WORDS:
                self._by_beginning.setdefault(tuple(words[:LEAST_CONTAINED_WORDS]), []).append(number)

    def found(self) -> list[QueryLeak]:
        """Return the leaks found so far, in the order of the test queries."""
        return [self._found[number] for number in sorted(self._found)]

    def too_short_to_be_contained(self) -> int:
        """Return how many test queries are not looked for inside documents."""
        return sum(len(words) < LEAST_CONTAINED_WORDS for words in self._words)

    def compare_queries(self, training: Iterable[Query]) -> None:
        """Look for the test queries among training queries: the same, near duplicates, shared spans."""
        training = list(training)
        exact: dict[str, Query] = {}
        normal: dict[str, Query] = {}
        for query in training:
            exact.setdefault(query.text, query)
            normal.setdefault(normalise(query.text), query)
        normal.pop("", None)
        for number, query in enumerate(self.queries):
            if query.text in exact:
                self._add(number, "exact", exact[query.text])
            elif (form := normalise(query.text)) in normal:
                self._add(number, "normalised", normal[form])
        for number, near in near_duplicates(
            self._words, [words_of(query.text) for query in training]
        ).items():
            self._add(number, "near_duplicate", training[near])
        texts = {query.query_id: query.text for query in training}
        for table in span_tables((query.query_id, words_of(query.text)) for query in training):
            self.compare_spans(table, texts)

    def compare_document(self, doc_id: str, words: Sequence[str]) -> None:
        """Look for the test queries, word for word, inside a training document."""
        if not self._by_beginning:
            return
        for start, beginning in enumerate(
            zip(*(words[i:] for i in range(LEAST_CONTAINED_WORDS)), strict=False)
        ):
            for number in self._by_beginning.get(beginning, ()):
                query = self._words[number]
                if list(words[start : start + len(query)]) == query:
                    self._add(number, "contained", Query(doc_id, " ".join(query)))

    def compare_spans(self, table: SpanTable, texts: dict[str, str] | None = None) -> None:
        """Look for test queries that share a span of words with a training text.

        Args:
            table: spans of training texts.
            texts: their texts by id; without them the shared words are shown.
        """
        for number, spans in enumerate(self._spans):
            shared = table.first_shared(spans)
            if shared is not None:
                words = " ".join(self._words[number][shared.place : shared.place + SPAN])
                self._add(number, "shared_span", Query(shared.owner, (texts or {}).get(shared.owner, words)))

    def _add(self, number: int, kind: str, source: Query) -> None:
        known = self._found.get(number)
        if known is None or KINDS.index(kind) < KINDS.index(known.kind):
            self._found[number] = QueryLeak(kind, self.queries[number], source.query_id, source.text)


def near_duplicates(test: Sequence[Sequence[str]], training: Sequence[Sequence[str]]) -> dict[int, int]:
    """Return test text → the training text nearest to it, of those with a Jaccard index of 0.8 or more.

    The index is that of the sets of words. Sets that reach it share one of their rarest words: only those
    are compared (prefix filtering; Bayardo, Ma and Srikant, WWW 2007).

    Args:
        test: words of each test text.
        training: words of each training text.
    """
    sets = [frozenset(words) for words in test]
    frequency = Counter(word for words in sets for word in words)
    by_rare_word: dict[str, list[int]] = {}
    for number, words in enumerate(sets):
        for word in _rarest(words, frequency):
            by_rare_word.setdefault(word, []).append(number)
    best: dict[int, tuple[float, int]] = {}
    for place, text in enumerate(training):
        words = frozenset(text)
        for number in {n for word in _rarest(words, frequency) for n in by_rare_word.get(word, ())}:
            common = len(words & sets[number])
            union = len(words) + len(sets[number]) - common
            if 5 * common >= 4 * union and common / union > best.get(number, (0.0, 0))[0]:
                best[number] = (common / union, place)
    return {number: place for number, (_, place) in best.items()}


def _rarest(words: frozenset[str], frequency: Counter[str]) -> list[str]:
    """Return so many of a set's rarest words that a near duplicate cannot lack them all."""
    needed = -(-4 * len(words) // 5)  # words that a near duplicate has at least in common with this set
    return sorted(words, key=lambda word: (frequency[word], word))[: len(words) - needed + 1]

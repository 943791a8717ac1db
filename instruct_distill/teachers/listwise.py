"""Listwise prompting: the model writes a permutation of the passages in a window that slides to the front.

arXiv 2304.09542 (RankGPT), section 3.2.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pydantic import Field, model_validator

from instruct_distill.inference.engine import Question
from instruct_distill.prompts.answer_text import NOUNS
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.schema import parameters
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.ranking_scores import ranking_scores
from instruct_distill.teachers.strategy import Context, Steps, Strategy

logger = logging.getLogger(__name__)

_TOKENS_PER_NUMBER = 6
"""What ``[12] > `` may take; the vocabularies at hand need four or five."""

_CHAIN = re.compile(r"\[?\d+\]?(?:\s*>+\s*\[?\d+\]?)+")
_BRACKETS = re.compile(r"\[(\d+)\]")
_BARE = re.compile(
    rf"\W*(?:(?:the|final|answer|ranking|order|output|(?:{'|'.join(NOUNS)})s?|numbers?|is|are)\b\W*)*"
    r"(?P<numbers>\d+(?:[\s,;.>)]+\d+)*)\W*",
    re.IGNORECASE,
)


@parameters
class Parameters:
    """What the strategy is told in a recipe."""

    window: int = Field(default=20, ge=2)
    """Passages in one prompt."""
    stride: int = Field(default=10, ge=1)
    """Places by which the window moves; the best window − stride passages of the list come out in order."""

    @model_validator(mode="after")
    def _windows_overlap(self) -> Parameters:
        if self.stride >= self.window:
            raise ValueError(
                f"stride {self.stride} must be less than window {self.window}, or nothing moves forward"
            )
        return self


class Order(NamedTuple):
    """What could be read of a permutation.

    Args:
        order: positions from 0 that the text names, in its order, each once.
        missing: positions that it does not name.
        repeated: numbers that stand there again.
        extra: numbers of no passage.
    """

    order: list[int]
    missing: int
    repeated: int
    extra: int


class Listwise(Strategy):
    """Sorts windows of the list from its end to its front.

    Passages that an answer leaves out follow those that it names, in the order that they had. Answers that
    are no permutation are counted, and the first, tenth, hundredth, ... of them is reported. For scores see
    :func:`~instruct_distill.teachers.ranking_scores.ranking_scores`, here over the whole list: 1 / rank, and
    equal for neighbours that no answer put in order. Where no answer had a number in it, all are equal.
    """

    asks = "generate"
    documents = None
    default_prompt = "listwise-passage"

    def __init__(self, parameters: TeacherParameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._chosen = parameters.strategy_section(Parameters)
        self.max_tokens = _TOKENS_PER_NUMBER * self._chosen.window
        self.counted: Counter[str] = Counter()

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return len(self._starts(candidates))

    def rounds(self, candidates: int) -> int:
        """See :class:`Strategy`; a window waits for the one before it."""
        return self.prompts(candidates)

    def _starts(self, candidates: int) -> list[int]:
        """The first place of each window: from the end of the list to its front, which is never left out."""
        if candidates < 2:
            return []
        return [*range(candidates - self._chosen.window, 0, -self._chosen.stride), 0]

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`; a permutation has no margins, so no comparisons are kept."""
        ranking = list(range(len(documents)))
        wins: set[tuple[int, int]] = set()
        for start in self._starts(len(documents)):
            window = ranking[start : start + self._chosen.window]
            (text,) = yield [Question(query, tuple(documents[i] for i in window))]
            read = read_order(text, len(window))
            self._count(query, text, read, len(window))
            named = [window[place] for place in read.order]
            others = [i for i in window if i not in set(named)]
            ranking[start : start + len(window)] = named + others
            wins.update(pairwise(named))
            wins.update((named[-1], other) for other in others if named)
        return ListLabel(
            query.query_id,
            tuple(document.doc_id for document in documents),
            ranking_scores(ranking, len(documents), wins),
        )

    def _count(self, query: Query, text: str, read: Order, shown: int) -> None:
        self.counted["asked"] += 1
        if not (read.missing or read.repeated or read.extra):
            return
        self.counted["incomplete"] += 1
        self.counted["unreadable"] += not read.order
        count = self.counted["incomplete"]
        if count == 10 ** (len(str(count)) - 1):
            logger.warning(
                "query %r: the model wrote %r: of %d passages %d are missing, %d numbers are repeated, %d "
                "are of no passage (%d of %d answers so far are like this, %d without any number)",
                query.query_id,
                text[:80],
                shown,
                read.missing,
                read.repeated,
                read.extra,
                count,
                self.counted["asked"],
                self.counted["unreadable"],
            )


def read_order(text: str, count: int) -> Order:
    """Read a permutation such as ``[2] > [1] > [3]``; whatever else a text says is passed over.

    The longest chain of numbers with ``>`` between them counts, the last one of equally long; where there is
    none, all numbers in brackets; where there are none, bare numbers that are the whole answer (``2, 1, 3``,
    ``Answer: 2``).

    Args:
        text: what the model wrote.
        count: the number of passages shown, which are called 1, 2, ...
    """
    chains = [re.findall(r"\d+", chain) for chain in _CHAIN.findall(text)]
    bare = _BARE.fullmatch(text)
    if chains:
        numbers = max(reversed(chains), key=len)
    elif _BRACKETS.search(text):
        numbers = _BRACKETS.findall(text)
    else:
        numbers = re.findall(r"\d+", bare["numbers"]) if bare else []
    places = [int(number) - 1 for number in numbers]
    known = [place for place in places if 0 <= place < count]
    order = list(dict.fromkeys(known))
    return Order(order, count - len(order), len(known) - len(order), len(places) - len(known))


STRATEGY = Listwise

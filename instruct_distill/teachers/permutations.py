"""Rankings made elsewhere, as permutations of candidate positions: ``"3 > 1 > 2"``."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import cached_property

from instruct_distill.errors import InputError
from instruct_distill.files import read_json
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.teachers.strategy import Steps, Strategy

logger = logging.getLogger(__name__)


class PermutationsTeacher(Strategy):
    """Reads a JSON list with one permutation a query, in the order of the collection's queries.

    Positions count from 1. A position that is repeated counts once, one beyond the list is passed over, and
    candidates that the permutation leaves out follow in first-stage order: what models write is not always
    a permutation.
    """

    asks = None
    documents = 0

    @cached_property
    def _by_query(self) -> dict[str, str]:
        path = self.parameters.permutations
        if path is None:
            raise InputError("teacher permutations: no file is named")
        lines = read_json(path)
        query_ids = self.context.query_ids()
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise InputError(f'{path}: expected a JSON list of strings such as "3 > 1 > 2"')
        if len(lines) != len(query_ids):
            raise InputError(
                f"{path}: {len(lines)} permutations for {len(query_ids)} queries of the collection"
            )
        return dict(zip(query_ids, lines, strict=True))

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return 0

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`; the score is 1 / rank (arXiv 2311.01555, section 3.1)."""
        yield from ()
        order = [int(number) - 1 for number in re.findall(r"\d+", self._by_query[query.query_id])]
        kept = list(dict.fromkeys(i for i in order if 0 <= i < len(documents)))
        if len(kept) != len(order) or len(kept) != len(documents):
            logger.warning(
                "permutation of query %r: %d of %d positions usable",
                query.query_id,
                len(kept),
                len(documents),
            )
        ranked = kept + [i for i in range(len(documents)) if i not in set(kept)]
        scores = [0.0] * len(documents)
        for rank, i in enumerate(ranked, start=1):
            scores[i] = 1.0 / rank
        return ListLabel(query.query_id, tuple(document.doc_id for document in documents), tuple(scores))


STRATEGY = PermutationsTeacher

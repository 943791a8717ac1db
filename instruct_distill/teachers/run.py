"""A ranking made elsewhere, as a TREC run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from instruct_distill.errors import InputError
from instruct_distill.records import Document, ListLabel, Query
from instruct_distill.teachers.strategy import Steps, Strategy
from instruct_distill.trec import read_run


class RunTeacher(Strategy):
    """Takes the scores of a run; candidates that the run lacks share the place below all others."""

    asks = None
    documents = 0

    @cached_property
    def _run(self) -> dict[str, dict[str, float]]:
        path = self.parameters.run
        if path is None:
            raise InputError("teacher run: no run file is named")
        run = read_run(path)
        query_ids = self.context.query_ids()
        if query_ids and not any(query_id in run for query_id in query_ids):
            raise InputError(
                f"{path} ranks none of the queries: it has {next(iter(run), None)!r}, "
                f"the collection {query_ids[0]!r}"
            )
        # the order is the run's; its scores may be equal in single precision
        return {
            q: {d.doc_id: float(len(ranked) - i) for i, d in enumerate(ranked)} for q, ranked in run.items()
        }

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return 0

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`; the score is 1 + the documents ranked below, or 0 if not ranked."""
        yield from ()
        ranked = self._run.get(query.query_id, {})
        doc_ids = tuple(document.doc_id for document in documents)
        return ListLabel(query.query_id, doc_ids, tuple(ranked.get(doc_id, 0.0) for doc_id in doc_ids))


STRATEGY = RunTeacher

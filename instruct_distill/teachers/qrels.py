"""Human judgements as the teacher: a supervised baseline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from instruct_distill.errors import InputError
from instruct_distill.records import Document, ListLabel, Qrels, Query
from instruct_distill.teachers.strategy import Steps, Strategy


class QrelsTeacher(Strategy):
    """Scores a candidate with its grade; one without a judgement has grade 0, as in trec_eval."""

    asks = None
    documents = 0

    @cached_property
    def _qrels(self) -> Qrels:
        qrels = self.context.qrels()
        if qrels is None:
            raise InputError("teacher qrels: the collection brings no judgements; name a file with 'qrels:'")
        return qrels

    def prompts(self, candidates: int) -> int:
        """See :class:`Strategy`."""
        return 0

    def label(self, query: Query, documents: Sequence[Document]) -> Steps:
        """See :class:`Strategy`."""
        yield from ()
        grades = self._qrels.get(query.query_id, {})
        doc_ids = tuple(document.doc_id for document in documents)
        return ListLabel(query.query_id, doc_ids, tuple(float(grades.get(doc_id, 0)) for doc_id in doc_ids))


STRATEGY = QrelsTeacher

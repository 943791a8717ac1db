"""PyTerrier: ``bm25 >> Rerank(reranker)``, also in ``pt.Experiment``."""

from __future__ import annotations

import os
from typing import Any

import pandas as pd
import pyterrier as pt

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Query
from instruct_distill.reranker import LongDocuments, Reranker

_NEEDED = ("qid", "query", "docno")


class Rerank(pt.Transformer):
    """Gives every document of a result a new score and rank.

    Args:
        reranker: a student, its folder or its hub id.
        text_field: the column with the documents' text; ``pt.text.get_text`` adds one.
        long_documents: as for :meth:`Reranker.score`.
    """

    def __init__(
        self,
        reranker: Reranker | str | os.PathLike[str],
        *,
        text_field: str = "text",
        long_documents: LongDocuments = "first",
    ) -> None:
        super().__init__()
        self.reranker = reranker if isinstance(reranker, Reranker) else Reranker.from_pretrained(reranker)
        self.text_field = text_field
        self.long_documents: LongDocuments = long_documents

    def transform(self, results: Any) -> Any:
        """Return the data frame with new ``score`` and ``rank``, each query's documents best first.

        Args:
            results: qid, query, docno and the text.

        Raises:
            InputError: a column is missing.
        """
        missing = [column for column in (*_NEEDED, self.text_field) if column not in results.columns]
        if missing:
            raise InputError(
                f"the data frame has no column {', '.join(missing)} (it has {', '.join(results.columns)}); "
                "texts are added by pt.text.get_text(...)"
            )
        groups = [group for _, group in results.groupby("qid", sort=False)]
        lists = (
            (
                Query(str(group["qid"].iloc[0]), str(group["query"].iloc[0])),
                [
                    Document(str(docno), str(text))
                    for docno, text in zip(group["docno"], group[self.text_field], strict=True)
                ],
            )
            for group in groups
        )
        ordered = []
        for group, found in zip(
            groups, self.reranker.rank_many(lists, long_documents=self.long_documents), strict=True
        ):
            part = group.iloc[[item.index for item in found]].copy()
            part["score"] = [item.score for item in found]
            part["rank"] = range(pt.model.FIRST_RANK, pt.model.FIRST_RANK + len(part))
            ordered.append(part)
        if ordered:
            return pd.concat(ordered, ignore_index=True)
        return results.assign(score=pd.Series(dtype=float), rank=pd.Series(dtype=int))

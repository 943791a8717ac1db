"""How a document's title and text become one text for rankers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from instruct_distill.records import Document

Joining = Literal["blank", "labelled"]


def joined(documents: Mapping[str, Document], joining: Joining) -> dict[str, Document]:
    """Return the documents as rankers are shown them.

    ``blank`` leaves title and text as they are (a blank joins them); ``labelled`` writes
    ``Title: TITLE Content: TEXT``, as the released evaluation of arXiv 2311.01555 does on BEIR. A document
    without a title stays as it is.
    """
    if joining == "blank":
        return dict(documents)
    return {
        doc_id: Document(document.doc_id, f"Title: {document.title} Content: {document.text}")
        if document.title
        else document
        for doc_id, document in documents.items()
    }

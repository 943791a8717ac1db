"""Long documents as overlapping windows: what is relevant may stand anywhere in them."""

from __future__ import annotations

from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.records import Document

_SPARE_TOKENS = 8
"""Left free in each window: a text cut anew may take a token or two more than it did inside the whole."""

MAX_WINDOWS = 64
"""Windows of one document; a longer document's last window is the last that is looked at."""


def windows_of(encoder: PromptEncoder, query: str, document: Document) -> list[Document]:
    """Return a document as parts that each fit into the prompt, its title before each.

    Neighbours overlap by half, so that no sentence is cut in all of them. A document that fits is returned as
    it is.

    Args:
        encoder: the prompt's encoder, with its limits in tokens and words.
        query: the query, which takes its share of the budget.
        document: the document.
    """
    room = encoder.document_room(query) - _SPARE_TOKENS
    title = Document(document.doc_id, "", document.title).full_text
    spans = encoder.token_spans(document.text)
    room -= len(encoder.token_spans(title))
    words = encoder.document_words
    if words is not None:
        words -= len(title.split())
    fits = len(spans) <= room and (words is None or len(document.text.split()) <= words)
    if fits or not spans or room < 2 * _SPARE_TOKENS or (words is not None and words < 1):
        return [document]
    parts: list[Document] = []
    start = 0
    while start < len(spans) and len(parts) < MAX_WINDOWS:
        end = min(start + room, len(spans))
        text = document.text[spans[start][0] : spans[end - 1][1]]
        if words is not None and len(kept := text.split(maxsplit=words)) > words:
            text = text[: text.rindex(kept[words])]
            end = next((i for i in range(start, end) if spans[i][1] > spans[start][0] + len(text)), end)
        parts.append(Document(document.doc_id, text.strip(), document.title))
        if end >= len(spans):
            break
        start += max((end - start) // 2, 1)
    return parts

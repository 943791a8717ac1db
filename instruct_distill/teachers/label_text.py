"""A label as text, for people who want to see what their teacher said."""

from __future__ import annotations

from collections.abc import Mapping

from instruct_distill.records import Document, ListLabel

_WIDTH = 110
_MARGINS_SHOWN = 16


def label_text(
    label: ListLabel, query: str | None = None, documents: Mapping[str, Document] | None = None
) -> str:
    """Return a label as a ranking, with the margins of the comparisons as a matrix.

    Args:
        label: what the teacher said.
        query: the query's text, where it is known.
        documents: document id → document, where they are known.
    """
    n = len(label.doc_ids)
    lines = [f"query {label.query_id}" + (f": {query}" if query else "")]
    lines.append(f"{n} documents, {len(label.comparisons)} comparisons")
    order = sorted(range(n), key=lambda i: (-label.scores[i], i))
    width = max([8, *(len(doc_id) for doc_id in label.doc_ids)])
    if n:
        text = "  text" if documents else ""
        lines += ["", f"rank  first stage  score     {'document':{width}}{text}".rstrip()]
    for rank, i in enumerate(order, start=1):
        row = f"{rank:>4}  {i + 1:>11}  {label.scores[i]:<8.4g}  {label.doc_ids[i]:{width}}"
        if documents and label.doc_ids[i] in documents:
            row += "  " + documents[label.doc_ids[i]].full_text
        lines.append(_short(row))
    if label.comparisons:
        lines += ["", *_margins(label, order)]
    return "\n".join(lines)


def _margins(label: ListLabel, order: list[int]) -> list[str]:
    """The matrix of margins, both ways by teacher rank; of long lists its beginning."""
    margins = {(c.first, c.second): c.margin for c in label.comparisons}
    shown = order[:_MARGINS_SHOWN]
    of = f" of the first {_MARGINS_SHOWN}" if len(order) > _MARGINS_SHOWN else ""
    lines = [f"margins{of} in logits, by rank: above 0 the row's document, shown first, beats the column's"]
    lines.append("     " + "".join(f"{rank:>7}" for rank in range(1, len(shown) + 1)))
    for rank, i in enumerate(shown, start=1):
        cells = [f"{margins[(i, j)]:7.2f}" if (i, j) in margins else f"{'.':>7}" for j in shown]
        lines.append(f"{rank:>4} " + "".join(cells))
    return lines


def _short(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."

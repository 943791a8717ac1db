"""How good a teacher's labels are, where there are judgements for the labelled queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from instruct_distill.errors import InputError
from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.records import ListLabel, Qrels, Run, ScoredDocument


def label_quality(labels: Iterable[ListLabel], qrels: Qrels, metrics: Sequence[str]) -> dict[str, Any]:
    """Evaluate the order of the labels, and that of the candidates, over the judged ones of their queries.

    Args:
        labels: the labels; only those of judged queries are kept.
        qrels: the judgements; queries without a label do not count.
        metrics: names such as ``nDCG@10``.

    Returns:
        ``queries``, and metric → value for ``first_stage`` and ``teacher``.

    Raises:
        InputError: no labelled query is judged, or a metric is none.
    """
    teacher: Run = {}
    first_stage: Run = {}
    for label in labels:
        if label.query_id not in qrels:
            continue
        n = len(label.doc_ids)
        order = sorted(range(n), key=lambda i: (-label.scores[i], i))
        teacher[label.query_id] = [ScoredDocument(label.doc_ids[i], label.scores[i]) for i in order]
        first_stage[label.query_id] = [
            ScoredDocument(doc_id, float(n - i)) for i, doc_id in enumerate(label.doc_ids)
        ]
    if not teacher:
        raise InputError(
            "none of the labelled queries has a judgement; are these the judgements of the same collection?"
        )
    judged = {query_id: qrels[query_id] for query_id in teacher}
    found = {
        system: evaluate_run(judged, run, metrics)
        for system, run in (("first_stage", first_stage), ("teacher", teacher))
    }
    return {
        "queries": len(found["teacher"].per_query),
        **{system: dict(evaluation.means) for system, evaluation in found.items()},
    }

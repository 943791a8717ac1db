"""The tables that a person reads at the end of an evaluation: plain text, no colours, nothing cut off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instruct_distill.evaluation.results import Evaluation
from instruct_distill.evaluation.significance import Interval
from instruct_distill.evaluation.task import TaskResult

ABSENT = "-"


def task_table(result: TaskResult) -> str:
    """Return the tables of one task as lines of text.

    The first has a row a system and a column a metric, with the number of queries, the share of the top 10
    that is judged, the median of the seconds a query, documents a second and the tied scores; its last rows
    are a random order, for recommendations, and the ceiling of the candidates. The second has a row a pair of
    systems: first each system against the first one, then the others. Notes on what was counted follow.
    """
    blocks = [[result.name], aligned(_means(result))]
    if result.differences:
        blocks.append(aligned(_differences(result)))
    blocks.append(_notes(result))
    return "\n\n".join("\n".join(block) for block in blocks)


def _means(result: TaskResult) -> list[list[str]]:
    metrics = list(result.ceiling)
    rows = [["system", *metrics, "queries", "judged@10", "s/query", "docs/s", "ties"]]
    for system, evaluation in result.evaluations.items():
        timing = result.timings.get(system)
        rows.append(
            [
                system,
                *(f"{evaluation.means[metric]:.4f}" for metric in metrics),
                str(len(evaluation.per_query)),
                f"{evaluation.judged_at_10:.1%}",
                f"{timing.median:.3f}" if timing else ABSENT,
                f"{timing.documents_per_second:.1f}" if timing else ABSENT,
                str(evaluation.ties),
            ]
        )
    queries = str(len(next(iter(result.evaluations.values())).per_query))
    if result.random_order:
        expected = (f"{result.random_order[metric]:.4f}" for metric in metrics)
        rows.append(["random order", *expected, queries, *[ABSENT] * 4])
    rows.append(["ceiling", *(f"{result.ceiling[m]:.4f}" for m in metrics), queries, *[ABSENT] * 4])
    return rows


def _differences(result: TaskResult) -> list[list[str]]:
    metrics = list(result.ceiling)
    first = next(iter(result.evaluations))
    pairs = [(system, earlier) for system, others in result.differences.items() for earlier in others]
    pairs.sort(key=lambda pair: pair[1] != first)
    rows = [["difference", *metrics]]
    for system, earlier in pairs:
        found = result.differences[system][earlier]
        rows.append([f"{system} - {earlier}", *(_difference(found[metric]) for metric in metrics)])
    return rows


def _difference(value: Interval) -> str:
    if value.low is None or value.high is None:
        return f"{value.mean:+.4f} [unknown]"
    return f"{value.mean:+.4f} [{value.low:+.4f}, {value.high:+.4f}]"


def _notes(result: TaskResult) -> list[str]:
    first = next(iter(result.evaluations.values()))
    notes = list(result.notes)
    if result.random_order:
        notes.append("random order: the mean over all orders, in closed form")
    notes += [
        "ceiling: the best that any order of the candidates can reach",
        "judged@10: share of the documents at the top 10 places that have a judgement",
    ]
    if result.differences:
        notes.append("in brackets: paired 95% bootstrap interval over queries")
    if any(not metric.startswith("nDCG") for metric in first.means):
        notes.append(f"relevant, for metrics other than nDCG: grade {first.relevance_level} or more")
    peak = max((timing.process_peak_bytes for timing in result.timings.values()), default=0)
    if peak:
        notes.append(f"peak memory of the whole process since its start: {peak / 2**30:.2f} GiB")
    device = max((timing.device_peak_bytes for timing in result.timings.values()), default=0)
    if device:
        notes.append(f"peak memory of its tensors on the GPU: {device / 2**30:.2f} GiB")
    return notes + notes_on_queries(result.evaluations)


def notes_on_queries(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """Return a line for each way in which queries or judgements of these systems do not fit."""
    first = next(iter(evaluations.values()))
    notes = []
    if first.without_positive:
        treatment = "counted as 0" if first.all_judged else "not counted"
        notes.append(f"judged queries without a grade above 0: {len(first.without_positive)} ({treatment})")
    for system, evaluation in evaluations.items():
        if evaluation.without_documents:
            count = len(evaluation.without_documents)
            notes.append(f"{system}: queries without documents: {count} (counted as 0)")
        if evaluation.without_qrels:
            notes.append(f"{system}: queries without judgements: {len(evaluation.without_qrels)} (left out)")
        if not evaluation.judged_documents:
            notes.append(f"{system}: no document is judged; do the document ids belong to these qrels?")
    return notes


def aligned(rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> list[str]:
    """Return lines with the first row underlined, and its columns aligned.

    Args:
        rows: the first one is the header.
        left: headers of the columns that are aligned to the left besides the first; all others to the right.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    to_left = [column == 0 or header in left for column, header in enumerate(rows[0])]
    lines = [
        "  ".join(
            cell.ljust(width) if leftwards else cell.rjust(width)
            for cell, width, leftwards in zip(row, widths, to_left, strict=True)
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]

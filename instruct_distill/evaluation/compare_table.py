"""What ``compare`` prints: means, tests of every pair, and the queries that gained and lost most."""

from __future__ import annotations

from collections.abc import Sequence

from instruct_distill.evaluation.compare import ChangedQuery, Comparison, Pair, PairedTest, ShownDocument
from instruct_distill.evaluation.table import ABSENT, aligned, notes_on_queries

TEXT_WIDTH = 100
"""Characters of a text that are printed."""


def compare_table(comparison: Comparison) -> str:
    """Return a comparison as lines of text, without colours."""
    blocks = [aligned(_means(comparison))]
    blocks += [aligned(_tests(comparison, metric)) for metric in comparison.pairs[0].tests]
    blocks.append(_notes(comparison))
    for pair in comparison.pairs:
        blocks.append(_changes(pair, "gained", pair.gained))
        blocks.append(_changes(pair, "lost", pair.lost))
    return "\n\n".join("\n".join(block) for block in blocks)


def _means(comparison: Comparison) -> list[list[str]]:
    rows = [["run", *next(iter(comparison.evaluations.values())).means, "queries"]]
    for name, found in comparison.evaluations.items():
        rows.append([name, *(f"{mean:.4f}" for mean in found.means.values()), str(len(found.per_query))])
    return rows


def _tests(comparison: Comparison, metric: str) -> list[list[str]]:
    corrected = len(comparison.pairs) > 1
    rows = [
        [metric, "difference [95% interval]", "wins/ties/losses", "p randomisation"]
        + (["Holm"] if corrected else [])
        + ["p t test"]
        + (["Holm"] if corrected else [])
    ]
    for pair in comparison.pairs:
        test = pair.tests[metric]
        rows.append(
            [
                f"{pair.system} - {pair.baseline}",
                _difference(test),
                f"{test.wins}/{test.ties}/{test.losses}",
                _p(test.p_randomisation),
            ]
            + ([_p(test.holm_randomisation)] if corrected else [])
            + [_p(test.p_t)]
            + ([_p(test.holm_t)] if corrected else [])
        )
    return rows


def _difference(test: PairedTest) -> str:
    mean, low, high = test.difference
    return f"{mean:+.4f} " + ("[unknown]" if low is None or high is None else f"[{low:+.4f}, {high:+.4f}]")


def _p(value: float | None) -> str:
    if value is None:
        return ABSENT
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _notes(comparison: Comparison) -> list[str]:
    first = next(iter(comparison.evaluations.values()))
    notes = ["p: two-sided, paired by query; interval: paired bootstrap over queries"]
    if len(comparison.pairs) > 1:
        notes.append(f"Holm: corrected for {len(comparison.pairs)} pairs, each metric for itself")
    if any(not metric.startswith("nDCG") for metric in first.means):
        notes.append(f"relevant, for metrics other than nDCG: grade {first.relevance_level} or more")
    return notes + notes_on_queries(comparison.evaluations)


def _changes(pair: Pair, verb: str, changes: Sequence[ChangedQuery]) -> list[str]:
    metric = next(iter(pair.tests))
    title = f"{pair.system} - {pair.baseline}: "
    if not changes:
        return [f"{title}no query {verb} ({metric})"]
    count = "query" if len(changes) == 1 else "queries"
    lines = [f"{title}the {len(changes)} {count} that {verb} most ({metric}; in brackets: grade)"]
    for change in changes:
        lines.append(
            f"{change.system - change.baseline:+.4f}  {change.baseline:.4f} -> {change.system:.4f}  "
            f"query {change.query_id}" + (f": {_cut(change.text)}" if change.text is not None else "")
        )
        width = max(len(pair.baseline), len(pair.system))
        lines += _top(pair.baseline.ljust(width), change.baseline_top)
        lines += _top(pair.system.ljust(width), change.system_top)
    return lines


def _top(name: str, documents: Sequence[ShownDocument]) -> list[str]:
    """One line of ids where there are no texts, else a line a document."""
    if not documents:
        return [f"    {name}  no documents"]
    shown = [f"[{ABSENT if d.grade is None else d.grade}] {d.doc_id}" for d in documents]
    if all(document.text is None for document in documents):
        return [f"    {name}  " + "  ".join(shown)]
    return [
        f"    {name}  {label}" + (f"  {_cut(document.text)}" if document.text is not None else "")
        for label, document in zip(shown, documents, strict=True)
    ]


def _cut(text: str) -> str:
    # Control characters, of which wrongly decoded texts have many, would act on the terminal.
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= TEXT_WIDTH else f"{plain[: TEXT_WIDTH - 3]}..."

"""Teacher strategies: what turns a model and a candidate list into comparisons, scores and a ranking."""

from __future__ import annotations

from instruct_distill.registry import Registry

STRATEGIES = Registry(
    "instruct_distill.teachers",
    "strategy",
    besides=(
        "strategy",
        "parameters",
        "labelling",
        "ranker",
        "statistics",
        "label_text",
        "budgets",
        "bradley_terry",
        "pairwise_sort",
        "ranking_scores",
        "rounds",
        "sorting",
    ),
)

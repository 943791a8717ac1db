"""The figures of arXiv 2311.01555 that the scripts beside this file stand theirs next to."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A row of table 2: reranking BM25's top 100 of TREC DL 2019 and 2020.

    Args:
        key: what a command line calls it.
        method: bm25, supervised, quoted, relevance_generation, allpairs or distilled.
        model: hub id of the model, or its name where it is only quoted.
        seconds: for a query, on hardware that the paper does not state; None where it gives none.
        dl19: nDCG@1, @5 and @10 in percent.
        dl20: likewise.
    """

    key: str
    method: str
    model: str
    seconds: float | None
    dl19: tuple[float, float, float]
    dl20: tuple[float, float, float]


METRICS = ("nDCG@1", "nDCG@5", "nDCG@10")
QUERIES = {"dl19": 43, "dl20": 54}
REFERENCE = "monot5-base"
"""The system whose time is 1 in figure 1."""

PARAMETERS = {"base": 220e6, "large": 770e6, "xl": 3e9, "xxl": 11e9}
"""Model sizes as the axis of figure 2 has them."""

TABLE_2 = tuple(
    Row(*fields)
    for fields in (
        ("bm25", "bm25", "-", None, (54.26, 52.78, 50.58), (57.72, 50.67, 47.96)),
        (
            REFERENCE,
            "supervised",
            "castorini/monot5-base-msmarco",
            0.12,
            (79.84, 73.77, 71.48),
            (77.47, 69.40, 66.99),
        ),
        (
            "monot5-xl",
            "supervised",
            "castorini/monot5-3b-msmarco",
            1.30,
            (79.07, 73.74, 71.83),
            (80.25, 72.32, 68.89),
        ),
        (
            "cohere",
            "quoted",
            "Cohere rerank-english-v2.0",
            None,
            (77.13, 76.17, 73.22),
            (79.32, 71.00, 67.08),
        ),
        (
            "rankgpt-gpt-3.5-turbo",
            "quoted",
            "gpt-3.5-turbo",
            None,
            (82.17, 71.15, 65.80),
            (79.32, 66.76, 62.91),
        ),
        ("rankgpt-gpt-4", "quoted", "gpt-4", None, (82.56, 79.16, 75.59), (78.40, 74.11, 70.56)),
        (
            "relevance_generation-base",
            "relevance_generation",
            "google/flan-t5-base",
            0.12,
            (58.13, 48.52, 47.43),
            (55.25, 50.35, 48.32),
        ),
        (
            "allpairs-base",
            "allpairs",
            "google/flan-t5-base",
            21.51,
            (51.16, 53.44, 51.45),
            (53.40, 48.61, 48.36),
        ),
        (
            "distilled-base",
            "distilled",
            "google/flan-t5-base",
            0.12,
            (59.69, 60.21, 57.30),
            (63.27, 55.50, 53.09),
        ),
        (
            "relevance_generation-large",
            "relevance_generation",
            "google/flan-t5-large",
            1.10,
            (43.41, 47.65, 48.41),
            (40.43, 45.19, 46.67),
        ),
        (
            "allpairs-large",
            "allpairs",
            "google/flan-t5-large",
            49.19,
            (74.03, 69.00, 66.58),
            (68.21, 64.63, 61.51),
        ),
        (
            "distilled-large",
            "distilled",
            "google/flan-t5-large",
            1.10,
            (74.33, 74.18, 69.81),
            (72.84, 65.59, 62.80),
        ),
        (
            "relevance_generation-xl",
            "relevance_generation",
            "google/flan-t5-xl",
            1.30,
            (50.00, 54.33, 52.85),
            (45.37, 48.56, 49.07),
        ),
        (
            "allpairs-xl",
            "allpairs",
            "google/flan-t5-xl",
            112.12,
            (77.91, 73.46, 70.58),
            (76.85, 69.58, 67.21),
        ),
        (
            "distilled-xl",
            "distilled",
            "google/flan-t5-xl",
            1.30,
            (79.85, 75.15, 71.92),
            (81.17, 72.08, 69.29),
        ),
    )
)

TABLE_3 = {
    "bm25": 43.42,
    "monot5-base": 49.07,
    "monot5-xl": 51.36,
    "cohere": 49.45,
    "rankgpt-gpt-3.5-turbo": 49.37,
    "rankgpt-gpt-4": 53.68,
    "distilled-base": 36.41,
    "distilled-large": 48.32,
    "distilled-xl": 51.15,
}
"""Mean nDCG@10 in percent over the eight tasks of the suite ``beir-paper``."""

BASELINES_4 = {"random": 10.77, "popularity": 7.69, "bm25": 8.62}
"""Acc@1 in percent of table 4's baselines on ReDial."""

TABLE_4 = {
    "listwise": {"xl": (16.92, 0.02), "large": (13.85, 0.01), "base": (1.54, 0.01)},
    "pairwise": {"xl": (20.00, 7.90), "large": (16.62, 3.06), "base": (11.69, 1.00)},
    "pointwise": {"xl": (12.00, 1.44), "large": (8.00, 0.49), "base": (10.77, 0.18)},
    "distilled": {"xl": (24.93, 1.44), "large": (19.71, 0.49), "base": (15.07, 0.18)},
}
"""Method → FLAN-T5's size → Acc@1 in percent, seconds a query."""

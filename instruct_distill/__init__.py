"""Distil the ranking of a large language model into a small, fast reranker, without labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instruct_distill.version import __version__

if TYPE_CHECKING:
    from instruct_distill.evaluation.compare import compare
    from instruct_distill.evaluation.evaluate import evaluate
    from instruct_distill.hub import publish
    from instruct_distill.pipeline.distill import distill
    from instruct_distill.recipe import Recipe
    from instruct_distill.reranker import Reranker

_PLACES = {
    "Recipe": "instruct_distill.recipe",
    "Reranker": "instruct_distill.reranker",
    "compare": "instruct_distill.evaluation.compare",
    "distill": "instruct_distill.pipeline.distill",
    "evaluate": "instruct_distill.evaluation.evaluate",
    "publish": "instruct_distill.hub",
}

__all__ = ["Recipe", "Reranker", "__version__", "compare", "distill", "evaluate", "publish"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: checking a recipe must not load torch."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_PLACES[name]), name)

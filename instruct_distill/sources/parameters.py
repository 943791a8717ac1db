"""The recipe section ``queries``."""

from __future__ import annotations

from pydantic import Field

from instruct_distill.schema import parameters


@parameters
class QueriesParameters:
    """Which queries of a collection are used."""

    split: str | None = None
    """Name of the query split, or ``all``; the stage's own split (``train`` or ``test``) where left out."""

    sample: int | None = Field(default=None, gt=0)
    """Number of queries drawn at random, without replacement; all of them where left out."""

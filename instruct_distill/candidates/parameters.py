"""The recipe section ``candidates``: how each query's first-stage list is found."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from instruct_distill.candidates.tokenise import check_stemmer
from instruct_distill.registry import Registry
from instruct_distill.schema import parameters

METHODS = Registry(
    "instruct_distill.candidates",
    "candidates method",
    besides=(
        "baselines",
        "bm25s_engine",
        "engine",
        "lists",
        "parameters",
        "rank_bm25_engine",
        "stop_words",
        "tokenise",
    ),
)
"""The ways to get candidates; a member's ``candidates(collection, queries, parameters)`` returns the run."""


@parameters
class CandidateParameters:
    """Where the candidate lists come from and how long they are."""

    method: str = "bm25"
    """``bm25`` (search the collection), ``run`` (a TREC run file), ``given`` (the collection's lists),
    ``popular`` (the most popular documents) or ``pool`` (for recommendation: found, popular and relevant
    documents, shuffled)."""

    engine: Literal["bm25s", "rank_bm25"] = "bm25s"
    """``bm25s``: Lucene's BM25, index on disk; ``rank_bm25``: BM25Okapi in memory, for small collections."""

    k1: float = Field(default=0.9, ge=0, allow_inf_nan=False)
    """BM25: saturation of the term frequency; 0.9 is Anserini's value for MS MARCO."""

    b: float = Field(default=0.4, ge=0, le=1)
    """BM25: strength of the length normalisation, from 0 to 1; 0.4 is Anserini's value for MS MARCO."""

    depth: int = Field(default=100, gt=0)
    """Number of documents of a query's list at most; a pool is never cut."""

    stemmer: str | None = "english"
    """Snowball language for BM25 terms, or ``none``."""

    stop_words: Literal["english", "none"] = "english"
    """List of words that BM25 leaves out."""

    file: str | None = None
    """TREC run file, for the method ``run``."""

    bm25: int = Field(default=5, ge=0)
    """Pool: documents found by BM25."""

    popular: int = Field(default=4, ge=0)
    """Pool: documents drawn in proportion to their popularity, without replacement."""

    popular_above: float = Field(default=200, ge=0, allow_inf_nan=False)
    """Pool: a document that is drawn is more popular than this, in the collection's unit (mentions)."""

    with_target: bool = True
    """Pool: put the relevant documents in, so that a ranker is judged and not the first stage."""

    seed: int = Field(default=13, ge=0)
    """Pool: draws and order are functions of it and of the query's id."""

    drop_self: bool = False
    """Leave out the document whose id is the query's: for ArguAna and Quora, whose queries are documents of
    the corpus. Elsewhere equal ids may be chance, and a relevant document would be lost."""

    @field_validator("method")
    @classmethod
    def _method_is_known(cls, method: str) -> str:
        return METHODS.check(method)

    @field_validator("stemmer", mode="before")
    @classmethod
    def _none_is_none(cls, stemmer: object) -> object:
        return None if stemmer in ("none", "null", "") else stemmer

    @field_validator("stemmer")
    @classmethod
    def _stemmer_is_known(cls, stemmer: str | None) -> str | None:
        return None if stemmer is None else check_stemmer(stemmer)

    @model_validator(mode="after")
    def _file_goes_with_run(self) -> Self:
        if self.method == "run" and not self.file:
            raise ValueError("method run needs 'file', the path of a TREC run")
        if self.method != "run" and self.file:
            raise ValueError(f"method {self.method} reads no 'file'; set method to run or leave 'file' out")
        return self

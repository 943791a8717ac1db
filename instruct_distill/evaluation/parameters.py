"""The recipe section ``evaluation``: a list of tasks."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, FiniteFloat, field_validator, model_validator
from typing_extensions import Self

from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.evaluation.joining import Joining
from instruct_distill.evaluation.measures import parse_metrics
from instruct_distill.registry import nearest
from instruct_distill.schema import parameters
from instruct_distill.sources import check_prefix
from instruct_distill.sources.parameters import QueriesParameters

SYSTEMS = ("first_stage", "bm25", "popularity", "zero_shot", "teacher", "student")
"""Systems in the order of the printed table; ``bm25`` and ``popularity`` for recommendations only."""


@parameters
class TeacherRun:
    """A teacher's ranking that somebody already has."""

    run: str
    """TREC run file."""


@parameters
class EvaluationParameters:
    """One task: a collection with judgements, candidates and metrics."""

    collection: str
    """Collection with its prefix, such as ``irds:msmarco-passage/trec-dl-2019/judged``."""

    name: str | None = None
    """Name of the task's folder and entry in ``summary.json``; made from the collection where left out."""

    qrels: str | None = None
    """Qrels file to use instead of the collection's judgements."""

    queries: QueriesParameters = Field(default_factory=QueriesParameters)
    """Queries to evaluate on; judged ones only."""

    candidates: CandidateParameters = Field(default_factory=CandidateParameters)
    """The first-stage lists that are reranked."""

    depth: int | None = Field(default=None, gt=0)
    """Candidates of each query that are reranked; those below follow in their order. All where left out."""

    teacher: Literal["none", "same"] | TeacherRun = "none"
    """``none``, ``same`` (the recipe's teacher; all pairs ask n(n-1) prompts a query), or ``{run: FILE}``."""

    zero_shot: bool = True
    """Evaluate the untrained student, too, at as many prompts as the trained one."""

    metrics: list[str] = Field(default_factory=lambda: ["nDCG@1", "nDCG@5", "nDCG@10"])
    """Metrics by the names of ir_measures."""

    relevance_level: int = Field(default=1, gt=0)
    """Lowest grade that is relevant, for every metric but nDCG (2 for TREC DL)."""

    all_judged: bool = False
    """Count judged queries without a grade above 0 as 0, as trec_eval does, instead of leaving them out."""

    joining: Joining = "blank"
    """Title and text as rankers see them: ``blank`` between them, or ``labelled`` (Title: .. Content: ..)."""

    expected: dict[str, dict[str, FiniteFloat]] = Field(default_factory=dict)
    """System → metric → the figure that should come out; the run fails where it does not."""

    tolerance: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    """Largest difference to an expected figure, in units of the metric."""

    @property
    def task(self) -> str:
        """The task's name: as given, or made from the collection."""
        return self.name or task_name(self.collection)

    @field_validator("collection")
    @classmethod
    def _prefix_is_known(cls, collection: str) -> str:
        return check_prefix(collection)

    @field_validator("name")
    @classmethod
    def _name_is_a_file_name(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise ValueError(f"{name!r} cannot name a folder; use letters, digits, '.', '_' and '-'")
        return name

    @field_validator("metrics")
    @classmethod
    def _metrics_are_known(cls, metrics: list[str]) -> list[str]:
        return [metric.name for metric in parse_metrics(metrics)]

    @model_validator(mode="after")
    def _depth_is_there(self) -> Self:
        if self.candidates.method in ("bm25", "popular") and (self.depth or 0) > self.candidates.depth:
            raise ValueError(
                f"depth: {self.depth} candidates cannot be reranked, candidates.depth is "
                f"{self.candidates.depth}"
            )
        return self

    @model_validator(mode="after")
    def _expected_is_evaluated(self) -> Self:
        problems = []
        for system, figures in self.expected.items():
            if system not in SYSTEMS:
                problems.append(
                    f"expected: unknown system {system!r}{nearest(system, SYSTEMS)} "
                    f"(known: {', '.join(SYSTEMS)})"
                )
            elif system == "teacher" and self.teacher == "none":
                problems.append("expected: the teacher is not evaluated; set 'teacher' or leave it out")
            problems += [
                f"expected: {system} {metric} is not among the metrics ({', '.join(self.metrics)})"
                for metric in figures
                if metric not in self.metrics
            ]
        if problems:
            raise ValueError("; ".join(problems))
        return self


def task_name(collection: str) -> str:
    """Return a name for the task that is safe as a file name: no folders, no blanks.

    An ir_datasets id keeps all its parts (``msmarco-passage-trec-dl-2019-judged``); of a path the last part
    is taken, without the ending of its format.
    """
    prefix, colon, rest = collection.partition(":")
    rest = rest if colon else prefix
    if prefix != "irds":
        last = re.split(r"[/\\]", rest.rstrip("/\\"))[-1]
        rest = re.sub(r"\.jsonl?(\.gz)?$", "", last)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", rest).strip("-._") or "task"

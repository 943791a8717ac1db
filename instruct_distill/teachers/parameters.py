"""The ``teacher`` section of a recipe."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from instruct_distill.prompts.prompt import Prompt, named_prompt
from instruct_distill.schema import parameters
from instruct_distill.teachers import STRATEGIES


@parameters
class TeacherParameters:
    """Who ranks the candidates, and how it is asked.

    A teacher is a ``model`` with a ``strategy``, or a ranking that exists already (``run``,
    ``permutations``), or the collection's judgements (``qrels: true``).
    """

    model: str | None = None
    """A hub id, a folder, a .gguf file or pypi:PACKAGE==VERSION/FILE.gguf#sha256=..."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    strategy: str = "allpairs"
    """How candidates are compared."""
    prompt: str | Prompt | None = None
    """A prompt's name or a prompt record; the strategy's own where none is named."""
    run: str | None = None
    """A TREC run file whose ranking is the label."""
    permutations: str | None = None
    """A JSON list of permutations such as "3 > 1 > 2", by position in the candidates, one a query."""
    qrels: bool = False
    """Take the collection's judgements as labels (a supervised baseline)."""
    dtype: str = "auto"
    """Number format of the model: auto, bf16, fp32, fp16."""
    max_length: int = Field(default=512, gt=0)
    """The longest prompt in tokens."""
    document_words: int | None = Field(default=None, gt=0)
    """Words of a document that are shown at most; the released scripts use 100."""
    tokens_per_batch: int = Field(default=4096, gt=0)
    """Padded tokens a batch."""
    prompts_per_chunk: int = Field(default=512, gt=0)
    """Prompts after which labels are written: the unit of batching, resuming and dealing to processes."""

    @field_validator("strategy")
    @classmethod
    def _known(cls, value: str) -> str:
        return STRATEGIES.check(value)

    @field_validator("prompt")
    @classmethod
    def _named(cls, value: str | Prompt | None) -> str | Prompt | None:
        if isinstance(value, str):
            named_prompt(value)
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> TeacherParameters:
        given = [
            name
            for name, value in (
                ("model", self.model),
                ("run", self.run),
                ("permutations", self.permutations),
                ("qrels", self.qrels),
            )
            if value
        ]
        if len(given) != 1:
            raise ValueError(
                f"a teacher is one of model, run, permutations and qrels; given: {', '.join(given) or 'none'}"
            )
        return self

    @property
    def kind(self) -> str:
        """The registry name of the strategy: the model's, or what stands in its place."""
        for name in ("run", "permutations", "qrels"):
            if getattr(self, name):
                return name
        return self.strategy

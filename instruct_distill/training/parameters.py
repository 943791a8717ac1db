"""The ``student`` and ``training`` sections of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from instruct_distill.losses import LOSSES
from instruct_distill.prompts.prompt import Prompt, check_prompt, named_prompt
from instruct_distill.schema import parameters


@parameters
class StudentParameters:
    """What the student is before it is trained, and how it is asked."""

    model: str
    """A hub id, a folder, a .gguf file or pypi:PACKAGE==VERSION/FILE.gguf#sha256=..."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    prompt: str | Prompt = "pointwise-passage"
    """A prompt's name or a prompt record."""
    score: Literal["yes_logit", "yes_minus_no"] = "yes_logit"
    """The logit of the first answer (the paper's), or its difference to the second."""
    max_length: int = Field(default=512, gt=0)
    """The longest prompt in tokens, in training and in use."""
    document_words: int | None = Field(default=None, gt=0)
    """Words of a document that are shown at most; the released scripts use 200."""
    dtype: str = "auto"
    """Number format when it scores: auto, bf16, fp32."""
    tokens_per_batch: int = Field(default=4096, gt=0)
    """Padded tokens a batch when it scores."""

    @field_validator("prompt")
    @classmethod
    def _fits(cls, value: str | Prompt) -> str | Prompt:
        prompt = value if isinstance(value, Prompt) else named_prompt(value)
        check_prompt(prompt, documents=1, answers=True, purpose="a pointwise student")
        return value

    @property
    def prompt_record(self) -> Prompt:
        """The prompt itself."""
        return self.prompt if isinstance(self.prompt, Prompt) else named_prompt(self.prompt)


@parameters
class RandomDocuments:
    """A number of documents drawn anew from each list in each epoch."""

    random: int = Field(gt=1)
    """Documents a list."""


@parameters
class TrainingParameters:
    """How the student learns the teacher's order."""

    loss: str = "ranknet"
    """A ranking loss."""
    learning_rate: float = Field(default=3e-5, gt=0)
    """Peak rate of AdamW."""
    schedule: Literal["constant", "linear"] = "constant"
    """After the warm-up: stay, or fall to 0 at the last optimizer step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Optimizer steps over which the rate rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decoupled weight decay."""
    clip: float = Field(default=1.0, ge=0)
    """Largest norm of the gradient; 0 for no limit."""
    lists_per_step: int = Field(default=32, gt=0)
    """Lists of one optimizer step, over all processes."""
    epochs: int = Field(default=3, ge=0)
    """Passes over the labelled lists."""
    documents_per_list: Literal["all"] | RandomDocuments = "all"
    """Which documents of a list are used in an epoch: all, or {random: 16}."""
    ties: Literal["skip", "first_stage"] = "skip"
    """Documents with equal teacher scores make no pair, or are ordered as the first stage did."""
    precision: Literal["auto", "bf16", "fp32", "fp64"] = "auto"
    """What is computed in; weights and optimizer are float32 in any case (float64 for fp64)."""
    tokens_per_micro_batch: int = Field(default=8192, gt=0)
    """Tokens whose activations are in memory at one time; longer lists use gradient caching."""
    checkpoint_every: int = Field(default=100, gt=0)
    """Optimizer steps between checkpoints."""
    keep: int = Field(default=1, ge=1)
    """Newest checkpoints that are kept."""

    @field_validator("loss")
    @classmethod
    def _known(cls, value: str) -> str:
        return LOSSES.check(value)

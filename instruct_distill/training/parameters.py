"""The ``student`` and ``training`` sections of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    Tag,
    field_serializer,
    field_validator,
    model_validator,
)

from instruct_distill.losses.signature import complete_parameters
from instruct_distill.models.lora_parameters import LoraParameters
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt, check_pointwise, check_prompt
from instruct_distill.registry import nearest
from instruct_distill.schema import parameters
from instruct_distill.training.dev_parameters import DevParameters


@parameters
class StudentParameters:
    """What the student is before it is trained, and how it is asked."""

    model: str
    """A hub id, a folder, a .gguf file or pypi:PACKAGE==VERSION/FILE#sha256=..."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    score: Literal["yes_logit", "yes_minus_no", "head"] = "yes_logit"
    """The logit of the first answer (the paper's), or its difference to the second; head: the output of an
    encoder's score head (BERT, MiniLM, DeBERTa, ModernBERT), which is new where the model has none."""
    prompt: str | Prompt | None = None
    """A prompt's name or a prompt record; pointwise-passage where nothing is said, and pair for a head."""
    max_length: int = Field(default=512, gt=0)
    """The longest prompt in tokens, in training and in use."""
    document_words: int | None = Field(default=None, gt=0)
    """Words of a document that are shown at most; the released scripts use 200."""
    dtype: Literal["auto", "bf16", "fp32", "fp16", "fp64"] = "auto"
    """Number format when it scores: bf16 where the machine has it natively, else fp32, or as said."""
    tokens_per_batch: int = Field(default=4096, gt=0)
    """Padded tokens a batch when it scores."""
    lora: LoraParameters | None = None
    """Small matrices beside the weights, which alone are trained; all weights if left out."""

    @field_validator("prompt")
    @classmethod
    def _known(cls, value: str | Prompt | None) -> str | Prompt | None:
        prompt = named_prompt(value) if isinstance(value, str) else value
        if prompt is not None and not prompt.is_pair:
            check_prompt(prompt, documents=1, answers=True, purpose="a pointwise student")
        return value

    @model_validator(mode="after")
    def _prompt_fits_the_score(self) -> StudentParameters:
        if self.prompt is None:
            object.__setattr__(self, "prompt", "pair" if self.score == "head" else "pointwise-passage")
        check_pointwise(self.prompt_record, self.score, purpose="a pointwise student")
        return self

    @property
    def prompt_record(self) -> Prompt:
        """The prompt itself."""
        assert self.prompt is not None
        return self.prompt if isinstance(self.prompt, Prompt) else named_prompt(self.prompt)


@parameters
class RandomDocuments:
    """A number of documents drawn anew from each list in each epoch."""

    random: int = Field(gt=1)
    """Documents a list."""


@parameters
class TopAndRandom:
    """How many documents are the teacher's best, and how many are drawn from the others."""

    top: int = Field(gt=0)
    """The teacher's best; of equal ones the first stage's better."""
    random: int = Field(gt=0)
    """Documents drawn anew in each epoch from those below."""


@parameters
class TopAndRandomDocuments:
    """The teacher's best documents of each list, with others that are drawn anew in each epoch."""

    top_and_random: TopAndRandom
    """How many of each kind."""


@parameters
class StratifiedDocuments:
    """Documents from the whole range of the teacher's ranking, drawn anew in each epoch."""

    stratified: int = Field(gt=1)
    """Documents a list: the ranking is cut into as many parts, and one is drawn from each."""


_CHOICES = {
    "random": "RandomDocuments",
    "top_and_random": "TopAndRandomDocuments",
    "stratified": "StratifiedDocuments",
}


def _which_choice(value: Any) -> str | None:
    """Return the tag of a choice of documents, by the key that it has or nearly has, or None."""
    if value == "all":
        return "all"
    if not isinstance(value, Mapping):
        return type(value).__name__
    for key in map(str, value):
        for known, tag in _CHOICES.items():
            if nearest(key, _CHOICES) == nearest(known, _CHOICES):
                return tag
    return None


DocumentChoice = Annotated[
    Annotated[Literal["all"], Tag("all")]
    | Annotated[RandomDocuments, Tag("RandomDocuments")]
    | Annotated[TopAndRandomDocuments, Tag("TopAndRandomDocuments")]
    | Annotated[StratifiedDocuments, Tag("StratifiedDocuments")],
    Discriminator(
        _which_choice,
        custom_error_type="document_choice",
        custom_error_message=(
            "expected all, {random: 16}, {stratified: 16} or {top_and_random: {top: 4, random: 12}}"
        ),
    ),
]
"""Which documents of a labelled list are used in an epoch."""


@parameters
class LossChoice:
    """A ranking loss by name, with its parameters; in a recipe ``{name: kl, temperature: 2.0}``."""

    name: str
    """Name of the loss."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """The keyword-only arguments of its function; those that are left out are filled in."""

    @model_validator(mode="after")
    def _complete(self) -> LossChoice:
        object.__setattr__(self, "parameters", complete_parameters(self.name, self.parameters))
        return self


@parameters
class TrainingParameters:
    """How the student learns the teacher's order."""

    loss: str | LossChoice = "ranknet"
    """A ranking loss: its name, or with parameters {name: kl, temperature: 2.0}."""
    learning_rate: float = Field(default=3e-5, gt=0, allow_inf_nan=False)
    """Peak rate of AdamW."""
    schedule: Literal["constant", "linear"] = "constant"
    """After the warm-up: stay, or fall to 0 at the last optimizer step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Optimizer steps over which the rate rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """AdamW's decoupled weight decay."""
    clip: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Largest norm of the gradient; 0 for no limit."""
    lists_per_step: int = Field(default=32, gt=0)
    """Lists of one optimizer step, over all processes."""
    epochs: int = Field(default=3, ge=0)
    """Passes over the labelled lists."""
    documents_per_list: DocumentChoice = "all"
    """Which documents of a list are used in an epoch: all, {random: 16}, {stratified: 16}, or the teacher's
    best and others, {top_and_random: {top: 4, random: 12}}."""
    ties: Literal["skip", "first_stage"] = "skip"
    """Documents with equal teacher scores make no pair, or are ordered as the first stage did."""
    precision: Literal["auto", "bf16", "fp32", "fp64"] = "auto"
    """What is computed in; weights and optimizer are float32 in any case (float64 for fp64)."""
    tokens_per_micro_batch: int = Field(default=4096, gt=0)
    """Tokens whose activations are in memory at one time (SmolLM2-135M: 0.75 MB a token); longer lists use
    gradient caching, which costs a second forward pass."""
    gradient_checkpointing: bool = False
    """Hold the activations at the layers' borders only, and compute the others a second time: about a fifth
    of the memory for a third more time."""
    checkpoint_every: int = Field(default=100, gt=0)
    """Optimizer steps between checkpoints."""
    keep: Annotated[int, Field(ge=1)] | Literal["all"] = 1
    """Newest checkpoints that are kept, besides the best one of ``dev``; or all."""
    dev: DevParameters | None = None
    """Queries apart on which the student is measured while it is trained, and the best checkpoint chosen."""
    trackers: list[str] = Field(default_factory=list)
    """Where figures go besides training.jsonl, by accelerate's names: tensorboard, wandb, mlflow, ..."""

    @field_validator("loss", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if isinstance(value, str):
            complete_parameters(value, {})
        elif isinstance(value, Mapping):
            if not isinstance(value.get("name"), str):
                raise ValueError("expected the name of a loss, such as {name: kl, temperature: 2.0}")
            name, given = value["name"], {str(key): item for key, item in value.items() if key != "name"}
            complete = complete_parameters(name, given)
            # the name alone where nothing else is said: a recipe is equal to itself written out
            return (
                name if complete == complete_parameters(name, {}) else LossChoice(name=name, parameters=given)
            )
        return value

    @field_serializer("loss")
    def _in_full(self, value: str | LossChoice) -> dict[str, Any]:
        return {"name": self.loss_choice.name, **self.loss_choice.parameters}

    @property
    def loss_choice(self) -> LossChoice:
        """The loss with all of its parameters."""
        return self.loss if isinstance(self.loss, LossChoice) else LossChoice(name=self.loss)

    @property
    def soft_pairs(self) -> bool:
        """Whether the loss compares with the teacher's pair probabilities."""
        return bool(self.loss_choice.parameters.get("targets") == "soft")

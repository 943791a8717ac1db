"""The ``teacher`` section of a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from instruct_distill.errors import InputError
from instruct_distill.inference.parameters import ServerParameters
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.registry import nearest
from instruct_distill.schema import parameters
from instruct_distill.teachers import STRATEGIES

T = TypeVar("T")


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
    server: ServerParameters | None = None
    """An OpenAI-compatible endpoint that serves the model; where left out, the model runs here."""
    strategy: str | dict[str, Any] = "allpairs"
    """How candidates are compared: a name, or a name with its keys, {name: sampled_pairs, share: 0.25}."""
    answers: Literal["logits", "written"] = "logits"
    """Read the answers from their logits, or from what the model writes (a tie where it gives none)."""
    prompt: str | Prompt | None = None
    """A prompt's name or a prompt record; the strategy's own where none is named."""
    run: str | None = None
    """A TREC run file whose ranking is the label."""
    permutations: str | None = None
    """A JSON list of permutations such as "3 > 1 > 2", by position in the candidates, one a query."""
    qrels: bool = False
    """Take the collection's judgements as labels (a supervised baseline)."""
    dtype: Literal["auto", "bf16", "fp32", "fp16", "fp64"] = "auto"
    """Number format of a local model: bf16 where the machine has it natively, else fp32, or as said."""
    devices: Literal["one", "split"] = "one"
    """one: each process has the whole model on its own GPU; split: its layers are spread over all GPUs of the
    machine, for a model too large for one, and there is one process a machine."""
    max_length: int = Field(default=512, gt=0)
    """The longest prompt of a local model, in tokens; for a served one set document_words."""
    document_words: int | None = Field(default=None, gt=0)
    """Words of a document that are shown at most; the released scripts use 100."""
    tokens_per_batch: int = Field(default=4096, gt=0)
    """Padded tokens a batch of a local model."""
    share_prefix: Literal["auto", "off"] = "auto"
    """Let a local decoder-only model read the common beginnings of a chunk's prompts once, where it can."""
    prompts_per_chunk: int = Field(default=512, gt=0)
    """Prompts after which labels are written: the unit of batching, resuming and dealing to processes.
    Strategies that ask little at a time (sorts, windows) take in more, for full batches."""

    @field_validator("strategy")
    @classmethod
    def _known(cls, value: str | dict[str, Any]) -> str | dict[str, Any]:
        return _checked(value)

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

    @model_validator(mode="after")
    def _served(self) -> TeacherParameters:
        if self.server is not None and self.model is None:
            raise ValueError("server: name the model that it serves with 'model'")
        if self.server is not None and self.revision is not None:
            raise ValueError("revision: a server has one revision of its model, which cannot be chosen here")
        if self.server is not None and self.devices != "one":
            raise ValueError("devices: a server has its own; leave the key out")
        return self

    @property
    def answer_settings(self) -> dict[str, Any]:
        """The section as plain values, without the keys that labels do not depend on."""
        section: dict[str, Any] = TypeAdapter(TeacherParameters).dump_python(self, mode="json")
        del section["server"], section["devices"]
        return section if self.server is None else section | {"server": self.server.answer_settings}

    @property
    def kind(self) -> str:
        """The registry name of the strategy: the model's, or what stands in its place."""
        for name in ("run", "permutations", "qrels"):
            if getattr(self, name):
                return name
        return self.strategy if isinstance(self.strategy, str) else str(self.strategy["name"])

    def strategy_section(self, section: type[T]) -> T:
        """Return the keys that stand under ``strategy``, as the strategy's own section."""
        given = {} if isinstance(self.strategy, str) else self.strategy
        return TypeAdapter(section).validate_python({k: v for k, v in given.items() if k != "name"})


def _checked(strategy: str | Mapping[str, Any]) -> str | dict[str, Any]:
    """Return a strategy with every default written out; only its name where it has no keys of its own.

    Raises:
        InputError: there is no such strategy, or its keys are not as it declares them.
    """
    given = {"name": strategy} if isinstance(strategy, str) else dict(strategy)
    name = given.pop("name", None)
    if not isinstance(name, str):
        raise InputError("a strategy has a name, such as {name: sampled_pairs, share: 0.25}")
    section = getattr(STRATEGIES.load(name), "Parameters", None)
    keys = [] if section is None else [field.name for field in dataclasses.fields(section)]
    problems = [
        f"unknown key {key!r}{nearest(str(key), keys)} (known: {', '.join(keys) or 'none'})"
        for key in given
        if key not in keys
    ]
    if problems:
        raise InputError(f"strategy {name!r}: {'; '.join(problems)}")
    if section is None:
        return name
    adapter: TypeAdapter[Any] = TypeAdapter(section)
    try:
        return {"name": name, **adapter.dump_python(adapter.validate_python(given), mode="json")}
    except ValidationError as error:
        for detail in error.errors():
            where = ".".join(str(part) for part in detail["loc"])
            message = str(detail["msg"]).removeprefix("Value error, ")
            problems.append(f"{where}: {message}, not {detail['input']!r}" if where else message)
    raise InputError(f"strategy {name!r}: {'; '.join(problems)}")

"""The recipe section ``queries``: the collection's own, or written ones."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from pydantic import Field, TypeAdapter, field_validator, model_validator

from instruct_distill.inference.parameters import ServerParameters
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt, check_prompt
from instruct_distill.schema import parameters
from instruct_distill.sources.parameters import QueriesParameters

DEFAULT_PROMPT = "write-query"


@parameters
class TrainingQueriesParameters(QueriesParameters):
    """Which queries are labelled and trained on.

    They are the collection's (``split``, ``sample``), or, with ``generate``, those that a model writes.
    """

    generate: int | None = Field(default=None, gt=0)
    """Number of queries to be written, each from another document of the collection, drawn at random."""
    model: str | None = None
    """What writes them: a hub id, a folder, a .gguf file or pypi:PACKAGE==VERSION/FILE.gguf#sha256=..."""
    revision: str | None = None
    """Branch, tag or commit of a hub model."""
    server: ServerParameters | None = None
    """An OpenAI-compatible endpoint that serves the model; where left out, the model runs in this process."""
    prompt: str | Prompt | None = None
    """A prompt's name or a prompt record that shows one document; write-query where none is named."""
    dtype: Literal["auto", "bf16", "fp32", "fp16", "fp64"] = "auto"
    """Number format of a local model, as for a teacher."""
    max_length: int = Field(default=512, gt=0)
    """The longest prompt of a local model, in tokens; for a served one set document_words."""
    document_words: int | None = Field(default=None, gt=0)
    """Words of a document that are shown at most."""
    least_words: int = Field(default=8, gt=0)
    """Words that a document must have to be drawn; shorter ones are passed over."""
    tokens_per_batch: int = Field(default=4096, gt=0)
    """Padded tokens a batch of a local model."""

    @field_validator("prompt")
    @classmethod
    def _shows_one_document(cls, value: str | Prompt | None) -> str | Prompt | None:
        if value is not None:
            prompt = named_prompt(value) if isinstance(value, str) else value
            check_prompt(prompt, documents=1, answers=False, purpose="queries.generate")
        return value

    @model_validator(mode="after")
    def _own_or_written(self) -> TrainingQueriesParameters:
        if self.generate is None:
            keys = ("model", "revision", "server", "prompt")
            given = [key for key in keys if getattr(self, key) is not None]
            if given:
                raise ValueError(
                    f"{', '.join(given)}: for written queries only; say how many with 'generate'"
                )
            return self
        if self.split is not None or self.sample is not None:
            raise ValueError("written queries ('generate') have no split or sample; leave these out")
        if self.model is None:
            raise ValueError("'generate' needs a 'model' that writes the queries")
        if self.server is not None and self.revision is not None:
            raise ValueError("revision: a server has one revision of its model, which cannot be chosen here")
        return self

    def smaller(self, queries: int) -> TrainingQueriesParameters:
        """Return the section with at most that many queries."""
        if self.generate is None:
            return dataclasses.replace(self, sample=min(self.sample or queries, queries))
        return dataclasses.replace(self, generate=min(self.generate, queries))

    @property
    def settings(self) -> dict[str, Any]:
        """The section as plain values, without the keys that no query depends on."""
        section: dict[str, Any] = TypeAdapter(TrainingQueriesParameters).dump_python(self, mode="json")
        del section["server"]
        return section if self.server is None else section | {"server": self.server.answer_settings}

    @property
    def prompt_record(self) -> Prompt:
        """The prompt by which queries are written."""
        return self.prompt if isinstance(self.prompt, Prompt) else named_prompt(self.prompt or DEFAULT_PROMPT)

"""What a student on disk is: a Hugging Face model (or adapter) folder, tokenizer and ``reranker.json``."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open

from instruct_distill.errors import InputError
from instruct_distill.files import read_json, write_json
from instruct_distill.inference.score_rules import ScoreRule
from instruct_distill.models.loading import LoadedModel
from instruct_distill.models.lora import adapter_weights, has_lora, write_adapter
from instruct_distill.probability import Calibration
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.schema import parameters
from instruct_distill.version import __version__

RECORD = "reranker.json"
FORMAT = 1


@parameters
class StudentRecord:
    """Everything that is needed to use a student correctly, besides weights and tokenizer."""

    family: str
    """``encoder-decoder``, ``decoder-only`` or ``encoder``."""
    prompt: Prompt
    """The prompt record."""
    score: ScoreRule
    """How answer logits become a score."""
    max_length: int = Field(gt=0)
    """The longest prompt in tokens."""
    document_words: int | None = Field(gt=0)
    """Words of a document that are shown at most, or None."""
    dtype: str
    """The number format of the weights."""
    base_model: str
    """What the student was made from, as the recipe names it."""
    base_revision: str
    """Its commit, or a digest of its weights."""
    training: dict[str, Any]
    """What it was trained on and how, as plain values."""
    probability: Calibration | None = None
    """How a score becomes a probability; None where no lists were held back to fit it on."""
    weights: Literal["whole", "adapter"] = "whole"
    """A whole model, or a LoRA adapter that is loaded with the base model at its revision."""
    library_version: str = __version__
    """The version that wrote the folder."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        fitted = None if self.probability is None else dict(self.probability.__dict__)
        return {
            "format": FORMAT,
            **self.__dict__,
            "prompt": self.prompt.as_dict(),
            "probability": fitted,
        }


def write_student(folder: Path, loaded: LoadedModel, record: StudentRecord) -> None:
    """Write a student, complete or not at all, and read its weights' shapes back before it counts as written.

    Raises:
        InputError: the written weights are not those of the model, or the folder cannot be written.
    """
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        with _for_cross_encoder(loaded, record):
            if has_lora(loaded.model):
                write_adapter(temporary, loaded.model)
                expected, elsewhere = adapter_weights(loaded.model), set()
            else:
                loaded.model.model.save_pretrained(temporary)
                expected = loaded.model.model.state_dict()
                elsewhere = set(getattr(loaded.model.model, "all_tied_weights_keys", None) or {})
            loaded.tokenizer.save_pretrained(temporary)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{folder}: the student cannot be written ({error})") from None
    _compare_shapes(temporary, expected, elsewhere)
    write_json(temporary / RECORD, record.as_dict())
    if folder.exists():
        shutil.rmtree(folder)
    os.replace(temporary, folder)


@contextlib.contextmanager
def _for_cross_encoder(loaded: LoadedModel, record: StudentRecord) -> Iterator[None]:
    """Tell sentence-transformers' CrossEncoder, in the files alone, to give an encoder's scores as they are.

    By itself it would put one label through a sigmoid, and cut texts to the tokenizer's own limit.
    """
    if record.family != "encoder":
        yield
        return
    config, tokenizer = loaded.model.model.config, loaded.tokenizer
    limit = tokenizer.model_max_length
    config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}
    tokenizer.model_max_length = record.max_length
    try:
        yield
    finally:
        del config.sentence_transformers
        tokenizer.model_max_length = limit


def read_record(folder: str | os.PathLike[str]) -> StudentRecord:
    """Read ``reranker.json``.

    Raises:
        InputError: the file is missing, or lacks a key, or has a value of another type.
    """
    path = Path(folder) / RECORD
    if not path.exists():
        raise InputError(
            f"{folder}: no {RECORD}: without its prompt a model cannot be used as a student; "
            "give a folder that training wrote"
        )
    content = read_json(path)
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InputError(f"{path}: expected an object with format {FORMAT}")
    try:
        record: StudentRecord = TypeAdapter(StudentRecord).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()
        )
        raise InputError(
            f"{path}: not a student's record that version {__version__} of this library can use: {problems}"
        ) from None
    return record


def _compare_shapes(folder: Path, expected: dict[str, Any], tied: set[str]) -> None:
    """Make sure that every weight is in the files with its shape: empty or missing tensors are found now."""
    written: dict[str, tuple[int, ...]] = {}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (a safetensors handle is no mapping)
                written[name] = tuple(tensors.get_slice(name).get_shape())
    for name, tensor in expected.items():
        if name in written and written[name] != tuple(tensor.shape):
            raise InputError(
                f"{folder}: {name} was written as {written[name]}, the model has {tuple(tensor.shape)}"
            )
        if name not in written and name not in tied:
            raise InputError(f"{folder}: {name} was not written")

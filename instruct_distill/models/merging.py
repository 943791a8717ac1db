"""LoRA matrices added to the weights that they stand beside: a whole model, with the same scores."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from instruct_distill.errors import InputError
from instruct_distill.models.loading import LoadedModel, load_base
from instruct_distill.models.lora import attach, read_adapter, write_adapter
from instruct_distill.prompts.answers import EncodedAnswers

logger = logging.getLogger(__name__)

_TOLERANCE = 1e-4
"""Largest difference of a score, as a part of the largest score or of 1."""


def merged(loaded: LoadedModel, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> LoadedModel:
    """Return the whole model that scores as a model with LoRA does.

    The base is loaded again in float32 (float64 for a float64 model) on the CPU, whatever it was trained in:
    added up in bf16, or to weights of four bits, what was learned would be rounded twice. What is returned is
    in the format that was trained in.

    Args:
        loaded: a model with LoRA, in evaluation mode; not changed.
        prompts: some prompts to compare scores on.
        answers: their answers.

    Raises:
        InputError: merged and unmerged scores differ.
    """
    exact = torch.promote_types(loaded.model.model.dtype, torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        write_adapter(Path(folder), loaded.model)
        adapter = read_adapter(folder)
        assert adapter is not None
        base = load_base(adapter, "fp64" if exact == torch.float64 else "fp32", torch.device("cpu"), False)
        tuner = attach(base.model, adapter)
    unmerged = _scores(base, prompts, answers)
    base.model.model = tuner.merge_and_unload(safe_merge=True)
    after = _scores(base, prompts, answers)
    compare(unmerged, after, "merging")
    if loaded.model.model.dtype == exact and not getattr(loaded.model.model, "is_quantized", False):
        compare(_scores(loaded, prompts, answers), after, "writing and loading")
    base.model.to(loaded.model.model.dtype)
    return LoadedModel(base.model, loaded.tokenizer, loaded.name, loaded.revision)


def compare(before: torch.Tensor, after: torch.Tensor, what: str) -> None:
    """Make sure that scores are the same.

    Raises:
        InputError: they are not.
    """
    size = max(1.0, float(before.abs().max()))
    difference = float((before - after).abs().max())
    logger.info("the largest difference of a score by %s is %.1e", what, difference)
    if not difference <= _TOLERANCE * size:
        raise InputError(
            f"a score differs by {difference:.1e} after {what} the LoRA matrices ({_TOLERANCE * size:.0e} is "
            "allowed): the student is not written; student.lora.save=adapter keeps them apart"
        )


def _scores(loaded: LoadedModel, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> torch.Tensor:
    with torch.inference_mode():
        scores: torch.Tensor = loaded.model(prompts, answers)
    return scores.cpu()

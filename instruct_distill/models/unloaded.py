"""What can be known of a model without its weights: tokenizer, family, and how many weights there are."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.models.encoder import Encoder
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.foreign_code import REFUSED, needs_foreign_code, reason
from instruct_distill.models.loading import family_class, load_tokenizer
from instruct_distill.models.score_head import has_score_head, prepare_head
from instruct_distill.models.weights import describe, folder_on_this_machine, local_model_folder
from instruct_distill.prompts.encoder import Family


class UnloadedModel(NamedTuple):
    """A model whose weights were not read.

    Args:
        tokenizer: its tokenizer.
        family: how it answers.
        decoder_start: the decoder's first id (encoder-decoder only).
        weights: the number of its weights.
        scores: whether it can score before it is trained: an encoder without a score head cannot.
    """

    tokenizer: Any
    family: Family
    decoder_start: int | None
    weights: int
    scores: bool


def unloaded_model(name: str, revision: str | None = None, *, download: bool = False) -> UnloadedModel:
    """Read a model's config and tokenizer.

    Args:
        name: as :func:`~instruct_distill.models.loading.load_model` takes it.
        revision: branch, tag or commit of a hub model.
        download: fetch what is not on this machine; else the network is not asked.

    Raises:
        InputError: they are not on this machine, or the model is none that this library can ask.
    """
    import torch
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSequenceClassification,
    )

    folder = local_model_folder(name, revision) if download else folder_on_this_machine(name, revision)
    if folder is None:
        raise InputError(f"{describe(name)} has not been downloaded and converted yet")
    where: dict[str, Any] = {"local_files_only": not download}
    if not os.path.isdir(folder):
        where["revision"] = revision or "main"
    try:
        with _quiet():
            config = AutoConfig.from_pretrained(folder, **where, **REFUSED)
    except (OSError, ValueError) as error:
        if needs_foreign_code(error):
            raise InputError(f"{describe(name)} cannot be loaded: {reason(error)}") from None
        what = "cannot be loaded" if download else "is not on this machine"
        raise InputError(f"{describe(name)} {what}") from None
    family = family_class(config, name)
    tokenizer = load_tokenizer(folder, name, where)
    scores = family is not Encoder or has_score_head(config)
    if family is Encoder:
        prepare_head(config, name, new=True)
    auto: Any = {EncoderDecoder: AutoModelForSeq2SeqLM, Encoder: AutoModelForSequenceClassification}.get(
        family, AutoModelForCausalLM
    )
    with torch.device("meta"):  # shapes without memory
        model = auto.from_config(config)
    weights = sum(parameter.numel() for parameter in model.parameters())
    decoder_start = getattr(config, "decoder_start_token_id", None)
    return UnloadedModel(tokenizer, family.family, decoder_start, weights, scores)


@contextmanager
def _quiet() -> Iterator[None]:
    """A missing file is no news here; transformers and the hub would say so at length."""
    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)

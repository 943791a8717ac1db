"""Score heads: which models have one, and what may be new in one that is about to be trained."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch

from instruct_distill.errors import InputError

logger = logging.getLogger(__name__)


def is_encoder(config: Any) -> bool:
    """Whether a model is an encoder that can have a score head: transformers lists it as both kinds."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    )

    kind = config.model_type
    return (
        not config.is_encoder_decoder
        and kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and kind in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    )


def has_score_head(config: Any) -> bool:
    """Whether an encoder's files hold a head for sequence classification."""
    return any("ForSequenceClassification" in name for name in config.architectures or [])


def prepare_head(config: Any, name: str, *, new: bool) -> None:
    """Set an encoder's config to one score.

    Args:
        config: the encoder's; changed in place.
        name: the model, for messages.
        new: whether the head may be a new one.

    Raises:
        InputError: its head has several labels, or it has none and a new one is no use.
    """
    if has_score_head(config):
        if config.num_labels != 1:
            raise InputError(
                f"{name}: its head has {config.num_labels} labels, a reranker's has one; it classifies texts "
                "and does not score pairs"
            )
        return
    if not new:
        raise InputError(
            f"{name}: {list(config.architectures or [])} has no score head, and a newly initialised one "
            "would score at random; train it first (student: {model: ..., score: head})"
        )
    config.num_labels = 1


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draw new weights by a seed, the same in every process; the random state is put back."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def accept_new_head(model: Any, info: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what is wrong with loaded weights besides a head that is new, and say what is new.

    The head is what stands outside the encoder proper, and its pooler, which models that were trained on
    masked words lack.

    Args:
        model: the loaded model.
        info: transformers' report of keys.
        name: the model, for the notice.
    """
    prefix = f"{model.base_model_prefix}."

    def of_head(key: str) -> bool:
        return not key.startswith(prefix) or key.startswith(f"{prefix}pooler.")

    missing, unexpected = set(info["missing_keys"]), set(info["unexpected_keys"])
    new = sorted(key for key in missing if of_head(key))
    logger.info("%s has no score head: a new one is drawn by the seed (%s)", name, ", ".join(new))
    wrong = {key for key in unexpected if not of_head(key)}
    return {**info, "missing_keys": missing - set(new), "unexpected_keys": wrong}


def second_type_separator(tokenizer: Any, name: str) -> int | None:
    """Return the id after which a pair's tokens are of the second type; None without token types.

    Raises:
        InputError: the tokenizer deals token types in another way.
    """
    made = tokenizer("one", "two")
    types = made.get("token_type_ids")
    if types is None or not any(types):
        return None
    ids = made["input_ids"]
    separator: int = ids[types.index(1) - 1]
    first = ids.index(separator)
    if types != [0] * (first + 1) + [1] * (len(ids) - first - 1):
        raise InputError(f"{name}: its tokenizer's token types {types} of a pair are not understood")
    return separator

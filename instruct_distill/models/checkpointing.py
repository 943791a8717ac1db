"""Gradient checkpointing: activations are held at the layers' borders, the others computed a second time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from instruct_distill.errors import InputError


@contextmanager
def gradient_checkpointing(model: Any, wanted: bool) -> Iterator[None]:
    """Have a transformers model hold less while it is trained; the gradient is the same, dropout included.

    Args:
        model: the transformers model, in training mode inside.
        wanted: whether; nothing is done otherwise.

    Raises:
        InputError: its layers cannot do that.
    """
    if not wanted:
        yield
        return
    if not model.supports_gradient_checkpointing:
        raise InputError(f"{type(model).__name__} has no gradient checkpointing; leave it out")
    # transformers gave it this name in 5.24, and warns of the old one
    kind = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"
    # not reentrant: frozen words' vectors, as with LoRA, must not keep gradients from the layers above
    getattr(model, f"{kind}_checkpointing_enable")({"use_reentrant": False})
    try:
        yield
    finally:
        getattr(model, f"{kind}_checkpointing_disable")()

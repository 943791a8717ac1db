"""The ``lora`` part of a recipe's student."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from instruct_distill.schema import parameters


@parameters
class LoraParameters:
    """Small matrices beside the weights, which alone are trained (LoRA, arXiv 2106.09685)."""

    rank: int = Field(default=16, gt=0)
    """Width of the matrices: what is added to a weight has this rank."""
    alpha: int = Field(default=32, gt=0)
    """What is added is multiplied by alpha / rank."""
    dropout: float = Field(default=0.05, ge=0, lt=1)
    """Share of the inputs of the matrices that is dropped in training."""
    targets: Literal["auto"] | list[str] = "auto"
    """Layers that get them: all linear layers of attention and feed-forward, or ends of layers' names such as
    [q_proj, v_proj]. A score head is trained as a whole in any case."""
    quantize: Literal["nf4"] | None = None
    """Hold the weights, which are not trained, in 4 bits (QLoRA, arXiv 2305.14314); needs a GPU and the extra
    'qlora'."""
    save: Literal["merged", "adapter"] = "merged"
    """What the student's folder holds: a whole model that loads anywhere, or the matrices alone with the
    name and revision of the model that they belong to."""

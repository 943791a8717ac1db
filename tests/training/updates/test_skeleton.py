from __future__ import annotations

import pytest
import torch
from torch import nn

from instruct_distill.training.updates.skeleton import fill, skeleton


class Tied(nn.Module):
    """One weight under two names, another, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(3, 2, dtype=torch.bfloat16)
        self.head = nn.Linear(2, 3, bias=False)
        self.head.weight = self.embed.weight
        self.middle = nn.Linear(2, 2, bias=False)
        self.middle.weight.requires_grad_(False)
        self.register_buffer("scale", torch.tensor([2.0]), persistent=False)


def test_a_skeleton_has_shapes_and_buffers_and_is_filled() -> None:
    model = Tied()
    bones = skeleton(model)
    assert {p.device.type for p in bones.parameters()} == {"meta"}
    assert bones.scale.tolist() == [2.0]
    assert bones.embed.weight is bones.head.weight

    # as a launch holds them: float32, one name for what is one weight
    weights = {"embed.weight": torch.arange(6.0).view(3, 2), "middle.weight": torch.eye(2)}
    fill(bones, weights)
    assert bones.embed.weight is bones.head.weight
    assert bones.embed.weight.dtype == torch.bfloat16
    assert bones.embed.weight.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert not bones.middle.weight.requires_grad
    assert bones.embed.weight.requires_grad
    assert model.middle.weight.tolist() != [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"embed.weight": torch.zeros(3, 2)}, r"middle.weight was not gathered .*: missing, not \[2, 2\]"),
        (
            {"embed.weight": torch.zeros(0), "middle.weight": torch.eye(2)},
            r"embed.weight was not gathered .*: \[0\], not \[3, 2\]",
        ),
    ],
)
def test_b32_an_empty_weight_is_an_error(weights: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fill(skeleton(Tied()), weights)

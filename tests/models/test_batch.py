from __future__ import annotations

import pytest
import torch

from instruct_distill.models.batch import by_length, pad


def test_pads_stand_on_the_right_and_are_masked(device: torch.device) -> None:
    batch = pad([[5, 6, 7], [8]], 0, device)
    assert batch.ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert batch.lengths.tolist() == [3, 1]
    assert batch.mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.ids.device.type == device.type


def test_the_mask_counts_tokens_and_does_not_look_at_them(device: torch.device) -> None:
    assert pad([[0, 0, 7], [0]], 0, device).mask.tolist() == [[1, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    ("lengths", "budget", "batches"),
    [
        ([3, 9, 5, 9], 18, [[1, 3], [2, 0]]),
        ([3, 9, 5, 9], 27, [[1, 3, 2], [0]]),  # three rows padded to the longest, 9
        ([30, 2], 10, [[0], [1]]),  # too long for any batch: one of its own
        ([4, 4, 4], 8, [[0, 1], [2]]),
        ([], 8, []),
    ],
)
def test_batches_by_length(lengths: list[int], budget: int, batches: list[list[int]]) -> None:
    assert list(by_length(lengths, budget)) == batches

"""Token batches: how prompts are grouped and padded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch


class TokenBatch(NamedTuple):
    """Prompts of different lengths as one rectangle, padded on the right.

    Args:
        ids: int64 [prompts, longest].
        lengths: int64 [prompts], the number of real tokens.
    """

    ids: torch.Tensor
    lengths: torch.Tensor

    @property
    def mask(self) -> torch.Tensor:
        """int64 [prompts, longest]: 1 for real tokens."""
        positions = torch.arange(self.ids.shape[1], device=self.ids.device)
        return (positions[None, :] < self.lengths[:, None]).long()

    @property
    def rows(self) -> list[list[int]]:
        """The prompts as they were, without padding."""
        return [row[:length] for row, length in zip(self.ids.tolist(), self.lengths.tolist(), strict=True)]


def pad(sequences: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> TokenBatch:
    """Put sequences into one rectangle, padded on the right with ``pad_id``."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    ids = torch.full((len(sequences), int(lengths.max())), pad_id, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence, dtype=torch.long)
    return TokenBatch(ids.to(device), lengths.to(device))


def by_length(lengths: Sequence[int], tokens_per_batch: int) -> Iterator[list[int]]:
    """Yield batches of positions, longest first, whose padded size is within the budget.

    The longest come first, so that too large a budget fails at once and not after hours. A sequence that is
    longer than the budget makes a batch of its own.

    Args:
        lengths: the length of each sequence in tokens.
        tokens_per_batch: rows × longest row of a batch, at most.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * lengths[batch[0]] > tokens_per_batch:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch

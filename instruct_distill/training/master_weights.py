"""Float32 weights that are trained, beside copies in the number format that is computed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn

_PIECE = 1 << 18
"""Numbers that are added at one time on a CPU: they stay in its cache."""


class MasterWeights:
    """Owns what the optimizer sees.

    With a float32 (or float64) model the weights are their own masters. With a bf16 model each parameter
    has a float32 master; gradients are added to the master's as soon as they are there, so that they are
    summed in float32 over all micro-batches, and after each step the masters are copied back.

    Args:
        model: the model, in the number format that it computes in.
    """

    def __init__(self, model: nn.Module) -> None:
        self.named: dict[str, tuple[nn.Parameter, nn.Parameter]] = {}
        self._hooks = []
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            if parameter.dtype in (torch.float32, torch.float64):
                master = parameter
            else:
                master = nn.Parameter(parameter.detach().float())
                hook = parameter.register_post_accumulate_grad_hook(_adder(master))  # type: ignore[no-untyped-call]
                self._hooks.append(hook)
            self.named[name] = (parameter, master)

    @property
    def masters(self) -> list[nn.Parameter]:
        """The weights that the optimizer changes."""
        return [master for _, master in self.named.values()]

    def publish(self) -> None:
        """Copy the masters into the model."""
        with torch.no_grad():
            for parameter, master in self.named.values():
                if parameter is not master:
                    parameter.copy_(master)

    def gradients(self) -> Iterator[torch.Tensor]:
        """Yield each master's gradient; one that no micro-batch touched is zero."""
        for master in self.masters:
            if master.grad is None:
                master.grad = torch.zeros_like(master)
            yield master.grad

    def forget_gradients(self) -> None:
        """Start a new step; the masters' memory is kept, for new memory is slow."""
        for parameter, master in self.named.values():
            if master is parameter:
                master.grad = None
            elif master.grad is not None:
                master.grad.zero_()

    def release(self) -> None:
        """Take the hooks off the model and drop the gradients."""
        for hook in self._hooks:
            hook.remove()
        for parameter, master in self.named.values():
            parameter.grad = master.grad = None


def _adder(master: nn.Parameter) -> Callable[[torch.Tensor], None]:
    def add(parameter: torch.Tensor) -> None:
        part = parameter.grad
        assert part is not None
        if master.grad is None:
            master.grad = torch.zeros_like(master)
        if part.device.type == "cpu" and part.is_contiguous() and master.grad.is_contiguous():
            _add_in_pieces(master.grad.view(-1), part.view(-1))
        else:
            master.grad.add_(part)
        parameter.grad = None

    return add


def _add_in_pieces(total: torch.Tensor, part: torch.Tensor) -> None:
    """Add numbers of a smaller format, of which PyTorch's CPU kernel would first make a copy as large as all.

    That copy is new memory each time, and takes five times as long as adding.
    """
    buffer = torch.empty(min(_PIECE, len(total)), dtype=total.dtype)
    for begin in range(0, len(total), _PIECE):
        piece = total[begin : begin + _PIECE]
        piece.add_(buffer[: len(piece)].copy_(part[begin : begin + _PIECE]))

"""Float32 weights that are trained, beside copies in the number format that is computed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn


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

    def release(self) -> None:
        """Take the hooks off the model and drop the gradients."""
        for hook in self._hooks:
            hook.remove()
        for parameter, master in self.named.values():
            parameter.grad = master.grad = None


def _adder(master: nn.Parameter) -> Callable[[torch.Tensor], None]:
    def add(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        if master.grad is None:
            master.grad = parameter.grad.to(master.dtype)
        else:
            master.grad.add_(parameter.grad)
        parameter.grad = None

    return add

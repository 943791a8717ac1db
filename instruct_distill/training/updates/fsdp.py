"""PyTorch's FSDP 2: weights, gradients and optimizer spread over the processes."""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

from instruct_distill.errors import InputError
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.training.parameters import TrainingParameters
from instruct_distill.training.updates.adam_files import read_adam, write_adam
from instruct_distill.training.updates.sharded import ShardedUpdater


class FsdpUpdater(ShardedUpdater):
    """The student in FSDP 2: float32 weights that are gathered layer by layer in the format of computing.

    With ``fsdp_reshard_after_forward: false`` in the launch file every process keeps whole gradients until
    the last micro-batch of a step, and they are exchanged once; with ``true`` after each, for less memory.

    Args:
        model: the student.
        parameters: weight decay and clipping.

    Raises:
        InputError: the launch file asks for the first FSDP, or for one process only.
    """

    kind = "fsdp2"

    def __init__(self, model: AnswerModel, parameters: TrainingParameters) -> None:
        from accelerate.utils import FullyShardedDataParallelPlugin

        super().__init__(model)
        plugin = FullyShardedDataParallelPlugin()
        if plugin.fsdp_version != 2:
            raise InputError("the launch configuration asks for FSDP 1: write fsdp_version: 2 in fsdp_config")
        if plugin.cpu_ram_efficient_loading:
            raise InputError(
                "fsdp_cpu_ram_efficient_loading would leave weights out of the models that are loaded: write "
                "fsdp_cpu_ram_efficient_loading: false in fsdp_config"
            )
        if not torch.distributed.is_initialized():
            raise InputError("FSDP was launched without processes: use accelerate launch or torchrun")
        dtype: torch.dtype = model.model.dtype
        for parameter in self._model.parameters():
            if parameter.requires_grad and dtype != torch.float64:
                parameter.data = parameter.data.float()
        self._whole_gradients = not plugin.reshard_after_forward
        mesh = init_device_mesh(self.device.type, (self._state.num_processes,))
        settings: dict[str, Any] = {
            "mesh": mesh,
            "reshard_after_forward": plugin.reshard_after_forward,
            "offload_policy": plugin.cpu_offload or OffloadPolicy(),
            "mp_policy": MixedPrecisionPolicy(
                param_dtype=dtype, reduce_dtype=torch.promote_types(dtype, torch.float32)
            ),
        }
        layers = set(plugin.transformer_cls_names_to_wrap or model.model._no_split_modules or ())
        for module in list(self._model.modules()):
            if type(module).__name__ in layers:
                fully_shard(module, **settings)
        self._root: Any = fully_shard(self._model, **settings)
        self._clip = parameters.clip
        self._optimizer = torch.optim.AdamW(
            self._named.values(),
            lr=parameters.learning_rate,
            weight_decay=parameters.weight_decay,
            fused=True,
        )

    @property
    def _named(self) -> dict[str, torch.nn.Parameter]:
        return {name: weight for name, weight in self._model.named_parameters() if weight.requires_grad}

    def forward(self, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`Updater`."""
        logits: torch.Tensor = self._root(prompts, answers)
        return logits

    def backward(self, scores: torch.Tensor, gradient: torch.Tensor, *, last: bool) -> None:
        """See :class:`Updater`; FSDP takes the mean over the processes, so each gives a multiple."""
        if self._whole_gradients:
            self._root.set_requires_gradient_sync(last)
        torch.autograd.backward(scores, gradient * self._state.num_processes)

    def step(self, rate: float) -> float:
        """See :class:`Updater`; a gradient that is not finite changes nothing."""
        weights = list(self._named.values())
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        total: Any = torch.nn.utils.get_total_norm(gradients)
        total = total.full_tensor() if isinstance(total, DTensor) else total
        norm = float(total)
        if math.isfinite(norm):
            if self._clip:
                torch.nn.utils.clip_grads_with_norm_(weights, self._clip, total.to(gradients[0].device))
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm

    def _part(self, folder: Path) -> Path:
        return folder / f"process-{self._state.process_index}"

    def save(self, folder: Path) -> None:
        """See :class:`Updater`; each process writes its part."""
        part = self._part(folder)
        part.mkdir()
        write_adam(part, self._named, self._optimizer)

    def load(self, folder: Path) -> None:
        """See :class:`Updater`."""
        read_adam(self._part(folder), self._named, self._optimizer)

    def gather(self) -> Mapping[str, torch.Tensor]:
        """See :class:`ShardedUpdater`."""
        gathered = {}
        for name, weight in self._model.named_parameters():
            whole = weight.full_tensor() if isinstance(weight, DTensor) else weight
            if self._state.is_main_process:
                gathered[name] = whole.detach().cpu().clone()
        return gathered

    def free(self) -> None:
        """See :class:`ShardedUpdater`."""
        del self._root, self._optimizer
        gc.collect()

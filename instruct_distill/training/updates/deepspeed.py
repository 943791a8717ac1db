"""DeepSpeed's ZeRO 1, 2 and 3: optimizer, gradients and weights spread over the processes."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from instruct_distill.errors import InputError, MissingExtraError
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.training.parameters import TrainingParameters
from instruct_distill.training.updates.sharded import ShardedUpdater

_TAG = "deepspeed"

_SIZES = {
    "reduce_bucket_size": 500_000_000,
    "stage3_prefetch_bucket_size": 50_000_000,
    "stage3_param_persistence_threshold": 100_000,
}
"""Elements; what DeepSpeed takes where nothing is said."""


def engine_config(parameters: TrainingParameters, dtype: torch.dtype) -> dict[str, Any]:
    """Return DeepSpeed's configuration from the launch file, its "auto" fields filled in.

    What the recipe says is the recipe's: an optimizer or a scheduler in DeepSpeed's own file is not used, and
    another clipping or number format there is refused.

    Args:
        parameters: the recipe's section.
        dtype: the number format that is computed in.

    Raises:
        InputError: the launch file contradicts the recipe, or has an "auto" field that nothing fills.
    """
    from accelerate.utils import DeepSpeedPlugin

    plugin = DeepSpeedPlugin()
    config: dict[str, Any] = plugin.deepspeed_config
    for section in ("optimizer", "scheduler"):
        config.pop(section, None)
    # the micro-batches of a step are counted here: DeepSpeed is told which is the last
    config.pop("train_batch_size", None)
    config["train_micro_batch_size_per_gpu"] = 1
    for name in ("bf16", "fp16"):
        config.setdefault(name, {}).setdefault("enabled", "auto")
    config.setdefault("gradient_clipping", "auto")
    zero = config["zero_optimization"]
    zero["stage3_gather_16bit_weights_on_model_save"] = True
    for size, usual in _SIZES.items():
        if zero.get(size) == "auto":
            zero[size] = usual
    try:
        plugin.deepspeed_config_process(
            **{
                "gradient_accumulation_steps": 1,
                "gradient_clipping": parameters.clip,
                "bf16.enabled": dtype == torch.bfloat16,
                "fp16.enabled": False,
            }
        )
    except ValueError as error:
        raise InputError(f"the DeepSpeed part of the launch configuration: {error}") from None
    if dtype == torch.bfloat16:
        # added up in float32 over the micro-batches and the processes, as without DeepSpeed
        config.setdefault("data_types", {}).setdefault("grad_accum_dtype", "fp32")
        config.setdefault("communication_data_type", "fp32")
    # AdamW of PyTorch wherever the optimizer lives: DeepSpeed's own would be compiled on this machine
    config.setdefault("zero_force_ds_cpu_optimizer", False)
    config.setdefault("zero_allow_untested_optimizer", True)
    return config


class DeepSpeedUpdater(ShardedUpdater):
    """The student in a DeepSpeed engine.

    ZeRO 1 exchanges gradients after the last micro-batch of a step; 2 and 3 keep a part of them only, and
    exchange them after each.

    Args:
        model: the student.
        parameters: weight decay and clipping.

    Raises:
        MissingExtraError: DeepSpeed is not installed.
        InputError: the launch file contradicts the recipe.
    """

    def __init__(self, model: AnswerModel, parameters: TrainingParameters) -> None:
        super().__init__(model)
        dtype: torch.dtype = model.model.dtype
        if dtype not in (torch.float32, torch.bfloat16):
            raise InputError(f"DeepSpeed trains in bf16 or fp32, not in {dtype}: change training.precision")
        if self.device.type == "cpu":
            os.environ.setdefault("DS_ACCELERATOR", "cpu")
        try:
            import deepspeed
        except ImportError:
            raise MissingExtraError("deepspeed", "deepspeed") from None
        if self.device.type == "cpu":
            # its own all-reduce in shared memory would be compiled now, by a compiler that may not be there
            deepspeed.ops.__compatible_ops__ = {}

        config = engine_config(parameters, dtype)
        self._stage = int(config["zero_optimization"]["stage"])
        self.kind = f"deepspeed-zero{self._stage}"
        optimizer = torch.optim.AdamW(
            [parameter for parameter in self._model.parameters() if parameter.requires_grad],
            lr=parameters.learning_rate,
            weight_decay=parameters.weight_decay,
            fused=True,
        )
        self._engine: Any
        self._engine, *_ = deepspeed.initialize(
            model=self._model, optimizer=optimizer, config=config, dist_init_required=False
        )
        if self._stage == 3:
            # the output layer's weight is used by the model itself, in float32, and not by its own layer
            head = self._model.model.get_output_embeddings()
            for parameter in () if head is None else head.parameters():
                deepspeed.zero.register_external_parameter(self._model, parameter)

    def forward(self, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> torch.Tensor:
        """See :class:`Updater`."""
        logits: torch.Tensor = self._engine(prompts, answers)
        return logits

    def backward(self, scores: torch.Tensor, gradient: torch.Tensor, *, last: bool) -> None:
        """See :class:`Updater`; DeepSpeed takes the mean over the processes, so each gives a multiple."""
        self._engine.set_gradient_accumulation_boundary(last)
        self._engine.backward((scores * gradient).sum() * self._state.num_processes)

    def step(self, rate: float) -> float:
        """See :class:`Updater`; the norm is known when the weights have been changed."""
        for group in self._engine.optimizer.param_groups:
            group["lr"] = rate
        self._engine.step()
        # a gradient that is not finite is passed over in silence, or its norm is given as -1
        norm = float(self._engine.get_global_grad_norm())
        return norm if self._engine.was_step_applied() and norm >= 0 else math.nan

    def save(self, folder: Path) -> None:
        """See :class:`Updater`; each process writes its part."""
        self._engine.save_checkpoint(str(folder), tag=_TAG, save_latest=False)

    def load(self, folder: Path) -> None:
        """See :class:`Updater`."""
        try:
            path, _ = self._engine.load_checkpoint(str(folder), tag=_TAG)
        except Exception as error:  # of many types, by what is wrong
            raise InputError(
                f"{folder} cannot be read by DeepSpeed ({error}); remove that folder to go on from an "
                "earlier state"
            ) from None
        if path is None:
            raise InputError(f"{folder} holds no state of DeepSpeed; remove that folder")

    def gather(self) -> Mapping[str, torch.Tensor]:
        """See :class:`ShardedUpdater`."""
        if self._stage == 3:
            gathered: Mapping[str, torch.Tensor] | None = self._engine._zero3_consolidated_16bit_state_dict()
            return gathered or {}
        if not self._state.is_main_process:
            return {}
        return {name: weight.detach().cpu().clone() for name, weight in self._model.named_parameters()}

    def free(self) -> None:
        """See :class:`ShardedUpdater`."""
        self._engine.destroy()
        del self._engine
        gc.collect()

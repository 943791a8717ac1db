"""LoRA: small trained matrices beside a model's weights, by the package peft (arXiv 2106.09685).

The matrices are put into the transformers model itself, which stays what it is: everything that asks for its
encoder, decoder or output layer goes on as before.
"""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from instruct_distill.errors import InputError
from instruct_distill.files import read_json
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.lora_parameters import LoraParameters
from instruct_distill.models.score_head import seeded

if TYPE_CHECKING:
    from instruct_distill.models.loading import LoadedModel

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_PREFIX = "base_model.model."
"""What peft's own files put before every name."""
_NAME = "default"
_TASKS = {"encoder-decoder": "SEQ_2_SEQ_LM", "decoder-only": "CAUSAL_LM", "encoder": "SEQ_CLS"}


class Adapter(NamedTuple):
    """An adapter in a folder, not loaded.

    Args:
        folder: where it is.
        base: the model that it belongs to: a hub id, a folder or a file.
        revision: the base's commit, or a digest of its weight files; None where the files do not say.
        heads: layers that it holds as a whole.
    """

    folder: Path
    base: str
    revision: str | None
    heads: list[str]


def has_lora(model: AnswerModel) -> bool:
    """Whether there are LoRA matrices in a model."""
    return getattr(model.model, "peft_config", None) is not None


def add_lora(loaded: LoadedModel, parameters: LoraParameters, seed: int) -> None:
    """Put LoRA matrices into a model and freeze its weights; as yet they change nothing.

    Args:
        loaded: the model; changed in place.
        parameters: which matrices.
        seed: they are drawn by it, the same in every process.

    Raises:
        InputError: the model has some already, or has no such layers.
    """
    from peft import LoraConfig

    if has_lora(loaded.model):
        raise InputError(
            f"{loaded.name} is an adapter; start from a whole model (a student that was saved with "
            "student.lora.save=merged is one)"
        )
    targets = parameters.targets
    if targets != "auto":
        _check_targets(loaded, targets)
    config = LoraConfig(
        r=parameters.rank,
        lora_alpha=parameters.alpha,
        lora_dropout=parameters.dropout,
        target_modules="all-linear" if targets == "auto" else list(targets),
        modules_to_save=loaded.model.head_modules() or None,
        task_type=_TASKS[loaded.model.family],
        base_model_name_or_path=_absolute(loaded.name),
        revision=loaded.revision,
    )
    with seeded(seed):
        _inject(loaded.model, config)


def adapter_weights(model: AnswerModel) -> dict[str, torch.Tensor]:
    """Return what an adapter's file holds, by the file's names."""
    from peft import get_peft_model_state_dict

    weights = get_peft_model_state_dict(model.model, adapter_name=_NAME, save_embedding_layers=False)
    return {f"{_PREFIX}{name}": tensor for name, tensor in weights.items()}


def write_adapter(folder: Path, model: AnswerModel) -> None:
    """Write an adapter as peft does, beside the config of the model that it belongs to."""
    save_file(
        {name: tensor.detach().cpu().contiguous() for name, tensor in adapter_weights(model).items()},
        folder / WEIGHTS,
        metadata={"format": "pt"},
    )
    config = copy.copy(model.model.peft_config[_NAME])
    config.inference_mode = True
    config.save_pretrained(folder)
    base = copy.copy(model.model.config)
    if hasattr(base, "quantization_config"):
        del base.quantization_config  # how the base was held while the adapter was trained
    base.save_pretrained(folder)


def read_adapter(folder: str) -> Adapter | None:
    """Return the adapter in a folder; None where the folder holds none.

    Raises:
        InputError: its configuration is not one of LoRA, or does not name its base.
    """
    file = Path(folder) / CONFIG
    if not file.exists():
        return None
    content = read_json(file)
    if not isinstance(content, dict) or content.get("peft_type") != "LORA":
        raise InputError(f"{file}: not the configuration of a LoRA adapter")
    base = content.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise InputError(f"{file}: does not say which model the adapter belongs to (base_model_name_or_path)")
    revision = content.get("revision")
    return Adapter(Path(folder), base, revision, list(content.get("modules_to_save") or []))


def attach(model: AnswerModel, adapter: Adapter) -> Any:
    """Put an adapter into the model that it belongs to; every matrix must be there, in its shape.

    Returns:
        peft's own handle, which can merge.

    Raises:
        InputError: the files are damaged, or belong to another model.
    """
    from peft import LoraConfig, set_peft_model_state_dict

    try:
        settings = json.loads((adapter.folder / CONFIG).read_text(encoding="utf-8"))
        config = LoraConfig.from_peft_type(**settings)  # type: ignore[no-untyped-call]
        tuner = _inject(model, config)
        found = load_file(adapter.folder / WEIGHTS)
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        raise InputError(
            f"{adapter.folder}: the adapter cannot be loaded ({' '.join(str(error).split())[:400]})"
        ) from None
    shapes = {name: tuple(tensor.shape) for name, tensor in adapter_weights(model).items()}
    problems = [f"{name} is missing" for name in shapes if name not in found]
    problems += [f"{name} belongs nowhere" for name in found if name not in shapes]
    problems += [
        f"{name} is {tuple(found[name].shape)}, the model needs {shape}"
        for name, shape in shapes.items()
        if name in found and tuple(found[name].shape) != shape
    ]
    if problems:
        raise InputError(
            f"{adapter.folder}: the adapter does not fit {adapter.base}: {'; '.join(problems[:5])}"
        )
    set_peft_model_state_dict(
        model.model,
        {name.removeprefix(_PREFIX): tensor for name, tensor in found.items()},
        adapter_name=_NAME,
    )
    return tuner


def _inject(model: AnswerModel, config: Any) -> Any:
    from peft import LoraModel

    tuner = LoraModel(model.model, config, _NAME)
    model.train(model.training)  # the new layers too
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype != model.model.dtype:
            parameter.data = parameter.data.to(model.model.dtype)
    return tuner


def _check_targets(loaded: LoadedModel, targets: list[str]) -> None:
    """Find targets that are nowhere, or are words' layers, before anything is changed."""
    model = loaded.model.model
    linear = {name: module for name, module in model.named_modules() if hasattr(module, "weight")}
    words = {id(model.get_input_embeddings()), id(model.get_output_embeddings())}
    for target in targets:
        hit = [module for name, module in linear.items() if name == target or name.endswith(f".{target}")]
        if not hit:
            known = sorted({name.rsplit(".", 1)[-1] for name, m in linear.items() if m.weight.dim() == 2})
            raise InputError(
                f"{loaded.name}: no layer is called {target!r} (student.lora.targets); there are "
                f"{', '.join(name for name in known if not name.isdigit())}"
            )
        if any(id(module) in words for module in hit):
            raise InputError(
                f"{loaded.name}: {target!r} (student.lora.targets) is the layer of words, which stays as it "
                "is"
            )


def _absolute(name: str) -> str:
    path = Path(name).expanduser()
    return os.path.abspath(path) if path.exists() else name

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from instruct_distill.errors import InputError
from instruct_distill.training.parameters import TrainingParameters
from instruct_distill.training.updates.deepspeed import engine_config

ALL_AUTO: dict[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}},
    "zero_optimization": {
        "stage": 3,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
        "stage3_gather_16bit_weights_on_model_save": "auto",
    },
}


def config_of(
    monkeypatch: pytest.MonkeyPatch, folder: Path, content: dict[str, Any], **training: Any
) -> dict[str, Any]:
    pytest.importorskip("deepspeed", reason="the extra deepspeed is not installed")
    file = folder / "ds.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(file))
    return engine_config(TrainingParameters(**training), torch.bfloat16)


def autos(config: Any) -> int:
    if isinstance(config, dict):
        return sum(map(autos, config.values()))
    return int(config == "auto")


def test_b30_auto_fields_are_filled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = config_of(monkeypatch, tmp_path, ALL_AUTO, clip=0.7)
    assert autos(config) == 0
    assert config["gradient_clipping"] == 0.7
    assert config["train_micro_batch_size_per_gpu"] == config["gradient_accumulation_steps"] == 1
    assert config["bf16"]["enabled"] is True
    assert config["fp16"]["enabled"] is False
    assert config["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"] is True
    assert config["data_types"] == {"grad_accum_dtype": "fp32"}
    assert config["zero_optimization"]["stage3_param_persistence_threshold"] == 100_000
    assert not {"optimizer", "scheduler", "train_batch_size"} & config.keys()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gradient_clipping": 2.0}, r"gradient_clipping=2.0 vs arg gradient_clipping=0.7"),
        ({"bf16": {"enabled": False}}, "bf16.enabled=False vs arg bf16.enabled=True"),
        ({"activation_checkpointing": {"number": "auto"}}, "`activation_checkpointing.number` not found"),
    ],
)
def test_what_contradicts_the_recipe_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"launch configuration: (?s:.*){message}"):
        config_of(monkeypatch, tmp_path, {**ALL_AUTO, **changes}, clip=0.7)


def test_a_stage_in_the_launch_file_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deepspeed", reason="the extra deepspeed is not installed")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2")
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "cpu")
    config = engine_config(TrainingParameters(clip=0.0), torch.float32)
    assert config["zero_optimization"]["stage"] == 2
    assert config["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert config["gradient_clipping"] == 0.0
    assert config["bf16"]["enabled"] is False
    assert config["zero_force_ds_cpu_optimizer"] is False

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from instruct_distill.errors import InputError
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.lora import add_lora, has_lora, read_adapter, write_adapter
from instruct_distill.models.lora_parameters import LoraParameters

Load = Callable[..., LoadedModel]


@pytest.fixture(params=["tiny_llama", "tiny_t5", "tiny_bert", "headless_bert"])
def load(request: pytest.FixtureRequest, device: torch.device) -> Load:
    """Load a small model of each family anew."""
    folder: Path = request.getfixturevalue(request.param)
    return lambda dtype="fp32": load_model(str(folder), dtype=dtype, device=device, new_head=3)


def trainable(loaded: LoadedModel) -> set[str]:
    return {name for name, weight in loaded.model.named_parameters() if weight.requires_grad}


def layers(loaded: LoadedModel) -> set[str]:
    return {
        name.split(".lora_A")[0].rsplit(".", 1)[-1]
        for name, _ in loaded.model.named_parameters()
        if ".lora_A." in name
    }


EXPECTED = {
    "decoder-only": {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
    "encoder-decoder": {"q", "k", "v", "o", "wi_0", "wi_1", "wo"},
    "encoder": {"query", "key", "value", "dense"},
}


def test_all_linear_layers_but_those_of_words_and_heads(load: Load) -> None:
    loaded = load()
    add_lora(loaded, LoraParameters(rank=2), 1)
    assert layers(loaded) == EXPECTED[loaded.model.family]
    whole = {name for name in trainable(loaded) if "lora_" not in name}
    heads = {"model.classifier", "model.bert.pooler.dense"} if loaded.model.family == "encoder" else set()
    assert whole == {
        f"{head.replace('.dense', '')}.modules_to_save.default{'.dense' if 'dense' in head else ''}.{kind}"
        for head in heads
        for kind in ("weight", "bias")
    }
    assert not any("pooler" in name or "classifier" in name or "lm_head" in name for name in layers(loaded))


@pytest.mark.parametrize("targets", [["q", "v"], ["decoder.block.1.layer.2.DenseReluDense.wo"]])
def test_given_targets(tiny_t5: Path, device: torch.device, targets: list[str]) -> None:
    loaded = load_model(str(tiny_t5), dtype="fp32", device=device)
    add_lora(loaded, LoraParameters(rank=2, targets=targets), 1)
    assert layers(loaded) == {target.rsplit(".", 1)[-1] for target in targets}
    assert len(trainable(loaded)) == (2 * 2 * 6 if len(targets) > 1 else 2)  # A and B; 6 attentions


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("q_proj", r"no layer is called 'q_proj' \(student\.lora\.targets\); there are .*\bq\b.*wo"),
        ("lm_head", "'lm_head' .* is the layer of words"),
        ("shared", "'shared' .* is the layer of words"),
    ],
)
def test_targets_that_are_none(tiny_t5: Path, device: torch.device, target: str, message: str) -> None:
    loaded = load_model(str(tiny_t5), dtype="fp32", device=device)
    with pytest.raises(InputError, match=message):
        add_lora(loaded, LoraParameters(targets=["q", target]), 1)
    assert not has_lora(loaded.model)


def test_the_seed_draws_the_matrices_and_nothing_else(load: Load) -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(9)
        loaded = load()
        add_lora(loaded, LoraParameters(rank=2), seed)
        drawn.append(dict(loaded.model.named_parameters()))
        assert torch.rand(1).item() == pytest.approx(0.6558, abs=1e-3)
    first = next(name for name in drawn[0] if "lora_A" in name)
    assert torch.equal(drawn[0][first], drawn[1][first])
    assert not torch.equal(drawn[0][first], drawn[2][first])


def test_matrices_are_in_the_models_format(load: Load) -> None:
    loaded = load("bf16")
    add_lora(loaded, LoraParameters(rank=2), 1)
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.bfloat16}


def test_an_adapter_gets_no_second_one(load: Load) -> None:
    loaded = load()
    add_lora(loaded, LoraParameters(rank=2), 1)
    with pytest.raises(InputError, match="is an adapter; start from a whole model"):
        add_lora(loaded, LoraParameters(rank=2), 1)


@pytest.fixture
def written(load: Load, tmp_path: Path) -> tuple[LoadedModel, Path]:
    """A model with matrices that are far from zero, and its adapter in a folder."""
    loaded = load()
    add_lora(loaded, LoraParameters(rank=2), 1)
    with torch.no_grad():
        for _name, weight in loaded.model.named_parameters():
            if weight.requires_grad:
                weight.normal_(std=0.1)
    write_adapter(tmp_path, loaded.model)
    loaded.tokenizer.save_pretrained(tmp_path)
    return loaded, tmp_path


def test_what_is_written_is_what_is_loaded(written: tuple[LoadedModel, Path], device: torch.device) -> None:
    loaded, folder = written
    assert {file.name for file in folder.iterdir()} >= {
        "adapter_config.json",
        "adapter_model.safetensors",
        "config.json",
    }
    again = load_model(str(folder), dtype="fp32", device=device)
    assert again.model.family == loaded.model.family
    expected, found = loaded.model.state_dict(), again.model.state_dict()
    original = {name for name in expected if "original_module" in name}  # of a head that was new
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected.keys() - original)
    assert not again.model.training
    assert again.revision != loaded.revision
    adapter = read_adapter(str(folder))
    assert adapter is not None
    assert (adapter.base, adapter.revision) == (loaded.name, loaded.revision)


def test_peft_alone_loads_it(written: tuple[LoadedModel, Path], device: torch.device) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

    loaded, folder = written
    if loaded.model.family == "encoder":
        auto: Any = AutoModelForSequenceClassification
    else:
        auto = AutoModelForCausalLM if loaded.model.family == "decoder-only" else AutoModelForSeq2SeqLM
    extra = {"num_labels": 1} if loaded.model.family == "encoder" else {}
    base = auto.from_pretrained(loaded.name, dtype=torch.float32, **extra)
    found = PeftModel.from_pretrained(base, folder).to(device).get_base_model().state_dict()
    expected = loaded.model.model.state_dict()
    original = {name for name in expected if "original_module" in name}  # of a head that was new
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected.keys() - original)


def emptied(tensors: dict[str, torch.Tensor], name: str) -> None:
    tensors[name] = torch.empty(0)


def removed(tensors: dict[str, torch.Tensor], name: str) -> None:
    del tensors[name]


def added(tensors: dict[str, torch.Tensor], name: str) -> None:
    tensors[f"{name}.more"] = torch.zeros(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [(emptied, r"is \(0,\), the model needs"), (removed, "is missing"), (added, r"\.more belongs nowhere")],
)
def test_b32_a_broken_matrix_is_refused_by_its_name(
    written: tuple[LoadedModel, Path], device: torch.device, change: Any, message: str
) -> None:
    _, folder = written
    tensors = load_file(folder / "adapter_model.safetensors")
    name = sorted(name for name in tensors if "lora_B" in name)[0]
    change(tensors, name)
    save_file(tensors, folder / "adapter_model.safetensors")
    with pytest.raises(InputError, match=message) as caught:
        load_model(str(folder), dtype="fp32", device=device)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "IA3"}, "not the configuration of a LoRA adapter"),
        ({"base_model_name_or_path": None}, "does not say which model"),
        ({"base_model_name_or_path": "./nowhere/at-all"}, "nowhere/at-all"),
        ({"revision": "0123456789abcdef"}, r"its weights have changed since \(revision"),
    ],
)
def test_an_adapter_without_its_base_is_refused(
    written: tuple[LoadedModel, Path], device: torch.device, change: dict[str, Any], message: str
) -> None:
    file = written[1] / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **change}), "utf-8")
    with pytest.raises(InputError, match=message):
        load_model(str(written[1]), dtype="fp32", device=device)


def test_four_bits_need_a_gpu(tiny_llama: Path) -> None:
    with pytest.raises(InputError, match="needs a GPU, and this process runs on the cpu"):
        load_model(str(tiny_llama), device=torch.device("cpu"), quantize="nf4")

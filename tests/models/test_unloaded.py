from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from instruct_distill.errors import InputError
from instruct_distill.models.loading import load_model
from instruct_distill.models.unloaded import unloaded_model


@pytest.mark.parametrize("fixture", ["tiny_t5", "tiny_llama", "tiny_bert"])
def test_it_says_what_the_loaded_model_says(
    fixture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(fixture)
    loaded = load_model(str(folder), dtype="fp32", device=torch.device("cpu"))
    without = tmp_path / "without-weights"
    shutil.copytree(folder, without, ignore=shutil.ignore_patterns("*.safetensors"))
    found = unloaded_model(str(without))
    assert found.family == loaded.model.family
    assert found.decoder_start == getattr(loaded.model.model.config, "decoder_start_token_id", None)
    assert found.tokenizer("one two")["input_ids"] == loaded.tokenizer("one two")["input_ids"]
    weights = sum(parameter.numel() for parameter in loaded.model.parameters())
    assert 0 < found.weights <= weights  # a layer that transformers ties is counted once
    assert found.weights >= 0.4 * weights


def test_models_that_are_not_here(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no/such-model is not on this machine"):
        unloaded_model("no/such-model")
    with pytest.raises(InputError, match="no/such-model cannot be loaded"):
        unloaded_model("no/such-model", download=True)
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(InputError, match="small has not been downloaded and converted yet"):
        unloaded_model(str(file))
    with pytest.raises(InputError, match="there is no such file or folder"):
        unloaded_model("./nothing")

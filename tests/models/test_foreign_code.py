"""Code that a model brings along is not run, also where somebody would say yes to it."""

from __future__ import annotations

import builtins
import json
import shutil
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.models.loading import load_model, scores_untrained
from instruct_distill.models.unloaded import unloaded_model

CODE = """
from pathlib import Path
Path({ran!r}).write_text("ran")
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
class ForeignConfig(LlamaConfig):
    model_type = "foreign"
class ForeignModel(LlamaForCausalLM):
    config_class = ForeignConfig
class ForeignTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that foreign code writes; every question at the terminal is answered with yes."""
    monkeypatch.setattr(builtins, "input", lambda *question: "y")
    return tmp_path / "ran"


def foreign(model: Path, folder: Path, ran: Path, *, tokenizer: bool) -> str:
    """A copy of a model that says its config and model, or its tokenizer, are code in its folder."""
    shutil.copytree(model, folder)
    (folder / "foreign.py").write_text(CODE.format(ran=str(ran)), encoding="utf-8")
    file = folder / ("tokenizer_config.json" if tokenizer else "config.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    if tokenizer:
        content |= {
            "tokenizer_class": "ForeignTokenizer",
            "auto_map": {"AutoTokenizer": [None, "foreign.ForeignTokenizer"]},
        }
    else:
        classes = {"AutoConfig": "foreign.ForeignConfig", "AutoModelForCausalLM": "foreign.ForeignModel"}
        content |= {"model_type": "foreign", "auto_map": classes}
    file.write_text(json.dumps(content), encoding="utf-8")
    return str(folder)


def test_a_model_that_is_code(tiny_llama: Path, tmp_path: Path, ran: Path) -> None:
    name = foreign(tiny_llama, tmp_path / "m", ran, tokenizer=False)
    for load in (load_model, scores_untrained, unloaded_model):
        with pytest.raises(InputError, match="code of others is never run here; choose a model of a type"):
            load(name)
    assert not ran.exists()


def test_a_tokenizer_that_is_code(tiny_llama: Path, tmp_path: Path, ran: Path) -> None:
    name = foreign(tiny_llama, tmp_path / "m", ran, tokenizer=True)
    try:
        loaded = load_model(name, dtype="fp32")
    except InputError as error:
        assert "code of others is never run here" in str(error)  # noqa: PT017 (either is right)
    else:
        assert type(loaded.tokenizer).__name__ != "ForeignTokenizer"
    assert not ran.exists()

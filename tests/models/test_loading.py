from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, T5EncoderModel, T5Model

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import Question
from instruct_distill.inference.local import LocalEngine
from instruct_distill.models.decoder_only import DecoderOnly
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.loading import check_split, load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.records import Document, Query

Weights = dict[str, torch.Tensor]

SCORES = """
import json, sys
from instruct_distill.inference.engine import Question
from instruct_distill.inference.local import LocalEngine
from instruct_distill.models.loading import load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.records import Document, Query
import torch
loaded = load_model(sys.argv[1], dtype="fp32", device=torch.device("cpu"))
engine = LocalEngine(loaded, named_prompt("pointwise-passage"), max_length=128)
texts = ["Clean and oil the chain.", "Ferries leave.", "Tides rise.", "A hinge", "sun and water"]
questions = [Question(Query("q", "how to oil a chain"), (Document("d", text),)) for text in texts]
print(json.dumps(engine.answer_logits(questions).tolist()))
"""


def changed(folder: Path, target: Path, change: Callable[[Weights], None] | None = None) -> Path:
    """A copy of a model folder with other weights."""
    shutil.copytree(folder, target)
    if change is not None:
        weights = load_file(target / "model.safetensors")
        change(weights)
        save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return target


def with_config(folder: Path, **values: object) -> Path:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | values), "utf-8")
    return folder


def tied(folder: Path, target: Path) -> Path:
    """A T5 whose output layer is its embedding, as T5 1.0 has it."""
    copy = changed(folder, target, lambda weights: weights.__delitem__("lm_head.weight"))
    return with_config(copy, scale_decoder_outputs=True, tie_word_embeddings=True)


def test_families(tiny_t5: Path, tiny_llama: Path, device: torch.device) -> None:
    t5 = load_model(str(tiny_t5), dtype="fp32", device=device)
    llama = load_model(str(tiny_llama), dtype="fp32", device=device)
    assert isinstance(t5.model, EncoderDecoder)
    assert isinstance(llama.model, DecoderOnly)
    for loaded in (t5, llama):
        assert not loaded.model.training
        assert loaded.model.device.type == device.type
        assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
        assert len(loaded.revision) == 16


def test_a_revision_is_a_digest_of_the_weights(tiny_t5: Path, tmp_path: Path, device: torch.device) -> None:
    first = load_model(str(tiny_t5), dtype="fp32", device=device)
    same = load_model(str(changed(tiny_t5, tmp_path / "same")), dtype="fp32", device=device)

    def shift(weights: Weights) -> None:
        weights["shared.weight"][5] += 1

    other = changed(tiny_t5, tmp_path / "other", shift)
    assert same.revision == first.revision
    assert load_model(str(other), dtype="fp32", device=device).revision != first.revision


def test_b15_fp16_is_refused_when_a_t5_is_loaded(tiny_t5: Path) -> None:
    with pytest.raises(InputError, match="fp16 is not safe for t5 models"):
        load_model(str(tiny_t5), dtype="fp16")


@pytest.mark.parametrize("is_tied", [True, False])
def test_b31_a_new_process_scores_the_same(tiny_t5: Path, tmp_path: Path, is_tied: bool) -> None:
    source = tied(tiny_t5, tmp_path / "source") if is_tied else tiny_t5
    loaded = load_model(str(source), dtype="fp32", device=torch.device("cpu"))
    model = loaded.model.model
    assert (model.lm_head.weight is model.shared.weight) is is_tied
    with torch.no_grad():
        model.shared.weight.mul_(1.5)  # something that only saving can carry over
        if not is_tied:
            model.lm_head.weight.mul_(0.5)
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    loaded.tokenizer.save_pretrained(saved)
    assert ("lm_head.weight" in load_file(saved / "model.safetensors")) is not is_tied
    run = subprocess.run([sys.executable, "-c", SCORES, saved], capture_output=True, text=True, check=True)
    there = json.loads(run.stdout.splitlines()[-1])

    from instruct_distill.inference.engine import Question
    from instruct_distill.inference.local import LocalEngine
    from instruct_distill.prompts.named import named_prompt
    from instruct_distill.records import Document, Query

    engine = LocalEngine(loaded, named_prompt("pointwise-passage"), max_length=128)
    texts = ["Clean and oil the chain.", "Ferries leave.", "Tides rise.", "A hinge", "sun and water"]
    questions = [Question(Query("q", "how to oil a chain"), (Document("d", text),)) for text in texts]
    here = engine.answer_logits(questions)
    assert len(set(here[:, 0].tolist())) == 5
    assert abs(here - there).max() <= 1e-6


@pytest.mark.parametrize("missing", ["lm_head.weight", "shared.weight"])
def test_b31_an_untied_t5_without_one_of_its_two_weights(tiny_t5: Path, tmp_path: Path, missing: str) -> None:
    folder = changed(tiny_t5, tmp_path / "m", lambda weights: weights.__delitem__(missing))
    with pytest.raises(InputError, match=r"hold only one of shared\.weight and lm_head\.weight"):
        load_model(str(folder), dtype="fp32")


def test_b31_an_older_config_says_untied_too(tiny_t5: Path, tmp_path: Path) -> None:
    folder = changed(tiny_t5, tmp_path / "m", lambda weights: weights.__delitem__("lm_head.weight"))
    config = json.loads((folder / "config.json").read_text("utf-8"))
    del config["scale_decoder_outputs"]  # FLAN-T5's config is older than this key
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}), "utf-8")
    with pytest.raises(InputError, match=r"hold only one of shared\.weight and lm_head\.weight"):
        load_model(str(folder), dtype="fp32")


def test_b31_a_tied_t5_without_its_embedding(tiny_t5: Path, tmp_path: Path) -> None:
    source = tied(tiny_t5, tmp_path / "source")
    folder = changed(source, tmp_path / "m", lambda weights: weights.__delitem__("shared.weight"))
    with pytest.raises(InputError, match="missing keys"):
        load_model(str(folder), dtype="fp32")


def test_b39_a_llama_without_its_head(tiny_llama: Path, tmp_path: Path) -> None:
    folder = changed(tiny_llama, tmp_path / "m", lambda weights: weights.__delitem__("lm_head.weight"))
    with pytest.raises(InputError, match=r"do not fit the architecture; missing keys: \['lm_head.weight'\]"):
        load_model(str(folder), dtype="fp32")


def test_b39_a_renamed_key(tiny_t5: Path, tmp_path: Path) -> None:
    key = "encoder.block.1.layer.0.SelfAttention.q.weight"

    def rename(weights: Weights) -> None:
        weights[key.replace(".q.", ".query.")] = weights.pop(key)

    folder = changed(tiny_t5, tmp_path / "m", rename)
    with pytest.raises(
        InputError, match=r"missing keys: \[.*\.q\.weight.*unexpected keys: \[.*\.query\.weight"
    ):
        load_model(str(folder), dtype="fp32")


def test_b39_weights_of_another_size(tiny_t5: Path, tmp_path: Path) -> None:
    key = "encoder.block.0.layer.0.SelfAttention.q.weight"

    def cut(weights: Weights) -> None:
        weights[key] = weights[key][:16].clone()

    with pytest.raises(InputError, match=r"mismatched keys: .*SelfAttention\.q\.weight.*16, 32"):
        load_model(str(changed(tiny_t5, tmp_path / "m", cut)), dtype="fp32")


def test_b39_a_plain_t5_without_a_head(tiny_t5: Path, tmp_path: Path) -> None:
    T5Model.from_pretrained(tiny_t5).save_pretrained(tmp_path / "m")
    AutoTokenizer.from_pretrained(tiny_t5).save_pretrained(tmp_path / "m")
    with pytest.raises(InputError, match=r"\['T5Model'\] has no language-model head to answer with"):
        load_model(str(tmp_path / "m"))


def test_b39_other_architectures(tiny_t5: Path, tmp_path: Path) -> None:
    T5EncoderModel.from_pretrained(tiny_t5).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_t5).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"architecture \['T5EncoderModel'\] is neither encoder-decoder"):
        load_model(str(tmp_path))


def test_b39_a_folder_without_tokenizer(tiny_t5: Path, tmp_path: Path) -> None:
    folder = changed(tiny_t5, tmp_path / "m")
    for file in folder.glob("*token*"):
        file.unlink()
    with pytest.raises(InputError, match="holds no tokenizer; save it beside the weights"):
        load_model(str(folder))


def test_a_tokenizer_of_another_model(tiny_t5: Path, tiny_llama: Path, tmp_path: Path) -> None:
    folder = changed(tiny_llama, tmp_path / "m")
    AutoTokenizer.from_pretrained(tiny_t5).save_pretrained(folder)
    with pytest.raises(InputError, match="the tokenizer has 32100 words, the model 318: they do not belong"):
        load_model(str(folder), dtype="fp32")


def test_unsafe_or_damaged_files(tiny_t5: Path, tmp_path: Path) -> None:
    pickled = changed(tiny_t5, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"holds no \.safetensors weights"):
        load_model(str(pickled))
    torn = changed(tiny_t5, tmp_path / "torn")
    content = (torn / "model.safetensors").read_bytes()
    (torn / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(torn))
    broken = changed(tiny_t5, tmp_path / "broken")
    (broken / "config.json").write_text("{", "utf-8")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(broken))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", "[]"),
        ("config.json", '{"model_type": "t5", "d_model": "wide"}'),
        ("tokenizer.json", "[]"),
        ("tokenizer_config.json", "[]"),
    ],
)
def test_files_of_another_form(tiny_t5: Path, tmp_path: Path, file: str, content: str) -> None:
    """Each parser has its own types of exceptions for what no model folder should hold."""
    folder = changed(tiny_t5, tmp_path / "m")
    (folder / file).write_text(content, "utf-8")
    with pytest.raises(InputError, match="cannot be loaded: "):
        load_model(str(folder))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        load_model(str(tmp_path / "nowhere"))


def test_a_hub_id_without_network_is_refused_with_its_name() -> None:
    with pytest.raises(InputError, match="'nobody/no-such-model' cannot be loaded"):
        load_model("nobody/no-such-model", local_files_only=True)


# -- a model over several devices ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["tiny_t5", "tiny_llama"])
def test_a_model_that_is_split_answers_as_on_one_device(
    model: str, device: torch.device, request: pytest.FixtureRequest
) -> None:
    folder = str(request.getfixturevalue(model))
    answers, likelihoods = [], []
    for split in (False, True):
        loaded = load_model(folder, dtype="fp32", device=device, split=split)
        asked = [
            Question(Query("q", "how to oil a chain"), (Document("d", text),)) for text in ("Oil.", "Tides")
        ]
        engine = LocalEngine(loaded, named_prompt("pointwise-passage"), max_length=128)
        answers.append(engine.answer_logits(asked))
        likelihoods.append(engine.with_prompt(named_prompt("query-generation")).log_likelihood(asked))
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-5)
    np.testing.assert_allclose(likelihoods[1], likelihoods[0], atol=1e-5)


def test_a_split_model_must_fit_the_gpus() -> None:
    check_split({"": 0}, "m")
    check_split({"shared": 0, "encoder": 0, "decoder": 1, "lm_head": 1}, "m")
    check_split({"": "cpu"}, "m")
    with pytest.raises(
        InputError, match=r"'m' does not fit .*: 2 of 3 parts .* \(the first: decoder\.block\.1\)"
    ):
        check_split({"encoder": 0, "decoder.block.1": "cpu", "lm_head": "disk"}, "m")


def test_a_split_model_has_the_machine_for_itself(tiny_t5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    with pytest.raises(InputError, match=r"split takes all GPUs .* launch one process a machine"):
        load_model(str(tiny_t5), dtype="fp32", device=torch.device("cuda"), split=True)

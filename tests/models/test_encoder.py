"""Cross-encoders of every common kind: the model's own scores, in any batch, with an exact head."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from instruct_distill.errors import InputError
from instruct_distill.inference.local import LocalEngine
from instruct_distill.models.encoder import Encoder
from instruct_distill.models.loading import LoadedModel, load_model, scores_untrained
from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.prompts.named import named_prompt
from tests.conftest import save_pair_tokenizer

HEAD = EncodedAnswers((), ((),))
PAIRS = [
    ("how to oil a chain", "Clean and oil the chain."),
    ("what is amber", "fern " * 40),
    ("ferries", "Ferries leave."),
    ("how is basil", "the amber of the cedar, cut in two"),
]
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 256,
    "num_labels": 1,
    "pad_token_id": 0,
    "initializer_range": 0.2,
}


@pytest.fixture(scope="module", params=["bert", "deberta", "modernbert", "roberta"])
def cross_encoder(
    request: pytest.FixtureRequest, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    import transformers

    if request.param == "bert":
        return tiny_bert
    folder: Path = tmp_path_factory.mktemp(request.param)
    save_pair_tokenizer(folder, types=request.param == "deberta")
    name, more = {
        "deberta": ("DebertaV2", {"max_position_embeddings": 96, "relative_attention": True,
                                  "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}),
        "modernbert": ("ModernBert", {"max_position_embeddings": 96, "bos_token_id": 2, "eos_token_id": 3,
                                      "cls_token_id": 2, "sep_token_id": 3}),
        "roberta": ("Roberta", {"max_position_embeddings": 97, "type_vocab_size": 1}),
    }[request.param]  # fmt: skip
    config = getattr(transformers, f"{name}Config")(**SMALL, **more)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        getattr(transformers, f"{name}ForSequenceClassification")(config).save_pretrained(folder)
    return folder


def load(folder: Path, device: torch.device, dtype: str = "fp32", **keys: Any) -> LoadedModel:
    return load_model(str(folder), dtype=dtype, device=device, **keys)


def ids_of(loaded: LoadedModel) -> list[list[int]]:
    return [loaded.tokenizer(*pair)["input_ids"] for pair in PAIRS]


def test_scores_are_the_models_own_in_any_batch(cross_encoder: Path, device: torch.device) -> None:
    from transformers import AutoModelForSequenceClassification

    loaded = load(cross_encoder, device)
    assert isinstance(loaded.model, Encoder)
    plain = AutoModelForSequenceClassification.from_pretrained(cross_encoder).to(device).eval()
    with torch.inference_mode():
        alone = torch.cat([loaded.model([ids], HEAD) for ids in ids_of(loaded)])
        together = loaded.model(ids_of(loaded), HEAD)
        own = [
            plain(**loaded.tokenizer(*pair, return_tensors="pt").to(device)).logits[0, 0] for pair in PAIRS
        ]
    assert together.shape == (4, 1)
    assert together.dtype == torch.float32
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(together[:, 0], torch.stack(own), atol=1e-5, rtol=0)
    assert len({round(float(score), 3) for score in together}) == 4


def test_the_head_is_computed_in_float32(cross_encoder: Path, device: torch.device) -> None:
    """In bf16 near 16 scores would move in steps of 0.125."""
    loaded = load(cross_encoder, device, "bf16")
    last = [m for m in loaded.model.modules() if isinstance(m, torch.nn.Linear) and m.out_features == 1][-1]
    with torch.no_grad():
        last.bias.fill_(16.0)
    assert last.weight.dtype == torch.bfloat16
    with torch.inference_mode():
        scores = loaded.model(ids_of(loaded), HEAD)
    assert scores.dtype == torch.float32
    assert not torch.equal(scores, scores.bfloat16().float())


@pytest.mark.parametrize("seed", [3, 4])
def test_a_new_head_is_drawn_by_the_seed(headless_bert: Path, device: torch.device, seed: int) -> None:
    state = torch.get_rng_state()
    first = load(headless_bert, device, new_head=seed).model.model.classifier.weight
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(1)
    assert torch.equal(first, load(headless_bert, device, new_head=seed).model.model.classifier.weight)
    assert not torch.equal(first, load(headless_bert, device, new_head=5).model.model.classifier.weight)


def test_b39_an_encoder_without_a_head_is_no_reranker(
    headless_bert: Path, tiny_bert: Path, tiny_llama: Path, device: torch.device
) -> None:
    with pytest.raises(InputError, match="has no score head, and a newly initialised one would score at"):
        load(headless_bert, device)
    assert [scores_untrained(str(f)) for f in (headless_bert, tiny_bert, tiny_llama)] == [False, True, True]


@pytest.mark.parametrize(
    ("key", "message"),
    [("classifier.weight", "missing keys.*classifier.weight"), ("bert.pooler.dense.bias", "missing keys")],
)
def test_b39_a_head_with_a_missing_weight_is_refused_even_for_training(
    tiny_bert: Path, tmp_path: Path, device: torch.device, key: str, message: str
) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "damaged")
    weights = load_file(folder / "model.safetensors")
    del weights[key]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for new_head in (None, 3):
        with pytest.raises(InputError, match=message):
            load(folder, device, new_head=new_head)


def test_an_encoder_that_lacks_a_layer_is_refused(
    headless_bert: Path, tmp_path: Path, device: torch.device
) -> None:
    folder = shutil.copytree(headless_bert, tmp_path / "damaged")
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"missing keys: \['bert.encoder.layer.1.output.dense.weight'\]"):
        load(folder, device, new_head=3)


def test_a_classifier_of_several_labels_is_no_reranker(
    tiny_bert: Path, tmp_path: Path, device: torch.device
) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "classes")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["id2label"] = {"0": "a", "1": "b", "2": "c"}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(InputError, match="its head has 3 labels, a reranker's has one"):
        load(folder, device, new_head=3)


def test_no_positions_beyond_the_models(cross_encoder: Path, device: torch.device) -> None:
    loaded = load(cross_encoder, device)
    longest = 192 if cross_encoder.name.startswith("tiny-bert") else 96
    LocalEngine(loaded, named_prompt("pair"), max_length=longest)
    with pytest.raises(InputError, match=f"positions for {longest} tokens, max_length is {longest + 1}"):
        LocalEngine(loaded, named_prompt("pair"), max_length=longest + 1)


def test_an_encoder_has_no_words(tiny_bert: Path, device: torch.device) -> None:
    loaded = load(tiny_bert, device)
    with pytest.raises(InputError, match="use score: head"):
        LocalEngine(loaded, named_prompt("pointwise-passage"), max_length=64)
    with pytest.raises(InputError, match="no words to answer or write with"):
        loaded.model.log_likelihood([[1, 2]], [[3]])

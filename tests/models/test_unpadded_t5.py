from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import MT5Config, MT5ForConditionalGeneration, T5Config, T5ForConditionalGeneration

from instruct_distill.models import unpadded_t5
from instruct_distill.models.batch import pad
from instruct_distill.models.checkpointing import gradient_checkpointing
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.unpadded_t5 import can_decode, decode

# one token, equally long ones, and enough of them for two portions
LENGTHS = (300, 41, 40, 40, 1, 7)
SHAPE = {"vocab_size": 500, "d_model": 64, "d_kv": 8, "d_ff": 96, "num_layers": 3, "num_heads": 4}
KINDS: dict[str, Any] = {
    "t5": (T5ForConditionalGeneration, T5Config, {}),
    "flan-t5": (
        T5ForConditionalGeneration,
        T5Config,
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "silu": (T5ForConditionalGeneration, T5Config, {"feed_forward_proj": "gated-silu"}),
    "mt5": (MT5ForConditionalGeneration, MT5Config, {}),
}


def model_of(kind: str, **changed: Any) -> Any:
    torch.manual_seed(5)
    make, config, values = KINDS[kind]
    return make(config(**{**SHAPE, "decoder_start_token_id": 0, **values, **changed})).eval()


def prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(2, 500, (length,), generator=generator).tolist() for length in LENGTHS]


def own_forward(model: Any, prompt: list[int], decoder_ids: torch.Tensor) -> torch.Tensor:
    """The decoder's states of one row, without any padding, by transformers."""
    encoded = model.encoder(input_ids=torch.tensor([prompt])).last_hidden_state
    states: torch.Tensor = model.decoder(
        input_ids=decoder_ids[None], encoder_hidden_states=encoded, use_cache=False
    ).last_hidden_state[0]
    return states


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5), (torch.bfloat16, 0.12)]
)
def test_the_states_are_those_of_the_models_own_forward(
    kind: str, dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpadded_t5, "_TOKENS", 330)
    model = model_of(kind).to(dtype)
    decoder_ids = torch.tensor([[0, 7, 9 + row] for row in range(len(LENGTHS))])
    assert can_decode(model, 3)
    found = decode(model, prompts(), decoder_ids)
    assert (found.shape, found.dtype) == ((6, 3, 64), dtype)
    for row, prompt in enumerate(prompts()):
        expected = own_forward(model, prompt, decoder_ids[row])
        torch.testing.assert_close(found[row], expected, atol=tolerance, rtol=0)
    assert float(found.float().std()) > 0.5  # a tolerance of 0.12 says something


@torch.inference_mode()
def test_a_row_does_not_depend_on_its_neighbours() -> None:
    model = model_of("flan-t5")
    decoder_ids = torch.tensor([[0, 7]])
    together = decode(model, prompts(), decoder_ids.expand(6, -1))
    for row, prompt in enumerate(prompts()):
        alone = decode(model, [prompt], decoder_ids)
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("lengths", "portions"),
    [
        ([5], [1]),
        ([9, 9, 9], [2, 3]),
        ([30, 1], [1, 2]),
        ([1, 30], [1, 2]),
        ([4, 4, 4, 8, 20, 20], [4, 5, 6]),
    ],
)
def test_portions(lengths: list[int], portions: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpadded_t5, "_TOKENS", 20)
    assert unpadded_t5._portions(lengths) == portions


def test_it_stands_in_only_where_it_gives_the_same() -> None:
    model = model_of("t5")
    with torch.no_grad():
        assert can_decode(model, 15)
        assert not can_decode(model, 16)  # 16 tokens of 4 heads: no less work
        with torch.autocast("cpu", torch.bfloat16):
            assert not can_decode(model, 2)
        assert not can_decode(model.half(), 2)
        model.float().train()
        assert can_decode(model, 2)
        with gradient_checkpointing(model, True):
            assert not can_decode(model, 2)  # layers are checkpointed when they are called
        model.eval()

        class Adapted(nn.Linear):
            """What an adapter or a quantised layer is: something else behind the same weights."""

        model.decoder.block[2].layer[1].EncDecAttention.v = Adapted(64, 32, bias=False)
        assert not can_decode(model, 2)


def loss_of(states: torch.Tensor) -> torch.Tensor:
    """A number that depends on every state, in its own way."""
    weights = torch.linspace(-1, 1, states.numel(), dtype=states.dtype).view_as(states)
    return (states * weights).sum()


def padded_forward(model: Any, decoder_ids: torch.Tensor) -> torch.Tensor:
    """The decoder's states of all rows by transformers, one row after another."""
    rows = zip(prompts(), decoder_ids, strict=True)
    return torch.stack([own_forward(model, prompt, ids) for prompt, ids in rows])


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_models_own_forward(kind: str) -> None:
    model = model_of(kind).double()
    decoder_ids = torch.tensor([[0, 7]] * 6)
    assert can_decode(model, 2)
    found, expected = (
        torch.autograd.grad(loss_of(states), [weight for _, weight in decoding(model)])
        for states in (decode(model, prompts(), decoder_ids), padded_forward(model, decoder_ids))
    )
    for (name, _), one, other in zip(decoding(model), found, expected, strict=True):
        assert float(other.norm()) > 0, name
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def decoding(model: Any) -> list[tuple[str, Any]]:
    """The weights that the states depend on: all but those of the vocabulary's logits."""
    return [(name, weight) for name, weight in model.named_parameters() if name != "lm_head.weight"]


@pytest.mark.parametrize("kind", ["t5", "flan-t5", "mt5"])
def test_dropout_falls_where_transformers_has_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a dropout that scales instead, each place that one of the two forgets shows."""

    def scale(values: torch.Tensor, p: float, training: bool = True, inplace: bool = False) -> torch.Tensor:
        return values * (1 - p / 2) if training else values

    monkeypatch.setattr(nn.functional, "dropout", scale)
    model = model_of(kind, dropout_rate=0.3, attn_implementation="eager").double()
    decoder_ids = torch.tensor([[0, 7]] * 6)
    without = decode(model, prompts(), decoder_ids)
    model.train()
    found = decode(model, prompts(), decoder_ids)
    torch.testing.assert_close(found, padded_forward(model, decoder_ids), atol=1e-10, rtol=0)
    assert not torch.allclose(found, without, atol=1e-3)


def test_a_batch_is_decoded_without_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """With gradients and without; transformers' own forward is not asked."""
    model = EncoderDecoder(model_of("flan-t5"), 0).eval()
    decoder_ids = torch.tensor([[0, 7]] * 6)
    expected = padded_forward(model.model, decoder_ids)
    monkeypatch.setattr(type(model.model.encoder), "forward", None)
    with_graph = model._decode(pad(prompts(), 0, model.device), decoder_ids)
    assert with_graph.requires_grad
    with torch.no_grad():
        asked = model._decode(pad(prompts(), 0, model.device), decoder_ids)
    torch.testing.assert_close(asked, with_graph.detach(), atol=2e-5, rtol=0)
    torch.testing.assert_close(asked, expected.detach(), atol=2e-5, rtol=0)

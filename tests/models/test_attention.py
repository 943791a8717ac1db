from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from instruct_distill.models.attention import attention, use_cpu_attention


class Layer(nn.Module):
    """The shape of an attention layer, as far as attention asks for it."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.is_causal = True
        self.num_key_value_groups = groups


def tensors(queries: int, keys: int, heads: int = 4, key_heads: int = 2) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, heads, queries, 8), (2, key_heads, keys, 8), (2, key_heads, keys, 8)]
    made = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    return [tensor.requires_grad_() for tensor in made]


def mask(kind: str, queries: int, keys: int) -> torch.Tensor | None:
    if kind == "none":
        return None
    look = torch.ones(2, 1, queries, keys, dtype=torch.bool).tril(keys - queries)
    look[1, :, :, 0] = False
    look[1, :, 0, 0] = True
    return look if kind == "bool" else torch.zeros(look.shape).masked_fill(~look, -1e4).bfloat16()


@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "position-bias"])
@pytest.mark.parametrize("kind", ["none", "bool", "float"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (1, 6)])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both-ways"])
def test_value_and_gradients_are_those_of_exact_attention(
    kind: str, with_bias: bool, queries: int, keys: int, causal: bool
) -> None:
    """As near to float64 as bf16 allows, and no farther than the fused kernel."""
    layer = Layer(2).train()
    given = tensors(queries, keys)
    bias = None
    if with_bias:
        bias = torch.randn(1, 4, queries, keys, generator=torch.Generator().manual_seed(1)).bfloat16()
        given.append(bias.requires_grad_())
    allowed = mask(kind, queries, keys)
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    exact_mask = allowed.double() if kind == "float" and allowed is not None else allowed

    def ask(function, query, key, value, bias=None, *, mask):  # type: ignore[no-untyped-def]
        return function(
            layer, query, key, value, mask, dropout=0.0, scaling=0.5, is_causal=causal, position_bias=bias
        )[0]

    found = ask(attention, *given, mask=allowed)
    expected = ask(sdpa_attention_forward, *exact, mask=exact_mask)
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.double(), expected, atol=0.03, rtol=0.03)
    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2)).double()
    gradients = torch.autograd.grad(found, given, direction.bfloat16())
    exactly = torch.autograd.grad(expected, exact, direction)
    for mine, theirs in zip(gradients, exactly, strict=True):
        assert float((mine.double() - theirs).norm()) < 0.03 * float(theirs.norm()) + 1e-3


def test_dropout_takes_weights_out_in_training_only() -> None:
    query, key, value = tensors(5, 5)
    layer = Layer(2).train()
    torch.manual_seed(0)
    dropped = attention(layer, query, key, value, None, dropout=0.5)[0]
    torch.manual_seed(0)
    again = attention(layer, query, key, value, None, dropout=0.5)[0]
    whole = attention(layer, query, key, value, None)[0]
    assert torch.equal(dropped, again)
    assert not torch.allclose(dropped, whole, atol=0.05)


def test_outside_of_bf16_training_it_is_the_fused_attention_itself() -> None:
    query, key, value = tensors(5, 5)
    fused = sdpa_attention_forward(Layer(2), query, key, value, None)[0]
    assert torch.equal(attention(Layer(2).eval(), query, key, value, None)[0], fused)
    exact = [tensor.double() for tensor in (query, key, value)]
    layer = Layer(2).train()
    assert torch.equal(attention(layer, *exact, None)[0], sdpa_attention_forward(layer, *exact, None)[0])


@pytest.mark.parametrize("family", ["tiny_llama", "tiny_t5"])
def test_a_model_trains_with_it_as_without(family: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(family)
    auto = AutoModelForSeq2SeqLM if family == "tiny_t5" else AutoModelForCausalLM
    ids = torch.randint(5, 300, (3, 40), generator=torch.Generator().manual_seed(0))
    seen = torch.ones_like(ids)
    seen[0, 30:] = 0
    found = {}
    for changed in (False, True):
        model = auto.from_pretrained(folder, dtype=torch.bfloat16)
        for module in model.modules():
            if isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        assert model.config._attn_implementation == "sdpa"
        assert len(model.get_input_embeddings().weight) > 300
        if changed:
            use_cpu_attention(model)
            assert model.config._attn_implementation == "instruct_distill"
        model.train()
        more = {"decoder_input_ids": ids[:, :3]} if family == "tiny_t5" else {}
        logits = model(input_ids=ids, attention_mask=seen, **more).logits[:, -1].float()
        logits[1:, :50].square().sum().backward()
        found[changed] = (
            logits[1:].detach(),
            [p.grad.float() for p in model.parameters() if p.grad is not None],
        )
    (logits, gradients), (same_logits, same_gradients) = found[False], found[True]
    assert float((logits - same_logits).norm()) < 0.03 * float(logits.norm())
    assert len(gradients) == len(same_gradients) > 10
    size = max(float(gradient.norm()) for gradient in gradients)
    for mine, theirs in zip(gradients, same_gradients, strict=True):
        assert float((mine - theirs).norm()) < 0.1 * float(mine.norm()) + 0.01 * size


def test_a_model_with_another_attention_keeps_it(tiny_llama: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_llama, attn_implementation="eager")
    use_cpu_attention(model)
    assert model.config._attn_implementation == "eager"

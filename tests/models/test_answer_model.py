from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import pad
from instruct_distill.models.decoder_only import DecoderOnly
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.loading import load_model
from instruct_distill.prompts.answers import EncodedAnswers

PROMPTS = [[30, 40, 50, 60, 1], [70, 80, 1], [90, 1], [31, 41, 59, 26, 53, 58, 97, 93, 1]]
SINGLE = EncodedAnswers((0, 44), ((71,), (272,)))
SEVERAL = EncodedAnswers((0,), ((3, 76), (45,)))


def t5_of(tiny_t5: Path, device: torch.device, *, tied: bool) -> EncoderDecoder:
    model = load_model(str(tiny_t5), dtype="fp32", device=device).model
    assert isinstance(model, EncoderDecoder)
    if tied:
        model.model.lm_head.weight = model.model.shared.weight
        model.model.config.scale_decoder_outputs = True
    return model


@pytest.fixture(params=["untied t5", "tied t5", "llama"])
def model(request: pytest.FixtureRequest, device: torch.device) -> AnswerModel:
    if request.param == "llama":
        return load_model(str(request.getfixturevalue("tiny_llama")), dtype="fp32", device=device).model
    tiny_t5 = request.getfixturevalue("tiny_t5")
    return t5_of(tiny_t5, device, tied=request.param == "tied t5")


def own_logits(model: AnswerModel, prompt: list[int], decoder: list[int]) -> torch.Tensor:
    """The full-vocabulary logits of transformers' own forward, [decoder positions, words]."""
    inner: Any = model.model
    if isinstance(model, DecoderOnly):
        ids = torch.tensor([[*prompt, *decoder]], device=model.device)
        logits: torch.Tensor = inner(input_ids=ids).logits[0, len(prompt) - 1 :]
    else:
        ids = torch.tensor([prompt], device=model.device)
        decoder_ids = torch.tensor([decoder], device=model.device)
        logits = inner(input_ids=ids, decoder_input_ids=decoder_ids).logits[0]
    return logits


def decoder_of(model: AnswerModel, prefix: tuple[int, ...], continuation: tuple[int, ...]) -> list[int]:
    """A decoder-only prompt ends with the prefix already."""
    start = [] if isinstance(model, DecoderOnly) else list(prefix)
    return [*start, *continuation[:-1]]


def scored_rows(model: AnswerModel, prompt: list[int], prefix: tuple[int, ...], c: tuple[int, ...]) -> Any:
    logits = own_logits(model, prompt, decoder_of(model, prefix, c))
    rows = logits[-len(c) :].log_softmax(dim=-1)
    return [float(row[token]) for row, token in zip(rows, c, strict=True)]


@torch.no_grad()
def test_answer_logits_are_those_of_the_models_own_forward(model: AnswerModel) -> None:
    scores = model(PROMPTS, SINGLE)
    assert (scores.shape, scores.dtype) == ((4, 2), torch.float32)
    for prompt, row in zip(PROMPTS, scores, strict=True):
        whole = own_logits(model, prompt, decoder_of(model, SINGLE.prefix, (71,)))[-1]
        torch.testing.assert_close(row, whole[[71, 272]], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(model.reference_logits(prompt, SINGLE), whole, atol=1e-5, rtol=1e-5)
    assert len({round(float(score), 4) for score in scores[:, 0]}) == 4


@torch.no_grad()
def test_b11_answers_of_several_tokens_get_their_log_probability(model: AnswerModel) -> None:
    scores = model(PROMPTS, SEVERAL)
    expected = [
        [sum(scored_rows(model, prompt, SEVERAL.prefix, c)) for c in SEVERAL.continuations]
        for prompt in PROMPTS
    ]
    torch.testing.assert_close(scores.cpu(), torch.tensor(expected), atol=1e-4, rtol=1e-4)
    assert bool((scores < 0).all())


@torch.no_grad()
def test_log_likelihood_is_the_mean_over_the_tokens(model: AnswerModel) -> None:
    continuations = [(5, 6, 7), (8,), (9, 10), (11, 12, 13, 14, 15)]
    found = model.log_likelihood(PROMPTS, continuations)
    expected = []
    for prompt, continuation in zip(PROMPTS, continuations, strict=True):
        values = scored_rows(model, prompt, (0,), continuation)
        expected.append(sum(values) / len(values))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.cpu(), torch.tensor(expected), atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("answers", [SINGLE, SEVERAL])
def test_b12_neighbours_do_not_change_a_score(model: AnswerModel, answers: EncodedAnswers) -> None:
    long = list(range(100, 300))
    together = model([*PROMPTS, long], answers)
    alone = torch.cat([model([prompt], answers) for prompt in [*PROMPTS, long]])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=0)


@torch.no_grad()
def test_b12_the_pad_does_not_matter(model: AnswerModel) -> None:
    before = model(PROMPTS, SINGLE)
    model.pad_id = 17
    torch.testing.assert_close(model(PROMPTS, SINGLE), before, atol=1e-6, rtol=0)


def test_gradients_reach_every_weight(model: AnswerModel) -> None:
    model(PROMPTS, SINGLE)[:, 0].sum().backward()
    missing = [name for name, p in model.model.named_parameters() if p.grad is None]
    assert missing == []


@torch.no_grad()
def test_the_last_product_is_float32_in_a_bf16_model(tiny_llama: Path, device: torch.device) -> None:
    model = load_model(str(tiny_llama), dtype="bf16", device=device).model
    hidden = model.answer_rows(pad(PROMPTS, model.pad_id, model.device), SINGLE)
    assert hidden.dtype == torch.bfloat16
    head = model.model.get_output_embeddings().weight
    expected = hidden.float() @ head.float()[[71, 272]].T
    with torch.autocast(device.type, dtype=torch.bfloat16):
        found = model.project(hidden, [71, 272])
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
    assert not torch.equal(found, found.bfloat16().float())


@torch.no_grad()
def test_a_float64_model_answers_in_float64(tiny_llama: Path, device: torch.device) -> None:
    model = load_model(str(tiny_llama), dtype="fp64", device=device).model
    assert model(PROMPTS, SINGLE).dtype == torch.float64


@torch.no_grad()
@pytest.mark.parametrize(
    ("setting", "value", "change"),
    [
        ("final_logit_softcapping", 2.0, lambda x: 2 * math.tanh(x / 2)),
        ("logit_scale", 0.25, lambda x: x / 4),
        ("logits_scaling", 8.0, lambda x: x / 8),
    ],
)
def test_scaled_logits(
    tiny_llama: Path, device: torch.device, setting: str, value: float, change: Any
) -> None:
    model = load_model(str(tiny_llama), dtype="fp32", device=device).model
    before = model(PROMPTS, SINGLE)
    setattr(model.model.config, setting, value)
    expected = torch.tensor([[change(float(x)) for x in row] for row in before])
    torch.testing.assert_close(model(PROMPTS, SINGLE).cpu(), expected, atol=1e-5, rtol=1e-5)

from __future__ import annotations

import dataclasses
import logging
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instruct_distill.inference import shared_prefix
from instruct_distill.inference.engine import Question
from instruct_distill.inference.local import LocalEngine
from instruct_distill.inference.prefix_groups import PrefixGroup, prefix_groups
from instruct_distill.models.decoder_only import DecoderOnly
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.records import Document, Query

QUERIES = [Query("q1", "how to oil a bicycle chain"), Query("q2", "ferries")]
DOCUMENTS = [
    Document("d1", "Ferries leave the harbour every twenty minutes.", "Harbour ferries"),
    Document("d2", "Clean and oil the chain after wet rides."),
    Document("d3", "Tomato plants need full sun and steady water, and more than that."),
    Document("d4", "Tides rise and fall twice a day along the coast. " * 3),
    Document("d5", "Oil"),
]
PAIRS = [Question(query, pair) for query in QUERIES for pair in permutations(DOCUMENTS, 2)]


@pytest.fixture(scope="module")
def llama(tiny_llama: Path, device: torch.device) -> LoadedModel:
    return load_model(str(tiny_llama), dtype="fp32", device=device)


def engines(loaded: LoadedModel, prompt: str, **settings: Any) -> tuple[LocalEngine, LocalEngine]:
    """Without and with sharing."""
    given = {"max_length": 512, "tokens_per_batch": 1024} | settings
    whole, shared = (
        LocalEngine(loaded, named_prompt(prompt), share_prefix=share, **given) for share in (False, True)
    )
    assert (whole.shares_prefix, shared.shares_prefix) == (False, True)
    return whole, shared


@pytest.mark.parametrize("tokens_per_batch", [1, 700, 100_000])
def test_pairs_have_the_same_margins_and_winners(llama: LoadedModel, tokens_per_batch: int) -> None:
    whole, shared = engines(llama, "pairwise-passage", tokens_per_batch=tokens_per_batch)
    expected, found = whole.answer_logits(PAIRS), shared.answer_logits(PAIRS)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    margins = expected[:, 0] - expected[:, 1]
    assert np.abs(margins).min() > 1e-3  # winners are not by chance
    assert np.array_equal(found.argmax(1), expected.argmax(1))


def test_beginnings_are_read_once(llama: LoadedModel) -> None:
    whole, shared = engines(llama, "pairwise-passage")
    for engine in (whole, shared):
        engine.answer_logits(PAIRS)
    assert (shared.asked, shared.tokens) == (40, whole.tokens)
    assert whole.tokens_read == whole.tokens
    prompts = shared.encoder.encode((q.query.text, [d.full_text for d in q.documents]) for q in PAIRS)
    groups, alone = prefix_groups(prompts)
    assert [len(group.rows) for group in groups] == [4] * 10
    assert alone == []
    assert shared.tokens_read == whole.tokens - sum(3 * group.length for group in groups)
    assert shared.tokens_read < 0.75 * whole.tokens


def test_every_token_of_a_beginning_is_seen(llama: LoadedModel) -> None:
    """The comparison above can fail: another beginning gives another answer."""
    prompts = [[5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 11, 10]]
    answers = engines(llama, "pairwise-passage")[0].encoder.answers
    assert answers is not None
    assert isinstance(llama.model, DecoderOnly)

    def ask(first: int) -> torch.Tensor:
        changed = [[first, *prompt[1:]] for prompt in prompts]
        groups = [PrefixGroup(4, [0, 1])]
        ((rows, found),) = shared_prefix.answers_by_group(llama.model, changed, groups, answers, 100)  # type: ignore[arg-type]
        assert rows == [0, 1]
        with torch.inference_mode():
            torch.testing.assert_close(found, llama.model(changed, answers), atol=1e-5, rtol=0)
        return found

    with torch.inference_mode():
        assert (ask(5) - ask(12)).abs().min() > 1e-3


def test_sets_and_single_passages_share_too(llama: LoadedModel) -> None:
    d1, d2, d3, d4, d5 = DOCUMENTS
    shown = [(d4, d3, d1), (d4, d3, d2), (d4, d3, d5), (d4, d2), (d4, d1), (d2, d5, d1)]
    sets = [Question(query, documents) for query in QUERIES for documents in shown]
    whole, shared = engines(llama, "setwise-passage")
    np.testing.assert_allclose(shared.answer_logits(sets), whole.answer_logits(sets), atol=1e-5, rtol=0)
    assert shared.tokens_read < 0.92 * shared.tokens
    single = [Question(query, (document,)) for query in QUERIES for document in DOCUMENTS]
    whole, shared = engines(llama, "pointwise-passage")
    np.testing.assert_allclose(shared.answer_logits(single), whole.answer_logits(single), atol=1e-5, rtol=0)


def test_an_answer_does_not_depend_on_what_else_is_asked(llama: LoadedModel) -> None:
    _, shared = engines(llama, "pairwise-passage")
    together = shared.answer_logits(PAIRS)
    np.testing.assert_allclose(shared.answer_logits(PAIRS[:5]), together[:5], atol=1e-5, rtol=0)
    back = shared.answer_logits(PAIRS[::-1])[::-1]
    np.testing.assert_allclose(back, together, atol=1e-5, rtol=0)
    assert np.array_equal(shared.answer_logits(PAIRS), together)  # the same bytes


def test_keys_and_values_are_of_one_budget(llama: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    _, shared = engines(llama, "pairwise-passage", tokens_per_batch=600)
    kept: list[int] = []
    looked_at: list[int] = []
    read, ask = shared_prefix.read_prefixes, shared_prefix.answers_after

    def reading(model: Any, prefixes: Any) -> Any:
        found = read(model, prefixes)
        keys = found.layers[0][0]
        kept.append(keys.shape[0] * keys.shape[2])
        return found

    def asking(model: Any, found: Any, owners: Any, tails: Any, answers: Any) -> Any:
        looked_at.append(len(tails) * (int(found.lengths.max()) + max(map(len, tails))))
        return ask(model, found, owners, tails, answers)

    monkeypatch.setattr(shared_prefix, "read_prefixes", reading)
    monkeypatch.setattr(shared_prefix, "answers_after", asking)
    shared.answer_logits(PAIRS)
    assert max(kept) <= 600 < sum(kept)
    assert max(looked_at) <= 2 * 600


def test_answers_of_several_tokens_are_asked_with_whole_prompts(
    llama: LoadedModel, caplog: pytest.LogCaptureFixture
) -> None:
    longer = dataclasses.replace(named_prompt("pairwise-passage"), answers=("A of them", "B of them"))
    engine = LocalEngine(llama, longer, max_length=512, share_prefix=True)
    assert not engine.shares_prefix
    assert not [record for record in caplog.records if record.name.startswith("instruct_distill")]


def test_an_encoder_decoder_reads_whole_prompts(tiny_t5: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded = load_model(str(tiny_t5), dtype="fp32")
    engine = LocalEngine(loaded, named_prompt("pairwise-passage"), max_length=512, share_prefix=True)
    assert not engine.shares_prefix
    assert not [record for record in caplog.records if record.name.startswith("instruct_distill")]


def test_a_model_that_forgets_is_found_out(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Keys that are not seen, positions that are not heeded: the answers are others."""
    inner = llama.model.model.model
    forward = inner.forward

    def without_positions(cache: Any = None, position_ids: Any = None, **kwargs: Any) -> Any:
        return forward(cache=cache, **kwargs)

    monkeypatch.setattr(inner, "forward", without_positions)
    with caplog.at_level(logging.WARNING):
        engine = LocalEngine(llama, named_prompt("pairwise-passage"), max_length=512, share_prefix=True)
    assert not engine.shares_prefix
    assert "LlamaForCausalLM: every prompt is read from its beginning" in caplog.text
    assert len(engine.answer_logits(PAIRS)) == 40


def test_a_model_without_a_cache_reads_whole_prompts(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any) -> Any:
        raise ValueError("this model keeps nothing")

    monkeypatch.setattr(shared_prefix, "read_prefixes", broken)
    with caplog.at_level(logging.WARNING):
        engine = LocalEngine(llama, named_prompt("pairwise-passage"), max_length=512, share_prefix=True)
    assert not engine.shares_prefix
    assert "ValueError: this model keeps nothing" in caplog.text


@pytest.mark.parametrize(("window", "shares"), [(256, False), (1023, False), (1024, True)])
def test_a_window_must_hold_what_is_padded(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch, window: int, shares: bool
) -> None:
    config = llama.model.model.config
    monkeypatch.setattr(config, "layer_types", ["sliding_attention", "full_attention"], raising=False)
    monkeypatch.setattr(config, "sliding_window", window, raising=False)
    engine = LocalEngine(llama, named_prompt("pairwise-passage"), max_length=512, share_prefix=True)
    assert engine.shares_prefix is shares

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.inference.engine import Question
from instruct_distill.inference.local import LocalEngine, evaluation_mode
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.records import Document, Query

Q1 = Query("q1", "how to oil a bicycle chain")
Q2 = Query("q2", "when do ferries leave")
D1 = Document("d1", "Ferries leave the harbour every twenty minutes.", "Harbour ferries")
D2 = Document("d2", "Clean and oil the chain after wet rides.", "Bicycle chain care")
D3 = Document("d3", "Tomato plants need full sun and steady water.", "Growing tomatoes")
D4 = Document("d4", "Tides rise and fall twice a day along the coast.", "Tide tables")
D5 = Document("d5", "A drop of oil stops a hinge from squeaking.", "Squeaky hinges")
LONG = Document("long", "Clean and oil the chain after wet rides. " * 250)
DOCUMENTS = [D1, D2, D3, D4, D5, LONG]


@pytest.fixture(params=["t5", "llama"])
def loaded(request: pytest.FixtureRequest, device: torch.device) -> LoadedModel:
    folder: Path = request.getfixturevalue(f"tiny_{request.param}")
    return load_model(str(folder), dtype="fp32", device=device)


def engine_of(
    loaded: LoadedModel, prompt: str | Prompt = "pointwise-passage", **settings: Any
) -> LocalEngine:
    record = named_prompt(prompt) if isinstance(prompt, str) else prompt
    return LocalEngine(loaded, record, **({"max_length": 512} | settings))


def pointwise(query: Query = Q1, documents: Sequence[Document] = DOCUMENTS) -> list[Question]:
    return [Question(query, (document,)) for document in documents]


def test_b12_alone_in_any_batch_and_in_any_order(loaded: LoadedModel) -> None:
    engine = engine_of(loaded)
    together = engine.answer_logits(pointwise())
    assert together.shape == (6, 2)
    assert together.dtype == np.float32
    assert len(set(np.round(together[:, 0], 4))) == 6
    ranking = np.argsort(-together[:, 0]).tolist()
    runs = [np.concatenate([engine.answer_logits([question]) for question in pointwise()])]
    for size in (1, 2, 7):
        engine.tokens_per_batch = 512 * size
        runs.append(engine.answer_logits(pointwise()))
    shuffled = [4, 0, 5, 2, 1, 3]
    back = np.empty_like(together)
    back[shuffled] = engine.answer_logits(pointwise(documents=[DOCUMENTS[i] for i in shuffled]))
    for run in [*runs, back]:
        np.testing.assert_allclose(run, together, atol=1e-4, rtol=0)
        assert np.argsort(-run[:, 0]).tolist() == ranking


def test_b12_pairs_and_likelihoods_too(loaded: LoadedModel) -> None:
    pairs = [Question(Q1, (a, b)) for a in (D1, D2, LONG) for b in (D3, D5)]
    engine = engine_of(loaded, "pairwise-passage")
    together = engine.answer_logits(pairs)
    alone = np.concatenate([engine.answer_logits([pair]) for pair in pairs])
    np.testing.assert_allclose(together, alone, atol=1e-4, rtol=0)
    writer = engine_of(loaded, "query-generation")
    questions = [*pointwise(Q1), *pointwise(Q2, [D1, LONG])]
    together = writer.log_likelihood(questions)
    assert together.shape == (8,)
    assert together.dtype == np.float32
    alone = np.concatenate([writer.log_likelihood([question]) for question in questions])
    np.testing.assert_allclose(together, alone, atol=1e-4, rtol=0)
    assert (together < 0).all()


def test_the_order_of_the_documents_is_the_order_shown(loaded: LoadedModel) -> None:
    engine = engine_of(loaded, "pairwise-passage")
    (ab, ba) = engine.answer_logits([Question(Q1, (D2, D5)), Question(Q1, (D5, D2))])
    assert not np.allclose(ab, ba)


def test_log_likelihood_against_the_models_own_loss(loaded: LoadedModel) -> None:
    engine = engine_of(loaded, "query-generation")
    (found,) = engine.log_likelihood([Question(Q1, (D2,))])
    prompt = engine.encoder.encode([(Q1.text, [D2.full_text])])[0]
    query = engine.encoder.encode_continuation(Q1.text)
    inner: Any = loaded.model.model
    with torch.no_grad():
        if loaded.model.family == "encoder-decoder":
            ids = torch.tensor([prompt], device=loaded.model.device)
            loss = inner(input_ids=ids, labels=torch.tensor([query], device=loaded.model.device)).loss
        else:
            ids = torch.tensor([prompt + query], device=loaded.model.device)
            labels = ids.clone()
            labels[0, : len(prompt)] = -100
            loss = inner(input_ids=ids, labels=labels).loss
    assert found == pytest.approx(-float(loss), abs=1e-4)


def test_b11_the_greedy_answer_is_the_likelier_one(loaded: LoadedModel, monkeypatch: Any) -> None:
    # among the two answers, what generation would write next is what scoring prefers
    engine = engine_of(loaded, "pairwise-passage")
    answers = engine.encoder.answers
    assert answers is not None
    pairs = [
        Question(q, (a, b)) for q in (Q1, Q2) for a in (D1, D2, D3, D4) for b in (D1, D2, D3, D4) if a != b
    ]
    scores = engine.answer_logits(pairs)
    allowed = [continuation[0] for continuation in answers.continuations]
    prompts = engine.encoder.encode((q.text, [d.full_text for d in ds]) for q, ds in pairs)
    inner: Any = loaded.model.model
    agreed = 0
    for row, prompt in zip(scores, prompts, strict=True):
        given = {"input_ids": torch.tensor([prompt], device=loaded.model.device)}
        if loaded.model.family == "encoder-decoder":
            given["decoder_input_ids"] = torch.tensor([answers.prefix], device=loaded.model.device)
        written = inner.generate(
            **given,
            max_new_tokens=1,
            do_sample=False,
            prefix_allowed_tokens_fn=lambda batch, sent: allowed,
        )[0, -1]
        agreed += int(written) == allowed[int(row.argmax())]
    assert (agreed, len(pairs)) == (24, 24)


# -- broken models ------------------------------------------------------------------------------------------


class Broken:
    """Makes the model answer with a value of ours to prompts that show a word."""

    def __init__(self, engine: LocalEngine, word: str, value: float) -> None:
        self.word, self.value = engine.encoder.encode_continuation(word)[-1], value
        self.forward = type(engine.model).forward
        self.model = engine.model

    def __call__(self, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> torch.Tensor:
        scores: torch.Tensor = self.forward(self.model, prompts, answers)
        for row, prompt in enumerate(prompts):
            if self.word in prompt:
                scores[row, 1] = self.value
        return scores


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_b15_a_non_finite_answer_names_its_pair(
    tiny_t5: Path, device: torch.device, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(load_model(str(tiny_t5), dtype="fp32", device=device), "pairwise-passage")
    monkeypatch.setattr(engine.model, "forward", Broken(engine, "tomatoes", value))
    assert np.isfinite(engine.answer_logits([Question(Q1, (D1, D2))])).all()
    with pytest.raises(
        NonFiniteScoreError, match=r"to query 'q2' with document\(s\) 'd4', 'd3' \(1 such answers\)"
    ):
        engine.answer_logits([Question(Q1, (D1, D2)), Question(Q2, (D4, D3)), Question(Q2, (D1, D4))])


def test_b15_an_overflow_inside_the_model(tiny_llama: Path, device: torch.device) -> None:
    loaded = load_model(str(tiny_llama), dtype="fp32", device=device)
    engine = engine_of(loaded)
    with torch.no_grad():
        loaded.model.model.model.layers[0].mlp.down_proj.weight.fill_(float("inf"))
    with pytest.raises(
        NonFiniteScoreError, match=r"query 'q1' with document\(s\) 'd2' \(1 such answers\); use"
    ):
        engine.answer_logits([Question(Q1, (D2,))])


def test_a_model_with_unknown_scaling_is_refused(tiny_llama: Path, device: torch.device) -> None:
    loaded = load_model(str(tiny_llama), dtype="fp32", device=device)
    head = loaded.model.model.lm_head
    head.register_forward_hook(lambda module, args, output: output * 3)
    with pytest.raises(
        InputError, match="LlamaForCausalLM computes its logits in a way that this library does"
    ):
        engine_of(loaded)


# -- the model is left as it was ----------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
def test_b39_scoring_is_repeatable_and_restores_training_mode(loaded: LoadedModel, training: bool) -> None:
    engine = engine_of(loaded)
    first = engine.answer_logits(pointwise())
    loaded.model.train(training)
    second = engine.answer_logits(pointwise())
    assert np.array_equal(first, second)
    assert all(module.training is training for module in loaded.model.modules())
    assert torch.is_grad_enabled()


def test_training_mode_is_restored_after_an_error(loaded: LoadedModel) -> None:
    loaded.model.train()
    with pytest.raises(KeyError, match="False"), evaluation_mode(loaded.model):
        raise KeyError(loaded.model.training)
    assert loaded.model.training


def test_a_frozen_part_stays_in_evaluation_mode(tiny_llama: Path, device: torch.device) -> None:
    loaded = load_model(str(tiny_llama), dtype="fp32", device=device)
    loaded.model.train()
    loaded.model.model.lm_head.eval()
    engine_of(loaded).answer_logits(pointwise())
    assert loaded.model.training
    assert not loaded.model.model.lm_head.training


# -- the rest -----------------------------------------------------------------------------------------------


def test_prompts_and_tokens_are_counted(tiny_t5: Path, device: torch.device) -> None:
    engine = engine_of(load_model(str(tiny_t5), dtype="fp32", device=device), "pointwise-released")
    assert (engine.asked, engine.tokens) == (0, 0)
    engine.answer_logits(pointwise(documents=[D2, D5]))
    lengths = [len(ids) for ids in engine.encoder.encode([(Q1.text, [d.full_text]) for d in (D2, D5)])]
    assert (engine.asked, engine.tokens) == (2, sum(lengths))


def test_nothing_asked(loaded: LoadedModel) -> None:
    assert engine_of(loaded).answer_logits([]).shape == (0, 2)
    assert engine_of(loaded, "query-generation").log_likelihood([]).shape == (0,)


def test_a_prompt_without_answers_gives_no_answer_logits(loaded: LoadedModel) -> None:
    with pytest.raises(InputError, match="prompt 'query-generation' has no answers to compare"):
        engine_of(loaded, "query-generation").answer_logits(pointwise())


def test_a_query_without_text_has_no_likelihood(loaded: LoadedModel) -> None:
    with pytest.raises(InputError, match="query 'q9' has no text"):
        engine_of(loaded, "query-generation").log_likelihood(pointwise(Query("q9", " ")))

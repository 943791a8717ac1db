"""What a model writes, and list prompts, on tiny models of both families."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instruct_distill.errors import NonFiniteScoreError
from instruct_distill.inference.engine import Question
from instruct_distill.inference.local import LocalEngine
from instruct_distill.inference.written_answers import WrittenAnswers
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.records import Document, Query

Q1 = Query("q1", "how to oil a bicycle chain")
D1 = Document("d1", "Ferries leave the harbour every twenty minutes.", "Harbour ferries")
D2 = Document("d2", "Clean and oil the chain after wet rides.", "Bicycle chain care")
D3 = Document("d3", "Tomato plants need full sun and steady water.", "Growing tomatoes")
LONG = Document("long", "Clean and oil the chain after wet rides. " * 8)
SETS = [
    Question(Q1, (D1, D2, D3)),
    Question(Q1, (D3, D2)),
    Question(Q1, (LONG, D1, D2)),
    Question(Q1, (D2, D3, D1, LONG)),
]


@pytest.fixture(params=["t5", "llama"])
def loaded(request: pytest.FixtureRequest, device: torch.device) -> LoadedModel:
    folder: Path = request.getfixturevalue(f"tiny_{request.param}")
    return load_model(str(folder), dtype="fp32", device=device)


def engine_of(loaded: LoadedModel, prompt: str | Prompt, **settings: Any) -> LocalEngine:
    record = named_prompt(prompt) if isinstance(prompt, str) else prompt
    return LocalEngine(loaded, record, **({"max_length": 512} | settings))


def by_hand(engine: LocalEngine, question: Question, steps: int) -> list[int]:
    """The likeliest token, again and again, each time from the whole text."""
    inner: Any = engine.model.model
    count = len(question.documents)
    prompt = engine.prompt.for_documents(count) if engine.prompt.block else engine.prompt
    encoder = LocalEngine(
        LoadedModel(engine.model, engine._tokenizer, "", ""), prompt, max_length=512
    ).encoder
    (ids,) = encoder.encode([(question.query.text, [d.full_text for d in question.documents])])
    written: list[int] = []
    for _ in range(steps):
        with torch.no_grad():
            if engine.model.family == "encoder-decoder":
                start = [*(encoder.answers.prefix if encoder.answers else [0]), *written]
                logits = inner(
                    input_ids=torch.tensor([ids], device=engine.model.device),
                    decoder_input_ids=torch.tensor([start], device=engine.model.device),
                ).logits
            else:
                logits = inner(input_ids=torch.tensor([ids + written], device=engine.model.device)).logits
        written.append(int(logits[0, -1].argmax()))
    return written


@pytest.mark.parametrize("name", ["listwise-passage", "setwise-passage"])
def test_greedy_writing_is_the_likeliest_token_each_time(loaded: LoadedModel, name: str) -> None:
    engine = engine_of(loaded, name)
    stops = {loaded.tokenizer.eos_token_id}
    for question in SETS:
        expected = by_hand(engine, question, 6)
        end = next((i for i, token in enumerate(expected) if token in stops), 6)
        (found,) = engine.generate([question], 6)
        assert found == loaded.tokenizer.decode(expected[:end], skip_special_tokens=True).strip()


def test_b12_alone_and_in_any_batch(loaded: LoadedModel) -> None:
    engine = engine_of(loaded, "listwise-passage")
    together = engine.generate(SETS, 8)
    assert len(set(together)) > 1
    assert [engine.generate([question], 8)[0] for question in SETS] == together
    assert engine.generate(SETS[::-1], 8) == together[::-1]
    engine.tokens_per_batch = 1
    assert engine.generate(SETS, 8) == together
    assert engine.generate([], 8) == []


def test_a_models_sampling_settings_do_not_count(loaded: LoadedModel) -> None:
    engine = engine_of(loaded, "listwise-passage")
    expected = engine.generate(SETS, 6)
    config = loaded.model.model.generation_config
    config.do_sample, config.temperature, config.top_p, config.repetition_penalty = True, 5.0, 0.5, 3.0
    config.num_beams, config.max_length = 3, 4
    assert engine.generate(SETS, 6) == expected


def test_writing_ends_at_the_end_token(loaded: LoadedModel) -> None:
    engine = engine_of(loaded, "listwise-passage")
    question = SETS[0]
    written = by_hand(engine, question, 6)
    stop = written[2]
    loaded.model.model.generation_config.eos_token_id = [stop, 1]
    (found,) = engine.generate([question], 6)
    expected = written[: written.index(stop)]
    assert found == loaded.tokenizer.decode(expected, skip_special_tokens=True).strip()


def test_b15_nan_is_an_error(loaded: LoadedModel) -> None:
    engine = engine_of(loaded, "listwise-passage")
    with torch.no_grad():
        loaded.model.model.get_output_embeddings().weight[7].fill_(float("nan"))
    with pytest.raises(
        NonFiniteScoreError, match=r"with NaN logits to query 'q1' with document\(s\) 'd3', 'd2'"
    ):
        engine.generate([SETS[1]], 4)


# -- prompts of lists ---------------------------------------------------------------------------------------


def test_a_list_has_an_answer_for_each_document(loaded: LoadedModel) -> None:
    engine = engine_of(loaded, "setwise-passage")
    found = engine.answer_logits(SETS)
    assert (found.shape, found.dtype) == ((4, 4), np.float32)
    assert np.isfinite(found).tolist() == [
        [True, True, True, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, True, True],
    ]
    assert (found[~np.isfinite(found)] == -np.inf).all()
    for row, question in zip(found, SETS, strict=True):
        count = len(question.documents)
        plain = engine_of(loaded, named_prompt("setwise-passage").for_documents(count))
        np.testing.assert_allclose(plain.answer_logits([question])[0], row[:count], atol=1e-4, rtol=0)
        np.testing.assert_allclose(engine.answer_logits([question])[0], row[:count], atol=1e-4, rtol=0)
    assert engine.answer_logits([]).shape[0] == 0


def test_b15_a_broken_answer_of_a_list_names_its_documents(loaded: LoadedModel, monkeypatch: Any) -> None:
    engine = engine_of(loaded, "setwise-passage")
    forward = loaded.model.forward

    def broken(prompts: Any, answers: Any) -> torch.Tensor:
        scores = forward(prompts, answers).clone()
        if scores.shape[1] == 2:
            scores[0, 1] = float("-inf")
        return scores

    monkeypatch.setattr(loaded.model, "forward", broken)
    with pytest.raises(NonFiniteScoreError, match=r"with document\(s\) 'd3', 'd2' \(1 such answers\)"):
        engine.answer_logits(SETS)


# -- answers that are written -------------------------------------------------------------------------------


class Writer:
    """An engine that writes what it is told to."""

    def __init__(self, prompt: str, texts: list[str]) -> None:
        self.prompt = named_prompt(prompt)
        self.texts = texts

    def generate(self, questions: list[Question], max_tokens: int) -> list[str]:
        return [self.texts.pop(0) for _ in questions]


PAIR = Question(Q1, (D1, D2))


def test_b11_answers_in_words(caplog: pytest.LogCaptureFixture) -> None:
    texts = [
        "Passage A",
        "A",
        "passage b.",
        "Answer: Passage B",
        "B is better than A",
        "Both",
        "",
        "Passage AB",
    ]
    engine = WrittenAnswers(Writer("pairwise-passage", texts))  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        found = engine.answer_logits([PAIR] * 8)
    assert (found[:, 0] - found[:, 1]).tolist() == [1, 1, -1, -1, -1, 0, 0, 0]
    assert (engine.asked, engine.undecided) == (8, 3)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("query 'q1': the model wrote 'Both', which is none of ['A', 'B']: a tie")


def test_answers_of_lists_in_words() -> None:
    engine = WrittenAnswers(Writer("setwise-passage", ["Passage C", "C", "B"]))  # type: ignore[arg-type]
    found = engine.answer_logits(SETS[:3])
    assert found.tolist() == [[0, 0, 1], [0, 0, -np.inf], [0, 1, 0]]
    assert engine.undecided == 1


def test_b11_written_and_scored_answers_agree(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    # a tiny model writes anything; where it may write one of the two answers only, it writes the likelier one
    engine = engine_of(loaded, "pairwise-passage")
    answers = engine.encoder.answers
    assert answers is not None
    allowed = [ids[0] for ids in answers.continuations]
    inner: Any = loaded.model.model
    generate = inner.generate

    def only_answers(**given: Any) -> Any:
        given["generation_config"].max_new_tokens = 1
        return generate(**given, prefix_allowed_tokens_fn=lambda batch, sent: allowed)

    documents = (D1, D2, D3, LONG)
    pairs = [
        Question(q, (a, b)) for q in (Q1, Query("q2", "ferry times")) for a in documents for b in documents
    ]
    pairs = [pair for pair in pairs if pair.documents[0] != pair.documents[1]]
    scored = engine.answer_logits(pairs)
    monkeypatch.setattr(inner, "generate", only_answers)
    reader = WrittenAnswers(engine)
    written = reader.answer_logits(pairs)
    assert (len(pairs), reader.undecided) == (24, 0)
    assert written.argmax(axis=1).tolist() == scored.argmax(axis=1).tolist()

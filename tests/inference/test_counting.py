from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruct_distill.inference.counting import CountingEngine
from instruct_distill.inference.engine import Question
from instruct_distill.models.unloaded import unloaded_model
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.prompts.named import PROMPTS
from instruct_distill.records import Document, Query

QUERY = Query("q", "how to oil a chain")
QUESTIONS = [Question(QUERY, (Document("a", "word " * i), Document("b", "two words"))) for i in range(1, 51)]


def engine(folder: Path, prompt: str, **settings: Any) -> CountingEngine:
    model = unloaded_model(str(folder))
    return CountingEngine(
        PROMPTS[prompt],
        model.tokenizer,
        model.family,
        decoder_start=model.decoder_start,
        max_length=512,
        **settings,
    )


@pytest.fixture
def lengths(tiny_t5: Path) -> list[int]:
    model = unloaded_model(str(tiny_t5))
    encoder = PromptEncoder(
        PROMPTS["pairwise-passage"], model.tokenizer, family=model.family, max_length=512, decoder_start=0
    )
    return [
        len(ids) for ids in encoder.encode((q.query.text, [d.text for d in q.documents]) for q in QUESTIONS)
    ]


def test_tokens_are_those_of_the_encoder(tiny_t5: Path, lengths: list[int]) -> None:
    counter = engine(tiny_t5, "pairwise-passage")
    answers = counter.answer_logits(QUESTIONS)
    assert answers.shape == (50, 2)
    assert (counter.asked, counter.tokenised, counter.tokens) == (50, 50, sum(lengths))
    assert counter.tokens_per_prompt == counter.length_of(QUESTIONS) == sum(lengths) / 50
    assert len(counter.some) == 20


def test_of_many_questions_some_are_tokenised(tiny_t5: Path, lengths: list[int]) -> None:
    counter, again = (engine(tiny_t5, "pairwise-passage", per_call=25, seed=4) for _ in range(2))
    np.testing.assert_array_equal(counter.answer_logits(QUESTIONS), again.answer_logits(QUESTIONS))
    assert (counter.asked, counter.tokenised) == (50, 25)
    assert counter.tokens == again.tokens
    assert counter.tokens_per_prompt == pytest.approx(sum(lengths) / 50, rel=0.1)


def test_a_list_has_an_answer_a_document(tiny_t5: Path) -> None:
    counter = engine(tiny_t5, "setwise-passage")
    three, two = (Question(QUERY, tuple(Document(str(i), "x") for i in range(n))) for n in (3, 2))
    answers = counter.answer_logits([three, two])
    assert answers.shape == (2, 3)
    assert np.isneginf(answers).tolist() == [[False] * 3, [False, False, True]]


def test_a_continuation_is_read_too(tiny_t5: Path) -> None:
    counter = engine(tiny_t5, "query-generation")
    question = Question(QUERY, (Document("a", "a text"),))
    assert counter.log_likelihood([question]).shape == (1,)
    assert counter.tokens > counter.length_of([question])


def test_without_a_tokenizer_questions_are_counted() -> None:
    counter = CountingEngine(
        PROMPTS["pairwise-passage"], None, "encoder-decoder", decoder_start=None, max_length=1
    )
    assert counter.answer_logits(QUESTIONS).shape == (50, 2)
    assert counter.generate(QUESTIONS[:2], 5) == ["", ""]
    assert (counter.asked, counter.tokenised, counter.tokens_per_prompt) == (52, 0, 0.0)

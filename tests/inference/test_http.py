"""Teachers behind a server, against a real one on this machine: the same answers as from the model itself."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instruct_distill.errors import InputError, NonFiniteScoreError, ServerError
from instruct_distill.inference.engine import Question
from instruct_distill.inference.http import HttpEngine
from instruct_distill.inference.http_offer import Asks
from instruct_distill.inference.local import LocalEngine
from instruct_distill.inference.parameters import ServerParameters
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.records import Document, Query
from tests.conftest import ServedModel
from tests.teachers.stub_engine import D1, D2, D3, D4, Q1, Q2

PAIRS = [Question(query, (a, b)) for query in (Q1, Q2) for a in (D1, D2, D3) for b in (D1, D2, D3) if a != b]
EVERY_TOKEN = 1000


@pytest.fixture(scope="module")
def loaded(tiny_llama: Path, device: torch.device) -> LoadedModel:
    return load_model(str(tiny_llama), dtype="fp32", device=device)


def plain(name: str) -> Prompt:
    """A prompt without a chat template, as the completions endpoint shows it."""
    return dataclasses.replace(named_prompt(name), chat=False)


def engine(
    served: ServedModel,
    prompt: str | Prompt = "pairwise-passage",
    asks: Asks = "answer_logits",
    document_words: int | None = None,
    processes: int = 1,
    **server: Any,
) -> HttpEngine:
    return HttpEngine(
        served.model,
        ServerParameters(url=served.url, **({"top_logprobs": EVERY_TOKEN} | server)),
        plain(prompt) if isinstance(prompt, str) else prompt,
        asks=asks,
        document_words=document_words,
        processes=processes,
    )


def local(loaded: LoadedModel, prompt: str) -> LocalEngine:
    return LocalEngine(loaded, plain(prompt), max_length=2000)


# -- the same as the model itself ---------------------------------------------------------------------------


def test_margins_are_those_of_the_model_itself(served_llama: ServedModel, loaded: LoadedModel) -> None:
    asked = engine(served_llama)
    assert asked.offer == ("completions", EVERY_TOKEN, "tiny-as-served")
    found, expected = asked.answer_logits(PAIRS), local(loaded, "pairwise-passage").answer_logits(PAIRS)
    assert (found.shape, found.dtype, asked.undecided) == ((12, 2), np.float32, 0)
    margins = expected[:, 0] - expected[:, 1]
    np.testing.assert_allclose(found[:, 0] - found[:, 1], margins, atol=1e-3, rtol=0)
    assert np.ptp(margins) > 0.1
    assert asked.asked == 13  # with the question at the beginning


def test_b12_answers_depend_on_no_order_and_no_neighbour(served_llama: ServedModel) -> None:
    one_at_a_time = engine(served_llama, concurrency=1).answer_logits(PAIRS)
    many = engine(served_llama, concurrency=8)
    assert (many.answer_logits(PAIRS) == one_at_a_time).all()
    assert (many.answer_logits(PAIRS[::-1]) == one_at_a_time[::-1]).all()
    assert many.answer_logits([]).shape == (0, 2)


def test_a_chat_is_read_where_the_answer_stands(
    served_llama: ServedModel, loaded: LoadedModel, device: torch.device
) -> None:
    tokenizer = loaded.tokenizer
    prompt = named_prompt("pairwise-passage")
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("Passage", " A", " B")]
    assert [len(each) for each in ids] == [1, 1, 1]
    (passage,), *answers = ids
    # the model writes two of these three, whatever they are; where both are Passage, nothing is decided
    allowed = [passage, *(answer for (answer,) in answers)]
    asked = engine(served_llama, prompt, extra={"allowed_token_ids": allowed, "max_tokens": 2})
    assert asked.offer.api == "chat"
    places = []
    for question, row in zip(PAIRS, asked.answer_logits(PAIRS), strict=True):
        text = prompt.template.format(
            query=question.query.text,
            passage_a=question.documents[0].full_text,
            passage_b=question.documents[1].full_text,
        )
        so_far = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        place = 0
        while place < 2:
            with torch.no_grad():
                logits = loaded.model.model(input_ids=torch.tensor([so_far], device=device)).logits[0, -1]
            best = max(allowed, key=lambda token: float(logits[token]))
            if best != passage:
                break
            so_far, place = [*so_far, passage], place + 1
        places.append(place)
        if place == 2:
            assert row[0] == row[1]
            continue
        each = logits.log_softmax(-1)
        forms = [
            [token for token in range(len(each)) if tokenizer.decode([token]).strip().lower() == letter]
            for letter in ("a", "b")
        ]
        assert all(len(form) >= 2 for form in forms)
        expected = [float(each[form].logsumexp(0)) for form in forms]
        np.testing.assert_allclose(row, expected, atol=1e-3, rtol=0)
    assert asked.undecided == places.count(2)


def test_the_likelihood_of_a_query(served_llama: ServedModel, loaded: LoadedModel) -> None:
    texts = ["how to oil a bicycle chain", "naïve café?", "x", "日本の 道"]
    questions = [Question(Query(str(i), text), (d,)) for i, text in enumerate(texts) for d in (D1, D2)]
    asked = engine(served_llama, "query-generation", "log_likelihood")
    expected = local(loaded, "query-generation").log_likelihood(questions)
    np.testing.assert_allclose(asked.log_likelihood(questions), expected, atol=1e-3, rtol=0)
    with pytest.raises(InputError, match="query 'e' has no text"):
        asked.log_likelihood([Question(Query("e", " "), (D1,))])


def test_what_is_written(served_llama: ServedModel, loaded: LoadedModel) -> None:
    sets = [Question(Q1, (D1, D2, D3)), Question(Q2, (D4, D3))]
    asked = engine(served_llama, "listwise-passage", "generate")
    assert asked.generate(sets, 6) == local(loaded, "listwise-passage").generate(sets, 6)


def test_a_list_has_an_answer_for_each_document(served_llama: ServedModel, loaded: LoadedModel) -> None:
    sets = [Question(Q1, (D1, D2, D3)), Question(Q2, (D4, D3)), Question(Q2, (D4, D3, D1, D2))]
    found = engine(served_llama, "setwise-passage").answer_logits(sets)
    expected = local(loaded, "setwise-passage").answer_logits(sets)
    assert (np.isfinite(found) == np.isfinite(expected)).all()
    # this vocabulary has A and B after a blank as one token, and no other letter
    np.testing.assert_allclose(found[:, 0] - found[:, 1], expected[:, 0] - expected[:, 1], atol=1e-3)


def test_fewer_words_of_a_document(served_llama: ServedModel) -> None:
    long = Document("d", "Clean and oil the chain " + "after wet rides. " * 300)
    short = long._replace(text="Clean and oil the chain")
    with pytest.raises(
        InputError,
        match=r"prompt of query 'q1' with document\(s\) 'd', 'd1' is too long for the server \(This model's "
        r"maximum context length is 1000 tokens.*\); show fewer words of each document: the teacher's "
        r"document_words is not set",
    ):
        engine(served_llama).answer_logits([PAIRS[0], Question(Q1, (long, D1))])
    asked = engine(served_llama, document_words=5)
    found = asked.answer_logits([Question(Q1, (long, D1)), Question(Q1, (short, D1))])
    assert (found[0] == found[1]).all()


# -- what a server offers -----------------------------------------------------------------------------------


def test_what_is_asked_depends_on_prompt_and_server(served_llama: ServedModel) -> None:
    chat = named_prompt("pairwise-passage")
    assert engine(served_llama, chat).offer.api == "chat"
    assert engine(served_llama, chat, api="completions").offer.api == "completions"
    assert engine(served_llama, chat, extra={"misbehave": "no-chat"}).offer.api == "completions"
    assert engine(served_llama, api="chat").offer.api == "chat"
    assert engine(served_llama, extra={"misbehave": "at-most-5"}).offer.top == 5
    assert engine(served_llama, "listwise-passage", "generate").offer.top == 0


def test_without_logprobs(served_llama: ServedModel, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        asked = engine(served_llama, extra={"misbehave": "no-logprobs"})
    assert "gives no log-probabilities: answers are read from what it writes" in caplog.text
    assert asked.offer.top == 0
    with pytest.raises(InputError, match="gives no log-probabilities; use 'answers: written'"):
        asked.answer_logits(PAIRS)
    with pytest.raises(
        InputError, match=r"does not give the log-probabilities of a prompt .* Use a local model, or another"
    ):
        engine(served_llama, "query-generation", "log_likelihood", extra={"misbehave": "no-logprobs"})
    with pytest.raises(InputError, match="needs the completions endpoint"):
        engine(served_llama, "query-generation", "log_likelihood", api="chat")


def test_answers_beyond_the_likeliest_tokens_tie(
    served_llama: ServedModel, caplog: pytest.LogCaptureFixture
) -> None:
    asked = engine(served_llama, top_logprobs=1)
    with caplog.at_level(logging.WARNING):
        found = asked.answer_logits(PAIRS)
    assert (asked.undecided, len(caplog.records)) == (12, 1)
    assert "none of ['A', 'B'] is an answer or among the 1 likeliest tokens: a tie" in caplog.text
    assert (found[:, 0] == found[:, 1]).all()


# -- servers that fail --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["busy", "broken", "garbage", "hang-up", "choices"])
def test_what_fails_once_is_asked_again(
    served_llama: ServedModel, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    quick(monkeypatch)
    expected = engine(served_llama).answer_logits(PAIRS[:3])
    began = time.monotonic()
    asked = engine(served_llama, extra={"misbehave": f"once-{how}"}, retries=2)
    assert (asked.answer_logits(PAIRS[:3]) == expected).all()
    if how == "busy":
        assert time.monotonic() - began > 2.0  # Retry-After: 1, for the first question and for the others


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat soon, where the server says nothing of it."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("instruct_distill.inference.http_client._FIRST_PAUSE", 0.01)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("broken", r"answers HTTP 500 \(2 attempts at most\): out of order; labels written so far stand"),
        ("garbage", r"answered 2 times with no JSON: b'\{<html>'; labels written so far stand"),
        ("hang-up", r"cannot be reached or hangs up \(\w+, 2 attempts at most\); is the server running\?"),
        ("choices", r"answered 2 times with 2 choices for one prompt"),
        (
            "slow",
            r"gave no answer within 0.5 seconds \(2 attempts at most\); raise the teacher's server.timeout",
        ),
    ],
)
def test_what_keeps_failing_is_an_error(
    served_llama: ServedModel, monkeypatch: pytest.MonkeyPatch, how: str, message: str
) -> None:
    quick(monkeypatch)
    timeout = 0.5 if how == "slow" else 60
    with pytest.raises(ServerError, match=message):
        engine(served_llama, extra={"misbehave": how}, retries=1, timeout=timeout)


def test_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    nobody = ServedModel("http://127.0.0.1:9/v1", "m")
    with pytest.raises(
        ServerError, match=r"127.0.0.1:9/v1 cannot be reached or hangs up \(ConnectError, 3 at"
    ):
        engine(nobody, retries=2)


def test_b15_nan_is_an_error(served_llama: ServedModel) -> None:
    asked = engine(served_llama, extra={"misbehave": "nan"})
    with pytest.raises(
        NonFiniteScoreError, match=r"answered NaN to query 'q1' with document\(s\) 'd1', 'd2'"
    ):
        asked.answer_logits(PAIRS[:1])
    asked = engine(served_llama, "query-generation", "log_likelihood", extra={"misbehave": "nan"})
    with pytest.raises(NonFiniteScoreError, match=r"answered nan to query 'q1' with document\(s\) 'd1'"):
        asked.log_likelihood([Question(Q1, (D1,))])


def test_ctrl_c_ends_it_at_once(served_llama: ServedModel) -> None:
    asked = engine(served_llama)
    asked._server.extra["misbehave"] = "slow"
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        asked.answer_logits(PAIRS)
    assert time.monotonic() - began < 30.0  # it does not wait for the rest


def test_inside_a_running_event_loop(served_llama: ServedModel) -> None:
    import asyncio

    async def cell() -> Any:
        return engine(served_llama).answer_logits(PAIRS[:2])

    assert asyncio.run(cell()).shape == (2, 2)


# -- limits -------------------------------------------------------------------------------------------------


def test_requests_keep_their_distance(served_llama: ServedModel) -> None:
    before = len(served_llama.seen()["times"])
    engine(served_llama, requests_per_minute=600, processes=2).answer_logits(PAIRS[:3])
    times = served_llama.seen()["times"][before:]
    assert len(times) == 4
    assert min(np.diff(times)) > 0.1  # a fifth of a second, and what the way takes


def test_the_cap_in_tokens(served_llama: ServedModel) -> None:
    counted = engine(served_llama, concurrency=1)
    counted.answer_logits(PAIRS[:4])
    assert 300 < counted.tokens < 3000
    asked = engine(served_llama, concurrency=1, tokens_at_most=counted.tokens)
    asked.answer_logits(PAIRS[:4])
    with pytest.raises(
        InputError,
        match=rf"{counted.tokens:,} tokens are spent, and the teacher's server.tokens_at_most is "
        rf"{counted.tokens:,}: labels written so far stand; the same command goes on from there",
    ):
        asked.answer_logits(PAIRS[4:])
    with pytest.raises(InputError, match="tokens are spent"):
        engine(served_llama, concurrency=1, tokens_at_most=counted.tokens, processes=2).answer_logits(
            PAIRS[:4]
        )
    with pytest.raises(InputError, match="does not say how many tokens an answer takes"):
        engine(served_llama, tokens_at_most=10**6, extra={"misbehave": "no-usage"})


# -- the key ------------------------------------------------------------------------------------------------


def test_the_key_goes_to_the_server_and_nowhere_else(
    served_llama: ServedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TEST_KEY", "secret-of-the-test")
    with caplog.at_level(logging.DEBUG):
        engine(served_llama, key_variable="TEST_KEY").answer_logits(PAIRS[:1])
        assert served_llama.seen()["authorization Bearer secret-of-the-test"] == 2
        with pytest.raises(InputError, match=r"does not accept the key in TEST_KEY \(HTTP 401") as caught:
            engine(served_llama, key_variable="TEST_KEY", extra={"misbehave": "stranger"})
    text = "".join(map(str, (caught.value, caught.value.__cause__, caught.value.__suppress_context__)))
    assert "secret-of-the-test" not in text + caplog.text
    assert "left-over" not in text
    with pytest.raises(InputError, match=r"name the variable that holds it with the teacher's server.key_"):
        engine(served_llama, extra={"misbehave": "stranger"})


def test_a_key_that_is_not_set(served_llama: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_KEY", raising=False)
    with pytest.raises(
        InputError, match=r"TEST_KEY, which the teacher's server.key_variable names, is not set"
    ):
        engine(served_llama, key_variable="TEST_KEY")


def test_the_client_package_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"pip install 'instruct-distill\[http\]'"):
        engine(ServedModel("http://127.0.0.1:9/v1", "m"))

"""Replies in the forms in which servers send them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from instruct_distill.inference.http_messages import BadReplyError, Position, read_reply, request_body


def raw(**choice: Any) -> bytes:
    return json.dumps({"model": "m", "choices": [choice], "usage": {"total_tokens": 7}}).encode()


def test_requests() -> None:
    assert request_body("completions", "x", 1, {}, top=5) == {
        "prompt": "x",
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": 5,
    }
    assert request_body("completions", "x", 0, {}, top=1, echo=True)["echo"] is True
    assert request_body("chat", "x", 16, {"max_tokens": None, "max_completion_tokens": 99}, top=20) == {
        "messages": [{"role": "user", "content": "x"}],
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 20,
        "max_completion_tokens": 99,
    }
    assert "logprobs" not in request_body("chat", "x", 16, {})


def test_completions_with_logprobs() -> None:
    reply = read_reply(
        raw(
            text=" A",
            logprobs={
                "tokens": ["x", " A"],
                "token_logprobs": [None, -0.5],
                "top_logprobs": [None, {" B": -1.0}],
                "text_offset": [0, 1],
            },
        )
    )
    assert reply.positions == (
        Position("x", None, ()),
        Position(" A", -0.5, ((" B", -1.0), (" A", -0.5))),
    )
    assert (reply.text, reply.tokens, reply.model, reply.system) == (" A", 7, "m", "")


@pytest.mark.parametrize("text", [{"message": {"content": "A"}}, {"text": "A"}])
def test_logprobs_of_chats_and_of_llama_cpp(text: dict[str, Any]) -> None:
    listed = [{"token": "A", "logprob": -0.5, "bytes": [65]}, {"token": "B", "logprob": -1}]
    content = [{"token": "A", "logprob": -0.5, "top_logprobs": listed}]
    reply = read_reply(raw(**text, logprobs={"content": content}))
    assert reply.positions == (Position("A", -0.5, (("A", -0.5), ("B", -1.0))),)


@pytest.mark.parametrize("logprobs", [None, {"content": None}])
def test_no_logprobs(logprobs: Any) -> None:
    assert read_reply(raw(message={"content": None}, logprobs=logprobs))[:2] == ("", None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>", "no JSON: b'<html>'"),
        (b"\xff", "no JSON"),
        (b"[]", "no choices"),
        (b'{"choices": [3]}', "no choices"),
        (b'{"choices": []}', "0 choices for one prompt"),
        (raw(text=3), "a text that is none"),
        (raw(text="A", logprobs=3), "log-probabilities in no known form"),
        (raw(text="A", logprobs={"tokens": ["A", "B"], "token_logprobs": [1]}), "in no known form"),
        (raw(text="A", logprobs={"content": [{"token": "A"}]}), "in no known form"),
    ],
)
def test_replies_that_are_none(content: bytes, message: str) -> None:
    with pytest.raises(BadReplyError, match=message):
        read_reply(content)

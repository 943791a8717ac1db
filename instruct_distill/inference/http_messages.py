"""What goes over the wire: requests and replies of the two endpoints of the OpenAI interface.

Replies are read as they come: servers differ in what they leave out, and in the form of log-probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Api = Literal["chat", "completions"]


class BadReplyError(ValueError):
    """A reply is not what the interface promises; asking again may help."""


class Position(NamedTuple):
    """One token of a reply.

    Args:
        token: its text.
        logprob: its log-probability; None where there is none (the first token of an echoed prompt).
        listed: text and log-probability of the likeliest tokens at this place, the token itself among them.
    """

    token: str
    logprob: float | None
    listed: tuple[tuple[str, float], ...]


class Reply(NamedTuple):
    """One answered request.

    Args:
        text: what the model wrote.
        positions: its tokens; None where the server gives no log-probabilities.
        tokens: prompt and answer together, as the server counts them; None where it does not say.
        model: the model that answered, by the server's own name.
        system: the server's system fingerprint; empty where it has none.
    """

    text: str
    positions: tuple[Position, ...] | None
    tokens: int | None
    model: str
    system: str


def request_body(
    api: Api, text: str, max_tokens: int, extra: Mapping[str, Any], *, top: int = 0, echo: bool = False
) -> dict[str, Any]:
    """Return the fields of a request, without the model's name.

    Args:
        api: the endpoint.
        text: the prompt, or the user's message.
        max_tokens: tokens to write at most.
        extra: fields that win over ours; a field that is None is left out.
        top: likeliest tokens to list at each position; 0: no log-probabilities.
        echo: (completions) give the prompt's own tokens too.
    """
    body: dict[str, Any] = {"max_tokens": max_tokens, "temperature": 0}
    if api == "chat":
        body["messages"] = [{"role": "user", "content": text}]
        if top:
            body |= {"logprobs": True, "top_logprobs": top}
    else:
        body["prompt"] = text
        if top:
            body["logprobs"] = top
        if echo:
            body["echo"] = True
    return {key: value for key, value in {**body, **extra}.items() if value is not None}


def read_reply(raw: bytes) -> Reply:
    """Read the reply to a request with one prompt.

    Raises:
        BadReplyError: it is no JSON, has not one choice, or its log-probabilities are none.
    """
    try:
        content = json.loads(raw)
    except ValueError:  # UnicodeDecodeError is one
        raise BadReplyError(f"no JSON: {raw[:80]!r}") from None
    choices = content.get("choices") if isinstance(content, dict) else None
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise BadReplyError(f"no choices: {raw[:80]!r}")
    if len(choices) != 1:
        raise BadReplyError(f"{len(choices)} choices for one prompt")
    (choice,) = choices
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if not isinstance(text, (str, type(None))):
        raise BadReplyError("a text that is none")
    usage = content.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    try:
        positions = _positions(choice.get("logprobs"))
    except (TypeError, ValueError, KeyError, AttributeError):
        raise BadReplyError("log-probabilities in no known form") from None
    return Reply(
        text or "",
        positions,
        tokens if isinstance(tokens, int) else None,
        str(content.get("model") or ""),
        str(content.get("system_fingerprint") or ""),
    )


def _positions(logprobs: Any) -> tuple[Position, ...] | None:
    if logprobs is None:
        return None
    if isinstance(logprobs.get("content"), list):  # chat, and llama.cpp's completions
        return tuple(
            _position(
                each["token"],
                each["logprob"],
                [(other["token"], other["logprob"]) for other in each.get("top_logprobs") or ()],
            )
            for each in logprobs["content"]
        )
    if not isinstance(logprobs.get("tokens"), list):
        return None
    tokens = logprobs["tokens"]
    own = logprobs.get("token_logprobs") or [None] * len(tokens)
    listed = logprobs.get("top_logprobs") or [None] * len(tokens)
    return tuple(
        _position(token, logprob, list((others or {}).items()))
        for token, logprob, others in zip(tokens, own, listed, strict=True)
    )


def _position(token: str, logprob: float | None, listed: list[tuple[str, float]]) -> Position:
    if logprob is not None and token not in (other for other, _ in listed):
        listed = [*listed, (token, logprob)]
    return Position(
        str(token),
        None if logprob is None else float(logprob),
        tuple((str(other), float(value)) for other, value in listed),
    )

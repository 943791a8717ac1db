"""What a server can do for a teacher is found out by asking it, once, before the work begins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.inference.http_client import RefusedError, ServerClient
from instruct_distill.inference.http_messages import Api, Reply, request_body
from instruct_distill.inference.parameters import ServerParameters
from instruct_distill.prompts.prompt import Prompt

logger = logging.getLogger(__name__)

Asks = Literal["answer_logits", "log_likelihood", "generate"]

_USUAL_LIMITS = (20, 5)
"""Likeliest tokens that servers list at most: OpenAI's chat and vLLM 20, OpenAI's completions and TGI 5."""


class Offer(NamedTuple):
    """How a server is asked.

    Args:
        api: the endpoint.
        top: likeliest tokens that it lists at a position; 0: it gives no log-probabilities.
        model: the model by the server's own name.
    """

    api: Api
    top: int
    model: str


def find_offer(
    client: ServerClient, server: ServerParameters, prompt: Prompt, asks: Asks, text_for: Callable[[Api], str]
) -> Offer:
    """Ask a short question in one form after the other, until an answer is of use.

    Args:
        client: sends requests.
        server: the recipe's section.
        prompt: the prompt record.
        asks: what the answer is used for.
        text_for: gives the question's text for an endpoint.

    Raises:
        InputError: no form is of use; the message has the server's words to each.
        ServerError: the server does not answer.
    """
    writes: Offer | None = None
    heard: list[str] = []
    for api in _apis(server, prompt, asks):
        for top in _limits(server, asks):
            # one token, and not none as later: a server that knows no echo may fail at that
            body = request_body(api, text_for(api), 1, server.extra, top=top, echo=asks == "log_likelihood")
            try:
                (reply,) = client.ask(api, [body])
            except RefusedError as error:
                heard.append(f"{api}: {error}")
                if error.status in (404, 405):
                    break  # there is no such endpoint, or no such model
                continue
            if _is_of_use(reply, asks):
                return Offer(api, top, reply.model)
            if asks == "log_likelihood":
                heard.append(f"{api}: no log-probabilities of the prompt")
                break
            writes = writes or Offer(api, 0, reply.model)
            if top == 0:
                break
    if writes is None:
        raise InputError(_nothing_fits(server, asks, list(dict.fromkeys(heard))))
    if asks == "answer_logits":
        logger.warning(
            "%s gives no log-probabilities: answers are read from what it writes, margins are 1, 0 or -1",
            server.url,
        )
    return writes


def _apis(server: ServerParameters, prompt: Prompt, asks: Asks) -> Iterator[Api]:
    if asks == "log_likelihood":
        if server.api == "chat":
            raise InputError(
                "the log-likelihood of a query needs the completions endpoint: set the teacher's server.api "
                "to completions or auto, or choose another strategy, such as relevance_generation"
            )
        yield "completions"
    elif server.api != "auto":
        yield server.api
    else:
        if prompt.chat:
            yield "chat"
        yield "completions"


def _limits(server: ServerParameters, asks: Asks) -> list[int]:
    if asks == "generate":
        return [0]
    if asks == "log_likelihood":
        return [1]
    fewer = [limit for limit in _USUAL_LIMITS if limit < server.top_logprobs]
    return [server.top_logprobs, *fewer, 0]


def _is_of_use(reply: Reply, asks: Asks) -> bool:
    if asks == "generate":
        return True
    if reply.positions is None:
        return False
    return asks == "answer_logits" or len(reply.positions) > 1


def _nothing_fits(server: ServerParameters, asks: Asks, heard: list[str]) -> str:
    said = "; ".join(heard)
    if asks == "log_likelihood":
        return (
            f"{server.url} does not give the log-probabilities of a prompt (completions with 'echo', as vLLM "
            f"and SGLang offer): {said}. Use a local model, or another strategy, such as relevance_generation"
        )
    return f"{server.url} does not answer as a server of the OpenAI interface: {said}"

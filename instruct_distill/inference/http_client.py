"""Many requests to one server: some at a time, repeated where that may help, limited in pace and tokens."""

from __future__ import annotations

import logging
import os
import random
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from instruct_distill.errors import InputError, MissingExtraError, ServerError
from instruct_distill.inference.http_messages import Api, BadReplyError, Reply, read_reply
from instruct_distill.inference.parameters import ServerParameters

if TYPE_CHECKING:
    import openai

logger = logging.getLogger(__name__)

_GO_ON = "labels written so far stand; the same command goes on from there"
_WORDS_SHOWN = 300
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0
"""Seconds before a request is repeated whose reply was unreadable: as the client does for the others."""

_TOO_LONG = re.compile(
    r"context.?(length|size|window)|too long|(longer|more) than .*(tokens|length)|less than .* tokens|"
    r"exceed\w* .*(context|length|tokens)|input length|max\w* .*(prompt|input) ",
    re.IGNORECASE | re.DOTALL,
)


class RefusedError(InputError):
    """The server understood the request and refuses it: asking again will not help.

    Args:
        row: which of the requests.
        status: the HTTP status.
        words: what the server said.
    """

    def __init__(self, row: int, status: int, words: str) -> None:
        self.row, self.status, self.words = row, status, words
        super().__init__(f"HTTP {status}: {words}")

    @property
    def too_long(self) -> bool:
        """Whether it is the prompt's length that the server refuses."""
        return self.status == 413 or (self.status in (400, 422) and bool(_TOO_LONG.search(self.words)))


class ServerClient:
    """Sends requests through the ``openai`` package, which repeats those that fail for a while.

    Args:
        model: the model's name on the server.
        server: the recipe's section.
        processes: how many processes share the limits of pace and tokens.

    Attributes:
        asked: requests that were answered.
        tokens: what they cost, as the server counts.

    Raises:
        MissingExtraError: the package is not installed.
        InputError: the key's variable is not set.
    """

    def __init__(self, model: str, server: ServerParameters, processes: int = 1) -> None:
        try:
            import openai  # noqa: F401
        except ImportError:
            raise MissingExtraError("openai", "http") from None
        self.model, self.server = model, server
        self.asked = self.tokens = 0
        self._most = server.tokens_at_most and max(server.tokens_at_most // processes, 1)
        rate = server.requests_per_minute
        self._seconds_apart = 60 * processes / rate if rate else 0.0
        self._next_turn = 0.0
        self._systems: set[str] = set()
        self._key()

    def ask(self, api: Api, bodies: Sequence[dict[str, Any]]) -> list[Reply]:
        """Send requests, and return the replies in the same order.

        Ctrl-C, and the first request that fails for good, end all others.

        Args:
            api: the endpoint.
            bodies: the fields of each request.

        Raises:
            RefusedError: a request is refused; the first one that is.
            ServerError: the server does not answer, or not as it should, however often it is asked.
            InputError: the tokens of the recipe are spent, or the server refuses the key.
        """
        from anyio.from_thread import start_blocking_portal

        # a loop of its own in a thread: the caller may be inside one, as notebooks are
        with start_blocking_portal() as portal:
            replies: list[Reply] = portal.start_task_soon(self._ask, api, bodies).result()
            return replies

    async def _ask(self, api: Api, bodies: Sequence[dict[str, Any]]) -> list[Reply]:
        import anyio
        import openai

        replies: list[Reply | None] = [None] * len(bodies)
        failures: list[Exception] = []
        waiting = iter(enumerate(bodies))
        web: Any = openai.DefaultAsyncHttpxClient(event_hooks={"request": [self._wait_for_turn]})

        async with (
            openai.AsyncOpenAI(
                api_key=self._key() or "no-key",
                base_url=self.server.url,
                timeout=self.server.timeout,
                max_retries=self.server.retries,
                http_client=web,
            ) as client,
            anyio.create_task_group() as group,
        ):

            async def work(rows: Iterator[tuple[int, dict[str, Any]]]) -> None:
                for row, body in rows:
                    try:
                        replies[row] = await self._one(client, api, row, body)
                    except Exception as error:
                        failures.append(error)
                        group.cancel_scope.cancel()
                        return

            for _ in range(min(self.server.concurrency, len(bodies))):
                group.start_soon(work, waiting)
        if failures:
            raise failures[0]
        return [reply for reply in replies if reply is not None]

    async def _one(self, client: openai.AsyncOpenAI, api: Api, row: int, body: dict[str, Any]) -> Reply:
        import anyio

        problem = ""
        for attempt in range(self.server.retries + 1):
            if attempt:
                pause = min(_FIRST_PAUSE * 2.0 ** (attempt - 1), _LONGEST_PAUSE)
                await anyio.sleep(pause * random.uniform(0.75, 1.0))
            self._check_what_is_spent()
            raw = await self._send(client, api, row, body)
            try:
                reply = read_reply(raw)
            except BadReplyError as error:
                problem = self._clean(str(error))
                continue
            self._count(reply)
            return reply
        raise ServerError(
            f"{self.server.url} answered {self.server.retries + 1} times with {problem}; {_GO_ON}"
        )

    async def _send(self, client: openai.AsyncOpenAI, api: Api, row: int, body: dict[str, Any]) -> bytes:
        """Send one request.

        Messages are made anew and the package's own errors are not shown: they may repeat the key.
        """
        import openai

        where, times = self.server.url, f"{self.server.retries + 1} attempts at most"
        fields = dict(body)
        try:
            if api == "chat":
                chat = await client.chat.completions.with_raw_response.create(
                    model=self.model, messages=fields.pop("messages"), extra_body=fields
                )
                return chat.content
            text = await client.completions.with_raw_response.create(
                model=self.model, prompt=fields.pop("prompt"), extra_body=fields
            )
            return text.content
        except openai.APITimeoutError:
            problem: Exception = ServerError(
                f"{where} gave no answer within {self.server.timeout:g} seconds ({times}); raise the "
                f"teacher's server.timeout, or lower server.concurrency; {_GO_ON}"
            )
        except openai.APIConnectionError as error:
            cause = error.__cause__
            problem = ServerError(
                f"{where} cannot be reached or hangs up ({type(cause or error).__name__}, {times}); "
                f"is the server running? {_GO_ON}"
            )
        except openai.APIStatusError as error:
            problem = self._status_problem(row, error.status_code, self._words(error.response.text), times)
        except openai.OpenAIError as error:
            problem = ServerError(f"{where}: {self._clean(str(error))} ({times}); {_GO_ON}")
        raise problem

    def _status_problem(self, row: int, status: int, words: str, times: str) -> Exception:
        where, variable = self.server.url, self.server.key_variable
        if status == 401:
            named = f"the key in {variable}" if variable else "requests without a key"
            advice = (
                "" if variable else "; name the variable that holds it with the teacher's server.key_variable"
            )
            return InputError(f"{where} does not accept {named} (HTTP 401: {words}){advice}")
        if status in (408, 409, 429) or status >= 500:
            return ServerError(f"{where} answers HTTP {status} ({times}): {words}; {_GO_ON}")
        return RefusedError(row, status, words)

    async def _wait_for_turn(self, _request: object) -> None:
        """Called for every request that is sent, the repeated ones too."""
        import anyio

        if self._seconds_apart:
            now = time.monotonic()
            turn = max(self._next_turn, now)
            self._next_turn = turn + self._seconds_apart
            await anyio.sleep(turn - now)

    def _check_what_is_spent(self) -> None:
        if self._most is not None and self.tokens >= self._most:
            raise InputError(
                f"{self.tokens:,} tokens are spent, and the teacher's server.tokens_at_most is "
                f"{self.server.tokens_at_most:,}: {_GO_ON}, with as many tokens again, or with a higher limit"
            )

    def _count(self, reply: Reply) -> None:
        self.asked += 1
        if reply.tokens is not None:
            self.tokens += reply.tokens
        elif self._most is not None:
            raise InputError(
                f"{self.server.url} does not say how many tokens an answer takes, so tokens_at_most cannot "
                "be kept; leave it out"
            )
        if reply.system and reply.system not in self._systems:
            self._systems.add(reply.system)
            if len(self._systems) == 2:
                logger.warning(
                    "%s is another system than at the beginning (system_fingerprint %r, before %r): answers "
                    "may differ a little (said once)",
                    self.server.url,
                    reply.system,
                    next(iter(self._systems - {reply.system})),
                )

    def _key(self) -> str | None:
        variable = self.server.key_variable
        if variable is None:
            return None
        key = os.environ.get(variable, "").strip()
        if not key:
            raise InputError(
                f"the environment variable {variable}, which the teacher's server.key_variable names, is not "
                f"set; set it to the server's key: export {variable}=..."
            )
        return key

    def _words(self, text: str) -> str:
        """The server's message in an error, short and without the key."""
        found = re.search(r'"(?:message|detail)"\s*:\s*"((?:[^"\\]|\\.)*)"', text)
        return self._clean(found[1] if found else text)

    def _clean(self, text: str) -> str:
        key = self._key()
        if key:
            text = text.replace(key, "***")
        text = re.sub(r"\bsk-[\w*-]+", "***", text)  # a key that a server shows in part
        return " ".join(text.split())[:_WORDS_SHOWN]

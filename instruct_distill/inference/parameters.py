"""The section ``server`` of a teacher: an OpenAI-compatible endpoint in place of a local model."""

from __future__ import annotations

import json
import re
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from instruct_distill.schema import parameters


@parameters
class ServerParameters:
    """Where a model is served, and how politely it is asked.

    The key is read from the environment when a request is sent, and stands nowhere else.
    """

    url: str
    """The endpoint's base, such as http://localhost:8000/v1 or https://api.openai.com/v1."""
    key_variable: str | None = None
    """Name of the environment variable that holds the key; no key is sent where none is named."""
    api: Literal["auto", "chat", "completions"] = "auto"
    """The endpoint that is asked: chat puts the server's chat template around a prompt, completions does not.
    auto tries chat first for prompts with a chat template, and keeps what gives log-probabilities."""
    top_logprobs: int = Field(default=20, gt=0)
    """Likeliest tokens that are asked for at each position; less where the server allows less."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Fields of each request besides ours, such as {chat_template_kwargs: {enable_thinking: false}}; true,
    false and numbers are read as in JSON, and a field of ours with the value null is left out."""
    concurrency: int = Field(default=16, gt=0, le=1000)
    """Requests under way at a time, by each process."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """Requests a minute at most, repeated ones and all processes together; no limit where left out."""
    tokens_at_most: int | None = Field(default=None, gt=0)
    """Tokens (prompt and answer, as the server counts them) that a stage may spend before it stops, all
    processes together; the requests under way then can go beyond it. No limit where left out."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds to wait for one answer."""
    retries: int = Field(default=6, ge=0, le=100)
    """Times that a request is repeated: after 0.5, 1, 2, 4, then 8 seconds, or as the server says."""

    @field_validator("url")
    @classmethod
    def _is_an_address_without_a_key(cls, url: str) -> str:
        # what was given is not repeated: it may hold a key
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise ValueError("expected an address such as http://localhost:8000/v1") from None
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError("expected an address such as http://localhost:8000/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "an address with a name, a password, '?' or '#' is refused, since it would be written down: "
                "put the key into an environment variable and name that with 'key_variable'"
            )
        return url.rstrip("/")

    @field_validator("key_variable")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(
                "expected the name of an environment variable, such as OPENAI_API_KEY, not the key itself, "
                "which would be written down"
            )
        return name

    @field_validator("extra", mode="before")
    @classmethod
    def _as_in_json(cls, extra: Any) -> Any:
        return _typed(extra)

    @field_validator("extra")
    @classmethod
    def _holds_no_key(cls, extra: dict[str, Any]) -> dict[str, Any]:
        for name in extra:
            if re.search(r"api.?key|authori[sz]ation|password|secret|^token$", name, re.IGNORECASE):
                raise ValueError(f"{name!r} would be written down; put the key into an environment variable")
        return extra

    @property
    def answer_settings(self) -> dict[str, Any]:
        """The keys that answers depend on; all others may change when a run goes on."""
        return {"api": self.api, "top_logprobs": self.top_logprobs, "extra": self.extra}


def _typed(value: Any) -> Any:
    """The scalars of a recipe are strings; those that JSON has other types for get them."""
    if isinstance(value, dict):
        return {str(key): _typed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_typed(each) for each in value]
    if isinstance(value, str) and re.fullmatch(r"true|false|-?\d+(\.\d+)?([eE][-+]?\d+)?", value):
        try:
            return json.loads(value)
        except ValueError:  # 007
            return value
    return value

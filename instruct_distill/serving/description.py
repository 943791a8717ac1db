"""The description at ``/openapi.json``: what FastAPI finds, with this server's own limits and its keys."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from instruct_distill.serving.messages import Problem

_RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}

_REASONS = {
    400: "the body is no JSON",
    401: "the API key is missing or wrong",
    413: "the body is too large",
    422: "a field is missing or not usable, there are too many documents, or the query is too long",
    429: "the server is busy; Retry-After says when to come again",
    500: "the model gave no finite score, or something broke",
    503: "the server is stopping",
    504: "it took too long",
}

PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": why, **({"headers": _RETRY_AFTER} if code in (429, 503) else {})}
    for code, why in _REASONS.items()
}
"""The answers to a ranking request that are no ranking."""


def describe(app: FastAPI, *, max_documents: int, keys: bool) -> None:
    """Complete the application's description; all paths must be there.

    Args:
        app: the application.
        max_documents: documents of a request, at most.
        keys: whether ``/rerank`` asks for an API key.
    """
    found = app.openapi()  # FastAPI keeps and serves this very dictionary
    request = found["components"]["schemas"]["RerankRequest"]
    request["properties"]["documents"]["maxItems"] = max_documents
    if keys:
        found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, operations in found["paths"].items():
            if path.endswith("/rerank"):
                operations["post"]["security"] = [{"key": []}]

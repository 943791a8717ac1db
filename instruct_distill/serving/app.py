"""The application: ``/v1/rerank`` and ``/v2/rerank``, health, metrics, and a page to try it."""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
import hmac
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.inference.engine import FloatArray
from instruct_distill.records import Document
from instruct_distill.reranker import Reranker
from instruct_distill.serving.batcher import Batcher, Pair, QueueFullError, StoppingError
from instruct_distill.serving.body_limit import BodyLimit
from instruct_distill.serving.description import PROBLEMS, describe
from instruct_distill.serving.messages import (
    DocumentText,
    Problem,
    RerankRequest,
    RerankResponse,
    RerankResult,
    ResponseMeta,
    ReturnedDocument,
)
from instruct_distill.serving.metrics import Metrics
from instruct_distill.serving.settings import ServerSettings
from instruct_distill.version import __version__

_LEAST_ROOM = 16
"""Tokens that a query must leave for a document."""


def create_app(
    reranker: Reranker, settings: ServerSettings | None = None, *, api_keys: Sequence[str] = ()
) -> FastAPI:
    """Make the application.

    Args:
        reranker: what ranks.
        settings: limits and batching.
        api_keys: one of them must be sent as ``Authorization: Bearer KEY``; none: everybody may ask.
    """
    chosen = settings or ServerSettings()
    server = _Server(reranker, chosen, tuple(api_keys))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        server.batcher.start()
        yield
        await server.batcher.stop()

    app = FastAPI(
        title="instruct-distill",
        version=__version__,
        description=f"Reranks documents with {reranker.name}.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(BodyLimit, max_bytes=chosen.max_body_bytes)
    app.middleware("http")(server.counted)
    app.add_exception_handler(RequestValidationError, server.not_valid)
    app.add_exception_handler(StarletteHTTPException, server.not_found)
    app.add_exception_handler(Exception, server.broken)
    for path in ("/v1/rerank", "/v2/rerank", "/rerank"):
        app.post(
            path,
            response_model=RerankResponse,
            response_model_exclude_none=True,
            responses=PROBLEMS,
            name=f"rerank {path.split('/')[1]}",
            summary="Put documents in order for a query",
        )(server.rerank)
    app.get("/health", summary="The process is there")(server.health)
    app.get("/ready", summary="Requests are taken", responses={503: {"model": Problem}})(server.ready)
    app.get("/metrics", include_in_schema=False)(server.metrics_page)
    app.get("/", include_in_schema=False)(server.page)
    describe(app, max_documents=chosen.max_documents, keys=bool(api_keys))
    return app


class _Server:
    """What answers."""

    def __init__(self, reranker: Reranker, settings: ServerSettings, api_keys: tuple[str, ...]) -> None:
        self._reranker, self._settings = reranker, settings
        # a tokenizer serves one thread; the one that scores has its own
        self._encoder = copy.deepcopy(reranker.encoder)
        self._keys = [key.encode() for key in api_keys]
        self.batcher = Batcher(
            self._score,
            pairs_per_batch=settings.pairs_per_batch,
            wait=settings.batch_wait_ms / 1000,
            queue_pairs=settings.queue_pairs,
            on_batch=lambda requests, pairs, seconds: self._metrics.batch(requests, pairs, seconds),
        )
        self._metrics = Metrics(lambda: self.batcher.waiting_pairs)
        self._page = files("instruct_distill.serving").joinpath("page.html").read_text(encoding="utf-8")
        self._policy = _policy(self._page)

    def _score(self, pairs: Sequence[Pair]) -> FloatArray:
        return self._reranker.score(pairs, long_documents=self._settings.long_documents)

    async def rerank(self, asked: RerankRequest) -> Any:
        """Put documents in order for a query."""
        if len(asked.documents) > self._settings.max_documents:
            return _problem(
                422, f"{len(asked.documents)} documents; this server takes {self._settings.max_documents}"
            )
        if self._encoder.document_room(asked.query) < _LEAST_ROOM:
            return _problem(422, "the query is so long that no document fits beside it")
        documents = [_document(each, i) for i, each in enumerate(asked.documents)]
        if asked.max_tokens_per_doc is not None:
            documents = [self._shortened(each, asked.max_tokens_per_doc) for each in documents]
        full = [i for i, document in enumerate(documents) if document.full_text]
        try:
            scores = await asyncio.wait_for(
                self.batcher.submit([(asked.query, documents[i]) for i in full]),
                self._settings.timeout_seconds,
            )
        except QueueFullError as error:
            return _problem(429, str(error), {"Retry-After": str(round(error.retry_after))})
        except StoppingError:
            return _problem(503, "the server is stopping", {"Retry-After": "5"})
        except (asyncio.TimeoutError, TimeoutError):
            return _problem(504, f"not done within {self._settings.timeout_seconds:g} s")
        except (InputError, NonFiniteScoreError) as error:
            return _problem(500 if isinstance(error, NonFiniteScoreError) else 422, str(error))
        return self._response(asked, documents, full, scores)

    def _shortened(self, document: Document, tokens: int) -> Document:
        spans = self._encoder.token_spans(document.text)
        if len(spans) <= tokens:
            return document
        return document._replace(text=document.text[: spans[tokens - 1][1]])

    def _response(
        self, asked: RerankRequest, documents: Sequence[Document], full: Sequence[int], scores: FloatArray
    ) -> RerankResponse:
        ordered = [(full[i], float(scores[i])) for i in np.argsort(-scores, kind="stable")]
        lowest = ordered[-1][1] if ordered else 0.0
        empty = (i for i, document in enumerate(documents) if not document.full_text)
        ordered += [(i, lowest - 1.0 - place) for place, i in enumerate(empty)]
        logits = np.array([score for _, score in ordered], dtype=np.float32)
        as_logit = self._settings.scores == "logit"
        values = logits if as_logit else self._reranker.probabilities(logits)
        results = [
            RerankResult(
                index=index,
                relevance_score=float(value),
                logit=logit,
                document=ReturnedDocument(text=documents[index].text) if asked.return_documents else None,
            )
            for (index, logit), value in zip(ordered[: asked.top_n], values, strict=False)
        ]
        return RerankResponse(
            id=str(uuid.uuid4()),
            model=self._reranker.name,
            results=results,
            usage={"documents": len(documents)},
            meta=ResponseMeta(
                api_version={"version": "2"},
                relevance_score="logit" if as_logit else self._reranker.probability_kind,
            ),
        )

    def _allowed(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        # every key is compared, each in constant time: nothing can be learned from how long it takes
        matches = [hmac.compare_digest(given.strip().encode(), key) for key in self._keys]
        return any(matches)

    async def health(self) -> dict[str, str]:
        """Say that the process is there."""
        return {"status": "ok", "model": self._reranker.name, "version": __version__}

    async def ready(self) -> Any:
        """Say whether requests are taken."""
        return {"status": "ready"} if self.batcher.accepts else _problem(503, "busy or stopping")

    async def metrics_page(self) -> Response:
        """Return the counters for Prometheus."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def page(self) -> HTMLResponse:
        """Return the page to try it."""
        headers = {"Content-Security-Policy": self._policy, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(self._page, headers=headers)

    async def counted(
        self, request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Answer a request, or ask for a key; count it where it asks for a ranking."""
        began = time.monotonic()
        if self._keys and request.url.path.endswith("/rerank") and not self._allowed(request):
            # before anything of the body is read
            message = "send one of the server's API keys as 'Authorization: Bearer KEY'"
            response: Response = _problem(401, message, {"WWW-Authenticate": "Bearer"})
        else:
            response = await call_next(request)
        if request.url.path.endswith("/rerank"):
            self._metrics.request(response.status_code, time.monotonic() - began)
        return response

    async def not_valid(self, request: Request, error: Exception) -> JSONResponse:
        """Say which field is wrong and why, without sending the body back."""
        assert isinstance(error, RequestValidationError)
        details = error.errors()
        if any(detail["type"] == "json_invalid" for detail in details):
            return _problem(400, "the body is no JSON")
        problems = [
            f"{'.'.join(str(part) for part in detail['loc'] if part != 'body') or 'body'}: {detail['msg']}"
            for detail in details[:5]
        ]
        return _problem(422, "; ".join(problems))

    async def not_found(self, request: Request, error: Exception) -> JSONResponse:
        """Say that there is no such page, or no such method, in the form of all other problems."""
        assert isinstance(error, StarletteHTTPException)
        return _problem(error.status_code, str(error.detail), dict(error.headers or {}))

    async def broken(self, request: Request, error: Exception) -> JSONResponse:
        """Say that it is the server's fault; the log has the traceback, the answer has none of it."""
        return _problem(500, f"the server failed ({type(error).__name__}); its log says where")


def _document(given: str | DocumentText, position: int) -> Document:
    if isinstance(given, str):
        return Document(str(position), given)
    return Document(str(position), given.text, given.title)


def _problem(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"message": message}, status, headers)


def _policy(page: str) -> str:
    """A content security policy that allows what the page itself holds, and nothing else."""

    def hashes(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found)
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    return (
        f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

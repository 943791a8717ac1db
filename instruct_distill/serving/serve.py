"""Running the server until it is told to stop."""

from __future__ import annotations

import os

import uvicorn

from instruct_distill.reranker import Reranker
from instruct_distill.serving.app import create_app
from instruct_distill.serving.settings import ServerSettings

API_KEYS = "INSTRUCT_DISTILL_API_KEYS"
"""Environment variable with the API keys, separated by commas; they are nowhere else."""


def serve(reranker: Reranker, settings: ServerSettings, *, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; what was accepted by then is finished.

    Args:
        reranker: what ranks.
        settings: limits and batching.
        host: address to listen at.
        port: port to listen at; 0 for a free one, which is logged.
    """
    keys = [key.strip() for key in os.environ.get(API_KEYS, "").split(",") if key.strip()]
    uvicorn.run(
        create_app(reranker, settings, api_keys=keys),
        host=host,
        port=port,
        timeout_graceful_shutdown=round(settings.stop_seconds),
        server_header=False,
        access_log=False,
    )

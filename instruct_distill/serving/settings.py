"""How the server behaves."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from instruct_distill.schema import parameters


@parameters
class ServerSettings:
    """Limits, batching and scores of the server."""

    scores: Literal["probability", "logit"] = "probability"
    """What relevance_score is: from 0 to 1 as clients of such servers expect, or the student's own logit."""
    long_documents: Literal["first", "max"] = "first"
    """What is looked at of a document that does not fit: its beginning, or its best window."""
    max_documents: int = Field(default=1000, gt=0)
    """Documents of one request; more are refused with 422."""
    max_body_bytes: int = Field(default=8 * 2**20, gt=0)
    """Bytes of a request's body; more are refused with 413."""
    pairs_per_batch: int = Field(default=64, gt=0)
    """Pairs of query and document that are scored together, over all clients."""
    batch_wait_ms: float = Field(default=4.0, ge=0)
    """How long a request waits for others to share its batch, in milliseconds; what waits behind a batch in
    work shares the next one anyway."""
    queue_pairs: int = Field(default=4096, gt=0)
    """Pairs that may wait; a request that would be more gets 429 with Retry-After."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    """After that a request gets 504, and its pairs are not scored any more."""
    stop_seconds: float = Field(default=30.0, gt=0)
    """How long a stopping server works on what it has accepted."""

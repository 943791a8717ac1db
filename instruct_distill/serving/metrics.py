"""What ``/metrics`` says to Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters of one server.

    Args:
        waiting_pairs: gives the pairs that wait now.
    """

    def __init__(self, waiting_pairs: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "rerank_requests", "Requests by status code", ["status"], registry=self._registry
        )
        self._seconds = Histogram(
            "rerank_seconds", "Seconds of a request", buckets=_SECONDS, registry=self._registry
        )
        self._documents = Counter("rerank_documents", "Documents scored", registry=self._registry)
        self._batch_requests = Counter(
            "rerank_batch_requests", "Requests in batches", registry=self._registry
        )
        self._batch_pairs = Histogram(
            "rerank_batch_pairs", "Pairs of a batch", buckets=_PAIRS, registry=self._registry
        )
        self._batch_seconds = Histogram(
            "rerank_batch_seconds",
            "Seconds of a batch in the model",
            buckets=_SECONDS,
            registry=self._registry,
        )
        waiting = Gauge("rerank_waiting_pairs", "Pairs that wait", registry=self._registry)
        waiting.set_function(waiting_pairs)

    def request(self, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(str(status)).inc()
        self._seconds.observe(seconds)

    def batch(self, requests: int, pairs: int, seconds: float) -> None:
        """Count a batch."""
        self._batch_requests.inc(requests)
        self._documents.inc(pairs)
        self._batch_pairs.observe(pairs)
        self._batch_seconds.observe(seconds)

    def text(self) -> bytes:
        """Return everything in Prometheus' text form."""
        return generate_latest(self._registry)

"""Requests of many clients, scored in common batches."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from instruct_distill.inference.engine import FloatArray
from instruct_distill.records import Document

Pair = tuple[str, Document]


class QueueFullError(Exception):
    """More pairs wait than may; ``retry_after`` says in how many seconds there may be room."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the server is busy; try again in {retry_after:.0f} s")
        self.retry_after = retry_after


class StoppingError(Exception):
    """The server takes no more requests."""


@dataclass
class _Job:
    """One request's pairs, and who waits for their scores."""

    pairs: Sequence[Pair]
    arrived: float
    result: asyncio.Future[FloatArray] = field(repr=False)


class Batcher:
    """Pools the pairs of waiting requests; one batch is in work at a time, in a thread of its own.

    Args:
        score: scores pairs, float32 [pairs]; called from one thread only.
        pairs_per_batch: pairs of a batch at most, unless one request has more.
        wait: seconds that a request waits for others.
        queue_pairs: pairs that may wait.
        on_batch: is told the number of requests, pairs and seconds of each batch.
    """

    def __init__(
        self,
        score: Callable[[Sequence[Pair]], FloatArray],
        *,
        pairs_per_batch: int,
        wait: float,
        queue_pairs: int,
        on_batch: Callable[[int, int, float], None] = lambda requests, pairs, seconds: None,
    ) -> None:
        self._score, self._on_batch = score, on_batch
        self._pairs_per_batch, self._wait, self._queue_pairs = pairs_per_batch, wait, queue_pairs
        self._waiting: deque[_Job] = deque()
        self._arrival = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="score")
        self._seconds_per_pair = 0.0
        self._stopping = False
        self._work: asyncio.Task[None] | None = None

    @property
    def waiting_pairs(self) -> int:
        """Pairs that no batch has taken yet."""
        return sum(len(job.pairs) for job in self._waiting)

    @property
    def accepts(self) -> bool:
        """Whether a request would be taken now."""
        return not self._stopping and self.waiting_pairs < self._queue_pairs

    def start(self) -> None:
        """Begin to work; called inside a running event loop."""
        self._work = asyncio.create_task(self._run())

    async def submit(self, pairs: Sequence[Pair]) -> FloatArray:
        """Return the scores of a request's pairs, in their order.

        Raises:
            QueueFullError: too many pairs wait.
            StoppingError: the server is stopping.
        """
        if self._stopping:
            raise StoppingError
        waiting = self.waiting_pairs
        if waiting and waiting + len(pairs) > self._queue_pairs:
            raise QueueFullError(max(1.0, waiting * self._seconds_per_pair))
        loop = asyncio.get_running_loop()
        job = _Job(pairs, time.monotonic(), loop.create_future())
        self._waiting.append(job)
        self._arrival.set()
        return await job.result

    async def stop(self) -> None:
        """Take no more requests, and finish those that were taken."""
        self._stopping = True
        self._arrival.set()
        if self._work is not None:
            await self._work
        self._thread.shutdown()

    async def _run(self) -> None:
        while True:
            await self._arrival.wait()
            if not self._waiting:
                if self._stopping:
                    return
                self._arrival.clear()
                continue
            await self._gather()
            batch = self._next_batch()
            if batch:
                await self._answer(batch)

    async def _gather(self) -> None:
        """Wait until a batch is full, or the oldest request has waited long enough."""
        until = self._waiting[0].arrived + self._wait
        while self.waiting_pairs < self._pairs_per_batch and not self._stopping:
            left = until - time.monotonic()
            if left <= 0:
                return
            self._arrival.clear()
            try:
                await asyncio.wait_for(self._arrival.wait(), left)
            except TimeoutError:
                self._arrival.set()
                return

    def _next_batch(self) -> list[_Job]:
        batch: list[_Job] = []
        filled = 0
        while self._waiting and (not batch or filled + len(self._waiting[0].pairs) <= self._pairs_per_batch):
            job = self._waiting.popleft()
            if not job.result.done():  # its client may have gone
                batch.append(job)
                filled += len(job.pairs)
        return batch

    async def _answer(self, batch: Sequence[_Job]) -> None:
        try:
            scores = await self._scored([pair for job in batch for pair in job.pairs], len(batch))
        except Exception as error:  # whatever it is, the requests wait for an answer and the next ones come
            if len(batch) == 1:
                if not batch[0].result.done():
                    batch[0].result.set_exception(error)
                return
            # one request's text must not spoil the answers of the others
            for job in batch:
                await self._answer([job])
            return
        start = 0
        for job in batch:
            if not job.result.done():
                job.result.set_result(scores[start : start + len(job.pairs)])
            start += len(job.pairs)

    async def _scored(self, pairs: Sequence[Pair], requests: int) -> FloatArray:
        began = time.monotonic()
        scores = await asyncio.get_running_loop().run_in_executor(self._thread, self._score, pairs)
        seconds = time.monotonic() - began
        self._seconds_per_pair = seconds / max(len(pairs), 1)
        self._on_batch(requests, len(pairs), seconds)
        return scores

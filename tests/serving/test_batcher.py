from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from instruct_distill.inference.engine import FloatArray
from instruct_distill.records import Document
from instruct_distill.serving.batcher import Batcher, Pair, QueueFullError, StoppingError


class Scores:
    """Scores a pair by the number in its text; keeps the sizes of the calls; can be held up."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.threads: set[int] = set()
        self.go = threading.Event()
        self.go.set()

    def __call__(self, pairs: Sequence[Pair]) -> FloatArray:
        self.go.wait(10)
        self.calls.append(len(pairs))
        self.threads.add(threading.get_ident())
        return np.array([float(document.text) for _, document in pairs], dtype=np.float32)


def pairs(*numbers: float) -> list[Pair]:
    return [("q", Document("d", str(number))) for number in numbers]


def run(work: Callable[[Batcher, Scores], Awaitable[None]], **settings: Any) -> Scores:
    """Do something with a batcher in an event loop of its own."""
    scores = Scores()
    chosen = {"pairs_per_batch": 8, "wait": 0.02, "queue_pairs": 20, **settings}

    async def everything() -> None:
        batcher = Batcher(scores, **chosen)
        batcher.start()
        await work(batcher, scores)
        await batcher.stop()

    asyncio.run(everything())
    return scores


def test_requests_share_batches_and_get_their_own_scores() -> None:
    async def work(batcher: Batcher, scores: Scores) -> None:
        found = await asyncio.gather(*(batcher.submit(pairs(i, i + 0.5)) for i in range(7)))
        assert [each.tolist() for each in found] == [[i, i + 0.5] for i in range(7)]

    scores = run(work)
    assert sum(scores.calls) == 14
    assert max(scores.calls) <= 8
    assert len(scores.calls) == 2
    assert len(scores.threads) == 1


def test_a_request_alone_does_not_wait_for_a_full_batch() -> None:
    async def work(batcher: Batcher, scores: Scores) -> None:
        assert (await asyncio.wait_for(batcher.submit(pairs(1)), 5)).tolist() == [1.0]

    assert run(work).calls == [1]


def test_a_request_larger_than_a_batch_is_a_batch() -> None:
    async def work(batcher: Batcher, scores: Scores) -> None:
        assert len(await batcher.submit(pairs(*range(30)))) == 30

    assert run(work).calls == [30]


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    async def work(batcher: Batcher, scores: Scores) -> None:
        scores.go.clear()
        first = asyncio.create_task(batcher.submit(pairs(*range(8))))
        await asyncio.sleep(0.1)  # it is in work now
        waiting = [asyncio.create_task(batcher.submit(pairs(*range(6)))) for _ in range(3)]
        await asyncio.sleep(0)
        assert batcher.waiting_pairs == 18
        with pytest.raises(QueueFullError) as refused:
            await batcher.submit(pairs(1, 2, 3))
        assert refused.value.retry_after >= 1
        scores.go.set()
        await asyncio.gather(first, *waiting)

    assert sum(run(work).calls) == 26


def test_a_client_that_has_gone_costs_nothing() -> None:
    async def work(batcher: Batcher, scores: Scores) -> None:
        scores.go.clear()
        first = asyncio.create_task(batcher.submit(pairs(1)))
        await asyncio.sleep(0.1)
        gone = asyncio.create_task(batcher.submit(pairs(2, 3)))
        stays = asyncio.create_task(batcher.submit(pairs(4)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        scores.go.set()
        assert (await stays).tolist() == [4.0]
        await first

    assert run(work).calls == [1, 1]


def test_one_bad_request_does_not_spoil_the_others() -> None:
    async def work(batcher: Batcher, scores: Scores) -> None:
        found = await asyncio.gather(
            batcher.submit(pairs(1)),
            batcher.submit([("q", Document("d", "no number"))]),
            batcher.submit(pairs(3)),
            return_exceptions=True,
        )
        assert isinstance(found[0], np.ndarray)
        assert isinstance(found[1], ValueError)
        assert isinstance(found[2], np.ndarray)

    run(work)


def test_what_was_accepted_is_finished_at_the_end() -> None:
    async def work(batcher: Batcher, scores: Scores) -> None:
        tasks = [asyncio.create_task(batcher.submit(pairs(i))) for i in range(12)]
        await asyncio.sleep(0)
        await batcher.stop()
        assert [float((await task)[0]) for task in tasks] == list(range(12))
        with pytest.raises(StoppingError):
            await batcher.submit(pairs(1))

    run(work)

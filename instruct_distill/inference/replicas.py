"""One engine over several devices, each with a copy of the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np

from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.inference.local import LocalEngine


class Replicas:
    """Deals questions to several local engines, which answer at the same time.

    Args:
        engines: the same model on different devices.
    """

    def __init__(self, engines: Sequence[LocalEngine]) -> None:
        self.engines = list(engines)
        self.prompt = engines[0].prompt
        self.encoder = engines[0].encoder

    def with_prompt(self, prompt: object) -> Replicas:
        """Return an engine over the same weights that asks in another wording."""
        return Replicas([engine.with_prompt(prompt) for engine in self.engines])  # type: ignore[arg-type]

    def answer_logits(
        self, questions: Sequence[Question], answered: Callable[[list[int]], None] | None = None
    ) -> FloatArray:
        """See :class:`~instruct_distill.inference.local.LocalEngine`; ``answered`` is called by one thread
        at a time."""
        size = max(-(-len(questions) // len(self.engines)), 1)
        starts = range(0, len(questions), size)
        if len(starts) < 2:
            return self.engines[0].answer_logits(questions, answered)
        one_at_a_time = Lock()

        def ask(engine: LocalEngine, start: int) -> FloatArray:
            def told(rows: list[int]) -> None:
                with one_at_a_time:
                    assert answered is not None
                    answered([start + row for row in rows])

            return engine.answer_logits(questions[start : start + size], None if answered is None else told)

        with ThreadPoolExecutor(len(starts)) as pool:
            return np.concatenate(list(pool.map(ask, self.engines, starts)))

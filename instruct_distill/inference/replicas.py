"""One engine over several devices, each with a copy of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

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

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        """See :class:`~instruct_distill.inference.engine.Engine`."""
        size = -(-len(questions) // len(self.engines))
        parts = [questions[start : start + size] for start in range(0, len(questions), max(size, 1))]
        if len(parts) < 2:
            return self.engines[0].answer_logits(questions)
        with ThreadPoolExecutor(len(parts)) as pool:
            found = pool.map(
                lambda pair: pair[0].answer_logits(pair[1]), zip(self.engines, parts, strict=False)
            )
            return np.concatenate(list(found))

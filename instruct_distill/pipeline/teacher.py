"""The recipe's teacher, ready to be asked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import Engine
from instruct_distill.inference.http import HttpEngine
from instruct_distill.inference.parameters import ServerParameters
from instruct_distill.inference.written_answers import WrittenAnswers
from instruct_distill.pipeline.stage import digest, this_process
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.teachers.labelling import CandidateTexts, prompt_of, strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context, Strategy


class Teacher(NamedTuple):
    """A strategy with what answers its questions.

    Args:
        parameters: the recipe's section.
        strategy: how candidates are compared.
        prompt: the prompt record; None where nothing is asked.
        engine: the loaded model; None where nothing is asked.
        revision: the model's commit or the digest of its weights, or of the ranking's file.
        dtype: the number format that the model computes in; empty where nothing is asked here.
        served: how a server is asked; None where there is none.
    """

    parameters: TeacherParameters
    strategy: Strategy
    prompt: Prompt | None
    engine: Engine | None
    revision: str
    dtype: str
    served: dict[str, Any] | None = None

    def fingerprint(self, lists: Sequence[CandidateTexts]) -> dict[str, Any]:
        """Return everything that labels depend on, as JSON values, for the label file's header."""
        asked = self.parameters
        settings = self.strategy.settings()
        texts = hashlib.sha256()
        for item in lists:
            for part in (*item.query, *(text for document in item.documents for text in document)):
                texts.update(part.encode("utf-8") + b"\0")
            texts.update(b"\n")
        prompt = self.prompt.as_dict() if self.prompt else None
        about_model: dict[str, Any]
        if self.served is not None:
            # a server has its own precision, batches and limits, and may have moved to another address
            about_model = {
                "server": self.served,
                "prompt": prompt,
                "document_words": asked.document_words,
            }
        else:
            about_model = {
                "dtype": self.dtype,
                "prompt": prompt,
                "max_length": asked.max_length,
                "document_words": asked.document_words,
                "tokens_per_batch": asked.tokens_per_batch,
            }
        return {
            "teacher": asked.model or asked.run or asked.permutations or "qrels",
            "revision": self.revision,
            "strategy": asked.kind,
            **({"strategy_parameters": settings} if settings else {}),
            **({"answers": asked.answers} if asked.answers != "logits" else {}),
            **(about_model if self.engine else {}),
            **({"share_prefix": True} if getattr(self.engine, "shares_prefix", False) else {}),
            "prompts_per_chunk": asked.prompts_per_chunk,
            "lists": len(lists),
            "texts": texts.hexdigest()[:32],
        }


def load_teacher(parameters: TeacherParameters, context: Context) -> Teacher:
    """Load the model that a teacher section names, if it names one.

    Raises:
        InputError: the model cannot be loaded, its prompt does not fit, a ranking is not there, or a server
            cannot do what the strategy asks for.
        ServerError: a server does not answer.
    """
    strategy = strategy_of(parameters, context)
    prompt = prompt_of(parameters, strategy)
    if prompt is None:
        file = parameters.run or parameters.permutations
        if file and not os.path.exists(file):
            raise InputError(f"teacher: {file}: no such file")
        return Teacher(parameters, strategy, None, None, digest(file)[:16] if file else "", "")
    if parameters.server is not None:
        return _served(parameters, parameters.server, strategy, prompt)
    from instruct_distill.inference.local import LocalEngine
    from instruct_distill.models.loading import load_model
    from instruct_distill.models.precision import dtype_name

    assert parameters.model is not None
    loaded = load_model(
        parameters.model,
        revision=parameters.revision,
        dtype=parameters.dtype,
        split=parameters.devices == "split",
    )
    engine: Engine = LocalEngine(
        loaded,
        prompt,
        max_length=parameters.max_length,
        document_words=parameters.document_words,
        tokens_per_batch=parameters.tokens_per_batch,
        # what is written, and how likely a query is, is asked with whole prompts
        share_prefix=parameters.share_prefix == "auto"
        and strategy.asks == "answer_logits"
        and parameters.answers == "logits",
    )
    if parameters.answers == "written":
        engine = WrittenAnswers(engine)
    return Teacher(
        parameters, strategy, prompt, engine, loaded.revision, dtype_name(loaded.model.model.dtype)
    )


def _served(
    parameters: TeacherParameters, server: ServerParameters, strategy: Strategy, prompt: Prompt
) -> Teacher:
    """Find out how a server can be asked."""
    assert parameters.model is not None
    assert strategy.asks is not None
    written = parameters.answers == "written" and strategy.asks == "answer_logits"
    served = HttpEngine(
        parameters.model,
        server,
        prompt,
        asks="generate" if written else strategy.asks,
        document_words=parameters.document_words,
        processes=this_process()[1],
    )
    reads = strategy.asks == "answer_logits" and not served.offer.top
    about = {
        "api": served.offer.api,
        **({"top_logprobs": served.offer.top} if strategy.asks == "answer_logits" else {}),
        **({"extra": server.extra} if server.extra else {}),
    }
    engine: Engine = WrittenAnswers(served) if reads else served
    return Teacher(parameters, strategy, prompt, engine, served.offer.model, "", about)

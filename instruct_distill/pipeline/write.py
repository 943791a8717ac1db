"""The stage ``write``: queries for a collection that has none, where a recipe asks for them."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import Engine
from instruct_distill.inference.http import HttpEngine
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.stage import this_process
from instruct_distill.query_writing.documents import DrawnDocuments
from instruct_distill.query_writing.files import save_queries
from instruct_distill.query_writing.log import AnswerLog
from instruct_distill.query_writing.parameters import TrainingQueriesParameters
from instruct_distill.query_writing.writing import write_queries

logger = logging.getLogger(__name__)


class Writer(NamedTuple):
    """A loaded model that writes queries.

    Args:
        engine: the model.
        about: what its answers depend on besides the prompt, as JSON values.
    """

    engine: Engine
    about: dict[str, Any]


def write_training_queries(inputs: Inputs) -> dict[str, Any]:
    """Write ``queries.jsonl``; the model's own words are in ``queries.answers.jsonl``.

    The main process does it alone.

    Returns:
        how many were written, what was replaced and why, and the fingerprint.

    Raises:
        InputError: the collection has no document that is long enough.
    """
    if this_process()[0] != 0:
        return {}
    recipe, parameters = inputs.recipe, inputs.recipe.queries
    assert parameters.generate is not None
    writer = load_writer(parameters)
    fingerprint = _fingerprint(inputs, writer)
    documents = drawn_documents(inputs)
    log = AnswerLog(inputs.folder / "queries.answers.jsonl", fingerprint)
    found = write_queries(writer.engine, documents, parameters.generate, log)
    report = {
        "queries": len(found.queries),
        "asked": found.asked,
        "empty": found.empty,
        "repeated": found.repeated,
        "documents_too_short": documents.too_short,
    }
    if not found.queries:
        raise InputError(f"{recipe.collection}: no query could be written ({report})")
    logger.info("queries written from %s: %s", recipe.collection, report)
    if len(found.queries) < parameters.generate:
        logger.warning(
            "%s: %d queries were to be written, its documents gave %d different ones",
            recipe.collection,
            parameters.generate,
            len(found.queries),
        )
    save_queries(inputs.folder / "queries.jsonl", found.queries)
    return {**report, "fingerprint": fingerprint}


def load_writer(parameters: TrainingQueriesParameters) -> Writer:
    """Load the model that writes.

    Raises:
        InputError: it cannot be loaded.
        ServerError: its server does not answer.
    """
    assert parameters.model is not None
    if parameters.server is not None:
        served = HttpEngine(
            parameters.model,
            parameters.server,
            parameters.prompt_record,
            asks="generate",
            document_words=parameters.document_words,
        )
        extra = parameters.server.extra
        return Writer(
            served,
            {"revision": served.offer.model, "api": served.offer.api, **({"extra": extra} if extra else {})},
        )
    # torch is imported by the stages that need it
    from instruct_distill.inference.local import LocalEngine
    from instruct_distill.models.loading import load_model
    from instruct_distill.models.precision import dtype_name

    loaded = load_model(parameters.model, revision=parameters.revision, dtype=parameters.dtype)
    engine = LocalEngine(
        loaded,
        parameters.prompt_record,
        max_length=parameters.max_length,
        document_words=parameters.document_words,
        tokens_per_batch=parameters.tokens_per_batch,
    )
    about = {
        "revision": loaded.revision,
        "dtype": dtype_name(loaded.model.model.dtype),
        "max_length": parameters.max_length,
        "tokens_per_batch": parameters.tokens_per_batch,
    }
    return Writer(engine, about)


def drawn_documents(inputs: Inputs) -> DrawnDocuments:
    """Return the documents that queries are written from, in their order."""
    parameters = inputs.recipe.queries
    return DrawnDocuments(
        inputs.collection,
        seed=inputs.recipe.seed,
        least_words=parameters.least_words,
        # some are replaced; a second pass over the collection is rarely needed
        at_once=2 * (parameters.generate or 0) + 64,
    )


def _fingerprint(inputs: Inputs, writer: Writer) -> dict[str, Any]:
    """Everything that the written queries depend on."""
    parameters = inputs.recipe.queries
    return {
        "model": parameters.model,
        **writer.about,
        "prompt": parameters.prompt_record.as_dict(),
        "document_words": parameters.document_words,
        "least_words": parameters.least_words,
        "queries": parameters.generate,
        "seed": inputs.recipe.seed,
        "collection": inputs.collection.fingerprint(),
    }

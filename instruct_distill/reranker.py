"""A student at work: score pairs, rank documents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.inference.local import LocalEngine
from instruct_distill.inference.score_rules import ScoreRule, student_score
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.records import Document, Query, RankedDocument
from instruct_distill.student_folder import read_record


class Reranker:
    """Scores each document of a query by one call to a model: zero-shot or distilled, the code is the same.

    Args:
        loaded: the model and its tokenizer.
        prompt: a pointwise prompt, positive answer first.
        score: how answer logits become a score.
        max_length: the longest prompt in tokens.
        document_words: words of a document that are shown at most, or None.
        tokens_per_batch: padded tokens a batch.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        prompt: Prompt,
        *,
        score: ScoreRule = "yes_logit",
        max_length: int = 512,
        document_words: int | None = None,
        tokens_per_batch: int = 4096,
    ) -> None:
        self.name = loaded.name
        self._rule: ScoreRule = score
        self._engine = LocalEngine(
            loaded,
            prompt,
            max_length=max_length,
            document_words=document_words,
            tokens_per_batch=tokens_per_batch,
        )

    @classmethod
    def from_pretrained(
        cls,
        id_or_folder: str | os.PathLike[str],
        *,
        revision: str | None = None,
        device: Any = None,
        dtype: str = "auto",
        local_files_only: bool = False,
    ) -> Reranker:
        """Load a student.

        Args:
            id_or_folder: a folder that training wrote, or a hub id.
            revision: branch, tag or commit of a hub id.
            device: a torch device or its name; the first GPU if there is one, else the CPU.
            dtype: ``auto`` (bf16 where the device has it natively, else fp32), ``bf16`` or ``fp32``.
            local_files_only: never ask the network; a local folder never does.

        Raises:
            InputError: something is missing, or does not fit.
        """
        import torch

        name = os.fspath(id_or_folder)
        folder = name if os.path.isdir(name) else _download(name, revision, local_files_only)
        record = read_record(folder)
        loaded = load_model(
            folder,
            dtype=dtype,
            device=None if device is None else torch.device(device),
            local_files_only=True,
        )
        if loaded.model.family != record.family:
            raise InputError(
                f"{name}: the weights are {loaded.model.family}, reranker.json says {record.family}"
            )
        return cls(
            loaded._replace(name=name),
            record.prompt,
            score=record.score,
            max_length=record.max_length,
            document_words=record.document_words,
        )

    def score(self, pairs: Sequence[tuple[str | Query, str | Document]]) -> FloatArray:
        """Return one logit a pair, float32 [pairs], in the order given.

        A pair's score is the same alone and beside any others (to 1e-4 in fp32).

        Raises:
            InputError: a pair is not two texts.
            NonFiniteScoreError: a score is NaN or infinite; the message names the pair.
        """
        questions = []
        for position, pair in enumerate(pairs):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise InputError(f"pair {position}: expected (query, document), found {pair!r:.80}")
            questions.append(Question(_query(pair[0]), (_document(pair[1], position),)))
        scores: FloatArray = student_score(self._engine.answer_logits(questions), self._rule)
        return scores

    def rank(
        self, query: str | Query, documents: Sequence[str | Document], top_k: int | None = None
    ) -> list[RankedDocument]:
        """Return the documents of a query, best first.

        Equal scores keep the input order. Documents without text are not asked about: they come last, each
        1 below the one before it.

        Args:
            query: the query or its text.
            documents: documents or their texts.
            top_k: how many to return; None, or more than there are: all of them.

        Raises:
            InputError: ``top_k`` is negative, or ``documents`` is one text and not several.
            NonFiniteScoreError: a score is NaN or infinite.
        """
        if top_k is not None and top_k < 0:
            raise InputError(f"top_k is {top_k}; give 0 or more, or None for all documents")
        if isinstance(documents, str):
            raise InputError("documents is one string; give a list of documents")
        texts = [_document(document, position) for position, document in enumerate(documents)]
        full = [i for i, document in enumerate(texts) if document.full_text]
        empty = [i for i, document in enumerate(texts) if not document.full_text]
        scores = self.score([(query, texts[i]) for i in full])
        order = np.argsort(-scores, kind="stable")
        ranked = [(full[i], float(scores[i])) for i in order]
        lowest = ranked[-1][1] if ranked else 0.0
        ranked += [(i, lowest - 1.0 - place) for place, i in enumerate(empty)]
        return [
            RankedDocument(
                index,
                documents[index].doc_id if isinstance(documents[index], Document) else None,
                score,
                rank,
                texts[index].full_text if isinstance(documents[index], Document) else texts[index].text,
            )
            for rank, (index, score) in enumerate(ranked[:top_k], start=1)
        ]


def _query(query: str | Query) -> Query:
    if isinstance(query, Query):
        return query
    if isinstance(query, str):
        return Query("query", query)
    raise InputError(f"a query must be a string or a Query, not {type(query).__name__}")


def _document(document: str | Document, position: int) -> Document:
    if isinstance(document, Document):
        return document
    if isinstance(document, str):
        return Document(str(position), document)
    raise InputError(f"document {position} must be a string or a Document, not {type(document).__name__}")


def _download(name: str, revision: str | None, local_files_only: bool) -> str:
    """Fetch a hub repository's student files into the hub's own cache, and return the folder."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return str(
            snapshot_download(
                name,
                revision=revision,
                local_files_only=local_files_only,
                allow_patterns=["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"],
            )
        )
    except HFValidationError:
        raise InputError(f"{name}: no such folder, and no hub id") from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise InputError(
            f"{name}: no such folder, and not to be had from the hub ({' '.join(str(error).split())[:200]})"
        ) from None

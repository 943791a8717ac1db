"""A student at work: score pairs, rank documents."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import FloatArray, Question
from instruct_distill.inference.local import LocalEngine
from instruct_distill.inference.replicas import Replicas
from instruct_distill.inference.score_rules import ScoreRule, student_score
from instruct_distill.inference.windows import windows_of
from instruct_distill.known_rerankers import Usage
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.onnx import is_onnx, load_onnx
from instruct_distill.models.precision import dtype_name
from instruct_distill.probability import Calibration, probabilities
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt, check_pointwise
from instruct_distill.records import Document, Query, RankedDocument
from instruct_distill.reranker_files import check_weights, download, usage_of

LongDocuments = Literal["first", "max"]
"""A document that does not fit: its first part alone, or the best of its overlapping windows."""

_PAIRS_PER_CALL = 4096
"""Pairs that are scored before the next query is looked at: memory does not grow with their number."""


class Reranker:
    """Scores each document of a query by one call to a model: zero-shot or distilled, the code is the same.

    Args:
        loaded: the model and its tokenizer; several where copies lie on several devices.
        prompt: a pointwise prompt, positive answer first.
        score: how answer logits become a score.
        max_length: the longest prompt in tokens.
        document_words: words of a document that are shown at most, or None.
        tokens_per_batch: padded tokens a batch.
        calibration: how a score becomes a probability, or None.
    """

    def __init__(
        self,
        loaded: LoadedModel | Sequence[LoadedModel],
        prompt: Prompt,
        *,
        score: ScoreRule = "yes_logit",
        max_length: int = 512,
        document_words: int | None = None,
        tokens_per_batch: int = 4096,
        calibration: Calibration | None = None,
    ) -> None:
        check_pointwise(prompt, score, purpose="a reranker")
        copies = [loaded] if isinstance(loaded, LoadedModel) else list(loaded)
        self._loaded = copies[0]
        self.name = self._loaded.name
        self.folder: str | None = None
        """Where its files are, if it was loaded from files."""
        self.calibration = calibration
        self._rule: ScoreRule = score
        self._limits: dict[str, Any] = {
            "max_length": max_length,
            "document_words": document_words,
            "tokens_per_batch": tokens_per_batch,
        }
        engines = [LocalEngine(copy, prompt, **self._limits) for copy in copies]
        self._engine: LocalEngine | Replicas = engines[0] if len(engines) == 1 else Replicas(engines)

    @classmethod
    def from_pretrained(
        cls,
        id_or_folder: str | os.PathLike[str],
        *,
        revision: str | None = None,
        device: Any = None,
        dtype: str = "auto",
        local_files_only: bool = False,
        prompt: str | Prompt | None = None,
        score: ScoreRule | None = None,
        max_length: int | None = None,
        document_words: int | None = None,
    ) -> Reranker:
        """Load a student, or a reranker that others published.

        Without ``reranker.json`` the paper's ``fireballoon/rank-flan-t5-*``, ``castorini/monot5-*`` and the
        cross-encoders of sentence-transformers are known by config and card; any other model needs ``prompt``
        (``prompt="pair"`` for an encoder with one label).

        Args:
            id_or_folder: a folder that training wrote, or a hub id.
            revision: branch, tag or commit of a hub id.
            device: a torch device or its name, or a list of them for a copy on each; the first GPU if there
                is one, else the CPU.
            dtype: ``auto`` (bf16 where the device has it natively, else fp32), ``bf16`` or ``fp32``.
            local_files_only: never ask the network; a local folder never does.
            prompt: for a model without ``reranker.json``: a pointwise prompt or its name.
            score: with ``prompt``: how answer logits become a score; ``yes_logit`` if left out,
                or ``head`` for a pair.
            max_length: with ``prompt``: the longest prompt in tokens; 512 if left out.
            document_words: with ``prompt``: words of a document that are shown at most; all if left out.

        Raises:
            InputError: something is missing, or does not fit.
        """
        import torch

        name = os.fspath(id_or_folder)
        if prompt is None and not (score is None and max_length is None and document_words is None):
            raise InputError(
                "score, max_length and document_words go with prompt; a model that is known has its own"
            )
        folder = name if os.path.isdir(name) else download(name, revision, local_files_only)
        usage, family = usage_of(folder, name, prompt)
        if prompt is not None:
            usage = Usage(usage.prompt, score or usage.score, max_length or usage.max_length, document_words)
        check_weights(folder, name)
        devices = device if isinstance(device, (list, tuple)) else [device]
        copies = [
            load_onnx(folder, name)
            if is_onnx(folder)
            else load_model(
                folder,
                dtype=dtype,
                device=None if each is None else torch.device(each),
                local_files_only=local_files_only,
            )._replace(name=name)
            for each in devices
        ]
        if family is not None and copies[0].model.family != family:
            raise InputError(f"{name}: the weights are {copies[0].model.family}, reranker.json says {family}")
        reranker = cls(
            copies,
            usage.prompt,
            score=usage.score,
            max_length=usage.max_length,
            document_words=usage.document_words,
            calibration=usage.calibration,
        )
        reranker.folder = os.path.abspath(folder)
        return reranker

    @property
    def identity(self) -> dict[str, Any]:
        """What its scores depend on besides the texts, as JSON values."""
        return {
            "model": self.name,
            "revision": self._loaded.revision,
            "dtype": dtype_name(self._loaded.model.model.dtype),
            "prompt": self._engine.prompt.as_dict(),
            "score": self._rule,
            **self._limits,
        }

    def with_prompt(self, prompt: str | Prompt) -> Reranker:
        """Return a reranker with the same weights that is asked in another wording.

        Raises:
            InputError: the prompt is not known, or is not a pointwise one.
        """
        chosen = named_prompt(prompt) if isinstance(prompt, str) else prompt
        return Reranker(self._loaded, chosen, score=self._rule, **self._limits)

    @property
    def encoder(self) -> PromptEncoder:
        """What turns a query and a document into the prompt's tokens."""
        return self._engine.encoder

    def score(
        self,
        pairs: Sequence[tuple[str | Query, str | Document]],
        *,
        long_documents: LongDocuments = "first",
        progress: bool = False,
    ) -> FloatArray:
        """Return one logit a pair, float32 [pairs], in the order given.

        A pair's score is the same alone and beside any others (to 1e-4 in fp32).

        Args:
            pairs: (query, document) each.
            long_documents: what is looked at of a document that does not fit: its beginning (``first``), or
                all of it in overlapping windows, the best of which counts (``max``).
            progress: show a bar.

        Raises:
            InputError: a pair is not two texts.
            NonFiniteScoreError: a score is NaN or infinite; the message names the pair.
        """
        with _bar(progress, len(pairs)) as bar:
            return self._scores(pairs, long_documents, bar)

    def _scores(
        self,
        pairs: Sequence[tuple[str | Query, str | Document]],
        long_documents: LongDocuments,
        bar: tqdm[NoReturn],
    ) -> FloatArray:
        if long_documents not in ("first", "max"):
            raise InputError(f"long_documents is {long_documents!r}; expected 'first' or 'max'")
        questions = []
        owner = []
        for position, pair in enumerate(pairs):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise InputError(f"pair {position}: expected (query, document), found {pair!r:.80}")
            query, document = as_query(pair[0]), as_document(pair[1], position)
            parts = [document]
            if long_documents == "max":
                parts = windows_of(self._engine.encoder, query.text, document)
            questions += [Question(query, (part,)) for part in parts]
            owner += [position] * len(parts)
        last = np.append(np.diff(owner) > 0, True)  # the window that ends its document

        def answered(rows: list[int]) -> None:
            bar.update(int(last[rows].sum()))

        found = student_score(self._engine.answer_logits(questions, answered), self._rule)
        scores: FloatArray = np.full(len(pairs), -np.inf, dtype=np.float32)
        np.maximum.at(scores, owner, found)
        return scores

    def probabilities(self, scores: FloatArray) -> npt.NDArray[np.float64]:
        """Return the chance of documents with these scores to beat a random candidate of the same query.

        σ(a·s + b) as it was fitted on held-back lists; σ(s), which is no more than a monotone map, where
        :attr:`calibration` is None; :attr:`probability_kind` says which.
        """
        return probabilities(scores, self.calibration)

    @property
    def probability_kind(self) -> Literal["fitted", "sigmoid"]:
        """What its probabilities are: fitted to the teacher's win rates, or σ(score) alone."""
        return "sigmoid" if self.calibration is None else "fitted"

    def rank(
        self,
        query: str | Query,
        documents: Sequence[str | Document],
        top_k: int | None = None,
        *,
        long_documents: LongDocuments = "first",
        probability: bool = False,
        progress: bool = False,
    ) -> list[RankedDocument]:
        """Return the documents of a query, best first.

        Equal scores keep the input order. Documents without text are not asked about: they come last, each
        1 below the one before it.

        Args:
            query: the query or its text.
            documents: documents or their texts.
            top_k: how many to return; None, or more than there are: all of them.
            long_documents: as for :meth:`score`.
            probability: give each document its probability, too, beside its score (see
                :meth:`probabilities`).
            progress: show a bar.

        Raises:
            InputError: ``top_k`` is negative, or ``documents`` is one text and not several.
            NonFiniteScoreError: a score is NaN or infinite.
        """
        found = self.rank_many(
            [(query, documents)],
            top_k,
            long_documents=long_documents,
            probability=probability,
            progress=progress,
        )
        return next(found)

    def rank_many(
        self,
        lists: Iterable[tuple[str | Query, Sequence[str | Document]]],
        top_k: int | None = None,
        *,
        long_documents: LongDocuments = "first",
        probability: bool = False,
        progress: bool = False,
    ) -> Iterator[list[RankedDocument]]:
        """Yield the ranking of each query's documents, as :meth:`rank` would; queries share batches.

        Args:
            lists: (query, documents) each; read as they are needed.
            top_k: as for :meth:`rank`.
            long_documents: as for :meth:`score`.
            probability: as for :meth:`rank`.
            progress: show a bar of documents; with a total if ``lists`` has a length.

        Raises:
            InputError: as :meth:`rank`.
            NonFiniteScoreError: as :meth:`rank`.
        """
        if top_k is not None and top_k < 0:
            raise InputError(f"top_k is {top_k}; give 0 or more, or None for all documents")
        waiting: list[tuple[str | Query, list[Document], Sequence[str | Document]]] = []
        pairs: list[tuple[str | Query, Document]] = []
        total = sum(len(documents) for _, documents in lists) if isinstance(lists, Sequence) else None
        with _bar(progress, total) as bar:
            for query, documents in lists:
                if isinstance(documents, str):
                    raise InputError("documents is one string; give a list of documents")
                texts = [as_document(document, position) for position, document in enumerate(documents)]
                waiting.append((query, texts, documents))
                full = [(query, document) for document in texts if document.full_text]
                bar.update(len(texts) - len(full))
                pairs += full
                if len(pairs) >= _PAIRS_PER_CALL:
                    yield from self._ranked(
                        waiting, self._scores(pairs, long_documents, bar), top_k, probability
                    )
                    waiting, pairs = [], []
            yield from self._ranked(waiting, self._scores(pairs, long_documents, bar), top_k, probability)

    def _ranked(
        self,
        waiting: Sequence[tuple[str | Query, list[Document], Sequence[str | Document]]],
        scores: FloatArray,
        top_k: int | None,
        probability: bool,
    ) -> Iterator[list[RankedDocument]]:
        start = 0
        for _, texts, given in waiting:
            full = [i for i, document in enumerate(texts) if document.full_text]
            own = scores[start : start + len(full)]
            start += len(full)
            ranked = [(full[i], float(own[i])) for i in np.argsort(-own, kind="stable")]
            lowest = ranked[-1][1] if ranked else 0.0
            empty = [i for i, document in enumerate(texts) if not document.full_text]
            ranked += [(i, lowest - 1.0 - place) for place, i in enumerate(empty)]
            chances = self.probabilities(np.array([score for _, score in ranked], dtype=np.float32))
            yield [
                RankedDocument(
                    index,
                    texts[index].doc_id if isinstance(given[index], Document) else None,
                    score,
                    rank,
                    texts[index].full_text if isinstance(given[index], Document) else texts[index].text,
                    float(chances[rank - 1]) if probability else None,
                    self.probability_kind if probability else None,
                )
                for rank, (index, score) in enumerate(ranked[:top_k], start=1)
            ]


def _bar(shown: bool, total: int | None) -> tqdm[NoReturn]:
    return tqdm(total=total, desc="rank", unit="document", disable=not shown)


def as_query(query: str | Query) -> Query:
    """Return a query, whose id is no one's where only a text was given."""
    if isinstance(query, Query):
        return query
    if isinstance(query, str):
        return Query("query", query)
    raise InputError(f"a query must be a string or a Query, not {type(query).__name__}")


def as_document(document: str | Document, position: int) -> Document:
    """Return a document, whose id is its position where only a text was given."""
    if isinstance(document, Document):
        return document
    if isinstance(document, str):
        return Document(str(position), document)
    raise InputError(f"document {position} must be a string or a Document, not {type(document).__name__}")

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
from instruct_distill.known_rerankers import CARD, Usage, known_usage
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.precision import dtype_name
from instruct_distill.prompts.prompt import Prompt, check_pointwise, named_prompt
from instruct_distill.records import Document, Query, RankedDocument
from instruct_distill.student_folder import RECORD, read_record


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
        check_pointwise(prompt, score, purpose="a reranker")
        self.name = loaded.name
        self._loaded = loaded
        self.folder: str | None = None
        """Where its files are, if it was loaded from files."""
        self._rule: ScoreRule = score
        self._limits: dict[str, Any] = {
            "max_length": max_length,
            "document_words": document_words,
            "tokens_per_batch": tokens_per_batch,
        }
        self._engine = LocalEngine(loaded, prompt, **self._limits)

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
            device: a torch device or its name; the first GPU if there is one, else the CPU.
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
        folder = name if os.path.isdir(name) else _download(name, revision, local_files_only)
        usage, family = _usage(folder, name, prompt)
        if prompt is not None:
            usage = Usage(usage.prompt, score or usage.score, max_length or usage.max_length, document_words)
        _check_weights(folder, name)
        loaded = load_model(
            folder,
            dtype=dtype,
            device=None if device is None else torch.device(device),
            local_files_only=True,
        )
        if family is not None and loaded.model.family != family:
            raise InputError(f"{name}: the weights are {loaded.model.family}, reranker.json says {family}")
        reranker = cls(
            loaded._replace(name=name),
            usage.prompt,
            score=usage.score,
            max_length=usage.max_length,
            document_words=usage.document_words,
        )
        reranker.folder = os.path.abspath(folder)
        return reranker

    @property
    def identity(self) -> dict[str, Any]:
        """What its scores depend on besides the texts, as JSON values."""
        engine = self._engine
        return {
            "model": self.name,
            "revision": self._loaded.revision,
            "dtype": dtype_name(self._loaded.model.model.dtype),
            "prompt": engine.prompt.as_dict(),
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


def _usage(folder: str, name: str, prompt: str | Prompt | None) -> tuple[Usage, str | None]:
    """Return how the model in a folder is used, and the family that its record names, if it has one."""
    if os.path.exists(os.path.join(folder, RECORD)):
        if prompt is not None:
            raise InputError(f"{name}: has its own prompt in {RECORD}; leave prompt out")
        record = read_record(folder)
        usage = Usage(record.prompt, record.score, record.max_length, record.document_words)
        return usage, record.family
    if prompt is not None:
        given = named_prompt(prompt) if isinstance(prompt, str) else prompt
        return Usage(given, "head" if given.is_pair else "yes_logit"), None
    known = known_usage(folder, name)
    if known is None:
        raise InputError(
            f"{name}: no {RECORD}: without its prompt a model cannot be used as a reranker; give a folder "
            "that training wrote, or the prompt that it was trained with: from_pretrained(..., "
            'prompt="NAME"), or prompt=Prompt(template=..., answers=...)'
        )
    return known, None


def _check_weights(folder: str, name: str) -> None:
    """Say at once what to do about a repository that only has pickled weights: they are never loaded."""
    if any(file.endswith(".safetensors") for file in os.listdir(folder)):
        return
    where = f"the folder {folder}" if folder == name else "its repository, or what is cached of it,"
    raise InputError(
        f"{name}: {where} holds no .safetensors weights, and pickled ones (pytorch_model.bin), which can run "
        "code, are not loaded (castorini/monot5-* have nothing else). Convert them once, if you trust them: "
        "AutoModelForSeq2SeqLM.from_pretrained(NAME).save_pretrained(FOLDER) (a cross-encoder's class is "
        "AutoModelForSequenceClassification), the same with AutoTokenizer, "
        f"copy {CARD} beside them, and load FOLDER"
    )


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
                allow_patterns=["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja", CARD],
            )
        )
    except HFValidationError:
        raise InputError(f"{name}: no such folder, and no hub id") from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise InputError(
            f"{name}: no such folder, and not to be had from the hub ({' '.join(str(error).split())[:200]})"
        ) from None

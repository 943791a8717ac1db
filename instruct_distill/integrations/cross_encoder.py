"""sentence-transformers: any student with the calls of its ``CrossEncoder``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from instruct_distill.inference.engine import FloatArray
from instruct_distill.reranker import Reranker


class CrossEncoder:
    """A stand-in for ``sentence_transformers.CrossEncoder`` over students of every family.

    Scores are the student's logits: no activation function is applied unless one is given. Students of the
    encoder family load in the original class, too.

    Args:
        model: a student, its folder or its hub id.
        device: as for :meth:`Reranker.from_pretrained`.
        activation_fn: applied to a tensor of scores; none where left out.
    """

    def __init__(
        self,
        model: Reranker | str | os.PathLike[str],
        *,
        device: Any = None,
        activation_fn: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        loaded = model if isinstance(model, Reranker) else Reranker.from_pretrained(model, device=device)
        self.reranker = loaded
        self.activation_fn = activation_fn

    def predict(
        self,
        inputs: Sequence[Sequence[str]] | Sequence[str],
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        activation_fn: Callable[[torch.Tensor], torch.Tensor] | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
    ) -> FloatArray | torch.Tensor | list[torch.Tensor] | Any:
        """Return one score a pair, in the order given; a single pair of texts has a single score.

        Args:
            inputs: pairs (query, document), or one pair.
            batch_size: has no effect: batches are filled by a budget of tokens.
            show_progress_bar: show a bar.
            activation_fn: instead of the one of the constructor.
            convert_to_numpy: an array; otherwise a list of tensors.
            convert_to_tensor: a tensor; wins over ``convert_to_numpy``.
        """
        single = len(inputs) == 2 and all(isinstance(text, str) for text in inputs)
        pairs: list[Any] = [inputs] if single else list(inputs)
        found = self.reranker.score([(pair[0], pair[1]) for pair in pairs], progress=bool(show_progress_bar))
        scores = torch.from_numpy(found)
        function = activation_fn or self.activation_fn
        if function is not None:
            scores = function(scores)
        if convert_to_tensor:
            return scores[0] if single else scores
        if convert_to_numpy:
            return scores.numpy()[0] if single else scores.numpy()
        return scores[0] if single else list(scores)

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
        **settings: Any,
    ) -> list[dict[str, Any]]:
        """Return ``corpus_id`` and ``score`` of each document, best first, with its ``text`` if wanted.

        Args:
            query: the query.
            documents: texts.
            top_k: how many to return.
            return_documents: add ``text``.
            settings: as for :meth:`predict`.
        """
        if not len(documents):
            return []
        scores = self.predict([(query, document) for document in documents], **settings)
        order = np.argsort(-np.asarray(scores), kind="stable")[:top_k]
        return [
            {
                "corpus_id": int(i),
                "score": float(scores[i]),
                **({"text": documents[i]} if return_documents else {}),
            }
            for i in order
        ]

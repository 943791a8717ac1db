from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder as Original

from instruct_distill.integrations.cross_encoder import CrossEncoder
from instruct_distill.reranker import Reranker

TEXTS = ["It is a test.", "Nothing of the kind.", "A test, it is."]


def test_predict_as_the_original_is_called(reranker: Reranker) -> None:
    pairs = [("what is it", text) for text in TEXTS]
    expected = reranker.score(pairs)  # type: ignore[arg-type]
    model = CrossEncoder(reranker)
    found = model.predict(pairs)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert float(model.predict(("what is it", TEXTS[0]))) == pytest.approx(float(expected[0]), abs=1e-4)
    tensor = model.predict(pairs, convert_to_tensor=True, activation_fn=torch.sigmoid)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), 1 / (1 + np.exp(-expected)), atol=1e-4)
    assert len(model.predict(pairs, convert_to_numpy=False)) == 3


def test_rank_as_the_original_is_called(reranker: Reranker) -> None:
    found = CrossEncoder(reranker).rank("what is it", TEXTS, top_k=2, return_documents=True)
    expected = reranker.rank("what is it", TEXTS, top_k=2)
    assert [each["corpus_id"] for each in found] == [item.index for item in expected]
    assert [each["text"] for each in found] == [item.text for item in expected]
    assert CrossEncoder(reranker).rank("q", []) == []


@pytest.mark.parametrize("name", ["predict", "rank"])
def test_its_parameters_are_the_originals(name: str) -> None:
    original = inspect.signature(getattr(Original, name)).parameters
    ours = inspect.signature(getattr(CrossEncoder, name)).parameters
    assert [key for key in ours if key not in original and key != "settings"] == []

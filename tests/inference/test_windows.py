from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from instruct_distill.inference.windows import MAX_WINDOWS, windows_of
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.prompts.named import named_prompt
from instruct_distill.records import Document

WORDS = [f"w{i}" for i in range(200)]


@pytest.fixture(scope="module")
def tokenizer(tiny_llama: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_llama)


def encoder(tokenizer: Any, max_length: int = 256, words: int | None = None) -> PromptEncoder:
    return PromptEncoder(
        named_prompt("pointwise-short"),
        tokenizer,
        family="decoder-only",
        max_length=max_length,
        document_words=words,
    )


def test_a_document_that_fits_is_itself(tokenizer: Any) -> None:
    document = Document("d", "short text", "title")
    assert windows_of(encoder(tokenizer), "query", document) == [document]
    assert windows_of(encoder(tokenizer), "query", Document("d", "")) == [Document("d", "")]


def test_windows_overlap_by_half_and_lose_nothing(tokenizer: Any) -> None:
    made = encoder(tokenizer)
    document = Document("d", " ".join(WORDS), "the title")
    found = windows_of(made, "query", document)
    assert len(found) > 3
    assert {window.title for window in found} == {"the title"}
    assert found[0].text.startswith("w0 w1 ")
    assert found[-1].text.endswith("w198 w199")
    for earlier, later in pairwise(found):
        middle = len(earlier.text) // 2
        start = document.text.index(later.text[:20])
        assert abs(start - document.text.index(earlier.text[:20]) - middle) < 12
    assert all(any(f" {word} " in f" {window.text} " for window in found) for word in WORDS)
    made.encode([("query", [window.full_text]) for window in found])
    assert made.cut_prompts == 0


def test_windows_keep_to_the_words_of_the_student(tokenizer: Any) -> None:
    found = windows_of(encoder(tokenizer, 512, words=12), "query", Document("d", " ".join(WORDS), "a title"))
    assert max(len(window.full_text.split()) for window in found) <= 12
    assert found[-1].text.endswith("w199") or len(found) == MAX_WINDOWS


def test_a_document_without_end_has_a_limit(tokenizer: Any) -> None:
    found = windows_of(encoder(tokenizer), "query", Document("d", "word " * 100_000))
    assert len(found) == MAX_WINDOWS


def test_a_budget_without_room_leaves_the_document_to_the_encoder(tokenizer: Any) -> None:
    document = Document("d", " ".join(WORDS))
    assert windows_of(encoder(tokenizer, 60), "a query " * 30, document) == [document]

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from instruct_distill.errors import InputError
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.pair import PairEncoder, make_encoder
from instruct_distill.prompts.prompt import Prompt, check_pointwise

PAIR = named_prompt("pair")
TEXTS = [
    ("how to oil a chain", "Clean and oil the chain."),
    ("", "ferries leave"),
    ("  amber ", " basil\n\n cedar  "),
]


@pytest.fixture(scope="module")
def tokenizer(tiny_bert: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_bert)


def encoder(tokenizer: Any, max_length: int = 64, **keys: Any) -> PromptEncoder:
    return make_encoder(PAIR, tokenizer, family="encoder", max_length=max_length, **keys)


def test_ids_are_those_of_the_tokenizers_own_pair(tokenizer: Any) -> None:
    made = encoder(tokenizer)
    assert isinstance(made, PairEncoder)
    assert made.joined
    ids = made.encode((query, [document]) for query, document in TEXTS)
    assert ids == [tokenizer(query, document)["input_ids"] for query, document in TEXTS]
    (empty,) = made.encode([("what is amber", [""])])
    assert tokenizer.convert_ids_to_tokens(empty) == ["[CLS]", "what", "is", "amber", "[SEP]", "[SEP]"]


def test_only_the_document_is_cut(tokenizer: Any) -> None:
    query = "how to oil the chain"
    made = encoder(tokenizer, max_length=12)
    (ids,) = made.encode([(query, ["clean amber basil cedar dusk ember fern oil"])])
    assert tokenizer.convert_ids_to_tokens(ids) == [
        "[CLS]", "how", "to", "oil", "the", "chain", "[SEP]", "clean", "amber", "basil", "cedar", "[SEP]",
    ]  # fmt: skip
    assert made.cut_prompts == 1
    (words,) = encoder(tokenizer, document_words=2).encode([("oil", ["clean amber basil"])])
    assert tokenizer.convert_ids_to_tokens(words) == ["[CLS]", "oil", "[SEP]", "clean", "amber", "[SEP]"]


def test_special_tokens_in_data_are_text(tokenizer: Any) -> None:
    (ids,) = encoder(tokenizer).encode([("what [SEP] is", ["the [CLS] chain [SEP]"])])
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert [tokens.count(mark) for mark in ("[CLS]", "[SEP]")] == [1, 2]
    assert tokens[:4] == ["[CLS]", "what", "[", "s"]


def test_each_text_is_tokenised_once(tokenizer: Any) -> None:
    seen: list[str] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

        def __call__(self, text: Any, *pair: Any, **keys: Any) -> Any:
            seen.extend([text] if isinstance(text, str) else text)
            return tokenizer(text, *pair, **keys)

    made = encoder(Counting())
    seen.clear()
    documents = ["clean the chain", "ferries leave", "amber"]
    for query in ("what is oil", "how to clean"):
        made.encode((query, [document]) for document in documents)
    assert sorted(seen) == sorted([*documents, "what is oil", "how to clean"])


def test_prompt_and_family_must_fit(tokenizer: Any) -> None:
    with pytest.raises(InputError, match=r"'pointwise-passage' asks for words.*use score: head"):
        make_encoder(named_prompt("pointwise-passage"), tokenizer, family="encoder", max_length=64)
    with pytest.raises(InputError, match=r"'pair' is a bare pair.*decoder-only.*use score: yes_logit"):
        make_encoder(PAIR, tokenizer, family="decoder-only", max_length=64)


def test_prompt_and_score_must_fit() -> None:
    check_pointwise(PAIR, "head", purpose="a reranker")
    check_pointwise(Prompt(template="{query}\n{movie}", cut="query"), "head", purpose="a reranker")
    with pytest.raises(InputError, match=r"'pair' does not fit score: yes_logit"):
        check_pointwise(PAIR, "yes_logit", purpose="a reranker")
    for template in ("Query: {query} {passage}", "{passage} {query}", "{query} {a} {b}"):
        with pytest.raises(InputError, match="does not fit score: head"):
            check_pointwise(Prompt(template=template), "head", purpose="a reranker")

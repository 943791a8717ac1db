from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from instruct_distill.errors import InputError
from instruct_distill.prompts.answers import EncodedAnswers, encode_answers, separator
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt


@pytest.fixture(scope="module")
def t5(t5_tokenizer_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(t5_tokenizer_folder)


def t5_answers(t5: Any, prompt: Prompt) -> EncodedAnswers | None:
    encoder = PromptEncoder(prompt, t5, family="encoder-decoder", max_length=512, decoder_start=0)
    return encoder.answers


@pytest.mark.parametrize(("context", "blank"), [("", ""), ("Answer:", " "), ("a\n", ""), ("a ", "")])
def test_separator(context: str, blank: str) -> None:
    assert separator(context) == blank


def test_the_published_tokenizer_is_the_one_loaded(t5: Any) -> None:
    assert t5("Hello, my dog is cute")["input_ids"] == [8774, 6, 82, 1782, 19, 5295, 1]
    assert (t5.pad_token_id, t5.eos_token_id, t5.unk_token_id) == (0, 1, 2)


@pytest.mark.parametrize(
    ("answers", "ids"),
    [(("Yes", "No"), (2163, 465)), (("yes", "no"), (4273, 150)), (("A", "B"), (71, 272))],
)
def test_b11_single_tokens(t5: Any, answers: tuple[str, ...], ids: tuple[int, int]) -> None:
    found = t5_answers(t5, Prompt(template="{query} {passage}", answers=answers))
    assert found == EncodedAnswers((0,), ((ids[0],), (ids[1],)))
    assert found.single


@pytest.mark.parametrize("name", ["pointwise-passage", "pointwise-released"])
def test_b11_pointwise_prompts(t5: Any, name: str) -> None:
    assert t5_answers(t5, named_prompt(name)) == EncodedAnswers((0,), ((2163,), (465,)))


def test_b11_the_pairwise_answer_follows_the_word_passage(t5: Any) -> None:
    assert t5_answers(t5, named_prompt("pairwise-passage")) == EncodedAnswers((0, 5454), ((71,), (272,)))
    assert t5_answers(t5, named_prompt("pairwise-movie")) == EncodedAnswers((0,), ((71,), (272,)))


def test_b11_what_answers_share_is_no_answer(t5: Any) -> None:
    assert t5("Passage A", add_special_tokens=False)["input_ids"] == [3424, 545, 71]
    assert t5("Passage B", add_special_tokens=False)["input_ids"] == [3424, 545, 272]
    found = t5_answers(t5, Prompt(template="{query} {passage}", answers=("Passage A", "Passage B")))
    assert found == EncodedAnswers((0, 3424, 545), ((71,), (272,)))


def test_b11_an_answer_of_two_pieces_is_scored_by_its_probability(t5: Any) -> None:
    found = t5_answers(t5, named_prompt("pointwise-movie"))
    assert found == EncodedAnswers((0,), ((3, 476), (445,)))
    assert not found.single


def test_one_answer_that_begins_another(t5: Any) -> None:
    found = t5_answers(t5, Prompt(template="{query} {passage}", answers=("Yes", "Yes, partly")))
    assert found is not None
    assert found.prefix == (0,)
    assert found.continuations[0] == (2163,)
    assert found.continuations[1][0] == 2163


def test_answers_that_are_the_same_tokens_are_refused(t5: Any) -> None:
    prompt = Prompt(template="{query} {passage}", answers=("Yes", "Yes\n"))
    with pytest.raises(InputError, match=r"'Yes' and 'Yes\\n' are the same token ids \[0, 2163\]"):
        t5_answers(t5, prompt)


def test_answers_of_a_chat_model_follow_its_cue(tiny_llama: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_llama)
    encoder = PromptEncoder(
        named_prompt("pairwise-passage"), tokenizer, family="decoder-only", max_length=512
    )
    assert encoder.answers is not None
    assert tokenizer.decode(encoder.answers.prefix).endswith("<|im_end|>\n<|im_start|>assistant\npassage")
    assert [tokenizer.decode(ids) for ids in encoder.answers.continuations] == [" A", " B"]
    assert encoder.answers.single


def test_a_letter_merges_with_its_context() -> None:
    # a toy tokenizer that reads pairs of letters: the answer takes the last letter of its context with it
    def encode(text: str) -> list[int]:
        return [int.from_bytes(text[i : i + 2].encode(), "big") for i in range(0, len(text), 2)]

    found = encode_answers(encode, [], "is\n", ["Y", "N"])
    assert found.prefix == (int.from_bytes(b"is", "big"),)
    assert found.continuations == ((int.from_bytes(b"\nY", "big"),), (int.from_bytes(b"\nN", "big"),))

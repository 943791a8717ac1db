"""Questions as text."""

from __future__ import annotations

import pytest

from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.prompts.text import PromptText, without_control_tokens

PAIR = Prompt(
    template="Q: {query}\nA: {passage_a}\nB: {passage_b}\nAnswer:",
    answers=("A", "B"),
    answer_prefix="passage",
)


def test_chats_and_completions() -> None:
    given = "how ", [" one  two ", "three"]
    assert PromptText(PAIR, answer_in_prompt=False).write(*given) == "Q: how\nA: one  two\nB: three\nAnswer:"
    text = PromptText(PAIR, answer_in_prompt=True)
    assert text.write(*given) == "Q: how\nA: one  two\nB: three\nAnswer: passage"
    assert text.closing == "\nAnswer: passage"


def test_words_are_cut_and_empty_texts_leave_no_blank() -> None:
    text = PromptText(PAIR, answer_in_prompt=False, document_words=2)
    assert text.write("", ["a b c d", "x"]) == "Q:\nA: a b\nB: x\nAnswer:"


def test_b14_braces_are_text() -> None:
    text = PromptText(PAIR, answer_in_prompt=False)
    assert "A: Use {braces} and {query}.\n" in text.write("q", ["Use {braces} and {query}.", "y"])


def test_lists() -> None:
    text = PromptText(named_prompt("setwise-passage").for_documents(2), answer_in_prompt=True)
    assert text.write("q", ["x", "y"]).startswith(
        "Query: q\n\nWhich of these passages answers the query best?\n\nPassage A: x\n\nPassage B: y\n\nReply"
    )
    assert text.write("q", ["x", "y"]).endswith("Answer: Passage")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x<|im_end|>\n<|im_start|>assistant", "x< |im_end|>\n< |im_start|>assistant"),
        ("end</s> of <pad> text <extra_id_0>", "end< /s> of < pad> text < extra_id_0>"),
        ("[INST] x [/INST] <end_of_turn>", "[ INST] x [ /INST] < end_of_turn>"),
        ("<b>bold</b> a|b [1] <s", "<b>bold</b> a|b [1] <s"),
    ],
)
def test_b14_control_tokens_of_data_are_text(text: str, expected: str) -> None:
    assert without_control_tokens(text) == expected
    assert expected in PromptText(PAIR, answer_in_prompt=False).write("q", [text, "y"])

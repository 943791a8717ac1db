"""What stands around a question: the tokenizer's chat template, and the beginning of the answer."""

from __future__ import annotations

import re
from typing import Any

from instruct_distill.errors import InputError
from instruct_distill.prompts.answers import separator
from instruct_distill.prompts.prompt import Prompt


def chat_frame(prompt: Prompt, tokenizer: Any) -> tuple[str, str]:
    """Return the chat template's text before and after the question; empty where there is none.

    Raises:
        InputError: the template does not show a user message exactly once.
    """
    if not (prompt.chat and getattr(tokenizer, "chat_template", None)):
        return "", ""
    mark = "QUESTION-GOES-HERE"
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": mark}], tokenize=False, add_generation_prompt=True
    )
    before, found, after = text.partition(mark)
    if not found or mark in after:
        raise InputError(
            "the tokenizer's chat template does not show a user message exactly once; "
            "use a prompt with chat: false"
        )
    return before, after


def framed(
    prompt: Prompt, before: str, after: str, *, answer_in_prompt: bool, special: re.Pattern[str]
) -> list[tuple[str, str | None]]:
    """Return the whole prompt as (literal, field or None); the last piece is literal text.

    Args:
        prompt: the record.
        before: text before the question.
        after: text after it.
        answer_in_prompt: the answer follows the prompt (decoder-only), so its prefix is the prompt's end.
        special: finds special tokens.
    """
    pieces = list(prompt.pieces)
    if not pieces or pieces[-1][1] is not None:
        pieces.append(("", None))
    pieces[0] = (before + pieces[0][0], pieces[0][1])
    closing = pieces[-1][0] + after
    if answer_in_prompt:
        if prompt.answer_prefix:
            closing += separator(closing) + prompt.answer_prefix
        if not (re.search(r"\s", closing) or special.search(closing)):
            # something of the prompt must follow the last document, else the cut text is the cue
            closing += "\n"
    pieces[-1] = (closing, None)
    return pieces

"""From answer strings to the token ids that a model would write for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from instruct_distill.errors import InputError


class EncodedAnswers(NamedTuple):
    """Answers as token ids, in the context in which the model writes them.

    Args:
        prefix: ids that stand before every answer: the decoder's first tokens (encoder-decoder) or the
            end of the prompt (decoder-only).
        continuations: for each answer the ids that follow ``prefix``; no two start alike unless one of
            them has several tokens.
    """

    prefix: tuple[int, ...]
    continuations: tuple[tuple[int, ...], ...]

    @property
    def single(self) -> bool:
        """Whether every answer is one token: then its logit is its score, else its log-probability."""
        return all(len(continuation) == 1 for continuation in self.continuations)


def separator(context: str) -> str:
    """What stands between a context and the word that follows it: a blank, unless white space is there."""
    return "" if not context or context[-1].isspace() else " "


def encode_answers(
    encode: Callable[[str], list[int]], start: Sequence[int], context: str, answers: Sequence[str]
) -> EncodedAnswers:
    """Derive the ids of the answers from the tokenizer.

    Tokens that all answers share at their start move into the prefix, so that the first position that is
    compared is one where they differ: T5's ``Passage A`` and ``Passage B`` both start with two such pieces.

    Args:
        encode: text → ids, without special tokens of its own.
        start: ids that stand first, such as the decoder's start token.
        context: text before the answer.
        answers: the answers' texts.

    Raises:
        InputError: two answers become the same ids, or an answer becomes none.
    """
    whole = [(*start, *encode(context + separator(context) + answer)) for answer in answers]
    for i, ids in enumerate(whole):
        if ids in whole[:i]:
            raise InputError(
                f"answers {answers[whole.index(ids)]!r} and {answers[i]!r} are the same token ids "
                f"{list(ids)} for this tokenizer; choose answers that it tells apart"
            )
    shortest = min(len(ids) for ids in whole)
    shared = 0
    while shared < shortest - 1 and len({ids[shared] for ids in whole}) == 1:
        shared += 1
    return EncodedAnswers(whole[0][:shared], tuple(ids[shared:] for ids in whole))

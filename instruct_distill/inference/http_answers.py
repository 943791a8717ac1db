"""From the log-probabilities that a server lists to the scores of a prompt's answers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from instruct_distill.errors import InputError
from instruct_distill.inference.http_messages import Position
from instruct_distill.prompts.answer_text import read_answer

_BELOW = 0.01
"""An answer that is not listed is less likely than the least likely token that is: by this much, in logits,
so that an answer that is listed wins. The true margin is at least as large."""

_UNKNOWN = -100.0
"""The log-probability of answers of which nothing is known, since no token is."""

_CLOSING_CHARACTERS = 12


def answer_words(answers: Sequence[str]) -> tuple[str, ...]:
    """Return what tells answers apart by their first token: the first word of each, in lower case.

    Raises:
        InputError: two of them begin alike.
    """
    words = tuple(re.split(r"\s", answer.strip(), maxsplit=1)[0].casefold() for answer in answers)
    for i, word in enumerate(words):
        for j, other in enumerate(words):
            if i != j and other.startswith(word):
                raise InputError(
                    f"answers {answers[i]!r} and {answers[j]!r} begin alike, and a server lists single "
                    "tokens: put what they share into answer_prefix, choose other answers (letters), or read "
                    "what the model writes with 'answers: written'"
                )
    return words


def answer_place(
    positions: Sequence[Position], text: str, answers: Sequence[str], words: Sequence[str], prefix: str
) -> int | None:
    """Return the position in a written text at which it decides between the answers.

    It is where the answer stands that the text gives (after ``Passage``, say), or its first word where that
    is one of the answers, whatever follows. None: the text decides nothing.

    Args:
        positions: the text's tokens.
        text: what the model wrote.
        answers: the prompt's answers.
        words: what tells them apart.
        prefix: the prompt's answer prefix.
    """
    found = read_answer(text, answers, prefix)
    written = [_word(position.token) for position in positions]
    places = [place for place, word in enumerate(written) if word]
    if found is None:
        return places[0] if places and written[places[0]] in words else None
    whole = [place for place in places if written[place] == words[found]]
    begun = [place for place in places if _begins_only(written[place], words) == found]
    return next(iter(whole or begun), None)


def answer_scores(
    listed: Sequence[tuple[str, float]], words: Sequence[str], expected: Sequence[str] | None = None
) -> tuple[list[float], bool]:
    """Return the log-probability of each answer from the tokens listed at one position.

    An answer counts in the very form in which it continues the prompt, where that is known and listed; else
    in all forms together (with or without a blank, in any case), else by a token that only this answer
    begins with. One that is not listed is a little less likely than everything that is.

    Args:
        listed: text and log-probability of tokens.
        words: what tells the answers apart.
        expected: each answer as it continues the prompt, blank included.

    Returns:
        a score for each answer, all equal where none is listed; and whether any is.
    """
    plain = [(re.sub("[▁Ġ]", " ", token), value) for token, value in listed]
    found: list[float | None] = []
    for i, word in enumerate(words):
        exact = [value for token, value in plain if expected is not None and token == expected[i]]
        whole = [value for token, value in plain if _word(token) == word]
        begun = [value for token, value in plain if _begins_only(_word(token), words) == i]
        chosen = exact or whole or begun
        found.append(_sum(chosen) if chosen else None)
    floor = min((value for _, value in listed), default=_UNKNOWN) - _BELOW
    return [floor if score is None else score for score in found], any(score is not None for score in found)


def mean_logprob(positions: Sequence[Position], closing: str, continuation: str) -> float | None:
    """Return the mean log-probability of a text's tokens at the end of an echoed prompt.

    Args:
        positions: the tokens of prompt and continuation.
        closing: the prompt's last words, to find where it ends.
        continuation: the text.

    Returns:
        the mean over its tokens; None where the prompt's end is not to be found among the tokens.
    """
    end = re.sub(r"\s", "", closing)[-_CLOSING_CHARACTERS:]
    wanted = len(re.sub(r"\s", "", continuation))
    tail = 0
    for start in range(len(positions) - 1, 0, -1):
        tail += len(re.sub(r"\s", "", positions[start].token))
        before = "".join(position.token for position in positions[max(0, start - 40) : start])
        if tail >= wanted and re.sub(r"\s", "", before).endswith(end):
            if continuation[:1].isspace():
                # a blank may be a token of its own
                while start > 1 and not positions[start - 1].token.strip():
                    start -= 1
            values = [position.logprob for position in positions[start:]]
            if any(value is None for value in values):
                return None
            return sum(value for value in values if value is not None) / len(values)
    return None


def _word(token: str) -> str:
    return re.sub(r"^[\W▁Ġ]+|\W+$", "", token).casefold()


def _begins_only(word: str, words: Sequence[str]) -> int | None:
    """The answer that alone begins like this."""
    fitting = [i for i, each in enumerate(words) if word and each.startswith(word)]
    return fitting[0] if len(fitting) == 1 else None


def _sum(values: Sequence[float]) -> float:
    """The log of the sum of probabilities; NaN stays NaN."""
    highest = max(values)
    if not math.isfinite(highest):
        return highest
    return highest + math.log(sum(math.exp(value - highest) for value in values))

"""Which answer a model gave that writes text instead of being read by its logits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

NOUNS = ("passage", "movie", "document", "option")
"""What prompts call the things that they show, and models in their answers."""

_LEAD = r"(?:(?:the\s+)?(?:final\s+)?(?:answer|output)(?:\s+is|\s*:)\W*)?"
_WORD = rf"(?:(?:the\s+)?(?:{'|'.join(NOUNS)})\W+)?"
_REASON = (
    r"(?:[^\w]*"  # nothing but signs
    r"|\W*\s+is\s+(?:the\s+)?(?:more|most|better|best)\b.*"  # B is better than A
    r"|[\])*\"'`]*[.:;](?:\s.*)?"  # A. Because it ...
    r"|[\])*\"'`]*,?\s+(?:because|since|as)\b.*"
    r"|[\])*\"'`]*\s*\n.*)"
)


def read_answer(text: str, answers: Sequence[str], prefix: str = "") -> int | None:
    """Return which answer a text gives, or None for a tie: anything that is not one of a closed set of forms.

    The forms are the answer alone, after a word such as "passage" or the prompt's own answer prefix, after
    "Answer:", and any of these followed by nothing, a reason, or "is better than ...". ``Both``, an empty
    text, ``A or B`` and ``Passage AB`` are ties; so is ``A bicycle ...``, where the A is an article.

    Args:
        text: what the model wrote.
        answers: the prompt's answers.
        prefix: the prompt's answer prefix.
    """
    found = _form(tuple(answers), prefix).fullmatch(text)
    if found is None:
        return None
    lowered = [answer.lower() for answer in answers]
    return lowered.index(found["answer"].lower())


@lru_cache(maxsize=64)
def _form(answers: tuple[str, ...], prefix: str) -> re.Pattern[str]:
    named = "|".join(re.escape(answer) for answer in sorted(answers, key=len, reverse=True))
    own = rf"(?:{re.escape(prefix)}\W+)?" if prefix else ""
    return re.compile(rf"\W*{_LEAD}{own}{_WORD}(?P<answer>{named})(?!\w){_REASON}", re.IGNORECASE | re.DOTALL)

"""A question as plain text, for servers: they have the tokenizer and, for chats, the template around it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from instruct_distill.prompts.frame import framed
from instruct_distill.prompts.parts import shown
from instruct_distill.prompts.prompt import Prompt

_NOTHING = re.compile(r"(?!)")
_CONTROL = re.compile(
    r"<\|[^|<>\s]{1,40}\|>"  # <|im_start|>, <|eot_id|>, ...
    r"|</?s>|<(?:pad|unk|bos|eos|mask|extra_id_\d+|(?:start|end)_of_turn)>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>"
)
"""Control tokens of common models. A server reads them in any text, and does not say which ones it has."""


class PromptText:
    """Writes questions for one prompt; the counterpart of the encoder where there is no tokenizer.

    Nothing is cut to a number of tokens, which are not known here. What looks like a control token in data
    gets a blank after its first character, as in the encoder.

    Args:
        prompt: the record; one with a block as ``prompt.for_documents(n)``.
        answer_in_prompt: the answer follows the text (completions), so its prefix is the text's end.
        document_words: words of a document that are shown at most, or None for no such limit.
    """

    def __init__(self, prompt: Prompt, *, answer_in_prompt: bool, document_words: int | None = None) -> None:
        self.prompt = prompt
        self._document_words = document_words
        self._pieces = framed(prompt, "", "", answer_in_prompt=answer_in_prompt, special=_NOTHING)

    @property
    def closing(self) -> str:
        """The text after the last field."""
        return self._pieces[-1][0]

    def write(self, query: str, documents: Sequence[str]) -> str:
        """Return the text of one question.

        Args:
            query: the query's text.
            documents: texts of its documents in the order in which they are shown.
        """
        texts = {"query": query.strip()}
        for name, document in zip(self.prompt.document_fields, documents, strict=True):
            texts[name] = shown(document, self._document_words)
        written = []
        for literal, field in self._pieces:
            value = "" if field is None else without_control_tokens(texts[field])
            # an empty text takes the white space before it away
            written.append(literal + value if field is None or value else literal.rstrip())
        return "".join(written)


def without_control_tokens(text: str) -> str:
    """Return a text of data in which nothing is a control token of a common model."""
    return _CONTROL.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

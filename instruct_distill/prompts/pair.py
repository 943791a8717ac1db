"""Query and document as the pair of texts that cross-encoders are trained on."""

from __future__ import annotations

from typing import Any

from instruct_distill.errors import InputError
from instruct_distill.prompts.answers import EncodedAnswers
from instruct_distill.prompts.encoder import Family, PromptEncoder
from instruct_distill.prompts.parts import Part
from instruct_distill.prompts.prompt import Prompt

_MARKS = ("one", "two")


class PairEncoder(PromptEncoder):
    """Encodes query and document by the tokenizer's own template: ``[CLS] query [SEP] document [SEP]``.

    Otherwise it does what its base does: each text is tokenised once, text that looks like a special
    token is plain text, and only document text (or the beginning of a dialogue) is cut to the budget.
    """

    @property
    def template(self) -> str:
        """The pair as it is written in the prompt's record."""
        return self.prompt.template

    def _lay_out(self, decoder_start: int | None) -> None:
        self._begin, between, self._end = self._pair_specials()
        self.answers = EncodedAnswers((), ((),))  # one answer without words: the head's
        query, document = self.prompt.fields
        self._parts = [Part("", query), Part(""), Part("", document)]
        self._literals = [None, between, None]

    def _pair_specials(self) -> tuple[list[int], list[int], list[int]]:
        """Ids that the tokenizer puts before, between and after two texts by itself."""
        first, second = (self._tokenizer(mark, add_special_tokens=False)["input_ids"] for mark in _MARKS)
        full = self._tokenizer(*_MARKS)["input_ids"]
        special = set(self._tokenizer.all_special_ids)
        for start in range(len(full) - len(first) + 1):
            for following in range(start + len(first), len(full) - len(second) + 1):
                parts = (full[:start], full[start + len(first) : following], full[following + len(second) :])
                if (
                    full[start : start + len(first)] == first
                    and full[following : following + len(second)] == second
                    and special.issuperset(token for part in parts for token in part)
                ):
                    return parts
        raise InputError(f"tokenizer {type(self._tokenizer).__name__} has no template for a pair of texts")

    def _whole(self, texts: dict[str, str]) -> list[int]:
        """Ids of the pair as the tokenizer itself makes them."""
        if any(self._special.search(text) for text in texts.values()):
            return self._join(texts)
        ids: list[int] = self._tokenizer(*(texts[field] for field in self.prompt.fields))["input_ids"]
        return ids


def make_encoder(
    prompt: Prompt,
    tokenizer: Any,
    *,
    family: Family,
    max_length: int,
    document_words: int | None = None,
    decoder_start: int | None = None,
    beside: PromptEncoder | None = None,
) -> PromptEncoder:
    """Return the encoder of a family's prompts; the arguments are those of :class:`PromptEncoder`.

    Raises:
        InputError: the prompt does not fit the family.
    """
    if prompt.is_pair != (family == "encoder"):
        raise InputError(
            f"prompt {prompt.name!r} is a bare pair of texts, for encoders with a score head; this model is "
            f"{family} and answers in words: use score: yes_logit and a prompt such as pointwise-passage"
            if prompt.is_pair
            else f"prompt {prompt.name!r} asks for words, and this model is an encoder, which has a score "
            "head and no words: use score: head, whose prompt is 'pair'"
        )
    make = PairEncoder if family == "encoder" else PromptEncoder
    return make(
        prompt,
        tokenizer,
        family=family,
        max_length=max_length,
        document_words=document_words,
        decoder_start=decoder_start,
        beside=beside,
    )

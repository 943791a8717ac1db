"""The one encoder that turns a query and documents into the token ids that a model receives."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from instruct_distill.errors import InputError
from instruct_distill.prompts.answers import EncodedAnswers, encode_answers, separator
from instruct_distill.prompts.budget import divide
from instruct_distill.prompts.frame import chat_frame, framed
from instruct_distill.prompts.parts import Part, glued, shown, split_parts
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.prompts.unicode import check_unicode

logger = logging.getLogger(__name__)

Family = Literal["encoder-decoder", "decoder-only", "encoder"]

_CACHED_PARTS = 20_000
_CONTINUATION_TOKENS = 256
_PROBES = (
    ("how far is the moon?", "The Moon is 384,400 km away."),
    ("vitamin C", 'It says "oranges" (and lemons), 50 mg each; see below'),
    ("Wie heißt das?", "naïve façade"),
)


class PromptEncoder:
    """Encodes questions for one prompt, one tokenizer and one token budget.

    Each text is tokenised once and the ids are joined at white space (the space belongs to what follows).
    Where a tokenizer does not allow that, which is tried on some texts when the encoder is made, whole
    strings are tokenised instead. Text that looks like a special token is plain text. Only document text
    (or the beginning of a dialogue) is cut to the budget: the instruction, the query and the answer cue stay.

    Args:
        prompt: the record.
        tokenizer: a transformers tokenizer.
        family: ``encoder-decoder``: the prompt ends with the tokenizer's end token and the answer is the
            decoder's; ``decoder-only``: the answer follows the prompt.
        max_length: the longest prompt in tokens, special tokens included.
        document_words: words of a document that are shown at most, or None for no such limit.
        decoder_start: the decoder's first id (encoder-decoder only).
        beside: an encoder with the same tokenizer, whose tokenised texts are used and added to.
    """

    def __init__(
        self,
        prompt: Prompt,
        tokenizer: Any,
        *,
        family: Family,
        max_length: int,
        document_words: int | None = None,
        decoder_start: int | None = None,
        beside: PromptEncoder | None = None,
    ) -> None:
        if prompt.block:
            raise InputError(f"prompt {prompt.name!r} shows a list; encode prompt.for_documents(n)")
        self.prompt = prompt
        self.family = family
        self.max_length = max_length
        self.document_words = document_words
        self.cut_prompts = 0
        self._tokenizer = tokenizer
        self._ids: dict[tuple[str, str, str], list[int]] = {} if beside is None else beside._ids
        self._warned_query = False
        self._special = re.compile(
            "|".join(
                re.escape(token) for token in sorted(tokenizer.all_special_tokens, key=len, reverse=True)
            )
            or r"(?!)"
        )
        # unknown characters may stay unknown
        self._special_ids = frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        self._parts: list[Part] = []
        self._literals: list[list[int] | None] = []
        self._begin: list[int] = []
        self._end: list[int] = []
        self.answers: EncodedAnswers | None = None
        self._lay_out(decoder_start)
        self.joined = self._joining_is_exact()

    def _lay_out(self, decoder_start: int | None) -> None:
        """Find the prompt's parts, the ids of those that are fixed, and the answers."""
        before, after = chat_frame(self.prompt, self._tokenizer)
        self._pieces = framed(
            self.prompt, before, after, answer_in_prompt=self.family == "decoder-only", special=self._special
        )
        self._parts = split_parts(self._pieces, self._special)
        self._closing_text = self._parts[-1].left if self._parts[-1].field is None else ""
        begin, end = self._automatic_specials()
        # a chat template writes its own beginning-of-text token
        self._begin = [] if before else begin
        self._end = end if self.family == "encoder-decoder" else []
        self.answers = self._encode_answers(decoder_start)
        self._literals = [self._trusted(part.left) if part.field is None else None for part in self._parts]
        if self.family == "decoder-only":
            closing = list(self.answers.prefix) if self.answers else self._trusted(self._closing_text)
            self._literals[-1] = closing

    @property
    def template(self) -> str:
        """The prompt as one template: the chat template's frame and the answer prefix are in it."""
        return "".join(
            literal.replace("{", "{{").replace("}", "}}") + ("" if field is None else f"{{{field}}}")
            for literal, field in self._pieces
        )

    def _automatic_specials(self) -> tuple[list[int], list[int]]:
        """Ids that the tokenizer puts before and after every text by itself."""
        plain = self._tokenizer("word", add_special_tokens=False)["input_ids"]
        full = self._tokenizer("word")["input_ids"]
        for start in range(len(full) - len(plain) + 1):
            if full[start : start + len(plain)] == plain:
                return full[:start], full[start + len(plain) :]
        return [], []

    def _encode_answers(self, decoder_start: int | None) -> EncodedAnswers | None:
        if not self.prompt.answers:
            return None
        if self.family == "encoder-decoder":
            if decoder_start is None:
                raise InputError("the model's config has no decoder_start_token_id")
            return encode_answers(
                self._trusted, [decoder_start], self.prompt.answer_prefix, self.prompt.answers
            )
        return encode_answers(self._trusted, [], self._closing_text, self.prompt.answers)

    def _joining_is_exact(self) -> bool:
        """Whether ids of separately encoded parts are those of the whole string, on some texts."""
        for query, document in _PROBES:
            texts = dict.fromkeys(self.prompt.document_fields, document) | {"query": query}
            if self._join(texts) != self._whole(texts):
                logger.warning(
                    "tokenizer %s does not split prompt %s at white space; whole prompts are tokenised "
                    "instead, which is slower",
                    type(self._tokenizer).__name__,
                    self.prompt.name,
                )
                return False
        return True

    # -- encoding -------------------------------------------------------------------------------------

    def encode(self, questions: Iterable[tuple[str, Sequence[str]]]) -> list[list[int]]:
        """Return the ids of each question.

        Args:
            questions: (query text, texts of its documents in the order in which they are shown).

        Returns:
            one list of ids a question, each at most ``max_length`` long.

        Raises:
            InputError: the prompt's fixed text leaves no room for query and documents.
        """
        fields = self.prompt.document_fields
        filled = []
        for query, documents in questions:
            texts = {"query": query.strip()}
            for field, document in zip(fields, documents, strict=True):
                texts[field] = shown(document, self.document_words)
            filled.append(texts)
        self._tokenise_new(filled)
        encoded = [self._fit(texts) for texts in filled]
        if len(self._ids) > _CACHED_PARTS:
            self._ids.clear()
        return encoded

    def encode_continuation(self, text: str) -> list[int]:
        """Return the ids of a text as the model would write it after the prompt (query generation).

        A long text loses its end; a dialogue, as everywhere, its beginning.
        """
        text = text.strip()
        if self.family == "decoder-only":
            text = separator(self._closing_text) + text
        ids = self._plain([text])[0]
        return ids[-_CONTINUATION_TOKENS:] if self.prompt.cut == "query" else ids[:_CONTINUATION_TOKENS]

    def document_room(self, query: str) -> int:
        """Return the tokens that the documents of a prompt may have together beside this query."""
        fixed = len(self._begin) + len(self._end) + sum(len(ids) for ids in self._literals if ids is not None)
        asked = sum(len(self._part_ids(part, query.strip())) for part in self._parts if part.field == "query")
        return self.max_length - fixed - asked

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return where the tokens of a text begin and end in it, in characters."""
        spans: list[tuple[int, int]] = self._tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True
        )["offset_mapping"]
        return spans

    def _trusted(self, text: str) -> list[int]:
        """Ids of the prompt's own text, in which special tokens are special."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
        return ids

    def _plain(self, texts: list[str]) -> list[list[int]]:
        """Ids of data, in which nothing is special."""
        encoded = self._data_ids(texts)
        broken = [row for row, ids in enumerate(encoded) if not self._special_ids.isdisjoint(ids)]
        if broken:
            # A unigram vocabulary has its special tokens among its pieces, and finds them in any text:
            # a blank after the first character makes them two ordinary words.
            spaced = [self._special.sub(lambda m: f"{m[0][0]} {m[0][1:]}", texts[row]) for row in broken]
            for row, ids in zip(broken, self._data_ids(spaced), strict=True):
                encoded[row] = [token for token in ids if token not in self._special_ids]
        return encoded

    def _data_ids(self, texts: list[str]) -> list[list[int]]:
        try:
            encoded = self._tokenizer(texts, add_special_tokens=False, split_special_tokens=True)
        except (TypeError, UnicodeEncodeError):  # fast and slow tokenizers
            check_unicode(texts)
            raise
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def _tokenise_new(self, filled: list[dict[str, str]]) -> None:
        """Tokenise all texts that are new in one call: the tokenizer then uses all cores."""
        new = {}
        for texts in filled:
            for part in self._parts:
                if part.field is not None:
                    key = (part.left, texts[part.field], part.right)
                    if key not in self._ids:
                        new[key] = glued(*key)
        if new:
            self._ids.update(zip(new, self._plain(list(new.values())), strict=True))

    def _part_ids(self, part: Part, text: str) -> list[int]:
        key = (part.left, text, part.right)
        if key not in self._ids:
            self._ids[key] = self._plain([glued(*key)])[0]
        return self._ids[key]

    def _join(self, texts: dict[str, str]) -> list[int]:
        ids = list(self._begin)
        for part, literal in zip(self._parts, self._literals, strict=True):
            ids += literal if literal is not None else self._part_ids(part, texts[part.field or ""])
        return ids + self._end

    def _whole(self, texts: dict[str, str]) -> list[int]:
        """Ids of the prompt as one string; joined parts where data holds special tokens' strings."""
        if any(self._special.search(text) for text in texts.values()):
            return self._join(texts)
        text = ""
        for literal, field in self._pieces:
            value = "" if field is None else texts[field]
            text += literal + value if field is None or value else literal.rstrip()
        ids = self._begin + self._trusted(text) + self._end
        if self.family == "decoder-only":
            # tokens that answers share belong to the prompt, and one that an answer melts into does not
            wanted = self._literals[-1] or []
            extra = len(wanted) - len(self._trusted(self._closing_text))
            ids = ids + wanted[-extra:] if extra > 0 else ids[: len(ids) + extra]
        return ids

    def _fit(self, texts: dict[str, str]) -> list[int]:
        """Encode one question, with query and documents cut so that the whole fits the budget."""
        encode = self._join if self.joined else self._whole
        ids = encode(texts)
        if len(ids) <= self.max_length:
            return ids
        self.cut_prompts += 1
        budget = self.max_length
        for _ in range(8):
            shorter = self._cut(texts, budget)
            ids = encode(shorter)
            if len(ids) <= self.max_length:
                return ids
            # cutting a text can change how its last word is tokenised: ask for a little less
            budget -= len(ids) - self.max_length
        raise InputError(f"prompt {self.prompt.name!r} cannot be cut to {self.max_length} tokens")

    def _cut(self, texts: dict[str, str], budget: int) -> dict[str, str]:
        fields = self.prompt.document_fields
        lengths = {
            part.field: len(self._part_ids(part, texts[part.field]))
            for part in self._parts
            if part.field is not None
        }
        fixed = len(self._begin) + len(self._end) + sum(len(ids) for ids in self._literals if ids is not None)
        query, documents = divide(
            lengths.get("query", 0),
            [lengths[field] for field in fields],
            budget - fixed,
            cut=self.prompt.cut,
            what=f"prompt {self.prompt.name!r} with max_length {self.max_length}",
        )
        kept = dict(zip(fields, documents, strict=True)) | {"query": query}
        cut = {}
        for field, text in texts.items():
            part = next((part for part in self._parts if part.field == field), None)
            if part is None or kept[field] >= lengths[field]:
                cut[field] = text
                continue
            if field == "query" and self.prompt.cut != "query" and not self._warned_query:
                self._warned_query = True
                logger.warning(
                    "a query of %d tokens does not fit max_length %d: its end is cut (said once)",
                    lengths[field],
                    self.max_length,
                )
            overhead = len(self._part_ids(part, ""))
            from_start = field == "query" and self.prompt.cut == "query"
            cut[field] = self._shorten(text, max(kept[field] - overhead, 1), keep_end=from_start)
        return cut

    def _shorten(self, text: str, tokens: int, *, keep_end: bool) -> str:
        """Cut a text to about a number of tokens, at a token's border."""
        offsets = self.token_spans(text)
        if len(offsets) <= tokens:
            return text
        if keep_end:
            return text[offsets[-tokens][0] :].strip()
        return text[: offsets[tokens - 1][1]].strip()

"""The encoder of a loaded model's questions."""

from __future__ import annotations

from instruct_distill.errors import InputError
from instruct_distill.models.encoder import Encoder
from instruct_distill.models.loading import LoadedModel
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.prompts.pair import make_encoder
from instruct_distill.prompts.prompt import Prompt


def question_encoder(
    loaded: LoadedModel,
    prompt: Prompt,
    *,
    max_length: int,
    document_words: int | None = None,
    beside: PromptEncoder | None = None,
) -> PromptEncoder:
    """Return what turns questions into the token ids that a model receives.

    Args:
        loaded: the model and its tokenizer.
        prompt: the record.
        max_length: the longest prompt in tokens, special tokens included.
        document_words: words of a document that are shown at most, or None for no such limit.
        beside: an encoder with the same tokenizer, whose tokenised texts are used and added to.

    Raises:
        InputError: the prompt does not fit the model's family, or the model has no positions for the longest.
    """
    longest = loaded.model.longest if isinstance(loaded.model, Encoder) else None
    if longest is not None and max_length > longest:
        raise InputError(
            f"model {loaded.name!r} has positions for {longest} tokens, max_length is {max_length}; "
            f"use max_length: {longest} or less"
        )
    return make_encoder(
        prompt,
        loaded.tokenizer,
        family=loaded.model.family,
        max_length=max_length,
        document_words=document_words,
        decoder_start=getattr(loaded.model.model.config, "decoder_start_token_id", None),
        beside=beside,
    )

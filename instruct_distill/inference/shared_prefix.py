"""Answers to prompts that begin alike: their beginnings are read once, then what is each one's own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import torch

from instruct_distill.inference.prefix_groups import PrefixGroup
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import by_length
from instruct_distill.models.decoder_only import DecoderOnly
from instruct_distill.models.shared_prefix import answers_after, read_prefixes
from instruct_distill.prompts.answers import EncodedAnswers

logger = logging.getLogger(__name__)

_KEYS_PER_TOKEN = 4
"""Keys that a batch holds a layer, at most, for each token of the budget."""


def answers_by_group(
    model: DecoderOnly,
    prompts: Sequence[Sequence[int]],
    groups: Sequence[PrefixGroup],
    answers: EncodedAnswers,
    tokens_per_batch: int,
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Yield (positions, logits of the answers) of the prompts of all groups, a batch at a time.

    As many prefixes as fit the budget are read together and kept until their prompts are answered; the rests
    of their prompts are batched by length, whatever their prefix.

    Args:
        model: the model, in evaluation mode.
        prompts: token ids.
        groups: those that begin alike.
        answers: the answers, of one token each.
        tokens_per_batch: padded tokens a batch; keys and values are kept of as many.
    """
    for part in by_length([group.length for group in groups], tokens_per_batch):
        shared = [groups[i] for i in part]
        read = read_prefixes(model, [prompts[group.rows[0]][: group.length] for group in shared])
        rests = [
            (owner, row, prompts[row][group.length :])
            for owner, group in enumerate(shared)
            for row in group.rows
        ]
        # what a rest looks at takes memory too: a short one after a long prefix counts for more
        sizes = [
            max(len(rest), -(-(shared[0].length + len(rest)) // _KEYS_PER_TOKEN)) for _, _, rest in rests
        ]
        for batch in by_length(sizes, tokens_per_batch):
            owners, rows, tails = zip(*(rests[i] for i in sorted(batch)), strict=True)
            yield list(rows), answers_after(model, read, owners, tails, answers)


def shares_prefixes(
    model: AnswerModel, prompts: Sequence[Sequence[int]], answers: EncodedAnswers | None, max_length: int
) -> bool:
    """Whether a model can read beginnings once: it answers some prompts as it does without that.

    Says in the log why not, for a decoder-only model that cannot.

    Args:
        model: the model, in evaluation mode.
        prompts: two prompts of different length with different beginnings.
        answers: what is asked for.
        max_length: the longest prompt in tokens.
    """
    if not isinstance(model, DecoderOnly) or answers is None or not answers.single:
        return False
    problem = _window_problem(model, max_length) or _different_answers(model, prompts, answers)
    if problem:
        logger.warning(
            "%s: every prompt is read from its beginning, none shares it with others: %s",
            type(model.model).__name__,
            problem,
        )
    return not problem


def _window_problem(model: DecoderOnly, max_length: int) -> str:
    """Behind a short prefix there are pads, which a window of tokens would count."""
    config = model.model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    if kinds == {"full_attention"} or (
        kinds <= {"full_attention", "sliding_attention"} and window and window >= 2 * max_length
    ):
        return ""
    return f"layers of kind {', '.join(sorted(kinds))}, window {window}, for prompts of {max_length} tokens"


def _different_answers(model: DecoderOnly, prompts: Sequence[Sequence[int]], answers: EncodedAnswers) -> str:
    """Two prefixes of unlike length, each with the whole prompt's rest and with a part of it."""
    ends = [[*prompt[: len(prompt) // 3], *prompt[len(prompt) // 2 :]] for prompt in prompts]
    asked = [*prompts, *ends]
    count = len(prompts)
    groups = [PrefixGroup(len(prompt) // 3, [i, count + i]) for i, prompt in enumerate(prompts)]
    plain = model(asked, answers).float()
    shared = torch.empty_like(plain)
    try:
        for rows, logits in answers_by_group(model, asked, groups, answers, sum(map(len, asked))):
            shared[rows] = logits.float()
    except Exception as error:  # of many types, by what the model's code cannot do
        return f"{type(error).__name__}: {str(error)[:200]}"
    exact = model.model.dtype in (torch.float32, torch.float64)
    tolerance = (1e-4 if exact else 0.05) * (1.0 + float(plain.abs().max()))
    if torch.allclose(plain, shared, atol=tolerance, rtol=0):
        return ""
    return f"the answers differ by {float((plain - shared).abs().max()):.2g}"

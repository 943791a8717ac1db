"""The gradient of one optimizer step, exact whatever fits into memory.

Lists are gathered into groups whose activations may be held at one time. Within a group the documents of
all lists are batched by length, so that there is next to no padding; the loss's gradient on the scores then
goes back through each batch in turn. A list that is too long for a group is done by gradient caching: scores
without activations, the loss's gradient on them, then for each batch a second forward pass that is followed
by the backward one (arXiv 2101.06983, here for list-wise losses). The random state is put back for the second
pass, so dropout is the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

from instruct_distill.inference.score_rules import ScoreRule, student_score
from instruct_distill.losses.target import Target
from instruct_distill.models.answer_model import AnswerModel
from instruct_distill.models.batch import by_length
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.training.lists import TrainingList, target_of

Loss = Callable[[torch.Tensor, Target], torch.Tensor]

_BATCHES_PER_GROUP = 4
"""A group is computed in at least about this many batches of prompts of like length: less padding."""

_CPU_BATCH = 640
"""Tokens of a batch on a CPU: matrix products are fastest at some hundred rows, and there is less padding."""


class StepGradient(NamedTuple):
    """What a process found out while it added its part to the gradient.

    Args:
        losses: the loss of each list.
        scores: the student's scores of each list's documents.
        tokens: real tokens of the prompts.
        padded: tokens with padding.
    """

    losses: list[float]
    scores: list[list[float]]
    tokens: int
    padded: int


def groups(tokens: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield groups of positions, in order, whose tokens are within the budget; a longer one stands alone."""
    group: list[int] = []
    filled = 0
    for position, count in enumerate(tokens):
        if group and filled + count > budget:
            yield group
            group, filled = [], 0
        group.append(position)
        filled += count
    if group:
        yield group


def add_gradient(
    model: AnswerModel,
    encoder: PromptEncoder,
    lists: Sequence[TrainingList],
    loss: Loss,
    *,
    informative: int,
    score: ScoreRule,
    tokens_per_micro_batch: int,
) -> StepGradient:
    """Add the gradient of sum(loss of each list) / informative to the model's parameters.

    Args:
        model: the student, in training mode.
        encoder: its prompt.
        lists: this process's lists of the step.
        loss: a ranking loss.
        informative: informative lists of the whole step, over all processes.
        score: how answer logits become a score.
        tokens_per_micro_batch: tokens whose activations are held at one time.
    """
    assert encoder.answers is not None
    prompts = [
        encoder.encode((item.query.text, [document.full_text]) for document in item.documents)
        for item in lists
    ]
    losses = [0.0] * len(lists)
    scores: list[list[float]] = [[] for _ in lists]
    tokens = padded = 0
    answers = encoder.answers
    per_batch = tokens_per_micro_batch // _BATCHES_PER_GROUP
    if model.device.type == "cpu":
        per_batch = min(per_batch, _CPU_BATCH)

    def forward(batch: Sequence[Sequence[int]]) -> torch.Tensor:
        result: torch.Tensor = student_score(model(batch, answers), score)
        return result

    for members in groups([sum(map(len, prompts[i])) for i in range(len(lists))], tokens_per_micro_batch):
        flat = [prompt for i in members for prompt in prompts[i]]
        if not flat:
            continue
        total = sum(map(len, flat))
        target = target_of([lists[i] for i in members], model.device)
        batches = list(by_length([len(prompt) for prompt in flat], per_batch))
        tokens += total
        padded += sum(len(batch) * len(flat[batch[0]]) for batch in batches)
        per_list, found = _backward(
            flat, batches, forward, loss, target, informative, total > tokens_per_micro_batch
        )
        for row, i in enumerate(members):
            losses[i] = float(per_list[row])
            scores[i] = found[row, : len(lists[i].documents)].tolist()
    return StepGradient(losses, scores, tokens, padded)


def _backward(
    prompts: Sequence[Sequence[int]],
    batches: Sequence[Sequence[int]],
    forward: Callable[[Sequence[Sequence[int]]], torch.Tensor],
    loss: Loss,
    target: Target,
    informative: int,
    cached: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do one group; return the loss of each list and the scores [lists, documents]."""
    device = target.mask.device
    states, computed = [], []
    with torch.set_grad_enabled(not cached):
        for batch in batches:
            if cached:
                states.append(_random_state(device))
            computed.append(forward([prompts[i] for i in batch]))
    flat = torch.cat(computed).detach().requires_grad_()
    scores = _as_lists(flat, batches, target.mask)
    per_list = loss(scores, target)
    (gradient,) = torch.autograd.grad(per_list.sum() / max(informative, 1), flat)
    # one batch after another: its activations are freed, and its gradient is added in the masters' format
    for position, part in enumerate(torch.split(gradient, [len(batch) for batch in batches])):
        again = computed[position]
        if cached:
            with _restored(states[position], device):
                again = forward([prompts[i] for i in batches[position]])
        torch.autograd.backward(again, part)
        computed[position] = again.detach()
    return per_list.detach(), scores.detach()


def _as_lists(flat: torch.Tensor, batches: Sequence[Sequence[int]], mask: torch.Tensor) -> torch.Tensor:
    """Put scores in batch order back into [lists, documents]; padding is 0."""
    order = torch.tensor([i for batch in batches for i in batch], device=flat.device)
    in_order = torch.zeros_like(flat).index_copy(0, order, flat)
    return torch.zeros(mask.shape, dtype=flat.dtype, device=flat.device).masked_scatter(mask, in_order)


def _random_state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


@contextmanager
def _restored(state: torch.Tensor, device: torch.device) -> Iterator[None]:
    """Use a random state, and go on afterwards as if it had not been used."""
    before = _random_state(device)
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
    yield
    if device.type == "cuda":
        torch.cuda.set_rng_state(before, device)
    else:
        torch.set_rng_state(before)

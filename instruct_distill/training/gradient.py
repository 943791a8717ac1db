"""The gradient of one optimizer step, exact whatever fits into memory.

Lists are gathered into groups whose activations may be held at one time. Within a group the documents of
all lists are batched by length, so that there is next to no padding; the loss's gradient on the scores then
goes back through each batch in turn. A list that is too long for a group is done by gradient caching: scores
without activations, the loss's gradient on them, then for each batch a second forward pass that is followed
by the backward one (arXiv 2101.06983, here for list-wise losses). The random state is put back for the second
pass, so dropout is the same in both.

Where a weight is spread over the processes, each must call the model as often as the others: a group is one
batch then, and a process that has fewer batches than another ends with batches that weigh nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

from instruct_distill.inference.score_rules import ScoreRule, student_score
from instruct_distill.losses.target import Target
from instruct_distill.models.batch import by_length
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.training.lists import TrainingList, target_of
from instruct_distill.training.updates.updater import Updater

Loss = Callable[[torch.Tensor, Target], torch.Tensor]
Prompts = Sequence[Sequence[int]]

_BATCHES_PER_GROUP = 4
"""On a GPU a group is computed in at least about so many batches of prompts of like length: less padding."""

_CPU_BATCH = 640
"""Tokens of a batch on a CPU: matrix products are fastest at some hundred rows, and there is less padding.
Fewer would not do: each batch costs a sum over the gradients of all weights."""

NOTHING: Prompts = ((0,),)
"""A batch that weighs nothing."""


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


def groups(lengths: Sequence[Sequence[int]], budget: int, *, padded: bool = False) -> Iterator[list[int]]:
    """Yield groups of positions, in order, whose tokens are within the budget; a larger one stands alone.

    Args:
        lengths: the length of each prompt of each list, in tokens.
        budget: tokens of a group.
        padded: count every prompt of a group as long as its longest.
    """
    group: list[int] = []
    total = prompts = longest = 0
    for position, list_lengths in enumerate(lengths):
        more, count, length = sum(list_lengths), len(list_lengths), max(list_lengths, default=0)
        size = (prompts + count) * max(longest, length) if padded else total + more
        if group and size > budget:
            yield group
            group, total, prompts, longest = [], 0, 0, 0
        group.append(position)
        total, prompts, longest = total + more, prompts + count, max(longest, length)
    if group:
        yield group


def add_gradient(
    updater: Updater,
    encoder: PromptEncoder,
    lists: Sequence[TrainingList],
    loss: Loss,
    *,
    informative: int,
    score: ScoreRule,
    tokens_per_micro_batch: int,
) -> StepGradient:
    """Add the gradient of sum(loss of each list) / informative to the updater's.

    Args:
        updater: holds the student, which is in training mode.
        encoder: its prompt.
        lists: this process's lists of the step.
        loss: a ranking loss.
        informative: informative lists of the whole step, over all processes.
        score: how answer logits become a score.
        tokens_per_micro_batch: tokens whose activations are held at one time.
    """
    assert encoder.answers is not None
    answers = encoder.answers

    def forward(prompts: Prompts) -> torch.Tensor:
        result: torch.Tensor = student_score(updater.forward(prompts, answers), score)
        return result

    prompts = [
        encoder.encode((item.query.text, [document.full_text]) for document in item.documents)
        for item in lists
    ]
    lengths = [[len(prompt) for prompt in each] for each in prompts]
    per_batch = tokens_per_micro_batch
    if not updater.in_lockstep:
        on_cpu = updater.device.type == "cpu"
        per_batch = min(per_batch, _CPU_BATCH) if on_cpu else per_batch // _BATCHES_PER_GROUP
    parts = []
    for members in groups(lengths, tokens_per_micro_batch, padded=updater.in_lockstep):
        flat = [prompt for i in members for prompt in prompts[i]]
        batches = list(by_length([len(prompt) for prompt in flat], per_batch))
        target = target_of([lists[i] for i in members], updater.device)
        fits = len(batches) == 1 if updater.in_lockstep else sum(map(len, flat)) <= tokens_per_micro_batch
        if flat:
            parts.append(_Group(members, flat, batches, target, cached=not fits))

    cached = [part for part in parts if part.cached]
    # agreed on before the first call: a process that calls the model waits for the others to do the same
    looks, learns = (sum(len(part.batches) for part in each) for each in (cached, parts))
    empty_looks, empty_learns = updater.agree(looks) - looks, updater.agree(learns) - learns
    left = learns + empty_learns

    def backward(scores: torch.Tensor, gradient: torch.Tensor) -> None:
        nonlocal left
        left -= 1
        updater.backward(scores, gradient, last=left == 0)

    with torch.no_grad():
        for part in cached:
            part.look(forward, loss, informative)
        for _ in range(empty_looks):
            forward(NOTHING)
    for part in parts:
        part.learn(forward, backward, loss, informative)
    for _ in range(empty_learns):
        scores = forward(NOTHING)
        backward(scores, torch.zeros_like(scores))

    losses = [0.0] * len(lists)
    found: list[list[float]] = [[] for _ in lists]
    for part in parts:
        for row, i in enumerate(part.members):
            losses[i] = float(part.losses[row])
            found[i] = part.scores[row, : len(lists[i].documents)].tolist()
    padded = sum(part.padded for part in parts) + empty_learns * len(NOTHING[0])
    return StepGradient(losses, found, sum(map(sum, lengths)), padded)


class _Group:
    """Lists that are done together.

    Args:
        members: their positions.
        prompts: of all their documents.
        batches: positions of prompts that go through the model at one time.
        target: of the lists.
        cached: whether the activations of all batches are too many to be held.
    """

    losses: torch.Tensor
    scores: torch.Tensor

    def __init__(
        self,
        members: Sequence[int],
        prompts: Prompts,
        batches: Sequence[Sequence[int]],
        target: Target,
        *,
        cached: bool,
    ) -> None:
        self.members, self.batches, self.cached = members, batches, cached
        self._prompts, self._target = prompts, target
        self._states: list[torch.Tensor] = []
        self._gradient: Sequence[torch.Tensor] = ()

    @property
    def padded(self) -> int:
        """Tokens with padding."""
        return sum(len(batch) * len(self._prompts[batch[0]]) for batch in self.batches)

    def look(self, forward: Callable[[Prompts], torch.Tensor], loss: Loss, informative: int) -> None:
        """Find the loss's gradient on the scores without holding activations."""
        computed = []
        for batch in self.batches:
            self._states.append(_random_state(self._target.mask.device))
            computed.append(forward([self._prompts[i] for i in batch]))
        self._compare(computed, loss, informative)

    def learn(
        self,
        forward: Callable[[Prompts], torch.Tensor],
        backward: Callable[[torch.Tensor, torch.Tensor], None],
        loss: Loss,
        informative: int,
    ) -> None:
        """Send the loss's gradient back through the model."""
        computed: list[torch.Tensor | None] = [None] * len(self.batches)
        if not self.cached:
            scores = [forward([self._prompts[i] for i in batch]) for batch in self.batches]
            self._compare(scores, loss, informative)
            computed[:] = scores
            del scores
        # one batch after another: its activations are freed, and its gradient is added in the masters' format
        for position, part in enumerate(self._gradient):
            again = computed[position]
            computed[position] = None
            if again is None:
                with _restored(self._states[position], part.device):
                    again = forward([self._prompts[i] for i in self.batches[position]])
            backward(again, part)

    def _compare(self, computed: Sequence[torch.Tensor], loss: Loss, informative: int) -> None:
        """Note each list's loss, the scores [lists, documents] and the gradient on each batch's scores."""
        with torch.enable_grad():
            flat = torch.cat([scores.detach() for scores in computed]).requires_grad_()
            scores = _as_lists(flat, self.batches, self._target.mask)
            losses = loss(scores, self._target)
            (gradient,) = torch.autograd.grad(losses.sum() / max(informative, 1), flat)
        self._gradient = torch.split(gradient, [len(batch) for batch in self.batches])
        self.losses, self.scores = losses.detach(), scores.detach()


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

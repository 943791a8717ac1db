"""What holds for every loss, with every choice of its parameters; a new file is tested by being there."""

from __future__ import annotations

import doctest
import functools
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from instruct_distill.losses import LOSSES
from instruct_distill.losses.signature import loss_parameters
from instruct_distill.losses.target import Target

Loss = Callable[[torch.Tensor, Target], torch.Tensor]
NAN, INF = float("nan"), float("inf")


def variants() -> Iterator[Any]:
    """Every loss with its defaults, and with each other value of each parameter; half of each number."""
    for name in LOSSES.names():
        yield pytest.param((name, {}), id=name)
        for key, (kind, default) in loss_parameters(name).items():
            values = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else [default / 2]
            for value in values:
                if value != default:
                    yield pytest.param((name, {key: value}), id=f"{name}-{key}={value}")
    yield pytest.param(("ranknet", {"targets": "soft", "weights": "margin"}), id="ranknet-soft-margin")
    yield pytest.param(("ranknet", {"targets": "soft", "weights": "rank"}), id="ranknet-soft-rank")


@pytest.fixture(params=variants())
def loss(request: pytest.FixtureRequest) -> Loss:
    name, parameters = request.param
    return functools.partial(LOSSES.load(name).loss, **parameters)


def preferring(teacher: torch.Tensor, mask: torch.Tensor | None = None) -> Target:
    """A target whose pair probabilities say what its scores say, less surely."""
    mask = torch.ones_like(teacher, dtype=torch.bool) if mask is None else mask
    difference = (teacher[:, :, None] - teacher[:, None, :]) / 4
    alone = torch.eye(teacher.shape[1], dtype=torch.bool)
    return Target(teacher, mask, None, torch.sigmoid(difference).masked_fill(alone, 0.0))


def example() -> tuple[torch.Tensor, Target]:
    """Five lists of one to seven documents, with ties on both sides, and two of equal text in each."""
    generator = torch.Generator().manual_seed(3)
    scores = (torch.randn(5, 7, generator=generator, dtype=torch.float64) * 3).round(decimals=0)
    teacher = torch.randint(-1, 5, (5, 7), generator=generator).float()
    mask = torch.arange(7)[None, :] < torch.tensor([7, 6, 4, 2, 1])[:, None]
    target = preferring(teacher, mask)
    weights = torch.ones(5, 7, 7)
    weights[:, 0, 3] = weights[:, 3, 0] = 0.0
    return scores, target._replace(weights=weights)


def with_gradient(loss: Loss, scores: torch.Tensor, target: Target) -> tuple[torch.Tensor, torch.Tensor]:
    scores = scores.detach().clone().requires_grad_()
    per_list = loss(scores, target)
    assert per_list.requires_grad
    (gradient,) = torch.autograd.grad(per_list.sum(), scores)
    return per_list.detach(), gradient


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_one_value_a_list_in_float32_or_better(loss: Loss) -> None:
    scores, target = example()
    for given, wanted in [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
    ]:
        found = loss(scores.to(given), target)
        assert (found.dtype, found.shape) == (wanted, (5,))
        assert (found >= 0).all()


def test_the_gradient_is_the_derivative(loss: Loss) -> None:
    scores, target = example()
    generator = torch.Generator().manual_seed(4)
    # no two student scores are equal: the weights of some losses jump where two change places
    scores = scores + torch.rand(scores.shape, generator=generator, dtype=torch.float64) / 2
    assert torch.autograd.gradcheck(lambda s: loss(s, target), scores.requires_grad_(), atol=1e-6)


def test_a_list_does_not_know_the_others(loss: Loss) -> None:
    scores, target = example()
    together, gradient = with_gradient(loss, scores, target)
    for row, n in enumerate(target.mask.sum(dim=1).tolist()):
        alone = Target(
            *(None if part is None else part[row : row + 1, :n] for part in target[:2]),
            *(None if part is None else part[row : row + 1, :n, :n] for part in target[2:]),
        )
        expected, expected_gradient = with_gradient(loss, scores[row : row + 1, :n], alone)
        close(together[row : row + 1], expected)
        close(gradient[row : row + 1, :n], expected_gradient)


def test_order_of_documents_does_not_matter(loss: Loss) -> None:
    scores, target = example()
    expected, gradient = with_gradient(loss, scores, target)
    generator = torch.Generator().manual_seed(5)
    for _ in range(5):
        moved = torch.randperm(7, generator=generator)
        found, moved_gradient = with_gradient(
            loss,
            scores[:, moved],
            Target(
                *(None if part is None else part[:, moved] for part in target[:2]),
                *(None if part is None else part[:, moved][:, :, moved] for part in target[2:]),
            ),
        )
        close(found, expected)
        close(moved_gradient, gradient[:, moved])


@pytest.mark.parametrize("rubbish", [0.0, 50.0, INF, -INF, NAN])
def test_padding_reaches_neither_value_nor_gradient(loss: Loss, rubbish: float) -> None:
    scores, target = example()
    expected, gradient = with_gradient(loss, scores, target)

    def padded(part: torch.Tensor | None, both: bool) -> torch.Tensor | None:
        if part is None:
            return None
        return torch.nn.functional.pad(part, (0, 2, 0, 2) if both else (0, 2), value=rubbish)

    mask = torch.nn.functional.pad(target.mask, (0, 2), value=False)
    wider = Target(
        padded(target.scores, False),  # type: ignore[arg-type]
        mask,
        torch.nn.functional.pad(target.weights, (0, 2, 0, 2), value=1.0),
        padded(target.probabilities, True),
    )
    found, wider_gradient = with_gradient(loss, padded(scores, False).masked_fill(~mask, rubbish), wider)
    close(found, expected)
    close(wider_gradient[:, :7], gradient)
    assert (wider_gradient.masked_select(~mask) == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_b21_far_apart_logits_stay_finite(loss: Loss, dtype: torch.dtype) -> None:
    teacher = torch.tensor([[1.0, 2.0, 0.0], [198.0, 0.0, 97.0], [-80.0, 80.0, 0.0]])
    for scores in ([80.0, -80.0, 0.0], [-80.0, 80.0, 80.0], [80.0, 80.0, 80.0]):
        value, gradient = with_gradient(loss, torch.tensor([scores] * 3, dtype=dtype), preferring(teacher))
        assert torch.isfinite(value).all()
        assert torch.isfinite(gradient).all()


def test_b21_a_list_without_information_is_an_exact_zero_in_the_graph(loss: Loss) -> None:
    scores = torch.tensor(
        [[0.4, 0.1, -0.2], [0.4, 0.1, -0.2], [0.4, 0.1, -0.2], [1.5, 0.3, 7.0], [1.0, 2.0, 3.0]]
    )
    teacher = torch.tensor(
        [[1.0, 1.0, 1.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 1.0, 0.0], [1.0, 2.0, 2.0]]
    )
    mask = torch.arange(3)[None, :] < torch.tensor([3, 1, 0, 2, 3])[:, None]
    weights = torch.ones(5, 3, 3)
    weights[4, 0, 1:] = weights[4, 1:, 0] = 0.0  # the only one that is worse has the text of both others
    target = preferring(teacher, mask)._replace(weights=weights)
    value, gradient = with_gradient(loss, scores, target)
    assert value[[0, 1, 2, 4]].tolist() == [0.0] * 4
    assert (gradient[[0, 1, 2, 4]] == 0).all()
    assert value[3] > 0
    assert gradient[3, :2].abs().min() > 0


@pytest.mark.parametrize("start", ["equal", "reversed"])
def test_b23_descent_finds_the_teachers_order(loss: Loss, start: str) -> None:
    """The teacher's order is a cycle, not its own inverse: ranks taken for scores would show."""
    teacher = torch.tensor([[2.0, 3.0, 1.0, 0.0, 4.0]])
    scores = (-teacher if start == "reversed" else torch.zeros_like(teacher)) / 10
    _, first = with_gradient(loss, scores, preferring(teacher))
    assert (-first[0]).argmax() == 4
    assert first[0, 3] >= 0
    scores.requires_grad_()
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss(scores, preferring(teacher)).sum().backward()
        optimizer.step()
    assert scores[0].argsort(descending=True).tolist() == [4, 1, 0, 2, 3]


@pytest.mark.parametrize("name", LOSSES.names())
def test_documentation_has_its_order_and_its_example_runs(name: str) -> None:
    module = LOSSES.load(name)
    text = module.loss.__doc__
    parts = [
        "\n    Args:",
        "scores: [lists, documents]",
        "target:",
        *(f" {key}: " for key in loss_parameters(name)),
    ]
    places = [text.index(part) for part in [*parts, "\n    Returns:", "\n    When to use:", "\n    Example:"]]
    assert places == sorted(places)
    assert doctest.testmod(module) == (0, 4)

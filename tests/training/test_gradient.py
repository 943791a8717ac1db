from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from instruct_distill.inference.score_rules import student_score
from instruct_distill.losses import LOSSES
from instruct_distill.losses.ranknet import loss as ranknet
from instruct_distill.models import encoder_decoder
from instruct_distill.models.batch import by_length
from instruct_distill.models.checkpointing import gradient_checkpointing
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.lora import add_lora
from instruct_distill.models.lora_parameters import LoraParameters
from instruct_distill.training.gradient import Loss, StepGradient, add_gradient, groups
from instruct_distill.training.lists import TrainingList, target_of
from instruct_distill.training.loop import student_encoder
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.updates.plain import PlainUpdater

Lists = Callable[..., list[TrainingList]]


def run(
    loaded: LoadedModel,
    student: StudentParameters,
    lists: list[TrainingList],
    tokens: int,
    loss: Loss = ranknet,
) -> tuple[StepGradient, dict[str, torch.Tensor]]:
    """Return what add_gradient found, and the gradients, which are taken off the model."""
    found = add_gradient(
        PlainUpdater(loaded.model, TrainingParameters()),
        student_encoder(student, loaded),
        lists,
        loss,
        informative=sum(item.informative for item in lists),
        score=student.score,
        tokens_per_micro_batch=tokens,
    )
    return found, gradients(loaded.model)


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    named = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return named


def plain(
    loaded: LoadedModel, student: StudentParameters, lists: list[TrainingList], loss: Loss = ranknet
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The same by the definition: every prompt alone, one graph, one backward pass."""
    encoder = student_encoder(student, loaded)
    assert encoder.answers is not None
    losses = []
    for item in lists:
        prompts = encoder.encode((item.query.text, [d.full_text]) for d in item.documents)
        scores = torch.stack(
            [student_score(loaded.model([p], encoder.answers), student.score)[0] for p in prompts]
        )
        losses.append(loss(scores[None], target_of([item], loaded.model.device))[0])
    (torch.stack(losses).sum() / sum(item.informative for item in lists)).backward()  # type: ignore[no-untyped-call]
    return [value.item() for value in losses], gradients(loaded.model)


def assert_same(
    found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], relative: float, least: float = 1e-3
) -> None:
    """Compare weight by weight; one with next to no gradient, as to a part of the largest."""
    assert found.keys() == expected.keys()
    size = max(float(value.norm()) for value in expected.values())
    assert size > 0
    for name, value in expected.items():
        assert float((found[name] - value).norm()) <= relative * max(float(value.norm()), least * size), name


def without_dropout(loaded: LoadedModel) -> LoadedModel:
    for module in loaded.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0  # attention weights
    loaded.model.train()
    return loaded


FAMILIES = ["tiny_llama", "tiny_t5", "tiny_bert"]


@pytest.fixture(params=FAMILIES)
def folder(request: pytest.FixtureRequest) -> Path:
    """A small model of each family."""
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def exact(folder: Path, device: torch.device) -> LoadedModel:
    """In float64, without dropout."""
    return without_dropout(load_model(str(folder), dtype="fp64", device=device))


def with_lora(folder: Path, device: torch.device, dropout: float, dtype: str = "fp64") -> LoadedModel:
    """With matrices that are far from zero."""
    loaded = load_model(str(folder), dtype=dtype, device=device)
    add_lora(loaded, LoraParameters(rank=2, dropout=dropout), 1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in loaded.model.parameters():
            if weight.requires_grad:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
    loaded.model.train()
    return loaded


@pytest.fixture
def asked(folder: Path) -> StudentParameters:
    """How a model of that family is asked."""
    score: Any = "head" if "bert" in folder.name else "yes_logit"
    return StudentParameters(model=str(folder), max_length=160, score=score)


@pytest.mark.parametrize("score", ["own", "yes_minus_no"])
@pytest.mark.parametrize("tokens", [50, 700, 100_000])
def test_equals_the_plain_gradient(
    exact: LoadedModel, lists: Lists, asked: StudentParameters, tokens: int, score: Any
) -> None:
    """50 tokens: all lists by gradient caching; 700: several groups; 100,000: one group."""
    student = asked
    if score != "own":
        if exact.model.family == "encoder":
            pytest.skip("a head has one score")
        student = StudentParameters(model=exact.name, max_length=160, score=score)
    data = lists(4)
    losses, expected = plain(exact, student, data)
    found, gradient = run(exact, student, data, tokens)
    assert found.losses == pytest.approx(losses, rel=1e-9)
    assert [len(row) for row in found.scores] == [4, 4, 4, 4]
    assert_same(gradient, expected, 1e-9)


def test_lists_of_different_lengths_and_ties(
    exact: LoadedModel, lists: Lists, asked: StudentParameters
) -> None:
    student = asked
    data = [*lists(3, documents=5, ties=True), *lists(2, documents=2)]
    assert [item.informative for item in data] == [True, False, True, True, True]
    losses, expected = plain(exact, student, data)
    for tokens in (50, 700, 100_000):
        found, gradient = run(exact, student, data, tokens)
        assert found.losses == pytest.approx(losses, rel=1e-9)
        assert found.losses[1] == 0.0
        assert_same(gradient, expected, 1e-9)


def test_tokens_are_counted_once(exact: LoadedModel, lists: Lists, asked: StudentParameters) -> None:
    student = asked
    encoder = student_encoder(student, exact)
    data = lists(3)
    real = sum(
        len(p)
        for item in data
        for p in encoder.encode((item.query.text, [d.full_text]) for d in item.documents)
    )
    for tokens in (50, 700, 100_000):
        found, _ = run(exact, student, data, tokens)
        assert found.tokens == real
        assert real <= found.padded < 1.7 * real  # a pair has little beside its texts


@pytest.mark.parametrize("name", LOSSES.names())
def test_every_loss_in_every_family(
    exact: LoadedModel, lists: Lists, asked: StudentParameters, name: str
) -> None:
    loss: Loss = LOSSES.load(name).loss
    data = lists(2)
    losses, expected = plain(exact, asked, data, loss)
    found, gradient = run(exact, asked, data, 50, loss)
    assert found.losses == pytest.approx(losses, rel=1e-9)
    assert_same(gradient, expected, 1e-9)


@pytest.mark.parametrize("tokens", [50, 100_000])
def test_in_float32(
    folder: Path, device: torch.device, lists: Lists, asked: StudentParameters, tokens: int
) -> None:
    loaded = without_dropout(load_model(str(folder), dtype="fp32", device=device))
    data = lists(3)
    losses, expected = plain(loaded, asked, data)
    found, gradient = run(loaded, asked, data, tokens)
    assert found.losses == pytest.approx(losses, rel=1e-5)
    assert_same(gradient, expected, 1e-5, least=0.1)


@pytest.mark.parametrize("tokens", [50, 100_000])
def test_of_lora(
    folder: Path, device: torch.device, lists: Lists, asked: StudentParameters, tokens: int
) -> None:
    loaded = without_dropout(with_lora(folder, device, 0.0))
    data = lists(3)
    losses, expected = plain(loaded, asked, data)
    assert all("lora" in name or "modules_to_save" in name for name in expected)
    found, gradient = run(loaded, asked, data, tokens)
    assert found.losses == pytest.approx(losses, rel=1e-9)
    assert_same(gradient, expected, 1e-9)


@pytest.mark.parametrize("lora", [False, True])
def test_dropout_is_the_same_in_both_passes(
    folder: Path, asked: StudentParameters, lists: Lists, device: torch.device, lora: bool
) -> None:
    """The cached gradient equals the plain one over the same batches with the same random numbers."""
    if lora:
        loaded = with_lora(folder, device, 0.3)
    else:
        loaded = load_model(str(folder), dtype="fp64", device=device)
        for module in loaded.model.modules():
            if hasattr(module, "attention_dropout"):
                module.attention_dropout = 0.3  # a Llama has no other
    loaded.model.train()
    student, tokens = asked, 60 if asked.score == "head" else 160
    encoder = student_encoder(student, loaded)
    assert encoder.answers is not None
    item = lists(1)[0]

    torch.manual_seed(5)
    found, gradient = run(loaded, student, [item], tokens)

    prompts = encoder.encode((item.query.text, [d.full_text]) for d in item.documents)
    assert sum(map(len, prompts)) > tokens
    per_batch = tokens if device.type == "cpu" else tokens // 4
    batches = list(by_length([len(p) for p in prompts], per_batch))
    assert len(batches) > 1
    torch.manual_seed(5)
    scores = torch.zeros(1, 4, dtype=torch.float64, device=device)
    for batch in batches:
        logits = loaded.model([prompts[i] for i in batch], encoder.answers)
        scores = scores.index_copy(1, torch.tensor(batch, device=device), logits[None, :, 0])
    ranknet(scores, target_of([item], loaded.model.device)).sum().backward()  # type: ignore[no-untyped-call]
    assert found.scores[0] == pytest.approx(scores[0].tolist(), rel=1e-12)
    assert_same(gradient, gradients(loaded.model), 1e-9)

    torch.manual_seed(6)
    other, _ = run(loaded, student, [item], tokens)
    assert other.scores != found.scores


@pytest.mark.parametrize("tokens", [50, 100_000])
@pytest.mark.parametrize("lora", [False, True])
def test_checkpointing_holds_less_and_changes_nothing(
    folder: Path,
    lists: Lists,
    device: torch.device,
    asked: StudentParameters,
    lora: bool,
    tokens: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With dropout, with gradient caching and without, where words' vectors are frozen and where not."""
    # T5's way through a CPU without padding has no layers to checkpoint, and other random numbers
    monkeypatch.setattr(encoder_decoder, "can_decode", lambda *_: False)
    loaded = with_lora(folder, device, 0.3) if lora else load_model(str(folder), dtype="fp64", device=device)
    loaded.model.train()
    data = lists(2)
    torch.manual_seed(5)
    expected = run(loaded, asked, data, tokens)
    held = {False: 0, True: 0}
    wanted = False

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        held[wanted] += tensor.numel()
        return tensor

    prompts = [[5, 6, 7, 8]] * 4
    encoder = student_encoder(asked, loaded)
    assert encoder.answers is not None
    for wanted in (False, True):
        with (
            gradient_checkpointing(loaded.model.model, wanted),
            torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        ):
            loaded.model(prompts, encoder.answers)
    assert held[True] < 0.7 * held[False]

    torch.manual_seed(5)
    with gradient_checkpointing(loaded.model.model, True):
        found = run(loaded, asked, data, tokens)
    assert found[0].losses == expected[0].losses
    assert_same(found[1], expected[1], 1e-12)


@pytest.mark.parametrize(("device_type", "expected"), [("cpu", {640}), ("cuda", {2000, 200})])
def test_batches_of_a_group_are_small_on_a_cpu(
    load: Callable[..., LoadedModel],
    lists: Lists,
    student: StudentParameters,
    monkeypatch: pytest.MonkeyPatch,
    device_type: str,
    expected: set[int],
) -> None:
    budgets: list[int] = []

    def noted(lengths: list[int], budget: int) -> Any:
        budgets.append(budget)
        return by_length(lengths, budget)

    loaded = load()
    monkeypatch.setattr("instruct_distill.training.gradient.by_length", noted)
    if loaded.model.device.type != device_type:
        pytest.skip(f"the device is not {device_type}")
    run(loaded, student, lists(2), 8000)
    run(loaded, student, lists(2), 800)
    assert set(budgets) == expected


def test_random_state_goes_on_after_the_second_pass(
    load: Callable[..., LoadedModel], lists: Lists, student: StudentParameters
) -> None:
    loaded = load()
    loaded.model.train()
    torch.manual_seed(3)
    expected = torch.rand(1).item()
    torch.manual_seed(3)
    run(loaded, student, lists(2), 50)
    assert torch.rand(1).item() == expected  # this model draws nothing itself


def test_without_lists_there_is_no_gradient(
    load: Callable[..., LoadedModel], student: StudentParameters
) -> None:
    found, gradient = run(load(), student, [], 100)
    assert found == StepGradient([], [], 0, 0)
    assert gradient == {}


@pytest.mark.parametrize(
    ("tokens", "budget", "expected"),
    [
        ([[1, 2], [3], [3]], 6, [[0, 1], [2]]),
        ([[9], [1], [1]], 6, [[0], [1, 2]]),
        ([[1], [9], [1]], 6, [[0], [1], [2]]),
        ([], 6, []),
    ],
)
def test_groups(tokens: list[list[int]], budget: int, expected: list[list[int]]) -> None:
    assert list(groups(tokens, budget)) == expected


def test_groups_of_one_batch_count_padding() -> None:
    """[1, 2] and [3] are 6 tokens, and 9 in one rectangle."""
    lengths = [[1, 2], [3], [3], [], [3]]
    assert list(groups(lengths, 9, padded=True)) == [[0, 1], [2, 3, 4]]
    assert list(groups(lengths, 8, padded=True)) == [[0], [1, 2, 3], [4]]

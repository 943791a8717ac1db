from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.inference.local import LocalEngine, Question
from instruct_distill.models.attention import use_cpu_attention
from instruct_distill.models.loading import LoadedModel
from instruct_distill.student_folder import StudentRecord, write_student
from instruct_distill.training import loop
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.loop import Trained, train
from instruct_distill.training.parameters import StudentParameters, TrainingParameters

Lists = Callable[..., list[TrainingList]]
Load = Callable[..., LoadedModel]


class Run:
    """Trains the small model in a folder of its own, again and again."""

    def __init__(self, load: Load, student: StudentParameters, folder: Path) -> None:
        self.load, self.student, self.folder = load, student, folder
        self.loaded = load()

    def __call__(
        self, lists: list[TrainingList], *, dtype: str = "fp32", seed: int = 3, **settings: Any
    ) -> Trained:
        self.loaded = self.load(dtype)
        parameters = TrainingParameters(**{"learning_rate": 1e-3, "lists_per_step": 2, **settings})
        return train(
            self.loaded,
            self.student,
            lists,
            parameters,
            seed=seed,
            checkpoints=self.folder / "checkpoints",
            log=self.folder / "training.jsonl",
        )

    @property
    def log(self) -> list[dict[str, Any]]:
        text = (self.folder / "training.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        return {name: p.detach().cpu().clone() for name, p in self.loaded.model.named_parameters()}

    def scores(self, item: TrainingList) -> list[float]:
        engine = LocalEngine(self.loaded, self.student.prompt_record, max_length=self.student.max_length)
        answers = engine.answer_logits([Question(item.query, (document,)) for document in item.documents])
        return [float(value) for value in answers[:, 0]]


@pytest.fixture
def new_run(load: Load, student: StudentParameters, tmp_path: Path) -> Callable[[str], Run]:
    return lambda name: Run(load, student, tmp_path / name)


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have training die in the gradient of the step after some steps, as if it had been killed."""
    whole = loop.add_gradient

    def arm(steps: int) -> None:
        left = iter(range(steps))

        def dying(*args: Any, **kwargs: Any) -> Any:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return whole(*args, **kwargs)

        monkeypatch.setattr(loop, "add_gradient", dying)

    return arm


def assert_equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


def queries(run: Run) -> list[list[str]]:
    return [line["query_ids"] for line in run.log]


@pytest.mark.parametrize(
    ("killed_after", "checkpoint_every"),
    [(14, 1), (14, 4), (10, 5), (3, 100)],
    ids=["in-epoch", "steps-lost", "epoch-end", "no-checkpoint"],
)
def test_b27_resumed_equals_uninterrupted(
    new_run: Callable[[str], Run],
    lists: Lists,
    stop_after: Callable[[int], None],
    killed_after: int,
    checkpoint_every: int,
) -> None:
    """Killed after a step, with or without steps that have to be done again: same queries, rates, weights."""
    data = lists(20)
    settings: dict[str, Any] = {
        "epochs": 2,
        "schedule": "linear",
        "warmup_steps": 4,
        "documents_per_list": {"random": 3},
        "checkpoint_every": checkpoint_every,
    }
    straight = new_run("straight")
    expected = straight(data, **settings)

    broken = new_run("broken")
    stop_after(killed_after)
    with pytest.raises(KeyboardInterrupt):
        broken(data, **settings)
    assert len(broken.log) == killed_after
    stop_after(20 - killed_after + killed_after % checkpoint_every)  # exactly what is left
    found = broken(data, **settings)

    assert queries(broken) == queries(straight)
    assert len(queries(straight)) == 20
    kept = ("step", "epoch", "loss", "learning_rate", "gradient_norm", "tokens")
    assert [[line[key] for key in kept] for line in broken.log] == [
        [line[key] for key in kept] for line in straight.log
    ]
    assert_equal(broken.weights, straight.weights)
    assert (found.steps, found.tokens, found.agreement) == (
        expected.steps,
        expected.tokens,
        expected.agreement,
    )


def test_b27_one_more_epoch_in_the_recipe(new_run: Callable[[str], Run], lists: Lists) -> None:
    data = lists(20)
    straight, longer = new_run("straight"), new_run("longer")
    straight(data, epochs=3)
    longer(data, epochs=2)
    assert len(longer.log) == 20
    longer(data, epochs=3)
    assert queries(longer) == queries(straight)
    assert_equal(longer.weights, straight.weights)


def test_a_finished_run_is_not_trained_again(new_run: Callable[[str], Run], lists: Lists) -> None:
    run = new_run("run")
    first = run(lists(3), epochs=2)
    before = run.weights
    assert run(lists(3), epochs=2) == first
    assert_equal(run.weights, before)
    assert len(run.log) == 4


def test_seed_decides(new_run: Callable[[str], Run], lists: Lists) -> None:
    one, same, other = new_run("one"), new_run("same"), new_run("other")
    one(lists(6), epochs=1)
    same(lists(6), epochs=1)
    other(lists(6), epochs=1, seed=4)
    assert_equal(same.weights, one.weights)
    assert queries(other) != queries(one)


def test_micro_batches_do_not_change_what_is_learned(new_run: Callable[[str], Run], lists: Lists) -> None:
    """In float64: a step in one piece, in groups, and with every list by gradient caching."""
    runs = []
    for tokens in (100_000, 700, 50):
        run = new_run(f"run-{tokens}")
        run(lists(6), epochs=2, lists_per_step=3, dtype="fp64", tokens_per_micro_batch=tokens)
        runs.append(run)
    start = new_run("start").load("fp64").model.state_dict()
    for run in runs[1:]:
        for name, weight in runs[0].weights.items():
            moved = float((weight - start[name].cpu()).norm())
            assert moved > 0
            # AdamW turns a tiny gradient into a whole step, and its rounding errors with it
            assert float((run.weights[name] - weight).norm()) < 1e-6 * moved, name


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_b23_overfitted_student_has_the_teachers_order(
    new_run: Callable[[str], Run], lists: Lists, dtype: str
) -> None:
    """Orders that are cycles of three: reversed or inverted they would be others."""
    data = []
    for item, scores in zip(lists(2, documents=3), [(0.2, 0.9, 0.5), (7.0, 1.0, 4.0)], strict=True):
        data.append(TrainingList(item.query, item.documents, scores))
    run = new_run("run")
    trained = run(data, epochs=50, dtype=dtype, learning_rate=3e-3)
    for item in data:
        found, wanted = torch.tensor(run.scores(item)), torch.tensor(item.scores)
        assert found.argsort().tolist() == wanted.argsort().tolist()
    assert run.log[-1]["loss"] < 0.2 < run.log[0]["loss"]
    assert trained.agreement == 1.0
    assert trained.steps == 50


def test_b21_half_of_the_lists_are_ties(new_run: Callable[[str], Run], lists: Lists) -> None:
    run = new_run("run")
    data = lists(10, documents=2, ties=True)
    assert sum(item.informative for item in data) == 5
    run(data, epochs=20, checkpoint_every=50)
    assert len(run.log) == 100
    assert all(torch.isfinite(weight).all() for weight in run.weights.values())
    assert all(line["loss"] == 0.0 for line in run.log if all(int(q[1:]) % 2 for q in line["query_ids"]))


def test_ties_leave_the_gradient_of_the_other_lists_as_it_is(
    new_run: Callable[[str], Run], lists: Lists
) -> None:
    """The step's loss is a mean over informative lists: a list of ties in the step changes nothing."""
    data = lists(2, ties=True)
    alone, mixed = new_run("alone"), new_run("mixed")
    alone(data[:1], epochs=1)
    mixed(data, epochs=1)
    assert mixed.log[0]["loss"] == pytest.approx(alone.log[0]["loss"], rel=1e-5)
    assert mixed.log[0]["gradient_norm"] == pytest.approx(alone.log[0]["gradient_norm"], rel=1e-4)


def test_nothing_to_learn_is_refused(new_run: Callable[[str], Run], lists: Lists) -> None:
    item = lists(1)[0]
    tied = TrainingList(item.query, item.documents, (1.0,) * 4)
    with pytest.raises(InputError, match="none of the 2 labelled lists orders any two documents"):
        new_run("run")([tied, TrainingList(item.query, (), ())])


def test_b21_a_loss_that_is_not_finite_stops_and_the_checkpoint_stands(
    new_run: Callable[[str], Run], lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, whole = new_run("run"), loop.add_gradient
    count = iter(range(100))

    def poisoned(model: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        found = whole(model, *args, **kwargs)  # type: ignore[arg-type]
        return found._replace(losses=[float("nan")]) if next(count) == 3 else found

    monkeypatch.setattr(loop, "add_gradient", poisoned)
    with pytest.raises(NonFiniteScoreError, match=r"step 4: loss nan.*queries \['q.*checkpoints.*stands"):
        run(lists(10), epochs=1, checkpoint_every=1)
    assert [path.name for path in (run.folder / "checkpoints").iterdir()] == ["step-3"]
    assert len(run.log) == 3

    monkeypatch.setattr(loop, "add_gradient", whole)
    straight = new_run("straight")
    straight(lists(10), epochs=1)
    run(lists(10), epochs=1)
    assert_equal(run.weights, straight.weights)


def test_gradient_is_clipped(
    new_run: Callable[[str], Run], lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    norms: list[float] = []
    step = torch.optim.AdamW.step

    def noting(self: torch.optim.AdamW, *args: Any, **kwargs: Any) -> Any:
        norms.append(float(torch.nn.utils.get_total_norm([p.grad for p in self.param_groups[0]["params"]])))
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", noting)
    clipped, free = new_run("clipped"), new_run("free")
    clipped(lists(2), epochs=1, clip=0.01)
    free(lists(2), epochs=1, clip=0.0)
    assert free.log[0]["gradient_norm"] > 0.01
    assert clipped.log[0]["gradient_norm"] == pytest.approx(free.log[0]["gradient_norm"])
    assert norms == pytest.approx([0.01, free.log[0]["gradient_norm"]], rel=1e-3)


def test_the_model_is_left_as_it_was(new_run: Callable[[str], Run], lists: Lists) -> None:
    run = new_run("run")
    run(lists(2), epochs=1, dtype="bf16")
    assert not run.loaded.model.training
    assert {parameter.dtype for parameter in run.loaded.model.parameters()} == {torch.bfloat16}
    assert all(parameter.grad is None for parameter in run.loaded.model.parameters())


def test_a_log_that_was_torn_inside_a_character(new_run: Callable[[str], Run], lists: Lists) -> None:
    run = new_run("run")
    run(lists(2), epochs=1, checkpoint_every=1)
    expected = run.log
    with open(run.folder / "training.jsonl", "ab") as stream:
        stream.write('{"step": 2, "query_ids": ["é'.encode()[:-1])
    run(lists(2), epochs=1, checkpoint_every=1)
    assert run.log == expected


def test_without_epochs_nothing_is_trained(new_run: Callable[[str], Run], lists: Lists) -> None:
    run = new_run("run")
    before = run.weights
    trained = run(lists(2), epochs=0)
    assert (trained.steps, trained.tokens, trained.agreement) == (0, 0, None)
    assert_equal(run.weights, before)
    assert not (run.folder / "checkpoints").exists()


def test_a_written_student_loads_with_the_weights_that_were_trained(
    new_run: Callable[[str], Run], lists: Lists, tmp_path: Path
) -> None:
    """What training does to the model (attention, hooks) does not reach the files."""
    run = new_run("run")
    run(lists(2), epochs=1, dtype="bf16")
    use_cpu_attention(run.loaded.model.model)
    record = StudentRecord(
        family="decoder-only",
        prompt=run.student.prompt_record,
        score="yes_logit",
        max_length=160,
        document_words=None,
        dtype="bf16",
        base_model="tiny",
        base_revision="0",
        training={},
    )
    write_student(tmp_path / "student", run.loaded, record)
    config = (tmp_path / "student" / "config.json").read_text(encoding="utf-8")
    assert "attn_implementation" not in config
    assert "instruct_distill" not in config

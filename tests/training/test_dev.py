from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from instruct_distill.errors import InputError
from instruct_distill.losses.mse import loss as mse
from instruct_distill.models.loading import LoadedModel
from instruct_distill.training import loop
from instruct_distill.training.dev import Best, Dev, DevList, held_back
from instruct_distill.training.dev_parameters import DevParameters
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.loop import Trained, train
from instruct_distill.training.parameters import StudentParameters, TrainingParameters

Lists = Callable[..., list[TrainingList]]


def best(values: list[float], **settings: Any) -> Best:
    parameters = DevParameters(**{"held_back": 2, **settings})
    return Best(parameters, [[float(10 * (i + 1)), value] for i, value in enumerate(values)])


@pytest.mark.parametrize(
    ("values", "settings", "step"),
    [
        ([0.1, 0.3, 0.2], {}, 20),
        ([0.3, 0.3], {}, 10),
        ([0.1, 0.3, 0.2], {"metric": "loss", "direction": "min"}, 10),
        ([math.nan, 0.1, math.nan], {}, 20),
        ([0.5, math.inf], {}, 10),
        ([math.nan], {}, None),
        ([], {}, None),
    ],
)
def test_b29_the_best_step_is_never_a_nan(values: list[float], settings: Any, step: int | None) -> None:
    assert best(values, **settings).step == step


@pytest.mark.parametrize(
    ("values", "over"),
    [
        ([0.3], False),
        ([0.3, 0.2], False),
        ([0.3, 0.2, 0.3], True),
        ([0.3, 0.2, 0.4], False),
        ([math.nan] * 2, True),
    ],
)
def test_patience(values: list[float], over: bool) -> None:
    assert best(values, patience=2).patience_is_over is over
    assert not best(values).patience_is_over


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "one of held_back"),
        ({"held_back": 2, "task": {"collection": "beir:x"}}, "one of held_back"),
        ({"held_back": 2, "metric": "nDCG@10"}, "unknown 'nDCG@10'"),
        ({"task": {"collection": "beir:x"}, "metric": "kendall_tau"}, "known here: nDCG@1, nDCG@5, nDCG@10"),
        ({"held_back": 2, "metric": "loss"}, "needs direction: min"),
    ],
)
def test_what_is_no_dev_set(settings: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DevParameters(**settings)


def test_the_metric_is_the_first_one_where_none_is_named() -> None:
    assert DevParameters(held_back=2).metric == "kendall_tau"
    assert DevParameters(task={"collection": "beir:x", "metrics": ["RR@10"]}).metric == "RR@10"  # type: ignore[arg-type]


def test_held_back_lists_are_informative_and_not_trained_on(lists: Lists) -> None:
    every = lists(8, ties=True)  # every second list has nothing but ties
    rest, dev = held_back(every, DevParameters(held_back=3), mse, seed=1)
    assert len(rest) == 5
    names = [item.query.query_id for item in dev.lists]
    assert len(set(names)) == 3
    assert not set(names) & {item.query.query_id for item in rest}
    assert all(int(name[1:]) % 2 == 0 for name in names)
    scores = [next(item.scores for item in every if item.query.query_id == name) for name in names]
    perfect = dev.figures([list(each) for each in scores])
    assert perfect == {"kendall_tau": 1.0, "top_1": 1.0, "loss": 0.0}
    reverse = dev.figures([[-value for value in each] for each in scores])
    assert reverse["kendall_tau"] == pytest.approx(-1.0)
    assert reverse["top_1"] == 0.0
    assert held_back(every, DevParameters(held_back=3), mse, seed=1)[1].lists == dev.lists


class Run:
    """Trains the small model in one folder, again and again."""

    def __init__(self, load: Callable[..., LoadedModel], student: StudentParameters, folder: Path) -> None:
        self.load, self.student, self.folder = load, student, folder

    def __call__(self, data: list[TrainingList], measured: Dev | None = None, **settings: Any) -> Trained:
        self.loaded = self.load()
        return train(
            self.loaded,
            self.student,
            data,
            TrainingParameters(
                **{"learning_rate": 1e-3, "lists_per_step": 2, "precision": "fp32", **settings}
            ),
            seed=3,
            checkpoints=self.folder / "checkpoints",
            log=self.folder / "training.jsonl",
            dev=measured,
        )

    @property
    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "checkpoints").iterdir())

    @property
    def log(self) -> list[dict[str, Any]]:
        text = (self.folder / "training.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def weight(self) -> list[float]:
        return [float(p.detach().sum()) for p in self.loaded.model.parameters()]


@pytest.fixture
def new_run(
    load: Callable[..., LoadedModel], student: StudentParameters, tmp_path: Path
) -> Callable[[str], Run]:
    return lambda name: Run(load, student, tmp_path / name)


def scripted(values: list[float], data: list[TrainingList], **settings: Any) -> Dev:
    """A dev set whose figures are given, whatever the student scores."""
    parameters = DevParameters(**{"held_back": 1, "every": 1, **settings})
    left = iter(values)
    return Dev(
        parameters,
        [DevList(item.query, item.documents) for item in data[:1]],
        lambda scores: {"kendall_tau": next(left)},
    )


def test_b29_the_student_has_the_weights_of_the_best_step(
    new_run: Callable[[str], Run], lists: Lists
) -> None:
    data = lists(8)
    run = new_run("best")
    found = run(data, scripted([0.1, 0.9, math.nan, 0.5], data), epochs=1)
    assert (found.steps, found.best_step, found.dev) == (4, 2, 0.9)
    assert run.checkpoints == ["step-2", "step-4"]
    whole = new_run("whole")
    whole(data, epochs=1, keep="all", checkpoint_every=1)
    assert whole.checkpoints == ["step-1", "step-2", "step-3", "step-4"]
    assert run.weight != whole.weight
    earlier = new_run("earlier")
    earlier(data, scripted([0.1, 0.9, 0.2], data, patience=1), epochs=1)
    assert earlier.weight == run.weight
    measured = [line for line in run.log if "dev" in line]
    assert [line["step"] for line in measured] == [1, 2, 3, 4]
    assert measured[1]["dev"]["kendall_tau"] == 0.9
    assert measured[1]["dev"]["spread"] > 0


def test_training_stops_when_patience_is_over(new_run: Callable[[str], Run], lists: Lists) -> None:
    data = lists(8)
    run = new_run("r")
    found = run(data, scripted([0.9, 0.1, 0.2], data, patience=2), epochs=2)
    assert (found.steps, found.best_step) == (3, 1)
    again = run(data, scripted([], data, patience=2), epochs=2)  # nothing is measured again
    assert (again.steps, again.best_step) == (3, 1)


def test_b27_a_killed_run_measures_what_an_uninterrupted_one_does(
    new_run: Callable[[str], Run], lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = lists(12)
    settings: dict[str, Any] = {
        "epochs": 1,
        "checkpoint_every": 2,
        "dev": DevParameters(held_back=4, every=2, metric="loss", direction="min"),
    }
    straight = new_run("straight")
    expected = straight(data, **settings)
    assert expected.steps == 4  # eight lists are left

    broken = new_run("broken")
    left = iter(range(3))
    whole = vars(loop)["add_gradient"]

    def dying(*arguments: Any, **keywords: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return whole(*arguments, **keywords)

    monkeypatch.setattr(loop, "add_gradient", dying)
    with pytest.raises(KeyboardInterrupt):
        broken(data, **settings)
    monkeypatch.undo()
    found = broken(data, **settings)
    assert (found.best_step, found.dev, found.steps) == (expected.best_step, expected.dev, expected.steps)
    assert broken.weight == straight.weight
    assert [line["dev"] for line in broken.log if "dev" in line] == [
        line["dev"] for line in straight.log if "dev" in line
    ]


def test_a_best_checkpoint_that_is_gone(new_run: Callable[[str], Run], lists: Lists) -> None:
    data = lists(8)
    run = new_run("r")
    run(data, scripted([0.9, 0.1, 0.2, 0.1], data), epochs=1)
    (run.folder / "checkpoints" / "step-1" / "state.json").unlink()
    with pytest.raises(InputError, match="step-1, the best checkpoint, is not there; use redo=train"):
        run(data, scripted([], data), epochs=1)


def test_figures_of_each_step(
    new_run: Callable[[str], Run], lists: Lists, caplog: pytest.LogCaptureFixture
) -> None:
    run = new_run("r")
    run(lists(4), epochs=1)
    for line in run.log:
        assert line["spread"] > 0
        assert line["cut"] == 0.0
    assert "does not tell" not in caplog.text


def test_a_collapsed_student_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    collapse = loop._Collapse()
    for spread in [0.001] * 19 + [0.5] + [0.001] * 45:
        collapse.look(spread, 0.25)
    said = [record for record in caplog.records if "does not tell documents apart" in record.message]
    assert len(said) == 1
    assert "25% of the documents are cut" in said[0].message


def test_a_tracker_gets_the_figures(new_run: Callable[[str], Run], lists: Lists) -> None:
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = new_run("r")
    run(lists(4), epochs=1, trackers=["tensorboard"])
    events = event_accumulator.EventAccumulator(str(run.folder / "train"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [
        (line["step"], pytest.approx(line["loss"])) for line in run.log
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [("tensorbord", "did you mean 'tensorboard'"), ("wandb", "pip install wandb")],
)
def test_a_tracker_that_is_not_there(
    new_run: Callable[[str], Run], lists: Lists, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setattr("instruct_distill.training.trackers.get_available_trackers", list)
    with pytest.raises(InputError, match=message):
        new_run("r")(lists(2), epochs=1, trackers=[name])

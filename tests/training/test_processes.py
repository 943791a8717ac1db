from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from instruct_distill.errors import InputError
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.processes import process_state

_SCRIPT = Path(__file__).with_name("two_processes.py")


def launch(processes: int, *arguments: object) -> None:
    launcher = [sys.executable]
    if processes > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    done = subprocess.run(
        [*launcher, str(_SCRIPT), *map(str, arguments)],
        env={**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_b30_two_processes_learn_what_one_does(
    tiny_llama: Path, lists: Callable[..., list[TrainingList]], tmp_path: Path
) -> None:
    """Five lists, two a step: the second process has nothing to do in the last step of an epoch.

    In float64, where the order of a sum does not matter: AdamW makes a whole step of a rounding error.
    """
    data = [*lists(3, documents=5, ties=True), *lists(2, documents=2)]
    file = tmp_path / "lists.json"
    file.write_text(
        json.dumps([[item.query, item.documents, item.scores] for item in data]), encoding="utf-8"
    )
    for processes in (1, 2):
        (tmp_path / str(processes)).mkdir()
        launch(processes, tiny_llama, file, tmp_path / str(processes))

    one, two = tmp_path / "1", tmp_path / "2"
    found = json.loads((one / "found-0.json").read_text())
    assert found["processes"] == 1
    assert found["steps"] == 6
    for rank in (0, 1):
        assert json.loads((two / f"found-{rank}.json").read_text()) == {**found, "processes": 2}

    alone = load_file(one / "weights-0.safetensors")
    first, second = (load_file(two / f"weights-{rank}.safetensors") for rank in (0, 1))
    assert not any("module." in name for name in first)
    for name, weight in alone.items():
        assert torch.equal(first[name], second[name]), name
        assert float((first[name] - weight).abs().max()) < 1e-9, name

    logs = [
        [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
        for folder in (one, two)
    ]
    assert [len(log) for log in logs] == [6, 6]
    for mine, theirs in zip(*logs, strict=True):
        for key in ("step", "query_ids", "learning_rate", "tokens"):
            assert mine[key] == theirs[key], key
        assert theirs["loss"] == pytest.approx(mine["loss"], rel=1e-9)
        assert theirs["gradient_norm"] == pytest.approx(mine["gradient_norm"], rel=1e-9)


def test_processes_that_do_not_find_each_other_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process_state().num_processes == 1
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match=r"2 processes were launched .* accelerate found 1"):
        process_state()

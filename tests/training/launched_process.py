"""What each process of test_launch.py runs: train the small model again and again, under one kind of launch
after another, as the environment variables of a launch file would ask for.

A process is started once for many runs: it costs more time than they do.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.models.loading import load_model
from instruct_distill.models.lora import add_lora
from instruct_distill.models.lora_parameters import LoraParameters
from instruct_distill.records import Document, Query
from instruct_distill.student_folder import StudentRecord, write_student
from instruct_distill.training import loop
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.loop import train
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.probe import check_probe


def without_dropout(model: torch.nn.Module) -> None:
    """Dropout draws by process: with it, one and two processes learn differently."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0


def lists_of(content: list[Any]) -> list[TrainingList]:
    return [
        TrainingList(Query(*query), tuple(Document(*document) for document in documents), tuple(scores))
        for query, documents, scores in content
    ]


def dying_after(steps: int) -> Any:
    """A gradient that is interrupted in the step after some steps, as by a kill."""
    whole, left = loop.add_gradient, iter(range(steps))

    def dying(*args: Any, **kwargs: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return whole(*args, **kwargs)

    return dying


def poisoned_after(steps: int) -> Any:
    """A gradient that is NaN after some steps, of a loss that is finite."""
    whole, left = loop.add_gradient, iter(range(steps))

    def poisoned(updater: Any, encoder: Any, lists: Any, loss: Any, **kwargs: Any) -> Any:
        good = next(left, None) is not None
        return whole(
            updater,
            encoder,
            lists,
            loss if good else lambda scores, target: loss(scores, target) + (0 * scores).abs().sqrt().sum(-1),
            **kwargs,
        )

    return poisoned


def run(job: dict[str, Any], folder: Path) -> None:
    """Do one job of the file: see test_launch.py for its keys."""
    here = folder / job["name"]
    here.mkdir(exist_ok=True)
    launch = {key: value for key, value in os.environ.items() if key.startswith(("ACCELERATE_", "FSDP_"))}
    os.environ.update(job["environment"])
    model = job["model"]
    rank = int(os.environ["RANK"])
    student = StudentParameters(model=model, max_length=160)
    whole, share = loop.add_gradient, loop.own_share
    found: dict[str, Any] = {}
    try:
        loaded = load_model(model, dtype=job["dtype"], device=torch.device("cpu"))
        without_dropout(loaded.model)
        if job.get("lora"):
            add_lora(loaded, LoraParameters(rank=2, dropout=0.0), 1)
        if "stop_after" in job:
            loop.add_gradient = dying_after(job["stop_after"])
        if "poison_after" in job:
            loop.add_gradient = poisoned_after(job["poison_after"])
        if "first_process" in job:
            kept = slice(job["first_process"]) if rank == 0 else slice(job["first_process"], None)
            loop.own_share = lambda batch: batch[kept]
        trained = train(
            loaded,
            student,
            lists_of(job["lists"]),
            TrainingParameters(**job["training"]),
            seed=3,
            checkpoints=folder / job.get("checkpoints_of", job["name"]) / "checkpoints",
            log=here / "training.jsonl",
        )
        found = {"processes": trained.processes, "agreement": trained.agreement, "tokens": trained.tokens}
        if rank == 0:
            weights = {name: weight.contiguous() for name, weight in loaded.model.named_parameters()}
            save_file(weights, here / "weights.safetensors")
            record = StudentRecord(
                family=loaded.model.family,
                prompt=student.prompt_record,
                score="yes_logit",
                max_length=160,
                document_words=None,
                dtype=job["dtype"],
                weights="adapter" if job.get("lora") else "whole",
                base_model=model,
                base_revision=loaded.revision,
                training={},
            )
            write_student(here / "student", loaded, record)
            assert trained.probe is not None
            check_probe(here / "student", trained.probe)
    except KeyboardInterrupt:
        found = {"stopped": True}
    except (InputError, NonFiniteScoreError) as error:
        found = {"error": str(error)}
    finally:
        loop.add_gradient, loop.own_share = whole, share
        for key in job["environment"]:
            del os.environ[key]
        os.environ.update(launch)
    (here / f"found-{rank}.json").write_text(json.dumps(found), encoding="utf-8")


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
        run(job, folder)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""What each process of test_processes.py runs: train the small model, and write what this process has."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from instruct_distill.models.loading import load_model
from instruct_distill.records import Document, Query
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.loop import train
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.processes import process_state


def main(model: str, lists_file: Path, folder: Path) -> None:
    torch.set_num_threads(1)
    lists = [
        TrainingList(Query(*query), tuple(Document(*document) for document in documents), tuple(scores))
        for query, documents, scores in json.loads(lists_file.read_text(encoding="utf-8"))
    ]
    loaded = load_model(model, dtype="fp64", device=torch.device("cpu"))
    trained = train(
        loaded,
        StudentParameters(model=model, max_length=160),
        lists,
        TrainingParameters(learning_rate=1e-3, lists_per_step=2, epochs=2, clip=0.5),
        seed=3,
        checkpoints=folder / "checkpoints",
        log=folder / "training.jsonl",
    )
    state = process_state()
    save_file(dict(loaded.model.named_parameters()), folder / f"weights-{state.process_index}.safetensors")
    found = {"processes": state.num_processes, "steps": trained.steps, "tokens": trained.tokens}
    (folder / f"found-{state.process_index}.json").write_text(json.dumps(found), encoding="utf-8")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    assert os.environ["ACCELERATE_USE_CPU"] == "true"
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))

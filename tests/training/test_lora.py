"""Students that were trained with LoRA, and what is left of them in a folder and in a new process."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, safe_open
from scipy.stats import kendalltau

from instruct_distill.errors import InputError
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.models.lora_parameters import LoraParameters
from instruct_distill.models.merging import compare
from instruct_distill.reranker import Reranker
from instruct_distill.student_folder import StudentRecord, write_student
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.loop import Trained, train
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.student import finished_student, load_student

Lists = Callable[..., list[TrainingList]]

PAIRS = [
    (query, text)
    for query in ("what is amber", "what is a fern")
    for text in ("amber basil", "cedar dusk ember 2", "fern", "grove heron iris kelp", "larch larch")
]
SCORES = """
import json, sys
from instruct_distill import Reranker
pairs = [tuple(pair) for pair in json.loads(sys.argv[1])]
print(json.dumps([Reranker.from_pretrained(f, dtype="fp32").score(pairs).tolist() for f in sys.argv[2:]]))
"""


@pytest.fixture(scope="module")
def tied_t5(tiny_t5: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first T5's shape: one weight for words that come in and words that go out."""
    from transformers import T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("tied-t5")
    shutil.copytree(tiny_t5, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
    config = T5Config.from_pretrained(tiny_t5)
    config.tie_word_embeddings = config.scale_decoder_outputs = True
    with torch.random.fork_rng():
        torch.manual_seed(1)
        T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def trained(
    student: StudentParameters,
    lists: list[TrainingList],
    folder: Path,
    precision: str = "fp32",
    **settings: Any,
) -> tuple[LoadedModel, Trained]:
    loaded = load_student(student, precision, 3)
    parameters = TrainingParameters(**{"learning_rate": 1e-2, "lists_per_step": 2, "epochs": 1, **settings})
    done = train(
        loaded,
        student,
        lists,
        parameters,
        seed=3,
        checkpoints=folder / "checkpoints",
        log=folder / "log.jsonl",
    )
    return loaded, done


def reranker(loaded: LoadedModel, student: StudentParameters) -> Reranker:
    return Reranker(loaded, student.prompt_record, score=student.score, max_length=student.max_length)


def written(folder: Path, loaded: LoadedModel, student: StudentParameters, lists: list[TrainingList]) -> None:
    record = StudentRecord(
        family=loaded.model.family,
        prompt=student.prompt_record,
        score=student.score,
        max_length=student.max_length,
        document_words=None,
        dtype="fp32",
        base_model=student.model,
        base_revision=loaded.revision,
        training={},
        weights="adapter" if student.lora and student.lora.save == "adapter" else "whole",
    )
    write_student(folder, finished_student(loaded, student, lists), record)


def asked(base: Path, lora: LoraParameters | None) -> StudentParameters:
    score: Any = "head" if "bert" in base.name else "yes_logit"
    return StudentParameters(model=str(base), max_length=160, lora=lora, score=score)


MODELS = ["tiny_llama", "tiny_t5", "tied_t5", "headless_bert"]


@pytest.mark.parametrize("family", MODELS)
def test_b31_b34_scores_are_the_same_in_a_new_process(
    request: pytest.FixtureRequest, family: str, lists: Lists, tmp_path: Path, device: torch.device
) -> None:
    """All weights, LoRA merged, LoRA apart: before saving, and after loading elsewhere."""
    base: Path = request.getfixturevalue(family)
    data = lists(6)
    before = []
    for way in (None, "merged", "adapter"):
        lora = None if way is None else LoraParameters(rank=4, save=way)
        student = asked(base, lora)
        loaded, _ = trained(student, data, tmp_path / str(way))
        before.append(reranker(loaded, student).score(PAIRS).tolist())
        written(tmp_path / str(way) / "student", loaded, student, data)
    folders = [tmp_path / way / "student" for way in ("None", "merged", "adapter")]
    assert not (folders[1] / "adapter_config.json").exists()
    assert not (folders[2] / "model.safetensors").exists()
    assert (folders[2] / "adapter_model.safetensors").stat().st_size < 200_000
    with safe_open(folders[1] / "model.safetensors", framework="pt") as merged:
        shapes = {name: merged.get_slice(name).get_shape() for name in merged.keys()}  # noqa: SIM118
    with safe_open(folders[0] / "model.safetensors", framework="pt") as whole:
        assert shapes == {name: whole.get_slice(name).get_shape() for name in whole.keys()}  # noqa: SIM118

    run = subprocess.run(
        [sys.executable, "-c", SCORES, json.dumps(PAIRS), *map(str, folders)],
        capture_output=True,
        text=True,
        check=True,
    )
    after = json.loads(run.stdout)
    start = load_model(str(base), dtype="fp32", device=device, new_head=3)
    untrained = reranker(start, student).score(PAIRS).tolist()
    for found, expected, exact in zip(after, before, (1e-6, 1e-4, 1e-6), strict=True):
        assert found == pytest.approx(expected, abs=exact)
        assert max(abs(a - b) for a, b in zip(found, untrained, strict=True)) > 0.01
    assert after[1] != after[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("family", ["tiny_llama", "tiny_t5", "tiny_bert"])
def test_b26_lora_learns_with_checkpointing(
    request: pytest.FixtureRequest, family: str, lists: Lists, tmp_path: Path, precision: str
) -> None:
    base: Path = request.getfixturevalue(family)
    student = asked(base, LoraParameters(rank=2))
    data = lists(6)
    loaded, done = trained(student, data, tmp_path, precision, gradient_checkpointing=True)
    assert done.steps == 3
    weights = dict(loaded.model.named_parameters())
    moved = {name: weight.count_nonzero().item() for name, weight in weights.items() if "lora_B" in name}
    assert moved
    # a decoder that is asked at its first position attends to nothing else: its q and k have no gradient
    alone = ("decoder", "SelfAttention.q", "SelfAttention.k")
    still = {name for name, count in moved.items() if not count}
    assert all(alone[0] in name and (alone[1] in name or alone[2] in name) for name in still)
    assert len(still) <= 4
    frozen = load_model(str(base), dtype=precision, device=loaded.model.device)
    for name, weight in frozen.model.named_parameters():
        if "pooler" in name or "classifier" in name:
            head = "pooler" if "pooler" in name else "classifier"
            assert not torch.equal(weights[name.replace(head, f"{head}.modules_to_save.default")], weight)
            continue
        layer, _, kind = name.rpartition(".")
        now = weights.get(name, weights.get(f"{layer}.base_layer.{kind}"))
        assert now is not None
        assert torch.equal(now, weight)


@pytest.mark.parametrize("family", ["tiny_t5", "tied_t5"])
def test_b31_a_resumed_student_scores_like_one_that_was_never_stopped(
    request: pytest.FixtureRequest, family: str, lists: Lists, tmp_path: Path
) -> None:
    """An embedding of its own, and one that is the output layer, through a checkpoint and into a folder."""
    student = asked(request.getfixturevalue(family), None)
    data = lists(6)
    straight, _ = trained(student, data, tmp_path / "straight", epochs=2)
    trained(student, data, tmp_path / "broken", epochs=1)
    resumed, done = trained(student, data, tmp_path / "broken", epochs=2)
    assert done.steps == 6
    model = resumed.model.model
    assert (model.lm_head.weight is model.shared.weight) is (family == "tied_t5")
    expected = reranker(straight, student).score(PAIRS)
    assert len(set(expected.tolist())) == len(PAIRS)
    assert reranker(resumed, student).score(PAIRS) == pytest.approx(expected, abs=1e-6)
    written(tmp_path / "student", resumed, student, data)
    found = Reranker.from_pretrained(tmp_path / "student", dtype="fp32", device="cpu").score(PAIRS)
    assert found == pytest.approx(reranker(resumed, student).score(PAIRS), abs=1e-6)


def test_checkpoints_hold_the_matrices_alone_and_go_on_exactly(
    tiny_t5: Path, lists: Lists, tmp_path: Path
) -> None:
    student = StudentParameters(model=str(tiny_t5), max_length=160, lora=LoraParameters(rank=2))
    data = lists(6)
    expected, _ = trained(student, data, tmp_path / "straight", epochs=2)
    trained(student, data, tmp_path / "broken", epochs=1)
    (checkpoint,) = (tmp_path / "broken" / "checkpoints").iterdir()
    saved = load_file(checkpoint / "weights.safetensors")
    assert saved
    assert all("lora_" in name for name in saved)
    resumed, done = trained(student, data, tmp_path / "broken", epochs=2)
    assert done.steps == 6
    for (name, found), (_, wanted) in zip(
        resumed.model.named_parameters(), expected.model.named_parameters(), strict=True
    ):
        assert torch.equal(found, wanted), name


@pytest.mark.parametrize("family", ["tiny_llama", "tiny_t5", "tiny_bert"])
def test_b34_what_is_merged_ranks_the_same_in_bf16(
    request: pytest.FixtureRequest, family: str, lists: Lists, device: torch.device
) -> None:
    base: Path = request.getfixturevalue(family)
    student = asked(base, LoraParameters(rank=4))
    scores = {}
    for precision in ("fp32", "bf16"):
        loaded = load_student(student, precision, 3)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(4)
            for weight in loaded.model.parameters():
                if weight.requires_grad:
                    weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
        whole = finished_student(loaded, student, lists(2))
        assert {weight.dtype for weight in whole.model.parameters()} == {loaded.model.model.dtype}
        on_device = whole._replace(model=whole.model.to(device))
        scores[precision] = [reranker(each, student).score(PAIRS[:5]) for each in (loaded, on_device)]
    exact, rounded = scores["fp32"], scores["bf16"]
    assert exact[1].tolist() == pytest.approx(exact[0].tolist(), abs=1e-4)
    order, again = exact[0], rounded[1]
    apart = 0.1 * float(order.max() - order.min())  # what bf16 tells apart in a model of this size
    pairs = [(i, j) for i in range(5) for j in range(5) if order[i] - order[j] > apart]
    assert len(pairs) >= 7
    assert all(again[i] > again[j] for i, j in pairs)


def test_b34_merged_scores_like_base_and_adapter(tiny_t5: Path, lists: Lists, tmp_path: Path) -> None:
    """Rank 4, weights from N(0, 0.1), written both ways, 20 pairs: 1e-4 in fp32, the same ranking in bf16."""
    pairs = [("what is amber", f"{PAIRS[i % 5][1]} {'basil ' * (i + 1)}") for i in range(20)]
    folders = {}
    for way in ("merged", "adapter"):
        student = StudentParameters(
            model=str(tiny_t5),
            max_length=160,
            lora=LoraParameters(rank=4, save=way),  # type: ignore[arg-type]
        )
        loaded = load_student(student, "fp32", 3)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(4)
            for weight in loaded.model.parameters():
                if weight.requires_grad:
                    weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
        folders[way] = tmp_path / way
        written(folders[way], loaded, student, lists(2))
    found = {
        (way, dtype): Reranker.from_pretrained(folder, dtype=dtype, device="cpu").score(pairs)
        for way, folder in folders.items()
        for dtype in ("fp32", "bf16")
    }
    assert found["merged", "fp32"] == pytest.approx(found["adapter", "fp32"], abs=1e-4)
    bare = load_model(str(tiny_t5), dtype="fp32", device=torch.device("cpu"))
    assert abs(reranker(bare, student).score(pairs) - found["merged", "fp32"]).max() > 0.1

    # the same ranking in bf16, but for neighbours closer than its rounding in a model of this size
    exact, merged, adapter = found["merged", "fp32"], found["merged", "bf16"], found["adapter", "bf16"]
    apart = [(i, j) for i in range(20) for j in range(20) if exact[i] - exact[j] > 0.4]
    assert len(apart) > 120  # of 190
    assert all(merged[i] > merged[j] and adapter[i] > adapter[j] for i, j in apart)
    assert kendalltau(merged, adapter).statistic > 0.95


def test_a_difference_is_refused() -> None:
    before = torch.tensor([[1.0], [-20.0]])
    compare(before, before + 1e-3, "merging")
    with pytest.raises(
        InputError, match=r"differs by 3\.0e-03 after merging .*save=adapter keeps them apart"
    ):
        compare(before, before + 3e-3, "merging")
    with pytest.raises(InputError, match="differs by nan"):
        compare(before, before * float("nan"), "merging")


def test_an_adapter_is_no_start(tiny_llama: Path, lists: Lists, tmp_path: Path) -> None:
    student = StudentParameters(
        model=str(tiny_llama), max_length=160, lora=LoraParameters(rank=2, save="adapter")
    )
    written(tmp_path / "student", load_student(student, "fp32", 1), student, lists(1))
    again = dataclasses.replace(student, model=str(tmp_path / "student"))
    for each in (again, dataclasses.replace(again, lora=None)):
        with pytest.raises(InputError, match="is an adapter"):
            load_student(each, "fp32", 1)

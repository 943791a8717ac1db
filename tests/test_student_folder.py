from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from instruct_distill.errors import InputError
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.reranker import Reranker
from instruct_distill.student_folder import StudentRecord, read_record, write_student
from instruct_distill.version import __version__

RECORD = StudentRecord(
    family="decoder-only",
    prompt=named_prompt("pointwise-short"),
    score="yes_minus_no",
    max_length=128,
    document_words=None,
    dtype="fp32",
    base_model="org/base",
    base_revision="abc",
    training={"recipe": "r", "queries": 3},
)


@pytest.fixture(scope="module")
def loaded(tiny_llama: Path, device: torch.device) -> LoadedModel:
    return load_model(str(tiny_llama), dtype="fp32", device=device)


@pytest.fixture
def student(loaded: LoadedModel, tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "student"
    write_student(folder, loaded, RECORD)
    return folder


def test_a_student_is_a_model_folder_with_a_record(student: Path) -> None:
    assert sorted(path.name for path in student.iterdir()) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "reranker.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert [path.name for path in student.parent.iterdir()] == ["student"]
    content = json.loads((student / "reranker.json").read_text(encoding="utf-8"))
    assert content["format"] == 1
    assert content["prompt"] == named_prompt("pointwise-short").as_dict()
    assert content["library_version"] == __version__


def test_the_record_reads_back_equal(student: Path) -> None:
    assert read_record(student) == RECORD
    assert read_record(str(student)) == RECORD


def test_a_prompt_of_the_users_own_is_kept_whole(loaded: LoadedModel, tmp_path: Path) -> None:
    prompt = Prompt(
        name="mine", template="Über {text}\n\n{query} {{?}}", answers=("Ja", "Nein"), answer_prefix="also"
    )
    content = {**RECORD.__dict__, "prompt": prompt, "document_words": 7}
    write_student(tmp_path / "s", loaded, StudentRecord(**content))
    record = read_record(tmp_path / "s")
    assert (record.prompt, record.document_words) == (prompt, 7)


def test_a_new_student_takes_the_place_of_the_old_one(student: Path, loaded: LoadedModel) -> None:
    (student / "left-over.bin").write_text("x", encoding="utf-8")
    write_student(student, loaded, RECORD)
    assert not (student / "left-over.bin").exists()
    assert read_record(student) == RECORD


def test_leftovers_of_a_kill_do_no_harm(loaded: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / ".student.tmp" / "model.safetensors").mkdir(parents=True)
    write_student(tmp_path / "student", loaded, RECORD)
    assert [path.name for path in tmp_path.iterdir()] == ["student"]


@pytest.mark.parametrize("there_before", [False, True])
@pytest.mark.parametrize("place", ["weights", "tokenizer", "record"])
def test_a_student_is_complete_or_absent(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, there_before: bool
) -> None:
    folder = tmp_path / "student"
    if there_before:
        write_student(folder, loaded, RECORD)

    def killed(*arguments: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    if place == "weights":
        monkeypatch.setattr(loaded.model.model, "save_pretrained", killed)
    elif place == "tokenizer":
        monkeypatch.setattr(loaded.tokenizer, "save_pretrained", killed)
    else:
        monkeypatch.setattr("instruct_distill.student_folder.write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        write_student(folder, loaded, RECORD)
    assert folder.exists() is there_before
    if there_before:
        assert read_record(folder) == RECORD


def changed(change: Callable[[dict[str, torch.Tensor]], None], folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def emptied(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.1.mlp.up_proj.weight"] = torch.empty(0)


def removed(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["model.layers.1.mlp.up_proj.weight"]


def renamed(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.1.mlp.upper.weight"] = tensors.pop("model.layers.1.mlp.up_proj.weight")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (emptied, r"model\.layers\.1\.mlp\.up_proj\.weight was written as \(0,\), the model has \(64, 32\)"),
        (removed, r"model\.layers\.1\.mlp\.up_proj\.weight was not written"),
    ],
)
def test_b32_what_was_not_written_whole_is_found_at_once(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, message: str
) -> None:
    save = loaded.model.model.save_pretrained

    def partly(folder: Path) -> None:
        save(folder)
        changed(change, folder)

    monkeypatch.setattr(loaded.model.model, "save_pretrained", partly)
    with pytest.raises(InputError, match=message):
        write_student(tmp_path / "student", loaded, RECORD)
    assert not (tmp_path / "student").exists()


@pytest.mark.parametrize("change", [emptied, removed, renamed])
def test_b32_b39_a_folder_with_a_broken_weight_is_refused_by_its_name(
    student: Path, device: torch.device, change: Any
) -> None:
    changed(change, student)
    with pytest.raises(InputError, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        Reranker.from_pretrained(student, dtype="fp32", device=device)


def test_tied_weights_are_written_once(tiny_llama: Path, device: torch.device, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig.from_pretrained(tiny_llama)
    config.tie_word_embeddings = True
    shutil.copytree(tiny_llama, tmp_path / "base", ignore=shutil.ignore_patterns("*.safetensors"))
    LlamaForCausalLM(config).save_pretrained(tmp_path / "base")
    tied = load_model(str(tmp_path / "base"), dtype="fp32", device=device)
    write_student(tmp_path / "student", tied, RECORD)
    assert "lm_head.weight" not in load_file(tmp_path / "student" / "model.safetensors")
    pairs = [("what is it", "It is a test.")]
    before = Reranker(tied, RECORD.prompt, score=RECORD.score, max_length=RECORD.max_length).score(pairs)
    assert Reranker.from_pretrained(tmp_path / "student", dtype="fp32", device=device).score(pairs) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": "loudest"}, r"score: Input should be 'yes_logit', 'yes_minus_no' or 'head'"),
        ({"max_length": "512"}, "max_length: Input should be a valid integer"),
        ({"max_length": 0}, "max_length: Input should be greater than 0"),
        ({"document_words": "80"}, "document_words: Input should be a valid integer"),
        ({"training": None}, "training: Input should be an object"),
        ({"prompt": "pointwise-passage"}, "prompt: "),
        ({"prompt": {"template": "{query} {text}", "anwers": ["A", "B"]}}, r"prompt\.anwers: Unexpected"),
        ({"prompt": {"template": "{query} {text", "answers": ["A", "B"]}}, "prompt: Value error, template"),
        ({"moode": 1}, "moode: Unexpected keyword argument"),
        ({"format": 2}, "expected an object with format 1"),
        ({"format": None}, "expected an object with format 1"),
    ],
)
def test_a_record_that_cannot_be_used_names_the_key(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "reranker.json"
    path.write_text(json.dumps({**RECORD.as_dict(), **change}), encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        read_record(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "key", [key for key in RECORD.__dict__ if key not in ("library_version", "probability", "weights")]
)
def test_every_key_of_a_record_is_needed(tmp_path: Path, key: str) -> None:
    content = RECORD.as_dict()
    del content[key]
    (tmp_path / "reranker.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match=f"{key}: (Field|Missing)"):
        read_record(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "not json", '"x"'])
def test_a_record_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "reranker.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"reranker\.json: (not JSON|expected an object)"):
        read_record(tmp_path)


def test_a_folder_without_a_record_is_no_student(tiny_llama: Path) -> None:
    with pytest.raises(InputError, match=r"no reranker\.json: .* give a folder that training wrote"):
        read_record(tiny_llama)


def test_a_record_of_another_family_is_refused(student: Path, device: torch.device) -> None:
    content = {**RECORD.as_dict(), "family": "encoder-decoder"}
    (student / "reranker.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"the weights are decoder-only, reranker\.json says encoder-decoder"
    ):
        Reranker.from_pretrained(student, dtype="fp32", device=device)


def test_a_folder_that_cannot_be_written_is_named(loaded: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"runs/student: the student cannot be written \(.*Not a directory"):
        write_student(tmp_path / "runs" / "student", loaded, RECORD)

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from instruct_distill.errors import InputError, StaleStageError
from instruct_distill.files import read_json
from instruct_distill.pipeline.stage import Stage, digest, flatten, redo, this_process

KEYS = {"teacher": {"model": "org/a", "max_length": 512}, "seed": 13}
INPUTS = {"candidates": "abc"}
EVERYTHING = {
    "candidates.trec": "retrieve",
    "evaluation/test/first_stage.trec": "retrieve",
    "retrieve.done.json": "retrieve",
    "labels.jsonl": "label",
    "labels.jsonl.process-1": "label",
    "label.done.json": "label",
    "checkpoints/step-4/state.json": "train",
    "student/reranker.json": "train",
    "training.jsonl": "train",
    "train.started.json": "train",
    "evaluation/test/student.jsonl": "evaluate",
    "evaluation/test/student.trec": "evaluate",
    "evaluation/summary.json": "evaluate",
    "evaluation/table.txt": "evaluate",
    "report.html": "evaluate",
    "recipe.yaml": "",
    "notes.txt": "",
}


def stage(folder: Path, **changes: object) -> Stage:
    return Stage(folder, "label", {**KEYS, **changes}, INPUTS)


def test_a_stage_is_nothing_begun_and_done(tmp_path: Path) -> None:
    assert stage(tmp_path).outcome() is None
    stage(tmp_path).begin()
    assert stage(tmp_path).outcome() is None
    assert [path.name for path in tmp_path.iterdir()] == ["label.started.json"]
    (tmp_path / "labels.jsonl").touch()
    stage(tmp_path).finish({"lists": 3})
    assert stage(tmp_path).outcome() == {"lists": 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["label.done.json", "labels.jsonl"]


def test_a_finished_stage_whose_output_is_gone(tmp_path: Path) -> None:
    stage(tmp_path).finish({})
    with pytest.raises(InputError, match=r"labels.jsonl is not there; use redo=label"):
        stage(tmp_path).outcome()


def test_the_order_of_keys_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").touch()
    stage(tmp_path).finish({})
    turned = {"seed": 13, "teacher": {"max_length": 512, "model": "org/a"}}
    assert Stage(tmp_path, "label", turned, INPUTS).outcome() == {}


def test_changed_keys_are_listed_with_the_two_ways_on(tmp_path: Path) -> None:
    stage(tmp_path).finish({})
    changed = stage(tmp_path, teacher={"model": "org/b", "max_length": 512, "revision": None}, epochs=2)
    with pytest.raises(StaleStageError) as caught:
        changed.outcome()
    assert str(caught.value).split("\n") == [
        f"{tmp_path}: the stage 'label' was made from something else than this recipe says",
        '  teacher.model: "org/a" there, "org/b" now',
        "  epochs: null there, 2 now",
        "Two ways on: give the run another name (name=...), or make the stage and those after it again "
        "(redo=label; the old files are moved aside).",
    ]


def test_changed_inputs_are_listed(tmp_path: Path) -> None:
    stage(tmp_path).finish({})
    with pytest.raises(StaleStageError, match='candidates: "abc" there, "xyz" now'):
        Stage(tmp_path, "label", KEYS, {"candidates": "xyz"}).outcome()


def test_a_long_difference_fits_one_screen(tmp_path: Path) -> None:
    Stage(tmp_path, "label", {f"k{i}": "x" * 1000 for i in range(99)}, {}).finish({})
    with pytest.raises(StaleStageError) as caught:
        Stage(tmp_path, "label", {f"k{i}": "y" * 1000 for i in range(99)}, {}).outcome()
    lines = str(caught.value).split("\n")
    assert len(lines) == 22
    assert max(map(len, lines[1:-1])) < 160


def test_what_was_begun_with_another_recipe_is_not_gone_on_with(tmp_path: Path) -> None:
    stage(tmp_path).begin()
    (tmp_path / "labels.jsonl.process-1").write_text("x", encoding="utf-8")
    assert stage(tmp_path).outcome() is None
    with pytest.raises(StaleStageError, match="seed: 13 there, 14 now"):
        stage(tmp_path, seed=14).outcome()


def test_what_stopped_before_it_wrote_anything_may_begin_with_another_recipe(tmp_path: Path) -> None:
    stage(tmp_path, teacher={"model": "org/misspelt"}).begin()
    assert stage(tmp_path).outcome() is None
    stage(tmp_path).begin()
    (tmp_path / "labels.jsonl").write_text("x", encoding="utf-8")
    assert stage(tmp_path).outcome() is None
    with pytest.raises(StaleStageError):
        stage(tmp_path, teacher={"model": "org/misspelt"}).outcome()


@pytest.mark.parametrize("content", ["{}", "[]", '"x"', "null"])
def test_a_damaged_done_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "label.done.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"label.done.json: damaged; use redo=label"):
        stage(tmp_path).outcome()


def test_the_others_wait_until_the_main_process_has_finished(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").touch()
    stage(tmp_path).begin()
    timer = threading.Timer(0.3, lambda: stage(tmp_path).finish({"lists": 3}))
    timer.start()
    assert stage(tmp_path).wait() == {"lists": 3}
    timer.join()


def test_a_note_that_goes_away_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The main process finishes the stage between another one's look for the file and its reading of it."""
    stage(tmp_path).begin()

    def gone(file: Path) -> object:
        file.unlink()
        return read_json(file)

    monkeypatch.setattr("instruct_distill.pipeline.stage.read_json", gone)
    assert stage(tmp_path).outcome() is None


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"runs/r/label.started.json: cannot be written \(.*Not a directory"):
        stage(tmp_path / "runs" / "r").begin()


def everything(folder: Path) -> dict[str, str]:
    for name, made_by in EVERYTHING.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name} {made_by}", encoding="utf-8")
    return files(folder)


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("redone", "moved"),
    [
        ("retrieve", {"retrieve", "label", "train", "evaluate"}),
        ("label", {"label", "train", "evaluate"}),
        ("train", {"train", "evaluate"}),
        ("evaluate", {"evaluate"}),
    ],
)
def test_redo_moves_the_stage_and_those_after_it_aside(tmp_path: Path, redone: str, moved: set[str]) -> None:
    before = everything(tmp_path)
    assert redo(tmp_path, redone) == tmp_path / "old-1"
    expected = {
        (f"old-1/{name}" if EVERYTHING[name] in moved else name): content for name, content in before.items()
    }
    assert files(tmp_path) == expected


def test_a_second_redo_deletes_nothing_either(tmp_path: Path) -> None:
    before = everything(tmp_path)
    redo(tmp_path, "retrieve")
    again = everything(tmp_path)
    assert redo(tmp_path, "evaluate") == tmp_path / "old-2"
    after = files(tmp_path)
    assert len(after) == len(again)
    assert sorted(after.values()) == sorted(again.values())
    assert after["old-1/candidates.trec"] == before["candidates.trec"]
    assert redo(tmp_path, "evaluate") is None


def test_an_unknown_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="redo=lable: unknown stage"):
        redo(tmp_path, "lable")


def test_digest_changes_with_content_and_absence(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("x", encoding="utf-8")
    both = digest(one, two)
    assert both == digest(one, two)
    two.write_text("", encoding="utf-8")
    assert digest(one) != digest(one, two)
    one.write_text("y", encoding="utf-8")
    assert digest(one, two) != both


def test_digest_tells_a_missing_file_from_an_empty_one(tmp_path: Path) -> None:
    missing = digest(tmp_path / "one")
    (tmp_path / "one").write_text("", encoding="utf-8")
    assert digest(tmp_path / "one") != missing


def test_digest_knows_where_a_file_ends(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("xb", encoding="utf-8")
    (tmp_path / "b").write_text("y", encoding="utf-8")
    before = digest(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").write_text("x", encoding="utf-8")
    (tmp_path / "b").write_text("by", encoding="utf-8")
    assert digest(tmp_path / "a", tmp_path / "b") != before


def test_flatten_gives_dotted_keys() -> None:
    assert flatten({"a": {"b": 1, "c": []}, "d": [{"e": None}, 2]}) == {"a.b": 1, "d.0.e": None, "d.1": 2}


def test_an_emptied_section_is_a_change(tmp_path: Path) -> None:
    Stage(tmp_path, "evaluate", {"expected": {"student": {"nDCG@10": 0.7}}}, {}).finish({})
    with pytest.raises(StaleStageError, match=r"expected\.student\.nDCG@10: 0\.7 there, null now"):
        Stage(tmp_path, "evaluate", {"expected": {}}, {}).outcome()


def test_this_process_is_the_first_of_one_unless_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert this_process() == (0, 1)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert this_process() == (1, 4)


def test_done_files_are_json_that_a_person_can_read(tmp_path: Path) -> None:
    stage(tmp_path).finish({"lists": 3})
    there = json.loads((tmp_path / "label.done.json").read_text(encoding="utf-8"))
    assert there["keys"] == {"teacher.model": "org/a", "teacher.max_length": 512, "seed": 13}
    assert (there["inputs"], there["outcome"]) == (INPUTS, {"lists": 3})


def test_b27_more_epochs_go_on_and_fewer_do_not(tmp_path: Path) -> None:
    def training(epochs: int, rate: float = 1.0) -> Stage:
        keys = {"training": {"epochs": epochs, "rate": rate}}
        return Stage(tmp_path, "train", keys, INPUTS, grows=("training.epochs",))

    (tmp_path / "student").mkdir()
    (tmp_path / "student" / "reranker.json").touch()
    training(2).finish({"steps": 2})
    assert training(2).outcome() == {"steps": 2}
    assert training(3).outcome() is None
    with pytest.raises(StaleStageError, match=r"training\.epochs: 2 there, 1 now"):
        training(1).outcome()
    with pytest.raises(StaleStageError, match=r"training\.rate"):
        training(3, rate=2.0).outcome()
    training(3).begin()
    assert training(3).outcome() is None
    assert training(4).outcome() is None
    training(3).finish({"steps": 3})
    assert training(3).outcome() == {"steps": 3}

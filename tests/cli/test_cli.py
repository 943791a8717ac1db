from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from instruct_distill.cli import main
from instruct_distill.labels import read_header
from instruct_distill.models.loading import load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.recipe import Recipe
from instruct_distill.student_folder import StudentRecord, write_student
from instruct_distill.trec import read_run

EXAMPLE = Path(__file__).parents[2] / "data" / "example"
VERBS = (
    "run",
    "retrieve",
    "label",
    "train",
    "validate",
    "plan",
    "evaluate",
    "export",
    "init",
    "tasks",
    "compare",
    "rank",
    "publish",
    "report",
    "serve",
    "doctor",
)
SCREEN = 24
"""Lines of a terminal: an error must not scroll its own beginning away."""

RECIPE = f"""\
# accelerate launch train.py r.yaml
name: r
collection: files:{EXAMPLE}/files
candidates: {{method: bm25, depth: 4}}
teacher: {{run: {EXAMPLE}/files/candidates.trec}}
student: {{model: org/student}}
"""


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Command:
    """The command line in a folder of its own."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capture = folder, capture
        self.recipe = str(folder / "r.yaml")

    def __call__(self, *arguments: str) -> Said:
        self.capture.readouterr()
        try:
            main(arguments)
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        out, err = self.capture.readouterr()
        assert "Traceback" not in out + err
        return Said(code, out, err)

    def fails(self, *arguments: str) -> str:
        """Return the message of a user's error."""
        code, _, err = self(*arguments)
        assert code == 2, err
        message = err[err.index("error: ") :].removesuffix("\n")
        assert len(message.split("\n")) <= SCREEN
        return message


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Command]:
    monkeypatch.chdir(tmp_path)
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "TRANSFORMERS_VERBOSITY", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, os.environ.get(name, "1" if name.startswith("HF") else "error"))
    ours = logging.getLogger("instruct_distill")
    level = ours.level
    (tmp_path / "r.yaml").write_text(RECIPE, encoding="utf-8")
    yield Command(tmp_path, capsys)
    ours.setLevel(level)
    ours.handlers.clear()  # the command's own writes to the stderr of this test, which is closed now
    ours.propagate = True


@pytest.fixture(scope="module")
def student(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "student"
    record = StudentRecord(
        family="decoder-only",
        prompt=named_prompt("pointwise-short"),
        score="yes_logit",
        max_length=128,
        document_words=None,
        dtype="fp32",
        base_model="tiny",
        base_revision="",
        training={},
    )
    write_student(folder, load_model(str(tiny_llama), dtype="fp32", device=torch.device("cpu")), record)
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(command: Command, verb: str) -> None:
    code, out, _ = command(verb, "--help")
    assert code == 0
    assert verb in out


def test_the_help_lists_every_verb(command: Command) -> None:
    code, out, _ = command("--help")
    assert code == 0
    assert [verb for verb in VERBS if verb not in out] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["run"], "Missing argument"),
        (["publish", "folder"], "Missing option"),
        (["evaluate", "folder", "beir:x", "--depth", "ten"], "'--depth'"),
        (["run", "r.yaml", "--smok"], "No such option"),
    ],
)
def test_a_command_that_is_none_shows_its_usage(command: Command, arguments: list[str], message: str) -> None:
    code, _, err = command(*arguments)
    assert code == 2
    assert "Usage: " in err
    assert message in err


def test_validate(command: Command) -> None:
    assert command("validate", command.recipe) == Said(
        0, f"{command.recipe}: valid; its run is called r\n", ""
    )


def test_validate_lists_what_is_not_there_yet(command: Command) -> None:
    missing = "needed at run time, not there: nothing.trec\n"
    code, out, err = command("validate", command.recipe, "teacher.run=nothing.trec")
    assert (code, err) == (0, "")
    assert out.startswith(missing)
    assert command("validate", "--strict", command.recipe, "teacher.run=nothing.trec") == Said(2, "", missing)
    assert command("validate", "--strict", command.recipe).code == 0


def test_plan(command: Command) -> None:
    code, out, _ = command("plan", command.recipe, "training.epochs=1")
    assert code == 0
    assert out.split("\n")[1:4] == [
        "retrieve  10 queries, 40 candidates (at most)",
        "label     0 prompts by run (run)",
        "train     1 optimizer steps, 40 documents",
    ]


def test_stages_go_on_from_what_is_there(command: Command) -> None:
    code, out, _ = command("retrieve", command.recipe)
    assert (code, out) == (0, "r: everything goes to runs/r; started again, it goes on from there\n")
    assert sorted(path.name for path in Path("runs/r").iterdir()) == [
        "candidates.trec",
        "recipe.yaml",
        "retrieve.done.json",
    ]
    code, _, err = command("label", command.recipe)
    assert code == 0
    assert "retrieve: done before" in err.split("\n")
    assert Recipe.load("runs/r/recipe.yaml") == Recipe.load(command.recipe)
    code, _, err = command("label", command.recipe, "redo=label")
    assert code == 0
    assert "redo=label: old files are in runs/r/old-1" in err.split("\n")
    before, after = Path("runs/r/old-1/labels.jsonl"), Path("runs/r/labels.jsonl")
    assert before.read_bytes() == after.read_bytes()


def test_smoke_is_a_run_of_its_own(command: Command) -> None:
    assert command("label", command.recipe, "--smoke").code == 0
    assert len(Path("runs/r-smoke/labels.jsonl").read_text(encoding="utf-8").splitlines()) == 9


def test_a_stopped_run_says_how_it_goes_on(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("instruct_distill.pipeline.distill.distill", stopped)
    code, _, err = command("run", command.recipe)
    assert code == 130
    assert "the same command goes on from what is in runs/r" in err


def test_a_changed_recipe_under_an_old_name(command: Command) -> None:
    assert command("label", command.recipe).code == 0
    assert command.fails("label", command.recipe, "candidates.depth=3", "seed=14").split("\n") == [
        "error: runs/r: the stage 'retrieve' was made from something else than this recipe says",
        "  seed: 13 there, 14 now",
        "  candidates.depth: 4 there, 3 now",
        "Two ways on: give the run another name (name=...), or make the stage and those after it again "
        "(redo=retrieve; the old files are moved aside).",
    ]
    assert command("label", command.recipe, "candidates.depth=3", "name=r2").code == 0
    assert command("label", command.recipe, "candidates.depth=3", "redo=retrieve").code == 0
    assert Path("runs/r/old-1/candidates.trec").exists()


def test_a_mistake_that_stopped_a_stage_at_its_start_can_be_mended(command: Command) -> None:
    assert "nothing.trec: no such file" in command.fails("label", command.recipe, "teacher.run=nothing.trec")
    assert command("label", command.recipe).code == 0


def test_a_misspelt_key(command: Command) -> None:
    Path("bad.yaml").write_text(RECIPE + "training: {lerning_rate: 1e-4}\nseeds: 3\n", encoding="utf-8")
    lines = command.fails("run", "bad.yaml").split("\n")
    assert lines[0] == "error: bad.yaml: 2 problems"
    assert lines[1].startswith(
        "  - training.lerning_rate (line 7): unknown key; did you mean 'learning_rate'?"
    )
    assert lines[2].startswith("  - seeds (line 8): unknown key; did you mean 'seed'?")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing.yaml"], "error: nothing.yaml: no such file"),
        (["run", "."], r"error: .: cannot be read ([Errno 21] Is a directory: '.')"),
        (
            ["run", "r.yaml", "redo=lable"],
            "error: redo=lable: unknown stage (known: write, retrieve, label, train",
        ),
        (["run", "r.yaml", "training"], "error: r.yaml: 1 problem\n  - 'training': expected key=value"),
        (["retrieve", "r.yaml", "collection=beir:nothing"], "error: nothing: no corpus.jsonl"),
        (["plan", "r.yaml", "collection=files:nothing"], "error: nothing: "),
        (
            ["retrieve", "r.yaml", "candidates={method: run, file: nothing.trec}"],
            "error: nothing.trec: no such file",
        ),
        (["retrieve", "r.yaml", "queries.split=dev"], "has no splits, but split 'dev' was asked for"),
        (["label", "r.yaml", "teacher.run=nothing.trec"], "error: teacher: nothing.trec: no such file"),
        (["label", "r.yaml", "teacher=qrels", "qrels=nothing.txt"], "error: nothing.txt: no such file"),
        (["label", "r.yaml", "teacher={model: org/nothing}"], "error: model 'org/nothing' cannot be loaded"),
        (
            ["label", "r.yaml", "teacher={model: ./nothing}"],
            "error: model './nothing': there is no such file",
        ),
        (
            ["label", "r.yaml", "teacher={model: r.yaml}"],
            "error: model 'r.yaml': is a file; expected a model",
        ),
        (
            ["rank", "org/nothing", "--query", "q", "--documents", "r.yaml"],
            "error: org/nothing: no such fold",
        ),
        (["rank", "./nothing", "--query", "q", "--documents", "r.yaml"], "error: ./nothing: no such folder"),
        (["rank", "x", "--query", "q", "--documents", "nothing.txt"], "error: nothing.txt: no such file"),
        (["rank", ".", "--query", "q", "--documents", "r.yaml"], "error: .: no reranker.json"),
        (
            ["evaluate", "org/nothing", f"beir:{EXAMPLE}/beir"],
            "error: org/nothing: no such folder, and not to be had from",
        ),
    ],
)
def test_what_is_not_there(command: Command, arguments: list[str], message: str) -> None:
    assert message in command.fails(*arguments)


def test_a_teacher_without_a_tokenizer(command: Command, tiny_llama: Path) -> None:
    shutil.copytree(tiny_llama, "model", ignore=shutil.ignore_patterns("tokenizer*"))
    message = command.fails("label", command.recipe, "teacher={model: ./model}")
    assert (
        message == "error: model './model': the folder model holds no tokenizer; save it beside the weights"
    )


def test_a_student_without_a_tokenizer(command: Command, student: Path) -> None:
    shutil.copytree(student, "student", ignore=shutil.ignore_patterns("tokenizer*"))
    Path("documents.txt").write_text("one\n", encoding="utf-8")
    message = command.fails("rank", "student", "--query", "q", "--documents", "documents.txt")
    assert "holds no tokenizer; save it beside the weights" in message


def test_an_empty_corpus(command: Command) -> None:
    shutil.copytree(EXAMPLE / "beir", "beir")
    Path("beir/corpus.jsonl").write_text("", encoding="utf-8")
    assert command.fails("retrieve", command.recipe, "collection=beir:beir") == (
        "error: beir:beir: the collection has no documents, so nothing can be found in it"
    )


def test_a_file_where_the_runs_should_be(command: Command) -> None:
    Path("runs").write_text("", encoding="utf-8")
    message = command.fails("retrieve", command.recipe)
    assert message.startswith("error: runs/r: cannot be written (")


def test_a_full_disk(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "runs/r/x")

    monkeypatch.setattr(Recipe, "load", full)
    assert command.fails("validate", "r.yaml") == "error: [Errno 28] No space left on device: 'runs/r/x'"


def test_candidates_cut_by_a_hand(command: Command) -> None:
    assert command("retrieve", command.recipe).code == 0
    file = Path("runs/r/candidates.trec")
    file.write_text(file.read_text(encoding="utf-8") + "q10 Q0\n", encoding="utf-8")
    assert "runs/r/candidates.trec line " in command.fails("label", command.recipe)


def test_evaluate_prints_the_reranker_beside_the_first_stage(command: Command, student: Path) -> None:
    code, out, _ = command("evaluate", str(student), f"beir:{EXAMPLE}/beir", "--depth", "3")
    assert code == 0
    first_words = [line.split()[0] for line in out.split("\n") if line.strip()]
    start = first_words.index("first_stage")
    assert first_words[start : start + 3] == ["first_stage", "reranker", "ceiling"]


def test_evaluate_on_several_tasks_prints_their_mean(command: Command, student: Path) -> None:
    shutil.copytree(EXAMPLE / "beir", "second")
    code, out, _ = command(
        "evaluate",
        str(student),
        f"beir:{EXAMPLE}/beir",
        "beir:second",
        "--depth",
        "3",
        "--metrics",
        "RR, P@1",
    )
    assert code == 0
    blocks = out.split("\n\n")
    assert blocks[0] == "beir"
    assert "second" in blocks
    last = blocks[-1].split("\n")
    assert last[0] == "mean of these 2 tasks"
    assert last[1].split() == ["system", "RR", "P@1"]


def test_evaluate_against_labels(command: Command, student: Path) -> None:
    assert command("label", command.recipe).code == 0
    arguments = ["evaluate", str(student), "--against", "runs/r/labels.jsonl"]
    code, out, _ = command(*arguments, f"files:{EXAMPLE}/files")
    assert code == 0
    assert out.startswith("agreement with the teacher\n")
    assert "nDCG" not in out
    assert "trained on" not in out
    record = Path(shutil.copytree(student, "student")) / "reranker.json"
    content = json.loads(record.read_text(encoding="utf-8"))
    content["training"] = {"teacher": read_header("runs/r/labels.jsonl")}
    record.write_text(json.dumps(content), encoding="utf-8")
    code, out, _ = command("evaluate", "student", *arguments[2:], f"files:{EXAMPLE}/files")
    assert "the labels that the student was trained on" in out
    assert "--against takes one collection" in command.fails(*arguments, "beir:a", "beir:b")


def test_tasks(command: Command) -> None:
    code, out, _ = command("tasks")
    assert code == 0
    assert "irds:beir/webis-touche2020/v2" in out
    assert "licensed: beir-signal1m=beir:FOLDER" in out


@pytest.mark.parametrize(
    ("task", "depth", "message"),
    [
        ("nothing", "3", "error: collection: collection 'nothing': unknown prefix 'nothing'"),
        ("beir:nothing", "3", "error: nothing: no corpus.jsonl"),
        (f"beir:{EXAMPLE}/beir", "0", "error: depth: Input should be greater than 0"),
        (f"rankgpt:{EXAMPLE}/rankgpt.json", "3", "brings no judgements"),
    ],
)
def test_what_cannot_be_evaluated(
    command: Command, student: Path, task: str, depth: str, message: str
) -> None:
    assert message in command.fails("evaluate", str(student), task, "--depth", depth)


def test_rank_of_a_run_goes_to_a_file(command: Command, student: Path) -> None:
    files = EXAMPLE / "files"
    arguments = ["rank", str(student), "--run", f"{files}/candidates.trec"]
    texts = ["--queries", f"{files}/queries.tsv", "--documents", f"{files}/documents.tsv"]
    code, _, _ = command(*arguments, *texts, "--output", "out.trec", "--top-k", "2")
    assert code == 0
    found = read_run(command.folder / "out.trec")
    given = read_run(files / "candidates.trec")
    assert found.keys() == given.keys()
    assert all({d.doc_id for d in found[q]} <= {d.doc_id for d in given[q]} for q in given)
    assert command.fails(*arguments, "--documents", "x").endswith("--run needs --queries")
    assert command.fails(*arguments).endswith("--run needs --documents")
    assert "rank takes one of" in command.fails("rank", str(student))
    assert "rank takes one of" in command.fails(*arguments, "--query", "q")


def test_rank_prints_rank_score_and_text(command: Command, student: Path) -> None:
    texts = ["Ferries leave the harbour.", "Oil the chain.", "Tomatoes need sun."]
    Path("documents.txt").write_text("\n".join(texts) + "\n\n", encoding="utf-8")
    arguments = ["rank", str(student), "--query", "oil a chain", "--documents", "documents.txt"]
    code, out, _ = command(*arguments)
    assert code == 0
    rows = [line.split("\t") for line in out.rstrip("\n").split("\n")]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert sorted(row[2] for row in rows) == sorted(texts)
    assert [float(row[1]) for row in rows] == sorted((float(row[1]) for row in rows), reverse=True)
    assert command(*arguments, "--top-k", "1").out == out.split("\n")[0] + "\n"
    assert command(*arguments, "--top-k", "0").out == ""
    assert command.fails(*arguments, "--top-k", "-1").startswith("error: top_k is -1")


def test_the_command_in_a_process_of_its_own(tmp_path: Path, student: Path) -> None:
    def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "instruct_distill", *arguments],
            input=text,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )

    done = run("rank", str(student), "--query", "café", "--documents", "-", text="première\nseconde\n")
    assert done.returncode == 0, done.stderr
    assert sorted(line.split("\t")[2] for line in done.stdout.splitlines()) == ["première", "seconde"]
    done = run("run", "nothing.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: nothing.yaml: no such file\n")


def test_evaluate_under_several_prompts_says_what_the_wording_changes(
    command: Command, student: Path
) -> None:
    own = "name: own\ntemplate: 'Is {passage} about {query} ?'\nanswers: ['Yes', 'No']\n"
    (command.folder / "own.yaml").write_text(own, encoding="utf-8")
    arguments = (
        "evaluate",
        str(student),
        f"beir:{EXAMPLE}/beir",
        "--depth",
        "3",
        "--prompts",
        "pointwise-passage, own.yaml",
    )
    code, out, _ = command(*arguments)
    assert code == 0
    assert "own - pointwise-passage" in out
    assert "best - worst" in out
    assert "two prompts have one name" in command.fails(*arguments[:-1], "own.yaml,own.yaml")
    assert "no prompt record" in command.fails(*arguments[:-1], "r.yaml")


def test_evaluate_as_a_teacher_counts_its_prompts(command: Command, tiny_llama: Path) -> None:
    code, out, _ = command(
        "evaluate",
        str(tiny_llama),
        f"beir:{EXAMPLE}/beir",
        "--depth",
        "3",
        "--strategy",
        "allpairs",
        "--output",
        "out",
    )
    assert code == 0
    lists = read_run(command.folder / "out/beir/first_stage.trec").values()
    assert {len(found) for found in lists} == {2, 3}
    pairs = sum(len(found) * (len(found) - 1) for found in lists)
    assert f"pairwise-passage: {pairs / len(lists):.1f} prompts a query" in out
    assert "reranker" in json.loads((command.folder / "out/summary.json").read_text(encoding="utf-8"))["beir"]
    assert (command.folder / "out/beir/reranker.trec").is_file()

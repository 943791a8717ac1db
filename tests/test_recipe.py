from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from instruct_distill.errors import InputError, RecipeError
from instruct_distill.evaluation.parameters import TeacherRun
from instruct_distill.recipe import Recipe
from instruct_distill.training.parameters import RandomDocuments

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))

RECIPE = """\
# accelerate launch train.py r.yaml
name: r
collection: beir:folder
teacher: {model: org/teacher}
student: {model: org/student}
evaluation:
  - collection: beir:folder
    name: test
"""
MINIMAL: Mapping[str, Any] = {
    "name": "r",
    "collection": "beir:folder",
    "teacher": {"model": "org/teacher"},
    "student": {"model": "org/student"},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "r.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def problems_of(file: Path, *overrides: str, **content: Any) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        Recipe.load(file, overrides) if not content else Recipe.from_dict({**MINIMAL, **content})
    return caught.value.problems


def test_the_papers_settings_where_the_recipe_says_nothing(file: Path) -> None:
    recipe = Recipe.load(file)
    assert (recipe.seed, recipe.folder) == (13, Path("runs/r"))
    assert (recipe.candidates.method, recipe.candidates.depth) == ("bm25", 10)
    assert recipe.evaluation[0].candidates.depth == 100
    assert (recipe.teacher.strategy, recipe.teacher.prompt) == ("allpairs", None)
    assert recipe.student.prompt_record.name == "pointwise-passage"
    training = recipe.training
    assert (training.loss, training.learning_rate, training.lists_per_step) == ("ranknet", 3e-5, 32)
    assert (training.epochs, training.weight_decay, training.clip) == (3, 0.0, 1.0)
    assert recipe.evaluation[0].metrics == ["nDCG@1", "nDCG@5", "nDCG@10"]


def test_the_depth_stays_10_where_other_candidate_settings_are_given(file: Path) -> None:
    assert Recipe.load(file, ["candidates={method: bm25, k1: 1.2}"]).candidates.depth == 10
    assert Recipe.load(file, ["candidates.depth=7"]).candidates.depth == 7


def test_b28_values_have_the_type_that_their_key_has(file: Path) -> None:
    recipe = Recipe.load(
        file,
        [
            "name=0071",
            "training.learning_rate=1e-4",
            "queries.split=no",
            "student.max_length=1_000",
            "student.model=12:30",
            "evaluation.0.name=1e5",
            "teacher.revision=2024-01-31",
        ],
    )
    assert recipe.name == "0071"
    assert recipe.training.learning_rate == 0.0001
    assert recipe.queries.split == "no"
    assert recipe.student.max_length == 1000
    assert recipe.student.model == "12:30"
    assert recipe.evaluation[0].task == "1e5"
    assert recipe.teacher.revision == "2024-01-31"


def test_b28_a_misspelt_key_names_its_line_and_the_nearest_key(file: Path) -> None:
    file.write_text(RECIPE + "training:\n  epochs: 2\n  lerning_rate: 2e-5\n", encoding="utf-8")
    (problem,) = problems_of(file)
    assert problem.startswith(
        "training.lerning_rate (line 11): unknown key; did you mean 'learning_rate'? (known: loss, "
    )


def test_b28_wrong_types_and_sizes_name_the_key(file: Path) -> None:
    file.write_text(
        RECIPE + "seed: -1\ntraining: {epochs: 1.5, learning_rate: fast, schedule: cosine}\nruns:\n",
        encoding="utf-8",
    )
    problems = problems_of(file)
    assert [problem.partition(":")[0] for problem in problems] == [
        "seed (line 9)",
        "training.epochs (line 10)",
        "training.learning_rate (line 10)",
        "training.schedule (line 10)",
        "runs (line 11)",
    ]
    assert problems[0].endswith("greater than or equal to 0, not '-1'")
    assert problems[1].endswith("not '1.5'")
    assert problems[2].endswith("not 'fast'")
    assert problems[3].endswith("should be 'constant' or 'linear', not 'cosine'")
    assert problems[4].endswith("should be a valid string, not None")


def test_all_problems_of_all_sections_are_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.delenv("NO_SUCH_FOLDER", raising=False)
    file.write_text(
        """\
name: a/b
colection: beir:folder
collection: bier:folder
candidates: {dept: 5}
teacher: {model: "${NO_SUCH_FOLDER}/x", strategy: allpair, prompt: pairwise-pasage}
student: {prompt: pointwise-pasage}
training: {loss: ranknt, documents_per_list: {randm: 3}}
evaluation:
  - collection: irsd:x
    metrics: [nDGC@10]
    teacher: sam
  - collection: beir:folder
    candidates: {method: run}
""",
        encoding="utf-8",
    )
    problems = problems_of(file, "training", "seeed=1")
    found = {problem.split(":")[0]: problem for problem in problems}
    assert set(found) == {
        "'training'",
        "teacher.model (line 5)",
        "name (line 1)",
        "colection (line 2)",
        "collection (line 3)",
        "candidates.dept (line 4)",
        "teacher.strategy (line 5)",
        "teacher.prompt (line 5)",
        "student.model",
        "student.prompt (line 6)",
        "training.loss (line 7)",
        "training.documents_per_list.random",
        "training.documents_per_list.randm (line 7)",
        "evaluation.0.collection (line 9)",
        "evaluation.0.metrics (line 10)",
        "evaluation.0.teacher (line 11)",
        "evaluation.1.candidates (line 13)",
        "seeed",
    }
    for place, nearest in {
        "colection (line 2)": "collection",
        "collection (line 3)": "beir",
        "candidates.dept (line 4)": "depth",
        "teacher.strategy (line 5)": "allpairs",
        "teacher.prompt (line 5)": "pairwise-passage",
        "student.prompt (line 6)": "pointwise-passage",
        "training.loss (line 7)": "ranknet",
        "training.documents_per_list.randm (line 7)": "random",
        "evaluation.0.collection (line 9)": "irds",
        "evaluation.0.metrics (line 10)": "nDCG@10",
        "seeed": "seed",
    }.items():
        assert f"did you mean '{nearest}'?" in found[place], place
    assert "environment variable NO_SUCH_FOLDER is not set" in found["teacher.model (line 5)"]
    assert found["student.model"] == "student.model: is missing"


def test_a_section_that_is_none_is_described(file: Path) -> None:
    (problem,) = problems_of(file, "evaluation.0.teacher=sam")
    assert problem.endswith(
        "should be 'none' or 'same', not 'sam' or input should be keys and values, not 'sam'"
    )
    assert problems_of(file, "training=~") == ["training: input should be keys and values, not None"]
    (problem,) = problems_of(file, "evaluation.0.teacher={ran: x}", "evaluation.0.teacher.run=y")
    assert problem == "evaluation.0.teacher.ran: unknown key; did you mean 'run'? (known: run)"


def test_one_error_has_the_file_and_the_number_of_problems(file: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe.load(file, ["seed=x", "runs=~"])
    lines = str(caught.value).split("\n")
    assert lines[0] == f"{file}: 2 problems"
    assert all(line.startswith("  - ") for line in lines[1:])
    assert len(lines) == 3


def test_a_key_that_stands_twice_is_an_error(file: Path) -> None:
    file.write_text(RECIPE + "name: other\n", encoding="utf-8")
    assert problems_of(file) == ["name stands twice: lines 2 and 9"]


def test_line_numbers_count_blank_lines_comments_and_a_byte_order_mark(file: Path) -> None:
    file.write_bytes(
        b"\xef\xbb\xbf" + RECIPE.encode().replace(b"\n", b"\r\n") + b"\r\n   \r\n# x\r\nsed: 1\r\n"
    )
    assert problems_of(file)[0].startswith("sed (line 12): unknown key; did you mean 'seed'?")


def test_a_missing_file_and_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing.yaml: no such file"):
        Recipe.load(tmp_path / "nothing.yaml")
    (tmp_path / "bad.yaml").write_bytes(b"name: r\ncollection: \x9d\n")
    with pytest.raises(InputError, match=r"bad.yaml line 2: byte 0x9d"):
        Recipe.load(tmp_path / "bad.yaml")


def test_overrides_win_over_the_file(file: Path) -> None:
    recipe = Recipe.load(
        file, ["name=other", "evaluation.0.depth=7", "training.epochs=9", "training.epochs=2"]
    )
    assert recipe.name == "other"
    assert recipe.evaluation[0].depth == 7
    assert recipe.evaluation[0].task == "test"
    assert recipe.training.epochs == 2
    assert Recipe.load(file, ["evaluation=[]"]).evaluation == []


def test_variables_are_expanded_in_file_and_overrides(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_FOLDER", "/data")
    file.write_text(RECIPE.replace("beir:folder", "beir:${SOME_FOLDER}/b", 1), encoding="utf-8")
    recipe = Recipe.load(file, ["teacher.model=${SOME_FOLDER}/m"])
    assert recipe.collection == "beir:/data/b"
    assert recipe.teacher.model == "/data/m"


@pytest.mark.parametrize("given", ["teacher=qrels", "teacher={qrels: true}"])
def test_judgements_as_teacher(file: Path, given: str) -> None:
    teacher = Recipe.load(file, [given]).teacher
    assert (teacher.kind, teacher.model) == ("qrels", None)


@pytest.mark.parametrize(
    ("teacher", "given"),
    [({}, "none"), ({"model": "x", "run": "y"}, "model, run"), ({"qrels": True, "run": "y"}, "run, qrels")],
)
def test_a_teacher_is_one_thing(file: Path, teacher: dict[str, Any], given: str) -> None:
    (problem,) = problems_of(file, teacher=teacher)
    assert problem == f"teacher: a teacher is one of model, run, permutations and qrels; given: {given}"


@pytest.mark.parametrize("strategy", ["run", "qrels", "permutations"])
def test_strategies_without_a_model_do_not_go_with_one(file: Path, strategy: str) -> None:
    (problem,) = problems_of(file, teacher={"model": "x", "strategy": strategy})
    assert f"strategy '{strategy}' asks no model" in problem


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ({"prompt": "pointwise-passage"}, r"does not fit strategy allpairs: it shows 1 document\(s\)"),
        ({"prompt": "query-generation"}, r"it has no field \{query\}; it compares 0 answers"),
        (
            {"prompt": "pairwise-passage", "strategy": "relevance_generation"},
            r"does not fit strategy relevance_generation: it shows 2 document\(s\) "
            r"\['passage_a', 'passage_b'\], strategy relevance_generation needs 1",
        ),
        (
            {"prompt": "pointwise-passage", "strategy": "query_generation"},
            "it shows the query, which is what the model is to write",
        ),
        (
            {"prompt": {"template": "{query} or {a}", "answers": ["A", "B"]}},
            r"prompt 'custom' does not fit strategy allpairs: it shows 1 document\(s\) \['a'\]",
        ),
    ],
)
def test_b14_a_prompt_that_does_not_fit_its_strategy_is_refused(
    file: Path, teacher: dict[str, Any], message: str
) -> None:
    (problem,) = problems_of(file, teacher={"model": "x", **teacher})
    assert problem.startswith("teacher: ")
    assert re.search(message, problem)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("pairwise-passage", r"does not fit a pointwise student: it shows 2 document\(s\)"),
        ("query-generation", r"it has no field \{query\}; it compares 0 answers"),
        ({"template": "Is {passage} good?", "answers": ["Yes", "No"]}, r"it has no field \{query\}"),
        ({"template": "{query} {passage", "answers": ["Yes", "No"]}, "expected '}' before end of string"),
        ({"template": "{query} {passage} {0}", "answers": ["Yes", "No"]}, r"\{0\} is no field name"),
        ({"template": "{query} {passage}", "answers": ["Yes", "Yes"]}, "must be different"),
    ],
)
def test_b14_a_prompt_that_does_not_fit_the_student_is_refused(file: Path, prompt: Any, message: str) -> None:
    problems = problems_of(file, student={"model": "x", "prompt": prompt})
    assert all(problem.startswith("student.prompt") for problem in problems)
    assert re.search(message, "\n".join(problems))


def test_a_problem_elsewhere_does_not_hide_a_prompt_that_does_not_fit(file: Path) -> None:
    problems = problems_of(file, "seed=x", "teacher.prompt=pointwise-passage", "evaluation.0.collection=x")
    assert [problem.partition(":")[0] for problem in problems] == [
        "teacher (line 4)",
        "seed",
        "evaluation.0.collection",
    ]


def test_a_prompt_record_may_stand_in_the_recipe(file: Path) -> None:
    file.write_text(
        RECIPE.replace(
            "student: {model: org/student}",
            "student:\n  model: org/student\n  prompt:\n    template: |-\n      Text: {text}\n\n"
            "      Is it about {query}?\n    answers: [no, 0071]",
        ),
        encoding="utf-8",
    )
    prompt = Recipe.load(file).student.prompt_record
    assert prompt.template == "Text: {text}\n\nIs it about {query}?"
    assert prompt.answers == ("no", "0071")
    (problem,) = problems_of(file, "student.prompt.answer=x")
    assert problem.startswith("student.prompt.answer: unknown key; did you mean 'answers'?")


def test_tasks_need_names_of_their_own(file: Path) -> None:
    tasks = [{"collection": "beir:a/x"}, {"collection": "beir:b/x"}, {"collection": "beir:c/y"}]
    assert problems_of(file, evaluation=tasks) == [
        "evaluation: 2 tasks are called 'x'; give each its own 'name'"
    ]


def test_more_than_the_candidates_cannot_be_reranked(file: Path) -> None:
    task = {"collection": "beir:a", "depth": 20, "candidates": {"depth": 10}}
    (problem,) = problems_of(file, evaluation=[task])
    assert problem == "evaluation.0: depth: 20 candidates cannot be reranked, candidates.depth is 10"
    task["candidates"] = {"method": "given", "depth": 10}
    assert Recipe.from_dict({**MINIMAL, "evaluation": [task]}).evaluation[0].depth == 20


def test_the_resolved_recipe_has_every_default_and_reads_back_equal(file: Path, tmp_path: Path) -> None:
    recipe = Recipe.load(
        file,
        [
            "name=0071",
            "queries={split: no, sample: 5}",
            "candidates.stemmer=none",
            "teacher.prompt={template: 'is {a} or {b} about {query}?', answers: [A, B]}",
            "student.document_words=80",
            "training={documents_per_list: {random: 4}, learning_rate: 1e-5}",
            "evaluation.0.teacher={run: some.trec}",
            "evaluation.0.expected={student: {nDCG@10: 0.698}}",
        ],
    )
    saved = tmp_path / "folder" / "recipe.yaml"
    recipe.save(saved)
    assert Recipe.load(saved) == recipe
    assert Recipe.from_dict(recipe.as_dict()) == recipe
    assert json.loads(json.dumps(recipe.as_dict())) == recipe.as_dict()
    text = saved.read_text(encoding="utf-8")
    for line in ("seed: 13", "  weight_decay: 0.0", "  k1: 0.9", "  relevance_level: 1", "  qrels: false"):
        assert line in text.split("\n")
    again = tmp_path / "again.yaml"
    Recipe.load(saved).save(again)
    assert again.read_bytes() == saved.read_bytes()


def test_a_small_recipe_reads_back_equal_too(file: Path, tmp_path: Path) -> None:
    recipe = Recipe.load(file)
    recipe.save(tmp_path / "saved.yaml")
    assert Recipe.load(tmp_path / "saved.yaml") == recipe


def test_smaller_is_small_in_every_stage_and_has_a_folder_of_its_own(file: Path) -> None:
    recipe = Recipe.load(
        file,
        [
            "candidates.depth=100",
            "training.documents_per_list={random: 16}",
            "evaluation.0.depth=50",
            "evaluation.0.expected={student: {nDCG@10: 0.7}}",
        ],
    )
    small = recipe.smaller()
    assert small.name == "r-smoke"
    assert (small.queries.sample, small.candidates.depth) == (8, 5)
    assert (small.training.epochs, small.training.lists_per_step) == (1, 4)
    assert small.training.documents_per_list == RandomDocuments(random=16)
    task = small.evaluation[0]
    assert (task.queries.sample, task.candidates.depth, task.depth, task.expected) == (6, 5, 5, {})
    assert (task.task, task.metrics) == ("test", recipe.evaluation[0].metrics)
    assert (small.teacher, small.student) == (recipe.teacher, recipe.student)
    tiny = Recipe.load(file, ["queries.sample=3", "candidates.depth=2", "training.epochs=0"]).smaller()
    assert (tiny.queries.sample, tiny.candidates.depth, tiny.training.epochs) == (3, 2, 0)
    assert tiny.evaluation[0].depth is None


def test_needed_files_are_those_that_are_not_there(file: Path, tmp_path: Path) -> None:
    recipe = Recipe.load(
        file,
        [
            f"collection=beir:{tmp_path}",
            "qrels=no/qrels.txt",
            "candidates={method: run, file: no/run.trec}",
            "teacher={permutations: no/permutations.json}",
            "student.model=no/model.gguf",
            "evaluation.0.collection=files:no/files",
            "evaluation.0.teacher={run: no/teacher.trec}",
            f"evaluation.0.qrels={file}",
        ],
    )
    assert recipe.needed_files() == [
        "no/qrels.txt",
        "no/permutations.json",
        "no/run.trec",
        "no/teacher.trec",
        "no/files",
        "no/model.gguf",
    ]
    hub = Recipe.load(file, ["collection=irds:msmarco-passage/train", "evaluation=[]"])
    assert hub.needed_files() == []
    assert isinstance(recipe.evaluation[0].teacher, TeacherRun)


@pytest.mark.parametrize("name", ["a/b", "..", "", "-x", "a b", "ä"])
def test_a_name_must_do_as_a_folder(file: Path, name: str) -> None:
    (problem,) = problems_of(file, name=name)
    assert problem.startswith(f"name: {name!r} cannot name a folder")


def shipped_variables() -> dict[str, str]:
    found = {
        name for path in RECIPES for name in re.findall(r"\$\{(\w+)\}", path.read_text(encoding="utf-8"))
    }
    return dict.fromkeys(found, "/nowhere")


def test_every_shipped_recipe_validates_without_torch() -> None:
    script = (
        "import sys\n"
        "from instruct_distill import Recipe\n"
        "for path in sys.argv[1:]:\n"
        "    recipe = Recipe.load(path)\n"
        "    assert Recipe.from_dict(recipe.as_dict()) == recipe, path\n"
        "    recipe.smaller().needed_files()\n"
        "    print(recipe.name)\n"
        "import instruct_distill.cli\n"
        "print(*sorted({'torch', 'transformers', 'numba', 'pandas'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, RECIPES)],
        capture_output=True,
        text=True,
        env={**os.environ, **shipped_variables()},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [*(path.stem for path in RECIPES), "", ""]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shipped_recipes_are_short_and_say_how_they_are_launched(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert len(lines) <= 40
    assert lines[0].startswith("# ")
    assert f"train.py recipes/{path.name}" in lines[0]

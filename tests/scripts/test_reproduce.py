"""The scripts that put the paper's figures beside ours."""

from __future__ import annotations

import json
import statistics
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from instruct_distill.evaluation.tasks import SUITES, TASKS
from instruct_distill.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scripts" / "reproduce"
RECIPES = ROOT / "recipes"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def lines_of(text: str, row: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(f"{row} ")]


def test_table_2(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))
    run = tmp_path / "runs" / "msmarco-flan-t5-large"
    run.mkdir(parents=True)
    figures = {"student": {"nDCG@1": 0.7, "nDCG@5": 0.7, "nDCG@10": 0.7}}
    summary = {"dl19": figures, "dl20": figures, "_meta": {"seconds_per_query": {}}}
    (run / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    import_module("table2").main(["--runs", str(tmp_path / "runs"), "--output", str(tmp_path / "out")])
    out = capsys.readouterr().out
    bm25 = lines_of(out, "bm25")
    assert [line[3] for line in bm25] == [line[4] for line in bm25]  # the lists are the paper's
    assert [line[3] for line in bm25] == ["54.26", "52.78", "50.58", "57.72", "50.67", "47.96"]
    assert lines_of(out, "rankgpt-gpt-3.5-turbo")[2][4] == "67.99"
    assert lines_of(out, "distilled-large")[2][3:6] == ["69.81", "70.00", "+0.19"]
    assert "960,300 prompts" in " ".join(lines_of(out, "allpairs-xl")[0])
    assert "900,000 prompts to label" in " ".join(lines_of(out, "distilled-xl")[0])
    found = json.loads((tmp_path / "out" / "table2.json").read_text(encoding="utf-8"))
    assert found["bm25"]["dl20"]["nDCG@10"] == pytest.approx(47.96, abs=0.005)


def test_table_2_asks_a_model_that_is_named(
    shared_data: Path,
    tiny_t5: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))
    (tmp_path / "flan-t5-base").symlink_to(tiny_t5)
    import_module("table2").main(
        [
            *("--models", str(tmp_path), "--rows", "allpairs-base", "--depth", "2"),
            *("--runs", str(tmp_path), "--output", str(tmp_path / "out")),
        ]
    )
    assert "depth 2" in " ".join(lines_of(capsys.readouterr().out, "allpairs-base")[0])
    found = json.loads((tmp_path / "out" / "table2.json").read_text(encoding="utf-8"))
    assert found["allpairs-base"]["dl19"]["seconds"] > 0


def test_table_2_refuses_a_row_that_asks_nothing(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))
    with pytest.raises(SystemExit):
        import_module("table2").main(["--rows", "cohere"])
    assert "no row that asks a model" in capsys.readouterr().err


def evaluation(tmp_path: Path, names: list[str]) -> Path:
    about: dict[str, Any] = {
        name: {"queries": TASKS[name].queries, "queries_with_only_zero_grades": 0, "all_judged": False}
        for name in names
    }
    figures = {"first_stage": {"nDCG@10": 0.4}, "reranker": {"nDCG@10": 0.5}}
    content = {**dict.fromkeys(names, figures), "_meta": {"tasks": about}}
    (tmp_path / "summary.json").write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


def test_table_3_has_a_mean_of_all_eight_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = evaluation(tmp_path, list(SUITES["beir-paper"].tasks))
    import_module("table3").main([f"distilled-large={folder}"])
    out = capsys.readouterr().out
    assert lines_of(out, "distilled-large")[0][4:7] == ["48.32", "50.00", "+1.68"]
    assert lines_of(out, "bm25")[0][4:7] == ["43.42", "40.00", "-3.42"]


def test_table_3_has_no_mean_of_seven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = evaluation(tmp_path, list(SUITES["beir-paper"].tasks)[:-1])
    import_module("table3").main([f"distilled-large={folder}"])
    first = lines_of(capsys.readouterr().out, "distilled-large")[0]
    assert first[4:6] == ["48.32", "-"]
    assert "beir-robust04 is missing" in " ".join(first)


def test_figure_1_is_relative_to_its_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def row(seconds: float, ndcg: float) -> dict[str, Any]:
        return {key: {"nDCG@10": ndcg, "seconds": seconds} for key in ("dl19", "dl20")}

    ours = tmp_path / "table2.json"
    ours.write_text(json.dumps({"monot5-base": row(0.5, 70.0), "distilled-xl": row(2.0, 72.0)}), "utf-8")
    output = tmp_path / "figure1.svg"
    import_module("figure1").main(["--ours", str(ours), "--output", str(output)])
    lines = lines_of(capsys.readouterr().out, "distilled-xl")
    assert lines[0][2:4] == ["70.605", "72.000"]
    assert lines[1][2:4] == ["0.092", "0.250"]  # 0.12 / 1.30, and 0.5 / 2.0
    assert output.stat().st_size > 1000
    with pytest.raises(SystemExit):
        import_module("figure1").main(["--ours", str(ours), "--reference", "monot5-xl"])
    assert "monot5-xl has no time" in capsys.readouterr().err


def test_figure_2_names_a_recipe_for_every_trained_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "figure2.svg"
    import_module("figure2").main(["--runs", str(tmp_path), "--output", str(output)])
    out = capsys.readouterr().out
    named = [word for line in out.splitlines() for word in line.split() if word.startswith("recipes/")]
    assert len(named) == 3 + 3 + 4 + 4  # supervised twice, distilled from the same size and from XL
    assert all((FOLDER.parents[1] / name).is_file() for name in named)
    assert output.stat().st_size > 1000


def redial(folder: Path) -> None:
    """Twelve movies, and two dialogues in each split."""
    folder.mkdir(parents=True)
    movies = [f"{n},Movie {n} ({1950 + n}),{0 if n < 3 else 300}" for n in range(12)]
    (folder / "movies_with_mentions.csv").write_text(
        "\n".join(["movieId,movieName,nbMentions", *movies]) + "\n"
    )
    for split in ("test", "valid"):
        lines = [
            {
                "conversationId": f"{split}{target}",
                "initiatorWorkerId": 1,
                "respondentWorkerId": 2,
                "movieMentions": {},
                "messages": [
                    {"senderWorkerId": 1, "text": "One with a movie in it, please"},
                    {"senderWorkerId": 2, "text": f"@{target}"},
                ],
            }
            for target in (0, 1)
        ]
        (folder / f"{split}_data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def finished(folder: Path, tasks: dict[str, dict[str, float]]) -> Path:
    """A run's folder with nothing in it but its summary."""
    folder.mkdir(parents=True)
    about = {name: {"queries": 325} for name in tasks}
    figures = {
        name: {system: {"Success@1": value} for system, value in each.items()} for name, each in tasks.items()
    }
    seconds = {name: {system: {"median": 0.5} for system in each} for name, each in tasks.items()}
    content = {**figures, "_meta": {"tasks": about, "seconds_per_query": seconds}}
    (folder / "summary.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_table_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    redial(tmp_path / "redial")
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(tmp_path))
    systems = {"zero_shot": 0.10, "teacher": 0.20, "student": 0.25}
    finished(tmp_path / "runs" / "redial-flan-t5-xl", {"pool-325": systems, "pool-345": {"student": 0.26}})
    other = finished(tmp_path / "mine", {"pool-325": systems, "all": {}})
    table4 = import_module("table4")
    table4.main(["--runs", str(tmp_path / "runs"), "--run", str(other), "--output", str(tmp_path / "out")])
    out = capsys.readouterr().out
    assert lines_of(out, "random")[0][2:5] == ["10.77", "10.00", "-0.77"]
    # the two targets are never the most popular of their pools
    assert lines_of(out, "popularity")[0][2:5] == ["7.69", "0.00", "-7.69"]
    assert "test dialogues included" in " ".join(lines_of(out, "popularity")[0])
    assert lines_of(out, "bm25")[0][2] == "8.62"
    assert [line[2:5] for line in lines_of(out, "distilled-xl")] == [
        ["24.93", "26.00", "+1.07"],
        ["1.44", "0.50", "-0.94"],
    ]
    assert lines_of(out, "pairwise-xl")[0][2:5] == ["20.00", "20.00", "+0.00"]
    assert lines_of(out, "pointwise-xl")[0][2:5] == ["12.00", "10.00", "-2.00"]
    assert "--rows listwise-xl: google/flan-t5-xl, 325 prompts" in " ".join(lines_of(out, "listwise-xl")[0])
    assert "29,250 prompts, about 0.28 GPU hours" in " ".join(lines_of(out, "pairwise-large")[0])
    assert "180 prompts to label" in " ".join(lines_of(out, "distilled-base")[0])  # two dialogues, 90 each
    assert lines_of(out, "mine")[0][3:7] == ["Acc@1", "-", "10.00", "-"]
    with pytest.raises(SystemExit):
        table4.main(["--rows", "distilled-xl"])
    assert "no row that asks a model" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        table4.main(["--run", str(tmp_path / "nowhere"), "--output", str(tmp_path / "out")])
    assert "give a finished run's folder" in capsys.readouterr().err


def test_table_4_asks_a_model_that_is_named(
    tiny_t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    redial(tmp_path / "redial")
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(tmp_path))
    (tmp_path / "flan-t5-base").symlink_to(tiny_t5)
    arguments = ["--models", str(tmp_path), "--rows", "listwise-base,pairwise-base,pointwise-base"]
    import_module("table4").main([*arguments, "--runs", str(tmp_path), "--output", str(tmp_path / "out")])
    out = capsys.readouterr().out
    for row in ("listwise-base", "pairwise-base", "pointwise-base"):
        accuracy, seconds = lines_of(out, row)
        assert float(accuracy[3]) in (0.0, 50.0, 100.0)
        assert f"{row}, 2 examples [" in " ".join(accuracy)
        assert float(seconds[3]) >= 0


@pytest.fixture
def small_student(shared_data: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """The MiniLM recipe in a size of seconds: a tiny student of five lists' four documents, five reranked."""
    monkeypatch.setenv("INSTRUCT_DISTILL_DATA", str(shared_data))
    content = Recipe.load(RECIPES / "trec-dl-minilm.yaml").as_dict()
    training = {**content["training"], "epochs": 1, "documents_per_list": {"random": 4}}
    return Recipe.from_dict(
        {
            **content,
            "queries": {"sample": 5},
            "student": {**content["student"], "model": str(tiny_bert), "document_words": 8, "max_length": 64},
            "training": training,
            "evaluation": [{**content["evaluation"][0], "depth": 5}],
        }
    )


def test_losses_are_compared_over_seeds(small_student: Recipe, tmp_path: Path) -> None:
    out = import_module("learning_comparison").compare(small_student, ["listnet"], [1, 2], str(tmp_path))
    folders = [tmp_path / f"trec-dl-minilm-listnet-{seed}" / "evaluation" for seed in (1, 2)]
    found = [json.loads((folder / "summary.json").read_text("utf-8")) for folder in folders]
    figures = [each["dl19"]["student"]["nDCG@10"] for each in found]
    assert figures[0] != figures[1]
    ((_, *row),) = lines_of(out, "listnet")
    assert row[6:9] == [f"{statistics.mean(figures):.4f}", "±", f"{statistics.stdev(figures):.4f}"]
    assert [lines_of(out, system)[0][3] for system in ("first_stage", "teacher")] == ["0.5058", "0.6665"]


def test_rates_are_chosen_on_dl21_and_nothing_is_tested(
    small_student: Recipe, shared_data: Path, tmp_path: Path
) -> None:
    script = import_module("learning_comparison")
    out = script.choose(small_student, ["ranknet"], [1e-3, 1e-4], 2, str(tmp_path), str(shared_data))
    rows = [line.split() for line in out.splitlines() if line.startswith("ranknet ")]
    assert [row[1] for row in rows] == ["0.001", "0.0001"]
    assert all(0 < float(row[2]) < 1 for row in rows)
    assert not list(tmp_path.glob("*/evaluation/*/student.trec"))

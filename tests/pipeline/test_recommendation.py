"""Recommendation through every stage: ReDial's files, and any other recommender's as plain files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instruct_distill import Reranker
from instruct_distill.errors import StaleStageError
from instruct_distill.labels import read_header, read_labels
from instruct_distill.pipeline.distill import distill
from instruct_distill.recipe import Recipe
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.trec import read_run

MOVIES = {
    "1": ("Night Ferry (1994)", 400, "Two strangers meet on a ferry."),
    "2": ("Lantern (1951)", 350, "A keeper guards a light."),
    "3": ("Harbour 2049 (2017)", 300, "A detective walks a drowned town."),
    "4": ("Coast Patrol", 250, "Young guards save swimmers."),
    "5": ("The Mill", 9, "A ghost haunts a mill."),
    "6": ("Old Bridge (1970)", 5, "A ghost story of a bridge."),
    "7": ("Fog (1999)", 2, "A ghost comes out of the fog."),
}
SEEN = {"a": "1", "b": "2", "c": "3", "d": "4"}
TARGET = {"a": "5", "b": "6", "c": "7", "d": "5"}


def redial(folder: Path) -> str:
    """Four dialogues: somebody names a movie that they know and asks for ghosts, and gets one."""
    for split, names in (("valid", "ab"), ("test", "cd")):
        lines = []
        for name in names:
            texts = [(1, f"I liked @{SEEN[name]}. Is there one with a ghost?"), (2, f"Try @{TARGET[name]}")]
            lines.append(
                {
                    "conversationId": name,
                    "initiatorWorkerId": 1,
                    "respondentWorkerId": 2,
                    "movieMentions": {m: MOVIES[m][0] for m in (SEEN[name], TARGET[name])},
                    "messages": [{"senderWorkerId": worker, "text": text} for worker, text in texts],
                }
            )
        (folder / f"{split}_data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = [f"{movie_id},{title},{mentions}" for movie_id, (title, mentions, _) in MOVIES.items()]
    (folder / "movies_with_mentions.csv").write_text(
        "\n".join(["movieId,movieName,nbMentions", *rows]) + "\n"
    )
    info = {movie_id: {"name": title, "plot": plot} for movie_id, (title, _, plot) in MOVIES.items()}
    (folder / "movie_info.json").write_text(json.dumps(info))
    return f"redial:{folder}"


def plain_files(folder: Path) -> str:
    """The same as files that any recommender can write: conversations are queries, items are documents."""
    queries = [
        {
            "id": f"{name}-1",
            "text": f"Seeker: I liked {MOVIES[SEEN[name]][0]}.\nRecommender: And?\nSeeker: Ghosts!",
        }
        for name in SEEN
    ]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    documents = [{"id": m, "title": title, "text": plot} for m, (title, _, plot) in MOVIES.items()]
    (folder / "documents.jsonl").write_text("".join(json.dumps(item) + "\n" for item in documents))
    (folder / "qrels.txt").write_text("".join(f"{name}-1 0 {TARGET[name]} 1\n" for name in SEEN))
    (folder / "popularity.tsv").write_text("".join(f"{m}\t{count}\n" for m, (_, count, _) in MOVIES.items()))
    (folder / "excluded.tsv").write_text("".join(f"{name}-1\t{SEEN[name]}\n" for name in SEEN))
    return f"files:{folder}"


POOL = {"method": "pool", "bm25": 1, "popular": 2, "depth": 10}


def recipe(folder: Path, collection: str, model: Path, **keys: Any) -> Recipe:
    split = {"split": "valid"} if collection.startswith("redial") else {}
    content: dict[str, Any] = {
        "name": "r",
        "runs": str(folder / "runs"),
        "collection": collection,
        "queries": split,
        "candidates": POOL,
        "teacher": {
            "model": str(model),
            "strategy": "relevance_generation",
            "prompt": "pointwise-movie",
            "dtype": "fp32",
        },
        "student": {"model": str(model), "prompt": "pointwise-movie", "dtype": "fp32"},
        "training": {"epochs": 1, "lists_per_step": 2, "precision": "fp32"},
        "evaluation": [
            {
                "collection": collection,
                "name": "pool",
                "candidates": POOL,
                "teacher": "same",
                "metrics": ["Success@1"],
            },
            {
                "collection": collection,
                "name": "all",
                "candidates": {"method": "popular", "depth": 4},
                "metrics": ["nDCG@10", "RR@10", "R@50"],
            },
        ],
        **keys,
    }
    return Recipe.from_dict(content)


@pytest.mark.parametrize("make", [redial, plain_files])
def test_every_stage(tiny_llama: Path, tmp_path: Path, make: Any) -> None:
    (tmp_path / "data").mkdir()
    made = recipe(tmp_path, make(tmp_path / "data"), tiny_llama)
    result = distill(made)
    for label in read_labels(made.folder / "labels.jsonl"):
        name = label.query_id[0]
        assert len(label.doc_ids) == 4
        assert TARGET[name] in label.doc_ids
        assert SEEN[name] not in label.doc_ids
    assert list(result.summary["pool"]) == [
        "first_stage",
        "bm25",
        "popularity",
        "zero_shot",
        "teacher",
        "student",
    ]
    about = result.summary["_meta"]["tasks"]["pool"]
    assert about["random_order"] == {"Success@1": pytest.approx(1 / 4)}
    assert about["recall_ceiling"] == {"Success@1": 1.0}
    said = "test dialogues included" if make is redial else "the numbers in popularity.tsv"
    assert said in about["notes"][0]
    assert said in result.table
    card = (result.student / "README.md").read_text(encoding="utf-8")
    assert "| random order, in closed form | 0.2500 |" in card
    assert said in card
    assert said in (made.folder / "report.html").read_text(encoding="utf-8")

    # without the one that was named, the four most popular movies are three and "The Mill"; the first stage
    # is popularity itself
    everything = result.summary["all"]
    assert list(everything) == ["first_stage", "bm25", "zero_shot", "student"]
    assert everything["student"]["R@50"] == 0.5
    assert everything["bm25"]["R@50"] > 0
    about = result.summary["_meta"]["tasks"]["all"]["random_order"]
    assert about["R@50"] == 1.0  # seven movies less the one that was named
    assert about["RR@10"] == pytest.approx(sum(1 / place for place in range(1, 7)) / 6)


@pytest.mark.parametrize(
    ("strategy", "prompt", "comparisons"),
    [
        ("allpairs", "pairwise-movie", 12),
        ({"name": "listwise", "window": 4, "stride": 2}, "listwise-movie", 0),
    ],
)
def test_other_teachers(
    tiny_llama: Path, tmp_path: Path, strategy: Any, prompt: str, comparisons: int
) -> None:
    (tmp_path / "data").mkdir()
    teacher = {"model": str(tiny_llama), "strategy": strategy, "prompt": prompt, "dtype": "fp32"}
    made = recipe(tmp_path, redial(tmp_path / "data"), tiny_llama, teacher=teacher)
    distill(made, until="label")
    assert read_header(made.folder / "labels.jsonl")["prompt"]["name"] == prompt
    labels = list(read_labels(made.folder / "labels.jsonl"))
    assert [label.query_id for label in labels] == ["a-2-5", "b-2-6"]
    assert all(len(label.comparisons) == comparisons for label in labels)


def test_others_can_use_the_pool_that_a_run_wrote(tiny_llama: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    collection = redial(tmp_path / "data")
    first = recipe(tmp_path, collection, tiny_llama)
    distill(first, until="retrieve")
    pools = first.folder / "evaluation" / "pool"
    run, qrels = read_run(pools / "first_stage.trec"), read_qrels(pools / "qrels.txt")
    assert {query_id: list(grades) for query_id, grades in qrels.items()} == {"c-2-7": ["7"], "d-2-5": ["5"]}
    assert all(next(iter(qrels[q])) in [d.doc_id for d in ranked] for q, ranked in run.items())
    given = {"method": "run", "file": str(pools / "first_stage.trec")}
    task = {"collection": collection, "name": "pool", "candidates": given, "metrics": ["Success@1"]}
    second = recipe(tmp_path, collection, tiny_llama, name="second", evaluation=[task])
    distill(second, until="retrieve")
    again = read_run(second.folder / "evaluation" / "pool" / "first_stage.trec")
    assert {q: [d.doc_id for d in ranked] for q, ranked in again.items()} == {
        q: [d.doc_id for d in ranked] for q, ranked in run.items()
    }


def test_a_list_that_two_tasks_have_is_ranked_once(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample lies within a larger one of the same seed, and a pool is the same in both."""
    asked: list[tuple[str, ...]] = []
    rank = Reranker.rank

    def counted(self: Reranker, query: Any, documents: Any, *more: Any, **settings: Any) -> Any:
        asked.append((query.query_id, *(document.doc_id for document in documents)))
        return rank(self, query, documents, *more, **settings)

    monkeypatch.setattr(Reranker, "rank", counted)
    collection = plain_files(tmp_path)
    task = {"collection": collection, "metrics": ["Success@1"]}
    made = recipe(
        tmp_path,
        collection,
        tiny_llama,
        evaluation=[
            {**task, "name": "two", "queries": {"sample": 2}, "candidates": POOL},
            {**task, "name": "all", "candidates": POOL},
            {**task, "name": "others", "candidates": {**POOL, "seed": 99}},
        ],
    )
    result = distill(made)
    runs = {
        name: read_run(made.folder / "evaluation" / name / "student.trec")
        for name in ("two", "all", "others")
    }
    assert {name: len(run) for name, run in runs.items()} == {"two": 2, "all": 4, "others": 4}
    assert all(runs["all"][query_id] == ranked for query_id, ranked in runs["two"].items())
    assert len(asked) == 2 * len(set(asked))  # untrained and trained
    assert 4 < len(set(asked)) <= 8
    for name, count in (("two", 2), ("all", 4)):
        assert result.summary["_meta"]["seconds_per_query"][name]["student"]["queries"] == count


@pytest.mark.parametrize(
    ("file", "line", "difference"),
    [("popularity.tsv", "7\t2\n", "popularity"), ("excluded.tsv", "d-1\t4\n", "excluded")],
)
def test_items_that_are_more_popular_or_known_by_now_are_noticed(
    tiny_llama: Path, tmp_path: Path, file: str, line: str, difference: str
) -> None:
    collection = plain_files(tmp_path)
    made = recipe(tmp_path, collection, tiny_llama)
    distill(made, until="retrieve")
    text = (tmp_path / file).read_text()
    assert text.endswith(line)
    (tmp_path / file).write_text(text.removesuffix(line))
    with pytest.raises(StaleStageError, match=rf"stage 'retrieve'(.|\n)*  pool\.{difference}: "):
        distill(made, until="retrieve")

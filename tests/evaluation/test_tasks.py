from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.evaluation.evaluate import evaluate
from instruct_distill.evaluation.joining import joined
from instruct_distill.evaluation.parameters import EvaluationParameters
from instruct_distill.evaluation.several import TaskResults
from instruct_distill.evaluation.task_names import task_sections
from instruct_distill.evaluation.tasks import SUITES, TASKS, tasks_table
from instruct_distill.records import Document, Query, RankedDocument, ScoredDocument
from instruct_distill.trec import write_run


class AsGiven:
    """A ranker that changes nothing, and keeps the texts that it was shown."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def rank(self, query: Query, documents: Sequence[Document]) -> list[RankedDocument]:
        self.texts += [document.full_text for document in documents]
        return [RankedDocument(i, each.doc_id, -i, i + 1, "") for i, each in enumerate(documents)]


def beir(folder: Path, ids: Sequence[str] = ("q1", "d2")) -> str:
    """A collection with three documents, of which d2 has the id of a query."""
    (folder / "qrels").mkdir(parents=True)
    records = {
        "corpus": [{"_id": f"d{i}", "title": f"Chain {i}", "text": "Oil it."} for i in (1, 2, 3)],
        "queries": [{"_id": each, "text": "oil a chain"} for each in ids],
    }
    for name, lines in records.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    qrels = "\n".join(f"{each}\td3\t1" for each in ids)
    (folder / "qrels" / "test.tsv").write_text(qrels + "\n", encoding="utf-8")
    return f"beir:{folder}"


def section(name: str, depth: int = 100, metrics: Sequence[str] | None = None) -> EvaluationParameters:
    [found] = task_sections([name], depth=depth, metrics=metrics)
    return found


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.collection])
def test_counts_are_those_of_the_catalogue(name: str) -> None:
    import ir_datasets

    task = TASKS[name]
    dataset = ir_datasets.load(str(task.collection).removeprefix("irds:"))
    assert dataset.has_docs()
    assert dataset.has_queries()
    assert dataset.has_qrels()
    assert dataset.has_scoreddocs() or task.candidates == "bm25"
    metadata = dataset.metadata()
    assert metadata["queries"]["count"] == task.queries
    assert metadata["docs"]["count"] == task.documents
    assert metadata["qrels"]["count"] == task.judgements


def test_every_public_task_of_the_catalogue_is_known() -> None:
    import ir_datasets

    known = {str(task.collection).removeprefix("irds:") for task in TASKS.values()}
    for family in ("beir", "nano-beir"):
        bases = {"/".join(each.split("/")[:2]) for each in known if each.startswith(f"{family}/")}
        names = [str(each) for each in ir_datasets.registry if str(each).startswith(f"{family}/")]
        assert {"/".join(each.split("/")[:2]) for each in names} == bases
    forums = {str(each) for each in ir_datasets.registry if str(each).startswith("beir/cqadupstack/")}
    assert forums <= known


def test_names_can_be_folders_and_suites_name_known_tasks() -> None:
    assert {name: section(name).task for name, task in TASKS.items() if task.collection} == {
        name: name for name, task in TASKS.items() if task.collection
    }
    assert not TASKS.keys() & SUITES.keys()
    assert [name for suite in SUITES.values() for name in suite.tasks if name not in TASKS] == []
    assert {name: len(suite.tasks) for name, suite in SUITES.items()} == {
        "dl19-dl20": 2,
        "trec-dl": 4,
        "beir-paper": 8,
        "beir-cqadupstack": 12,
        "beir-public": 26,
        "nano-beir": 13,
    }


def test_a_name_is_an_identity() -> None:
    dl19 = section("dl19")
    assert dl19.collection == "irds:msmarco-passage/trec-dl-2019/judged"
    assert (dl19.relevance_level, dl19.joining, dl19.candidates.method) == (2, "blank", "bm25")
    assert section("dl21").candidates.method == "given"
    covid = section("beir-trec-covid", depth=7, metrics=["RR@10"])
    assert (covid.relevance_level, covid.joining, covid.metrics) == (1, "labelled", ["RR@10"])
    assert covid.candidates.depth == 7
    assert section("beir-touche").collection == "irds:beir/webis-touche2020/v2"
    dropping = [
        name for name, task in TASKS.items() if task.collection and section(name).candidates.drop_self
    ]
    assert dropping == ["beir-arguana", "beir-quora", "nano-beir-arguana", "nano-beir-quora"]


def test_a_collection_of_the_registry_is_its_task_under_either_name() -> None:
    assert section("irds:beir/quora/test") == section("beir-quora")
    assert section("irds:msmarco-passage/trec-dl-2019/judged") == section("dl19")


def test_the_data_of_a_task_may_lie_elsewhere(tmp_path: Path) -> None:
    collection = beir(tmp_path / "a=b")
    found = section(f"beir-arguana={collection}")
    assert (found.task, found.collection, found.joining) == ("beir-arguana", collection, "labelled")
    assert found.candidates.drop_self
    plain = section(collection)
    assert (plain.task, plain.joining, plain.candidates.drop_self) == ("a-b", "blank", False)
    files = section(f"beir-robust04={collection},qrels=q.txt,run=r.trec")
    assert (files.qrels, files.candidates.method, files.candidates.file) == ("q.txt", "run", "r.trec")


def test_the_querys_own_document_is_no_candidate_and_titles_are_labelled(tmp_path: Path) -> None:
    ranker = AsGiven()
    found = evaluate(ranker, f"beir-arguana={beir(tmp_path / 'x')}")
    assert sorted(ranker.texts) == sorted(
        [f"Title: Chain {i} Content: Oil it." for i in (1, 2, 3)]
        + [f"Title: Chain {i} Content: Oil it." for i in (1, 3)]
    )
    assert found.name == "beir-arguana"
    ranker = AsGiven()
    evaluate(ranker, f"beir:{tmp_path / 'x'}")
    assert sorted(ranker.texts) == sorted(2 * [f"Chain {i} Oil it." for i in (1, 2, 3)])


def test_joining() -> None:
    documents = {"1": Document("1", "b", "a"), "2": Document("2", "b")}
    assert joined(documents, "blank") == documents
    assert joined(documents, "labelled") == {
        "1": Document("1", "Title: a Content: b"),
        "2": Document("2", "b"),
    }


def test_lists_that_a_folder_brings_are_reranked(tmp_path: Path) -> None:
    (tmp_path / "documents.tsv").write_text("d1\tOil.\nd2\tFerries.\n", encoding="utf-8")
    (tmp_path / "queries.tsv").write_text("q1\toil\n", encoding="utf-8")
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\n", encoding="utf-8")
    assert section(f"files:{tmp_path}").candidates.method == "bm25"
    write_run(
        tmp_path / "candidates.trec", {"q1": [ScoredDocument("d2", 2.0), ScoredDocument("d1", 1.0)]}, "x"
    )
    assert section(f"files:{tmp_path}").candidates.method == "given"
    assert evaluate(AsGiven(), f"files:{tmp_path}", metrics=["RR"]).evaluations["first_stage"].means == {
        "RR": 0.5
    }


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "no task was given"),
        (["noveleva"], r"unknown prefix 'noveleva'.*nor is it a task; did you mean 'noveleval'\?"),
        (["noveleva=beir:x"], r"unknown task 'noveleva'; did you mean 'noveleval'\?"),
        (["noveleval"], r"noveleval: its data must be named \(noveleval=noveleval:FOLDER"),
        (["dl19", "dl19"], "two tasks are called 'dl19'"),
        (["noveleval=noveleval:nowhere"], r"no data.json or qrels.txt; write noveleval:FOLDER"),
        (["dl19", "beir:nowhere"], r"nowhere: no corpus.jsonl"),
        (["beir-signal1m"], r"beir-signal1m: its data must be named \(licensed: beir-signal1m=beir:FOLDER"),
    ],
)
def test_names_that_cannot_be_used(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        task_sections(names)


def test_a_suite_says_which_data_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="beir-signal1m") as caught:
        task_sections(["beir-paper"])
    lines = str(caught.value).split("\n")
    assert [line.partition(":")[0] for line in lines] == [
        "beir-signal1m",
        "beir-trec-news",
        "beir-robust04",
        "without them",
    ]
    assert lines[-1].endswith(": beir-trec-covid beir-nfcorpus beir-touche beir-dbpedia-entity beir-scifact")
    here = beir(tmp_path / "x")
    licensed = [f"{name}={here}" for name in ("beir-signal1m", "beir-trec-news", "beir-robust04")]
    found = task_sections(["beir-paper", *licensed])
    assert sorted(each.task for each in found) == sorted(SUITES["beir-paper"].tasks)
    twice = task_sections(["nano-beir", "nano-beir", "nano-beir-nq"])
    assert [each.task for each in twice] == list(SUITES["nano-beir"].tasks)


def test_a_suite_is_several_tasks() -> None:
    with pytest.raises(InputError, match=r"'nano-beir' is 13 tasks; give it in a list, \['nano-beir'\]"):
        evaluate(AsGiven(), "nano-beir")


def test_two_collections_of_ones_own_have_a_mean(tmp_path: Path) -> None:
    found = evaluate(AsGiven(), [beir(tmp_path / "a"), beir(tmp_path / "b", ["q1"])], metrics=["RR"])
    assert isinstance(found, TaskResults)
    assert list(found.tasks) == ["a", "b"]
    [mean] = found.means
    each = [result.evaluations["reranker"].means["RR"] for result in found.tasks.values()]
    assert mean.title == "mean of these 2 tasks"
    assert mean.means["reranker"]["RR"] == pytest.approx(sum(each) / 2)


def test_the_list_shows_every_task_with_its_counts() -> None:
    table = tasks_table()
    lines = {line.split()[0]: line.split() for line in table.split("\n") if line.strip()}
    assert TASKS.keys() <= lines.keys()
    assert lines["dl20"][1:6] == ["54", "8,841,823", "11,386", "2+", "bm25"]
    assert lines["beir-robust04"][1:7] == ["249", "528,155", "-", "1+", "bm25", "licensed:"]
    assert [name for name in SUITES if f"  {name}: " not in table] == []


def test_noveleval_as_given(shared_data: Path) -> None:
    found = evaluate(AsGiven(), f"noveleval=noveleval:{shared_data}/noveleval")
    for system in ("first_stage", "reranker"):
        means = found.evaluations[system].means
        assert tuple(means.values()) == pytest.approx((0.643, 0.582, 0.650), abs=5e-4)
        assert found.evaluations[system].judged_at_10 == 1.0
    assert len(found.evaluations["reranker"].per_query) == TASKS["noveleval"].queries
    assert found.timings["reranker"].process_peak_bytes > 2**20


def test_scifact_by_our_own_index(shared_data: Path) -> None:
    found = evaluate(AsGiven(), f"beir-scifact=beir:{shared_data}/scifact", depth=10)
    assert len(found.evaluations["first_stage"].per_query) == TASKS["beir-scifact"].queries
    assert found.evaluations["first_stage"].means["nDCG@10"] == pytest.approx(0.676, abs=0.005)


def test_candidate_json_with_judgements_beside_it(shared_data: Path) -> None:
    folder = shared_data / "trec-dl"
    names = [
        f"dl{year}=rankgpt:{folder}/candidates/dl{year}.bm25.json,qrels={folder}/qrels.dl{year}-passage.txt"
        for year in (19, 20)
    ]
    found = evaluate(AsGiven(), names, metrics=["nDCG@10", "R@100"])
    assert isinstance(found, TaskResults)
    figures = {
        name: result.evaluations["first_stage"].means["nDCG@10"] for name, result in found.tasks.items()
    }
    assert figures == {"dl19": pytest.approx(0.5058, abs=5e-5), "dl20": pytest.approx(0.4796, abs=5e-5)}
    assert found.tasks["dl19"].evaluations["reranker"].relevance_level == 2
    [mean] = found.means
    assert mean.title == "mean of DL19 and DL20"
    assert mean.means["reranker"]["nDCG@10"] == pytest.approx(0.4927, abs=5e-5)


@pytest.mark.parametrize(
    ("name", "method", "metrics"),
    [("redial", "pool", ["Success@1"]), ("redial-all-movies", "popular", ["nDCG@10", "RR@10", "R@50"])],
)
def test_recommendation_has_its_own_candidates_and_metrics(
    tmp_path: Path, name: str, method: str, metrics: list[str]
) -> None:
    (tmp_path / "test_data.jsonl").write_text("", encoding="utf-8")
    found = section(f"{name}=redial:{tmp_path}")
    assert (found.candidates.method, found.metrics, found.task) == (method, metrics, name)
    with pytest.raises(InputError, match=rf"{name}: its data must be named \({name}=redial:FOLDER"):
        section(name)

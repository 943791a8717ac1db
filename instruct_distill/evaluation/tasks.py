"""Known tasks, each an exact identity under a short name, so that its name alone gives a comparable figure.

Counts are those of ir_datasets' catalogue; of licensed data sets, those of BEIR's table 1 (arXiv 2104.08663).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from instruct_distill.evaluation.joining import Joining
from instruct_distill.evaluation.table import ABSENT, aligned

NDCG = ("nDCG@1", "nDCG@5", "nDCG@10")


class Task(NamedTuple):
    """One task.

    Args:
        name: what people type; also its folder and its entry in summaries.
        queries: judged queries.
        documents: documents of the collection.
        judgements: pairs of query and document that have a grade; None where nobody has published it.
        collection: where the data come from, or None where the user must say so.
        obtain: how to say so, for tasks without a collection.
        candidates: the method for first-stage lists: ``bm25``, ``given`` with the data, ``pool`` or
            ``popular`` (recommendation).
        relevance_level: the lowest relevant grade, for every metric but nDCG.
        joining: how a title is put before its text in prompts.
        drop_self: whether the document with the query's own id is no candidate.
        metrics: what is measured where nothing else is asked for.
    """

    name: str
    queries: int
    documents: int
    judgements: int | None
    collection: str | None = None
    obtain: str = ""
    candidates: str = "bm25"
    relevance_level: int = 1
    joining: Joining = "blank"
    drop_self: bool = False
    metrics: tuple[str, ...] = NDCG


class Suite(NamedTuple):
    """Tasks that are evaluated together.

    Args:
        name: what people type.
        tasks: names of its tasks.
        mean: what the mean over all of them is called, or empty where it means nothing.
    """

    name: str
    tasks: tuple[str, ...]
    mean: str = ""


def _trec_dl() -> Iterable[Task]:
    # NIST prescribes grade 2 for binary metrics (arXiv 2003.07820): grade 1 is on the topic, but no answer.
    for name, dataset, queries, documents, judgements, candidates in (
        ("dl19", "msmarco-passage/trec-dl-2019/judged", 43, 8_841_823, 9_260, "bm25"),
        ("dl20", "msmarco-passage/trec-dl-2020/judged", 54, 8_841_823, 11_386, "bm25"),
        # 138 million passages are more than an index at home; the track's own top 100 comes with the data
        ("dl21", "msmarco-passage-v2/trec-dl-2021/judged", 53, 138_364_198, 10_828, "given"),
        ("dl22", "msmarco-passage-v2/trec-dl-2022/judged", 76, 138_364_198, 386_416, "given"),
    ):
        yield Task(
            name,
            queries,
            documents,
            judgements,
            f"irds:{dataset}",
            candidates=candidates,
            relevance_level=2,
        )


def _beir() -> Iterable[Task]:
    for dataset, queries, documents, judgements in (
        ("trec-covid", 50, 171_332, 66_336),
        ("nfcorpus/test", 323, 3_633, 12_334),
        ("webis-touche2020/v2", 49, 382_545, 2_214),
        ("dbpedia-entity/test", 400, 4_635_922, 43_515),
        ("scifact/test", 300, 5_183, 339),
        ("arguana", 1_406, 8_674, 1_406),
        ("climate-fever", 1_535, 5_416_593, 4_681),
        ("fever/test", 6_666, 5_416_568, 7_937),
        ("fiqa/test", 648, 57_638, 1_706),
        ("hotpotqa/test", 7_405, 5_233_329, 14_810),
        ("msmarco/dev", 6_980, 8_841_823, 7_437),
        ("nq", 3_452, 2_681_468, 4_201),
        ("quora/test", 10_000, 522_931, 15_675),
        ("scidocs", 1_000, 25_657, 29_928),
        ("cqadupstack/android", 699, 22_998, 1_696),
        ("cqadupstack/english", 1_570, 40_221, 3_765),
        ("cqadupstack/gaming", 1_595, 45_301, 2_263),
        ("cqadupstack/gis", 885, 37_637, 1_114),
        ("cqadupstack/mathematica", 804, 16_705, 1_358),
        ("cqadupstack/physics", 1_039, 38_316, 1_933),
        ("cqadupstack/programmers", 876, 32_176, 1_675),
        ("cqadupstack/stats", 652, 42_269, 913),
        ("cqadupstack/tex", 2_906, 68_184, 5_154),
        ("cqadupstack/unix", 1_072, 47_382, 1_693),
        ("cqadupstack/webmasters", 506, 17_405, 1_395),
        ("cqadupstack/wordpress", 541, 48_605, 744),
    ):
        yield _beir_task(
            f"beir-{_short(dataset)}", queries, documents, judgements, collection=f"irds:beir/{dataset}"
        )
    for name, queries, documents in (
        ("signal1m", 97, 2_866_316),
        ("trec-news", 57, 594_977),
        ("robust04", 249, 528_155),
    ):
        yield _beir_task(
            f"beir-{name}",
            queries,
            documents,
            None,
            obtain=f"licensed: beir-{name}=beir:FOLDER, or beir-{name}=rankgpt:FILE,qrels=FILE",
        )


def _beir_task(
    name: str,
    queries: int,
    documents: int,
    judgements: int | None,
    *,
    collection: str | None = None,
    obtain: str = "",
) -> Task:
    # The paper's released evaluation shows BEIR's documents as "Title: ... Content: ...". The queries of
    # ArguAna and Quora are documents of the corpus: each would find itself, which is no answer.
    return Task(
        name,
        queries,
        documents,
        judgements,
        collection,
        obtain,
        joining="labelled",
        drop_self=name.removeprefix("beir-") in ("arguana", "quora"),
    )


def _nano_beir() -> Iterable[Task]:
    for dataset, queries, documents, judgements in (
        ("arguana", 50, 3_635, 50),
        ("climate-fever", 50, 3_408, 148),
        ("dbpedia-entity", 50, 6_045, 1_158),
        ("fever", 50, 4_996, 57),
        ("fiqa", 50, 4_598, 123),
        ("hotpotqa", 50, 5_090, 100),
        ("msmarco", 50, 5_043, 50),
        ("nfcorpus", 50, 2_953, 2_518),
        ("nq", 50, 5_035, 57),
        ("quora", 50, 5_046, 70),
        ("scidocs", 50, 2_210, 244),
        ("scifact", 50, 2_919, 56),
        ("webis-touche2020", 49, 5_745, 932),
    ):
        # its documents come with their titles joined by a blank already
        yield Task(
            f"nano-beir-{_short(dataset)}",
            queries,
            documents,
            judgements,
            f"irds:nano-beir/{dataset}",
            drop_self=dataset in ("arguana", "quora"),
        )


def _short(dataset: str) -> str:
    """``scifact/test`` → ``scifact``, ``webis-touche2020/v2`` → ``touche``."""
    for ending in ("/test", "/dev", "/v2"):
        dataset = dataset.removesuffix(ending)
    return dataset.replace("webis-touche2020", "touche").replace("/", "-")


_NOVEL_EVAL = Task(
    "noveleval",
    21,
    420,
    420,
    obtain="noveleval=noveleval:FOLDER, the folder NovelEval of https://github.com/sunnweiwei/RankGPT",
    candidates="given",
)


def _redial() -> Iterable[Task]:
    # The pools of the paper, and the honest view: every movie but those that the dialogue has named.
    for name, candidates, metrics in (
        ("redial", "pool", ("Success@1",)),
        ("redial-all-movies", "popular", ("nDCG@10", "RR@10", "R@50")),
    ):
        yield Task(
            name,
            4_380,
            6_924,
            4_380,
            obtain=f"{name}=redial:FOLDER, ReDial's files of https://redialdata.github.io/website",
            candidates=candidates,
            metrics=metrics,
        )


TASKS = {task.name: task for task in (*_trec_dl(), *_beir(), *_nano_beir(), _NOVEL_EVAL, *_redial())}
"""Every known task by its name."""

_PAPER = (
    "trec-covid",
    "nfcorpus",
    "touche",
    "dbpedia-entity",
    "scifact",
    "signal1m",
    "trec-news",
    "robust04",
)

SUITES = {
    suite.name: suite
    for suite in (
        Suite("dl19-dl20", ("dl19", "dl20"), "mean of DL19 and DL20"),
        Suite("trec-dl", ("dl19", "dl20", "dl21", "dl22")),
        Suite(
            "beir-paper",
            tuple(f"beir-{name}" for name in _PAPER),
            "mean of the eight tasks of table 3 (arXiv 2311.01555)",
        ),
        Suite(
            "beir-cqadupstack",
            tuple(name for name in TASKS if name.startswith("beir-cqadupstack-")),
            "mean of CQADupStack's 12 forums, one task in BEIR",
        ),
        Suite(
            "beir-public",
            tuple(name for name, task in TASKS.items() if name.startswith("beir-") and task.collection),
        ),
        Suite(
            "nano-beir",
            tuple(name for name in TASKS if name.startswith("nano-beir-")),
            "mean of NanoBEIR's 13 tasks",
        ),
    )
}
"""Every suite by its name."""


def tasks_table() -> str:
    """Return the known tasks and suites as lines of text."""
    rows = [["task", "queries", "documents", "judgements", "relevant", "candidates", "source"]]
    for task in TASKS.values():
        rows.append(
            [
                task.name,
                f"{task.queries:,}",
                f"{task.documents:,}",
                ABSENT if task.judgements is None else f"{task.judgements:,}",
                f"{task.relevance_level}+",
                task.candidates,
                task.collection or task.obtain,
            ]
        )
    lines = aligned(rows, left=("task", "candidates", "source"))
    lines += ["", "suites (their tasks by one name)"]
    lines += [
        f"  {suite.name}: {len(suite.tasks)} tasks, {suite.mean or 'no mean over them'}"
        for suite in SUITES.values()
    ]
    lines += [
        "",
        "queries: judged ones; relevant: lowest grade that counts, for metrics other than nDCG",
        "without self: " + ", ".join(task.name for task in TASKS.values() if task.drop_self),
        "TASK=COLLECTION[,qrels=FILE][,run=FILE] evaluates a task on data of your own (beir:FOLDER, "
        "files:FOLDER, rankgpt:FILE, ...)",
    ]
    return "\n".join(lines)

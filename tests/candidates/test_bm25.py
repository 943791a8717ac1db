from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest

from instruct_distill.candidates import retrieve
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.errors import InputError
from instruct_distill.records import Document, Run
from tests.candidates.small_collection import SmallCollection, asked

BOTH = pytest.mark.parametrize("engine", ["bm25s", "rank_bm25"])

SIX = [
    Document("d1", "Ferries leave the harbour every twenty minutes.", "Harbour ferries"),
    Document("d2", "Clean and oil the chain after wet rides.", "Bicycle chain care"),
    Document("d3", "Tomato plants need full sun and steady water.", "Growing tomatoes"),
    Document("d4", "Tides rise and fall twice a day along the coast.", "Tide tables"),
    Document("d5", "A drop of oil stops a hinge from squeaking.", "Squeaky hinges"),
    Document("d6", "", ""),
]


def ids(run: Run, query_id: str = "q1") -> list[str]:
    return [document.doc_id for document in run[query_id]]


@BOTH
@pytest.mark.parametrize(
    ("texts", "query", "expected"),
    [
        (["red bicycle repair", "garden hose guide"], "bicycle", ["d1"]),
        (["garden hose guide", "red bicycle repair"], "bicycle", ["d2"]),
        (["old harbour", "old mill", "new harbour", "new mill"], "harbour", ["d1", "d3"]),
        (["bicycle", "hose", "bicycle"], "bicycle", ["d1", "d3"]),
        (["bicycle", "bicycle"], "bicycle", ["d1", "d2"]),
    ],
)
def test_b01_a_document_with_the_word_is_listed_and_no_other(
    engine: str, texts: list[str], query: str, expected: list[str]
) -> None:
    run = retrieve(SmallCollection(texts), asked(query), CandidateParameters(engine=engine))
    assert ids(run) == expected


def test_b01_okapi_says_that_the_collection_is_too_small(caplog: pytest.LogCaptureFixture) -> None:
    texts = SmallCollection(["old harbour", "old mill", "new harbour", "new mill"])
    retrieve(texts, asked("harbour"), CandidateParameters(engine="rank_bm25"))
    assert "gives 4 terms a weight of 0 or below" in caplog.text


@BOTH
@pytest.mark.parametrize("query", ["blue kite", "BLUE KITE", "blue, kite!", "Blue kites"])
def test_b02_queries_are_tokenised_as_documents_are(engine: str, query: str) -> None:
    texts = SmallCollection(["A red kite", "Blue Kite festival", "winter boots"])
    assert ids(retrieve(texts, asked(query), CandidateParameters(engine=engine))) == ["d2", "d1"]


@BOTH
def test_b03_depth_beyond_the_collection_and_queries_that_find_nothing(
    engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    queries = asked(
        "how to oil a bicycle chain", "when do ferries leave", "", "   ", "what is the", "zzz qqq"
    )
    run = retrieve(SmallCollection(SIX), queries, CandidateParameters(engine=engine, depth=100))
    assert list(run) == ["q1", "q2", "q3", "q4", "q5", "q6"]
    assert ids(run, "q1") == ["d2", "d5"]
    assert ids(run, "q2") == ["d1"]
    assert [run[name] for name in ("q3", "q4", "q5", "q6")] == [[], [], [], []]
    warned = [record.message for record in caplog.records if "find no document" in record.message]
    assert warned == [
        "small: 4 of 6 queries find no document and have an empty list (q3 '': no usable term; "
        "q4 '   ': no usable term; q5 'what is the': no usable term; ...)"
    ]


@BOTH
def test_b03_empty_texts_are_indexed_and_an_empty_collection_is_refused(engine: str) -> None:
    parameters = CandidateParameters(engine=engine)
    assert retrieve(SmallCollection(["", "", ""]), asked("oil"), parameters) == {"q1": []}
    with pytest.raises(InputError, match="small: the collection has no documents"):
        retrieve(SmallCollection([]), asked("oil"), parameters)


@BOTH
@pytest.mark.parametrize(
    ("texts", "query", "first"),
    [
        (["vitamin D dose", "vitamin C dose", "vitamin K dose"], "C", "d2"),
        (["大阪の料理", "東京の天気は晴れです"], "天気", "d2"),
        (["ข่าวกีฬา", "พยากรณ์อากาศวันนี้"], "อากาศ", "d2"),
        (["अंग्रेज़ी", "हिन्दी भाषा"], "हिन्दी", "d2"),
        (["Ankara", "İstanbul"], "istanbul", "d2"),
        (["5 K", "5 G"], "G", "d2"),
    ],
)
def test_b04_single_letters_and_other_scripts(engine: str, texts: list[str], query: str, first: str) -> None:
    # BM25Okapi needs a collection in which a term of one document weighs something.
    collection = SmallCollection([*texts, *["garden hose"] * 4])
    assert ids(retrieve(collection, asked(query), CandidateParameters(engine=engine)))[0] == first


def test_b04_a_japanese_word_is_found_in_two_documents() -> None:
    texts = SmallCollection(["東京の天気は晴れです", "大阪の料理"])
    assert ids(retrieve(texts, asked("天気"), CandidateParameters())) == ["d1"]


def test_b04_a_query_without_a_term_in_common_is_named(caplog: pytest.LogCaptureFixture) -> None:
    retrieve(SmallCollection(["red kite"]), asked("天気", "kite"), CandidateParameters())
    assert "1 of 2 queries" in caplog.text
    assert "q1 '天気': no term in common with the documents" in caplog.text


@BOTH
def test_b06_the_query_itself_is_left_out_where_asked_and_the_depth_is_kept(engine: str) -> None:
    documents = SmallCollection(
        [Document(name, text) for name, text in zip("abcd", ["hose"] * 4, strict=True)]
        + [Document("q1", "red kite"), Document("x", "red kite"), Document("y", "kite")]
    )
    keep = CandidateParameters(engine=engine, depth=2)
    drop = CandidateParameters(engine=engine, depth=2, drop_self=True)
    assert set(ids(retrieve(documents, asked("red kite"), keep))) == {"q1", "x"}
    assert set(ids(retrieve(documents, asked("red kite"), drop))) == {"x", "y"}


def test_scores_are_those_of_lucenes_formula() -> None:
    run = retrieve(
        SmallCollection(["kite kite", "red kite day", "hose"]), asked("kite"), CandidateParameters()
    )
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    relative = {"d1": 2 / 2, "d2": 3 / 2}
    expected = {
        name: idf * tf / (tf + 0.9 * (1 - 0.4 + 0.4 * relative[name])) for name, tf in (("d1", 2), ("d2", 1))
    }
    assert ids(run) == ["d1", "d2"]
    assert {document.doc_id: document.score for document in run["q1"]} == pytest.approx(expected, rel=1e-6)


@BOTH
def test_equal_scores_are_in_the_order_of_the_collection_at_every_depth(engine: str) -> None:
    texts = SmallCollection([*["red kite"] * 5, "kite kite hose", *["garden"] * 8])
    whole = ids(retrieve(texts, asked("red"), CandidateParameters(engine=engine)))
    assert whole == ["d1", "d2", "d3", "d4", "d5"]
    for depth in (1, 2, 3, 4):
        run = retrieve(texts, asked("red"), CandidateParameters(engine=engine, depth=depth))
        assert ids(run) == whole[:depth]


@BOTH
def test_two_documents_of_one_id_are_refused(engine: str) -> None:
    twice = SmallCollection([Document("a", "kite"), Document("b", "hose"), Document("a", "red")])
    with pytest.raises(InputError, match="two documents have the id 'a'"):
        retrieve(twice, asked("kite"), CandidateParameters(engine=engine))


def test_two_queries_of_one_id_are_refused() -> None:
    with pytest.raises(InputError, match="2 queries have the id 'q1'"):
        retrieve(SmallCollection(["kite"]), [*asked("kite"), *asked("hose")], CandidateParameters())


def test_no_queries_no_lists() -> None:
    assert retrieve(SmallCollection(["kite"]), [], CandidateParameters()) == {}


def test_a_large_collection_is_pointed_to_bm25s(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instruct_distill.candidates.rank_bm25_engine.LARGE", 2)
    retrieve(
        SmallCollection(["kite", "hose", "boot"]), asked("kite"), CandidateParameters(engine="rank_bm25")
    )
    assert "3 documents in memory" in caplog.text


def test_bm25s_is_quiet() -> None:
    import instruct_distill.candidates.bm25s_engine  # noqa: F401

    assert logging.getLogger("bm25s").level == logging.WARNING


def test_scifact(shared_data: Path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    from instruct_distill.sources import open_collection

    collection = open_collection(f"beir:{shared_data / 'scifact'}")
    qrels = collection.qrels("test")
    queries = collection.queries("test")
    assert qrels is not None
    assert len(queries) == 300
    run = retrieve(collection, queries, CandidateParameters())
    scores = {name: {d.doc_id: d.score for d in documents} for name, documents in run.items()}
    each = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(scores)
    assert sum(values["ndcg_cut_10"] for values in each.values()) / 300 == pytest.approx(0.676, abs=0.005)
    assert retrieve(collection, queries, CandidateParameters()) == run

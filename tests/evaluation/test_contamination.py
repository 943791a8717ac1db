from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from instruct_distill.evaluation import spans
from instruct_distill.evaluation.contamination import contamination
from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.records import Document, Qrels, Query, Run, ScoredDocument
from instruct_distill.sources import open_collection

SPAN = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu"

TEST_QUERIES = [
    Query("exact", "who is robert gray"),
    Query("case", "what is a landfill"),
    Query("unicode", "cafe\u0301 with a terrace"),
    Query("near", "how long does a flea live outdoors"),
    Query("inside", "when was the army founded"),
    Query("clean", "why is the sky blue"),
]
TEST_DOCUMENTS = [
    Document("span", f"Begin. {SPAN}. End."),
    Document("equal", "A short one."),
    Document("variant", f"\uff21lpha b\u00adeta {SPAN[11:]}"),
    Document("own", "Of one corpus."),
    Document("clean", "Nothing of this is known to anybody in the training data of this student at all."),
    Document(
        "clean-again", "Nothing of this is known to anybody in the training data of this student at all."
    ),
    Document("empty", ""),
]
TRAINING_QUERIES = [
    Query("t1", "who is robert gray"),
    Query("t2", "What is a LANDFILL?!"),
    Query("t3", "CAF\u00c9 with a terrace"),
    Query("t4", "how long does a flea live outdoors then"),
    Query("t5", "how deep is the sea"),
]
TRAINING_DOCUMENTS = [
    Document("d1", f"Much longer text before it, {SPAN.upper().replace(' ', ', ')}, and much after it."),
    Document("d2", "a SHORT one"),
    Document("d3", "He asked: When was the Army founded? In 1865."),
    Document("own", "Of one corpus."),
    Document("d4", ""),
]
QRELS: Qrels = {query.query_id: {"span": 1} for query in TEST_QUERIES} | {"clean": {"clean": 1}}
RUN: Run = {
    query.query_id: [ScoredDocument("span" if query.query_id in ("exact", "case") else "x", 1.0)]
    for query in TEST_QUERIES
}


def test_every_planted_leak_is_found() -> None:
    found = contamination(TRAINING_QUERIES, TRAINING_DOCUMENTS, TEST_QUERIES, TEST_DOCUMENTS)
    assert [(leak.kind, leak.query.query_id, leak.training_id) for leak in found.queries] == [
        ("exact", "exact", "t1"),
        ("normalised", "case", "t2"),
        ("normalised", "unicode", "t3"),
        ("near_duplicate", "near", "t4"),
        ("contained", "inside", "d3"),
    ]
    assert [(o.doc_ids, o.same_document, o.equal, o.shared_span, o.words) for o in found.documents] == [
        (("span",), False, None, "d1", SPAN),
        (("equal",), False, "d2", None, ""),
        (("variant",), False, None, "d1", SPAN),
        (("own",), True, "own", None, ""),
    ]
    assert (found.training_queries, found.training_documents) == (5, 5)
    assert (found.test_queries, found.test_documents, found.test_texts) == (6, 7, 6)


def test_bounded_memory_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = contamination(TRAINING_QUERIES, TRAINING_DOCUMENTS, TEST_QUERIES, TEST_DOCUMENTS)
    monkeypatch.setattr(spans, "SPANS_IN_MEMORY", 1)
    assert contamination(TRAINING_QUERIES, iter(TRAINING_DOCUMENTS), TEST_QUERIES, TEST_DOCUMENTS) == whole


def test_figures_with_and_without_what_was_found() -> None:
    found = contamination(TRAINING_QUERIES, TRAINING_DOCUMENTS, TEST_QUERIES, TEST_DOCUMENTS)
    evaluations = {"student": evaluate_run(QRELS, RUN, ["RR", "P@1"])}
    content = found.as_dict(evaluations, QRELS)
    json.dumps(content, allow_nan=False)
    assert content["queries"]["found"] == 5
    assert content["queries"]["near_duplicate"] == {
        "count": 1,
        "examples": [
            {
                "test": "near",
                "test_text": "how long does a flea live outdoors",
                "training": "t4",
                "training_text": "how long does a flea live outdoors then",
            }
        ],
    }
    assert content["documents"]["same_document"]["count"] == 1
    assert content["documents"]["equal"]["count"] == 2
    assert content["documents"]["shared_13_words"]["count"] == 2
    assert content["documents"]["shared_13_words"]["examples"][0] == {
        "test": "span",
        "training": "d1",
        "text": SPAN,
    }
    assert content["documents"]["found_without_same_document"] == 3
    assert content["without_found_queries"] == {
        "queries": 6,
        "queries_left": 1,
        "systems": {
            "student": {
                "RR": {"all": pytest.approx(2 / 6), "left": 0.0},
                "P@1": {"all": pytest.approx(2 / 6), "left": 0.0},
            }
        },
    }
    assert content["without_queries_of_found_documents"]["queries_left"] == 1
    assert found.line(evaluations) == (
        "contamination: 5 of 6 test queries (1 exact, 2 normalised, 1 near duplicate, 1 contained) found "
        "among 5 training queries and 5 training documents; of 6 candidate texts 2 equal, 2 sharing 13 words "
        "(1 the same document of one corpus); P@1 without those found (1 of 6 queries): student 0.0000"
    )


def test_a_clean_result_says_what_was_compared() -> None:
    found = contamination(TRAINING_QUERIES[4:], TRAINING_DOCUMENTS[4:], TEST_QUERIES[:3], TEST_DOCUMENTS[:2])
    evaluations = {"student": evaluate_run(QRELS, RUN, ["RR"])}
    assert found.line(evaluations) == (
        "contamination: 0 of 3 test queries found among 1 training queries and 1 training documents; "
        "of 2 candidate texts 0 equal, 0 sharing 13 words"
    )
    compared = found.as_dict(evaluations, QRELS)["compared"]
    assert (compared["training_queries"], compared["test_texts"]) == (1, 2)
    assert "Jaccard index of 0.8" in compared["queries"]


def test_no_query_left() -> None:
    found = contamination(TEST_QUERIES, [], TEST_QUERIES, [])
    evaluations = {"student": evaluate_run(QRELS, RUN, ["RR"])}
    content = found.as_dict(evaluations, QRELS)
    assert content["without_found_queries"]["systems"]["student"]["RR"]["left"] is None
    assert found.line(evaluations).endswith("RR without those found (0 of 6 queries): student -")


def trec_dl(folder: Path, *years: int) -> tuple[list[Query], list[Document]]:
    collections = [
        open_collection(f"rankgpt:{folder}/trec-dl/candidates/dl{year}.bm25.json") for year in years
    ]
    documents = {document.doc_id: document for each in collections for document in each.documents()}
    return [query for each in collections for query in each.queries()], list(documents.values())


def test_dl21_and_dl22_are_clean_training_queries_for_dl19_and_dl20(shared_data: Path) -> None:
    training, test = trec_dl(shared_data, 21, 22), trec_dl(shared_data, 19, 20)
    start = time.process_time()
    found = contamination(*training, *test)
    assert time.process_time() - start < 30
    assert found.queries == ()
    assert (found.training_queries, found.test_queries, found.test_texts) == (129, 97, 9657)
    assert sum(overlap.shared_span is not None for overlap in found.documents) == 17
    assert sum(overlap.equal is not None for overlap in found.documents) == 1
    assert not any(overlap.same_document for overlap in found.documents)


def test_dl20_and_dl19_are_of_one_corpus(shared_data: Path) -> None:
    found = contamination(*trec_dl(shared_data, 20), *trec_dl(shared_data, 19))
    assert found.queries == ()
    assert sum(overlap.equal is not None for overlap in found.documents) == 35
    assert sum(overlap.same_document for overlap in found.documents) == 35
    assert sum(overlap.shared_span is not None for overlap in found.documents) == 43


def test_a_query_of_dl19_planted_in_dl21_is_found(shared_data: Path) -> None:
    (queries, documents), (test_queries, test_documents) = trec_dl(shared_data, 21), trec_dl(shared_data, 19)
    planted = Query("planted", f"  {test_queries[7].text.upper()}?")
    found = contamination([*queries, planted], documents, test_queries, test_documents)
    assert [(leak.kind, leak.query, leak.training_id) for leak in found.queries] == [
        ("normalised", test_queries[7], "planted")
    ]

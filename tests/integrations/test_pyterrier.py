from __future__ import annotations

import pandas as pd
import pyterrier as pt
import pytest

from instruct_distill.errors import InputError
from instruct_distill.integrations.pyterrier import Rerank
from instruct_distill.reranker import Reranker

RESULTS = pd.DataFrame(
    [
        ["q2", "where", "d1", "In the north, they say.", 9.0, 0],
        ["q1", "what is it", "d1", "It is a test.", 3.0, 0],
        ["q1", "what is it", "d2", "Nothing of the kind.", 2.0, 1],
        ["q1", "what is it", "d3", "", 1.0, 2],
    ],
    columns=["qid", "query", "docno", "text", "score", "rank"],
)
TOPICS = pd.DataFrame([["q1", "what is it"], ["q2", "where"]], columns=["qid", "query"])
QRELS = pd.DataFrame([["q1", "d2", 1], ["q2", "d1", 1]], columns=["qid", "docno", "label"])


def test_scores_and_ranks_are_the_students(reranker: Reranker) -> None:
    before = RESULTS.copy()
    found = Rerank(reranker).transform(RESULTS)
    pd.testing.assert_frame_equal(RESULTS, before)
    assert found["qid"].tolist() == ["q2", "q1", "q1", "q1"]
    expected = reranker.rank("what is it", RESULTS["text"].tolist()[1:])
    own = found[found["qid"] == "q1"]
    assert own["docno"].tolist() == [f"d{item.index + 1}" for item in expected]
    assert own["score"].tolist() == pytest.approx([item.score for item in expected], abs=1e-4)
    assert own["rank"].tolist() == [0, 1, 2]


def test_in_a_pipeline_and_an_experiment(reranker: Reranker) -> None:
    first = pt.Transformer.from_df(RESULTS)
    pipeline = first >> Rerank(reranker)
    table = pt.Experiment([first, pipeline], TOPICS, QRELS, ["ndcg_cut_10"], names=["first", "student"])
    assert table["name"].tolist() == ["first", "student"]
    order = reranker.rank("what is it", RESULTS["text"].tolist()[1:])
    place = next(item.rank for item in order if item.index == 1)
    gain = {1: 1.0, 2: 0.6309298, 3: 0.5}[place]
    assert table["ndcg_cut_10"].tolist() == pytest.approx([(0.6309298 + 1) / 2, (gain + 1) / 2], abs=1e-4)


def test_nothing_in_nothing_out(reranker: Reranker) -> None:
    assert Rerank(reranker).transform(RESULTS.iloc[:0]).columns.tolist() == RESULTS.columns.tolist()


def test_a_column_that_is_missing(reranker: Reranker) -> None:
    with pytest.raises(InputError, match=r"no column body \(it has qid, .*pt\.text\.get_text"):
        Rerank(reranker, text_field="body").transform(RESULTS)

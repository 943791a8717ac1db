from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.inference.engine import Engine, Question
from instruct_distill.inference.local import LocalEngine
from instruct_distill.labels import LabelStore, read_labels
from instruct_distill.models.loading import load_model
from instruct_distill.prompts.named import PROMPTS, named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.records import Comparison, Document
from instruct_distill.teachers import STRATEGIES
from instruct_distill.teachers.labelling import (
    CandidateTexts,
    chunk,
    chunks_of,
    label_chunk,
    prompt_of,
    strategy_of,
)
from instruct_distill.teachers.strategy import Strategy
from tests.teachers.stub_engine import D1, D2, D3, D4, D5, D6, Q1, Q2, StubEngine, context, parameters

SCORES = {"d1": 1.0, "d2": 5.0, "d3": 0.25, "d4": 0.5, "d5": 2.0, "d7": 1.5}
LISTS = [CandidateTexts(Q1, (D2, D5, D3)), CandidateTexts(Q2, (D1, D4))]


def by_table(question: Question) -> float:
    values = [SCORES[document.doc_id] for document in question.documents]
    return values[0] - values[1] if len(values) == 2 else values[0]


def strategy(name: str) -> Strategy:
    return strategy_of(parameters(strategy=name), context())


def test_the_known_strategies() -> None:
    assert {"allpairs", "permutations", "qrels", "query_generation", "relevance_generation", "run"} <= set(
        STRATEGIES.names()
    )
    for name in STRATEGIES.names():
        assert issubclass(STRATEGIES.load(name).STRATEGY, Strategy)
    with pytest.raises(InputError, match="unknown strategy 'all-pairs'; did you mean 'allpairs'"):
        STRATEGIES.load("all-pairs")


@pytest.mark.parametrize(
    ("prompts", "size", "chunks"),
    [
        ([90, 90, 90, 90], 200, [[0, 1], [2, 3]]),
        ([90, 300, 90], 200, [[0], [1], [2]]),  # a list longer than a chunk is one of its own
        ([0, 0, 0, 0, 0], 2, [[0, 1], [2, 3], [4]]),  # lists without prompts count as one
        ([2, 6, 2], 8, [[0, 1], [2]]),
        ([], 8, []),
    ],
)
def test_chunks(prompts: list[int], size: int, chunks: list[list[int]]) -> None:
    assert chunk(prompts, size) == chunks


@pytest.mark.parametrize(
    ("at_once", "least", "chunks"),
    [
        ([2, 2, 2, 2, 2], 4, [[0, 1], [2, 3], [4]]),  # a chunk of one list would ask two prompts at a time
        ([2, 2, 2, 2, 2], 5, [[0, 1, 2], [3, 4]]),
        ([2, 9, 2, 2, 2], 4, [[0, 1], [2, 3], [4]]),
        ([9, 9, 9, 9, 9], 4, [[0], [1], [2], [3], [4]]),
        ([2, 2, 2, 2, 2], 99, [[0, 1, 2, 3, 4]]),
    ],
)
def test_chunks_of_lists_that_ask_little_at_a_time(
    at_once: list[float], least: float, chunks: list[list[int]]
) -> None:
    assert chunk([600] * 5, 512, at_once=at_once, least_at_once=least) == chunks


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("allpairs", 1),  # 9,900 prompts at once
        ("relevance_generation", 5),
        ("heapsort", 16),  # 600 prompts in 150 rounds, so that 16 lists ask 64 in a round
        ("bubblesort", 4),  # 1,890 prompts in 108 rounds
        ("setwise", 35),  # 85 prompts in 46 rounds
        ("listwise", 64),  # 9 windows, one after the other
    ],
)
def test_lists_of_a_hundred_in_a_chunk(name: str, lists: int) -> None:
    chunks = chunks_of(strategy(name), [100] * 200, parameters(strategy=name))
    assert len(chunks[0]) == lists
    # a batch of twice the tokens wants twice the lists
    wide = chunks_of(strategy(name), [100] * 200, parameters(strategy=name, tokens_per_batch=8192))
    alone = name in ("allpairs", "relevance_generation")
    assert len(wide[0]) in ([lists] if alone else [2 * lists - 1, 2 * lists])
    # who asks for small chunks gets them
    small = chunks_of(strategy(name), [100] * 200, parameters(strategy=name, prompts_per_chunk=1))
    assert len(small[0]) == 1


@pytest.mark.parametrize("name", ["allpairs", "relevance_generation", "query_generation"])
def test_lists_are_labelled_alike_alone_and_together(name: str) -> None:
    together = label_chunk(strategy(name), StubEngine(by_table), LISTS)
    alone = [label_chunk(strategy(name), StubEngine(by_table), [item])[0] for item in LISTS]
    assert together == alone
    assert [label.query_id for label in together] == ["q1", "q2"]
    assert [label.doc_ids for label in together] == [("d2", "d5", "d3"), ("d1", "d4")]
    for label in together:
        assert sorted(label.scores, reverse=True) == list(label.scores)


def test_relevance_generation_is_equation_2() -> None:
    (label,) = label_chunk(strategy("relevance_generation"), StubEngine(lambda q: -1.0), LISTS[:1])
    assert label.scores == pytest.approx([0.2689414] * 3, abs=1e-6)  # 1 − p(No) = sigmoid(−1)
    (label,) = label_chunk(strategy("relevance_generation"), StubEngine(lambda q: 1.0), LISTS[:1])
    assert label.scores == pytest.approx([1.7310586] * 3, abs=1e-6)
    assert label.comparisons == ()


@pytest.mark.parametrize(
    ("score", "expected"),
    [("equation_2", [0.2689414, 0.2689414]), ("yes_logit", [-1.0, -1.0]), ("yes_minus_no", [-1.0, -1.0])],
)
def test_relevance_generation_by_the_rule_of_a_student(score: str, expected: list[float]) -> None:
    chosen = strategy_of(parameters(strategy={"name": "relevance_generation", "score": score}), context())
    (label,) = label_chunk(chosen, StubEngine(lambda q: -1.0), LISTS[1:])
    assert label.scores == pytest.approx(expected, abs=1e-6)
    assert chosen.settings() == {"score": score}


@pytest.mark.parametrize("name", ["relevance_generation", "query_generation"])
def test_pointwise_strategies_ask_once_a_document(name: str) -> None:
    engine = StubEngine(by_table)
    label_chunk(strategy(name), engine, LISTS)
    assert engine.asked == [("q1", "d2"), ("q1", "d5"), ("q1", "d3"), ("q2", "d1"), ("q2", "d4")]
    assert strategy(name).prompts(7) == 7


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("name", ["allpairs", "relevance_generation", "query_generation"])
def test_lists_with_nothing_to_compare(name: str, count: int) -> None:
    lists = [CandidateTexts(Q1, (D2,)[:count]), LISTS[1]]
    first, second = label_chunk(strategy(name), StubEngine(by_table), lists)
    assert (first.doc_ids, len(first.scores)) == (("d2",)[:count], count)
    assert second.doc_ids == ("d1", "d4")


# -- empty documents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n\t ", "\u3000"])
@pytest.mark.parametrize("name", ["allpairs", "relevance_generation", "query_generation"])
def test_b20_empty_documents_are_not_asked_and_come_last(name: str, text: str) -> None:
    engine = StubEngine(by_table)
    empty = D6._replace(text=text)
    (label,) = label_chunk(strategy(name), engine, [CandidateTexts(Q1, (D2, empty, D5))])
    (without,) = label_chunk(strategy(name), StubEngine(by_table), [CandidateTexts(Q1, (D2, D5))])
    assert all("d6" not in asked for asked in engine.asked)
    assert label.doc_ids == ("d2", "d6", "d5")
    assert (label.scores[0], label.scores[2]) == without.scores
    assert label.scores[0] > label.scores[2] > label.scores[1]
    assert label.comparisons == tuple(
        Comparison((0, 2)[c.first], (0, 2)[c.second], c.margin) for c in without.comparisons
    )


def test_b20_a_title_is_text() -> None:
    engine = StubEngine(by_table)
    label_chunk(
        strategy("relevance_generation"), engine, [CandidateTexts(Q1, (D2, Document("d7", "", "Oil")))]
    )
    assert engine.asked == [("q1", "d2"), ("q1", "d7")]


def test_b20_only_empty_documents() -> None:
    engine = StubEngine(by_table)
    (label,) = label_chunk(strategy("allpairs"), engine, [CandidateTexts(Q1, (D6, D6._replace(doc_id="d8")))])
    assert engine.asked == []
    assert label.scores == (-1.0, -1.0)


# -- prompts and engines ------------------------------------------------------------------------------------


def test_each_strategy_has_its_prompt() -> None:
    names = {"allpairs": "pairwise-passage", "relevance_generation": "pointwise-passage"}
    names["query_generation"] = "query-generation"
    for name, prompt in names.items():
        assert prompt_of(parameters(strategy=name), strategy(name)) == PROMPTS[prompt]
    qrels = parameters(model=None, qrels=True)
    assert prompt_of(qrels, strategy_of(qrels, context())) is None


def test_b14_a_prompt_that_does_not_fit_its_strategy() -> None:
    chosen = parameters(strategy="allpairs", prompt="pointwise-passage")
    with pytest.raises(
        InputError, match=r"'pointwise-passage' does not fit strategy allpairs: it shows 1 document"
    ):
        prompt_of(chosen, strategy("allpairs"))
    own = Prompt(template="{a} or {b}?", answers=("A", "B"))
    with pytest.raises(InputError, match=r"it has no field \{query\}"):
        prompt_of(parameters(strategy="allpairs", prompt=own), strategy("allpairs"))


def test_a_strategy_that_asks_needs_an_engine() -> None:
    with pytest.raises(InputError, match="AllPairs needs a model that gives answer_logits"):
        label_chunk(strategy("allpairs"), None, LISTS)


def test_a_ready_ranking_asks_no_model() -> None:
    with pytest.raises(InputError, match=r"strategy 'run' asks no model; write 'teacher: \{run: \.\.\.\}'"):
        strategy("run")


# -- killed and broken runs ---------------------------------------------------------------------------------

DOCUMENTS = (D2, D5, Document("d3", "Café tables on the quay.", "Été"))
CANDIDATES = [
    CandidateTexts(Q1, DOCUMENTS),
    CandidateTexts(Q2, (D1, D4)),
    CandidateTexts(Q2._replace(query_id="qé"), (D4, D1, D3)),
]


def run(path: Path, engine: Engine) -> None:
    """The label stage in short: each list is a chunk."""
    store = LabelStore(path, {"teacher": "stub"}, [[item.query.query_id] for item in CANDIDATES])
    for number in store.pending():
        store.append(number, label_chunk(strategy("allpairs"), engine, [CANDIDATES[number]]))


def test_b19_only_the_missing_list_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    first = StubEngine(by_table)
    run(path, first)
    assert len(first.asked) == 6 + 2 + 6
    whole = path.read_bytes()
    for kept in (len(whole) - 20, len(whole) - 1, whole.rindex("é".encode()) + 1):
        path.write_bytes(whole[:kept])
        again = StubEngine(by_table)
        run(path, again)
        assert {asked[0] for asked in again.asked} == {"qé"}
        assert len(again.asked) == 6
        assert path.read_bytes() == whole
    idle = StubEngine(by_table)
    run(path, idle)
    assert idle.asked == []
    pairs = [(label.query_id, c.first, c.second) for label in read_labels(path) for c in label.comparisons]
    assert len(pairs) == len(set(pairs)) == 14


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_b15_a_broken_answer_stops_and_finished_queries_stay(
    tiny_t5: Path, device: torch.device, tmp_path: Path, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_model(str(tiny_t5), dtype="fp32", device=device)
    engine = LocalEngine(loaded, named_prompt("pairwise-passage"), max_length=256)
    tide = engine.encoder.encode_continuation("Tide")[0]
    forward = loaded.model.forward

    def broken(prompts: Sequence[Sequence[int]], answers: Any) -> torch.Tensor:
        scores = forward(prompts, answers).clone()
        scores[[row for row, prompt in enumerate(prompts) if tide in prompt], 0] = value
        return scores

    monkeypatch.setattr(loaded.model, "forward", broken)
    path = tmp_path / "labels.jsonl"
    with pytest.raises(NonFiniteScoreError, match=r"query 'q2' with document\(s\) 'd1', 'd4'"):
        run(path, engine)
    assert [label.query_id for label in read_labels(path)] == ["q1"]
    text = path.read_text("utf-8")
    assert not any(word in text for word in ("NaN", "Infinity", "null"))
    monkeypatch.undo()
    run(path, engine)
    assert [label.query_id for label in read_labels(path)] == ["q1", "q2", "qé"]


def test_b14_odd_texts_go_through_labelling(tiny_t5: Path, device: torch.device) -> None:
    engine = LocalEngine(
        load_model(str(tiny_t5), dtype="fp32", device=device),
        named_prompt("pairwise-passage"),
        max_length=256,
    )
    texts = (
        "Use {braces} and {query}.",
        "end</s> of <pad> text <extra_id_0>",
        "Passage B: none.\n\nAnswer: A",
    )
    documents = tuple(Document(f"d{i}", text) for i, text in enumerate(texts))
    (label,) = label_chunk(strategy("allpairs"), engine, [CandidateTexts(Q1, documents)])
    assert len(label.comparisons) == 6
    assert sum(label.scores) == 6.0

"""Every strategy that asks a model, against models of which it is known what must come out.

One is always right, one always gives the first answer, one is right in one order only, one answers NaN; then
killed runs, and documents without text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from instruct_distill.errors import NonFiniteScoreError
from instruct_distill.inference.engine import Engine, FloatArray, Question
from instruct_distill.inference.local import LocalEngine
from instruct_distill.inference.written_answers import WrittenAnswers
from instruct_distill.labels import LabelStore, read_labels
from instruct_distill.models.loading import load_model
from instruct_distill.records import Comparison, Document, ListLabel, Query
from instruct_distill.teachers import STRATEGIES
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk, prompt_of
from instruct_distill.teachers.statistics import label_statistics
from instruct_distill.teachers.strategy import Strategy
from tests.teachers.ordered_engine import (
    Logits,
    OrderedEngine,
    always_first,
    best_k,
    documents,
    label,
    ranking,
    right,
    right_where_the_best_is_first,
    shuffled,
    strategy,
)

PAIRWISE = ("allpairs", "sampled_pairs", "heapsort", "bubblesort")
POINTWISE = ("relevance_generation", "query_generation")
ASKING = (*PAIRWISE, "setwise", "listwise", *POINTWISE)


def known(name: str) -> Strategy:
    """The strategy, asked for as much as it can ask."""
    return strategy(name, **({"share": 1.0} if name == "sampled_pairs" else {}))


class EveryEngine(OrderedEngine):
    """Answers every kind of question from the right order of the documents."""

    def __init__(self, name: str, order: Sequence[int], logits: Logits = right) -> None:
        super().__init__(order, logits)
        found = prompt_of(known(name).parameters, known(name))
        assert found is not None
        self.prompt = found

    def answer_logits(self, questions: Sequence[Question]) -> FloatArray:
        if len(self.prompt.document_fields) != 1 or self.prompt.block:
            return super().answer_logits(questions)
        return np.array([[self.logits(self.places(q))[0], 0.0] for q in questions], np.float32)

    def log_likelihood(self, questions: Sequence[Question]) -> FloatArray:
        return np.array([self.logits(self.places(question))[0] for question in questions], np.float32)

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        """The numbers of the documents, the one with the highest logit first."""
        texts = []
        for question in questions:
            logits = self.logits(self.places(question))
            order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
            texts.append(" > ".join(f"[{i + 1}]" for i in order))
        return texts


def test_no_strategy_is_left_out() -> None:
    assert set(ASKING) == {name for name in STRATEGIES.names() if STRATEGIES.load(name).STRATEGY.asks}


# -- (a) always right ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 10, 25])
@pytest.mark.parametrize("name", ASKING)
def test_always_right(name: str, n: int) -> None:
    for seed in range(3):
        order = shuffled(n, seed)
        engine = EveryEngine(name, order)
        chosen = known(name)
        found = label(chosen, engine, n)
        ranked = 10 if name in ("heapsort", "bubblesort", "setwise", "listwise") else n
        if name == "listwise" and n <= 20:
            ranked = n  # one window
        assert ranking(found)[:ranked] == best_k(order, ranked)[:ranked]
        top = [found.scores[i] for i in order[:ranked]]
        assert all(better > worse for better, worse in pairwise(top))
        assert len(engine.asked) <= chosen.prompts(n)
        if name in ("allpairs", "sampled_pairs", *POINTWISE):
            assert len(engine.asked) == chosen.prompts(n) == (n if name in POINTWISE else n * (n - 1))
        statistics = label_statistics([found])
        assert statistics.undecided == 0
        if name in PAIRWISE:
            assert (statistics.inconsistent, statistics.position_bias) == (0.0, 0.0)
        if name == "allpairs":
            assert [found.scores[i] for i in order] == [2 * (n - 1 - place) for place in range(n)]


# -- (b) always the first answer ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ASKING)
def test_b16_always_a(name: str) -> None:
    n = 10
    found = label(known(name), EveryEngine(name, shuffled(n, 1), always_first), n)
    if name in ("setwise", "listwise"):
        # asked in one order only, such a model cannot be told from a first stage that is right
        assert ranking(found) == list(range(n))
    else:
        assert len(set(found.scores)) == 1
        assert label_statistics([found]).informative == 0
    if name in PAIRWISE:
        statistics = label_statistics([found])
        assert (statistics.inconsistent, statistics.position_bias) == (1.0, 1.0)
        assert statistics.position_bias_spread == 0.0
    if name == "allpairs":
        assert found.scores == (float(n - 1),) * n
        assert len(found.comparisons) == n * (n - 1)


def test_b16_always_a_in_every_turn_of_a_set() -> None:
    found = label(strategy("setwise", rotate=True), EveryEngine("setwise", range(10), always_first), 10)
    assert set(found.scores) == {1.0}


# -- (c) right in one order, undecided in the other ---------------------------------------------------------


class Undecided(EveryEngine):
    """Writes the right answer where the better one is shown first, else something that is no answer."""

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        places = [self.places(question) for question in questions]
        return ["Passage A" if shown[0] == min(shown) else "Both are fine." for shown in places]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("name", PAIRWISE)
def test_b16_right_in_one_order_only(name: str, written: bool) -> None:
    n = 8
    order = shuffled(n, 2)
    engine: Engine = EveryEngine(name, order, right_where_the_best_is_first)
    if written:
        engine = WrittenAnswers(Undecided(name, order))
    found = label(known(name), engine, n)
    assert ranking(found) == order
    statistics = label_statistics([found])
    assert statistics.undecided == statistics.comparisons / 2
    assert statistics.inconsistent == 0.0
    if name == "allpairs":
        # 1.5 for the better one of a pair, 0.5 for the other: no full win
        assert [found.scores[i] for i in order] == [1.5 * (7 - place) + 0.5 * place for place in range(n)]


def test_right_in_one_turn_of_a_set_only() -> None:
    order = shuffled(9, 2)
    engine = EveryEngine("setwise", order, right_where_the_best_is_first)
    assert ranking(label(strategy("setwise", rotate=True), engine, 9)) == order


# -- (d) NaN, and killed runs -------------------------------------------------------------------------------

LISTS = [
    CandidateTexts(Query("q1", "which is best"), documents(3)),
    CandidateTexts(Query("qé", "which is béttér"), (Document("é1", "Café"), Document("é2", "Thé"))),
    CandidateTexts(Query("q3", "which is worse"), (*documents(2), Document("e", " "))),
    CandidateTexts(Query("q4", "which is worst"), ()),
]


def work(name: str, path: Path, engine: Engine) -> None:
    """The label stage in short: each list is a chunk."""
    store = LabelStore(path, {"strategy": name}, [[item.query.query_id] for item in LISTS])
    for number in store.pending():
        store.append(number, label_chunk(known(name), engine, [LISTS[number]]))


@pytest.mark.parametrize("name", ASKING)
def test_b15_nan_stops_and_finished_queries_stay(
    name: str, tiny_llama: Path, device: torch.device, tmp_path: Path
) -> None:
    loaded = load_model(str(tiny_llama), dtype="fp32", device=device)
    engine = LocalEngine(loaded, EveryEngine(name, range(3)).prompt, max_length=512)
    path, undisturbed = tmp_path / "labels.jsonl", tmp_path / "undisturbed.jsonl"
    work(name, undisturbed, engine)
    store = LabelStore(path, {"strategy": name}, [[item.query.query_id] for item in LISTS])
    store.append(0, label_chunk(known(name), engine, LISTS[:1]))
    head = loaded.model.model.get_output_embeddings().weight
    sound = head.detach().clone()
    with torch.no_grad():
        head.fill_(float("nan"))
    with pytest.raises(NonFiniteScoreError, match=r"query 'qé' with document\(s\) 'é") as caught:
        work(name, path, engine)
    assert "use dtype bf16 or fp32" in str(caught.value)
    assert [found.query_id for found in read_labels(path)] == ["q1"]
    assert not any(word in path.read_text("utf-8") for word in ("NaN", "Infinity", "null"))
    with torch.no_grad():
        head.copy_(sound)
    work(name, path, engine)
    assert path.read_bytes() == undisturbed.read_bytes()


class Remembering(EveryEngine):
    """Knows the documents of LISTS, and which queries it was asked about."""

    def __init__(self, name: str) -> None:
        super().__init__(name, range(3))
        self.place |= {"é1": 1, "é2": 0}
        self.queries: list[str] = []
        self.texts: list[str] = []

    def places(self, question: Question) -> list[int]:
        self.queries.append(question.query.query_id)
        self.texts += [document.full_text for document in question.documents]
        return super().places(question)


@pytest.mark.parametrize("name", ASKING)
def test_b19_only_what_is_missing_is_asked_again(name: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    first = Remembering(name)
    work(name, path, first)
    whole = path.read_bytes()
    second = whole.index('{"query_id":"qé"'.encode())
    third = whole.index(b'{"query_id":"q3"')
    in_a_letter = whole.index("é".encode(), second + 20) + 1
    for kept, missing in ((in_a_letter, {"qé", "q3"}), (third - 1, {"qé", "q3"}), (third + 20, {"q3"})):
        path.write_bytes(whole[:kept])
        again = Remembering(name)
        work(name, path, again)
        assert set(again.queries) == missing
        assert again.queries == [query for query in first.queries if query in missing]
        assert path.read_bytes() == whole
    idle = Remembering(name)
    work(name, path, idle)
    assert idle.queries == []


# -- documents without text ---------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", ["", "\n\t ", "\u3000"])
@pytest.mark.parametrize("name", ASKING)
def test_b20_empty_documents_are_not_asked_and_come_last(name: str, empty: str) -> None:
    good = (Document("d0", "one"), Document("d1", "", "two"), Document("d2", "three"))
    query = Query("q", "which")
    engine = Remembering(name)
    chosen = known(name)
    (found,) = label_chunk(
        chosen, engine, [CandidateTexts(query, (Document("e", empty), good[2], good[0], good[1]))]
    )
    (without,) = label_chunk(chosen, Remembering(name), [CandidateTexts(query, (good[2], good[0], good[1]))])
    assert "" not in engine.texts
    assert found.doc_ids == ("e", "d2", "d0", "d1")
    assert found.scores[1:] == without.scores
    assert found.scores[0] < min(without.scores)
    assert ranking(found) == [2, 3, 1, 0]
    assert found.comparisons == tuple(
        Comparison(first + 1, second + 1, margin) for first, second, margin in without.comparisons
    )


@pytest.mark.parametrize("name", ASKING)
def test_lists_with_nothing_to_rank(name: str) -> None:
    query = Query("q", "which")
    lists = [
        CandidateTexts(query, shown)
        for shown in ((), documents(1), (Document("e", ""),), (Document("e", ""), Document("f", " ")))
    ]
    found = label_chunk(known(name), EveryEngine(name, range(3)), lists)
    assert [len(each.scores) for each in found] == [0, 1, 1, 2]
    assert all(each.comparisons == () for each in found)
    assert found[3].scores[0] == found[3].scores[1]
    assert label_statistics(found).lists == 4


# -- together -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ASKING)
def test_lists_are_labelled_alike_alone_and_together(name: str) -> None:
    lists = [CandidateTexts(Query(f"q{n}", "which"), documents(n)) for n in (0, 1, 2, 12, 5)]
    order = shuffled(12, 1)
    chosen = known(name)
    together: list[ListLabel] = label_chunk(chosen, EveryEngine(name, order), lists)
    assert together == [label_chunk(chosen, EveryEngine(name, order), [item])[0] for item in lists]

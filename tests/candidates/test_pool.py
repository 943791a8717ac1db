from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from instruct_distill.candidates import retrieve
from instruct_distill.candidates.baselines import baselines, orderable
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.errors import InputError
from instruct_distill.records import Qrels, Query, Run
from instruct_distill.trec import write_run
from tests.candidates.small_collection import SmallCollection, asked

SHIPS = [f"a ship that sails {'north ' * n}" for n in range(1, 9)]  # d1 to d8
OTHERS = [f"a garden of {n} roses" for n in range(12)]  # d9 to d20
POPULARITY = {f"d{n}": 0.0 for n in range(1, 21)} | {f"d{n}": 100.0 * (n - 10) for n in range(11, 21)}


class Items(SmallCollection):
    """Documents with a popularity; the first query's target is d1."""

    def __init__(
        self,
        texts: Sequence[str] = (*SHIPS, *OTHERS),
        popularity: Mapping[str, float] | None = POPULARITY,
        excluded: Mapping[str, frozenset[str]] | None = None,
        qrels: Qrels | None = None,
    ) -> None:
        super().__init__(texts)
        self._popularity, self._excluded = popularity, excluded or {}
        self._qrels = {"q1": {"d1": 1, "d2": 0}} if qrels is None else qrels

    def popularity(self) -> dict[str, float] | None:
        return None if self._popularity is None else dict(self._popularity)

    def excluded(self, query_id: str) -> frozenset[str]:
        return self._excluded.get(query_id, frozenset())

    def qrels(self, split: str | None = None) -> Qrels:
        return self._qrels


def pool(seed: int = 13, **settings: object) -> CandidateParameters:
    return CandidateParameters(method="pool", seed=seed, **settings)  # type: ignore[arg-type]


def ids(run: Run, query_id: str = "q1") -> list[str]:
    return [document.doc_id for document in run[query_id]]


ASKED = asked("which ship sails north")


def parts(run: Run) -> Counter[str]:
    found = [int(doc_id[1:]) for doc_id in ids(run)]
    return Counter("ship" if n <= 8 else "popular" if n > 12 else "other" for n in found)


def test_target_found_and_popular_documents() -> None:
    run = retrieve(Items(), ASKED, pool())
    assert len(set(ids(run))) == 10
    assert "d1" in ids(run)
    # the target and five others that BM25 finds, four with a popularity above 200
    assert parts(run) == {"ship": 6, "popular": 4}
    assert [score for _, score in run["q1"]] == [float(n) for n in range(10, 0, -1)]


def test_the_found_documents_are_the_best_besides_the_target() -> None:
    collection = Items()
    found = ids(retrieve(collection, ASKED, CandidateParameters(method="bm25", depth=8)))
    pools = set(ids(retrieve(collection, ASKED, pool())))
    assert [doc_id for doc_id in found if doc_id != "d1"][:5] == [d for d in found if d in pools - {"d1"}]


@pytest.mark.parametrize("seed", range(5))
def test_excluded_documents_are_in_no_part(seed: int) -> None:
    excluded = frozenset({"d2", "d3", "d20", "d19"})
    run = retrieve(Items(excluded={"q1": excluded}), ASKED, pool(seed))
    assert len(ids(run)) == 10
    assert not excluded & set(ids(run))


def test_bm25_candidates_respect_what_is_excluded(caplog: pytest.LogCaptureFixture) -> None:
    collection = Items(excluded={"q1": frozenset({"d2", "d8"}), "q2": frozenset({"d9"})})
    queries = [*ASKED, Query("q2", "0 roses")]
    run = retrieve(collection, queries, CandidateParameters(method="bm25", depth=6))
    assert sorted(ids(run)) == ["d1", "d3", "d4", "d5", "d6", "d7"]
    assert "d9" not in ids(run, "q2")
    everything = Items(excluded={"q1": frozenset(POPULARITY)})
    assert retrieve(everything, ASKED, CandidateParameters(method="bm25", depth=6)) == {"q1": []}
    assert "all that it finds is excluded" in caplog.text


def test_pools_depend_on_seed_and_query_alone() -> None:
    qrels = {"q1": {"d1": 1}, "q2": {"d2": 1}}
    first, second = asked("which ship sails north", "which ship sails north")
    both = retrieve(Items(qrels=qrels), [first, second], pool())
    alone = retrieve(Items(qrels=qrels), [second], pool())
    assert both["q2"] == alone["q2"]
    assert both["q1"] != both["q2"]
    assert len({tuple(ids(retrieve(Items(), ASKED, pool(seed)))) for seed in range(5)}) == 5


def test_the_target_has_no_place_of_its_own() -> None:
    queries = [Query(f"q{n}", ASKED[0].text) for n in range(2000)]
    qrels = {query.query_id: {"d1": 1} for query in queries}
    run = retrieve(Items(qrels=qrels), queries, pool())
    places = Counter(ids(run, query.query_id).index("d1") for query in queries)
    assert set(places) == set(range(10))
    assert all(150 < count < 250 for count in places.values())  # 200 expected, standard deviation 13.4


def test_popular_documents_are_drawn_in_proportion_to_popularity() -> None:
    popularity = {"d1": 1.0, "d2": 2.0, "d3": 5.0, "d4": 0.0}
    queries = [Query(f"q{n}", "x") for n in range(4000)]
    collection = Items(["w", "x", "y", "z"], popularity)
    one = retrieve(collection, queries, pool(bm25=0, popular=1, popular_above=0, with_target=False))
    drawn = Counter(ids(one, query.query_id)[0] for query in queries)
    assert [drawn[d] / 4000 for d in popularity] == pytest.approx([1 / 8, 2 / 8, 5 / 8, 0], abs=0.025)
    # without replacement: d3 is left out where d1 and d2 are drawn, in either order
    two = retrieve(collection, queries, pool(bm25=0, popular=2, popular_above=0, with_target=False))
    pairs = Counter(frozenset(ids(two, query.query_id)) for query in queries)
    expected = 1 / 8 * 2 / 7 + 2 / 8 * 1 / 6
    assert pairs[frozenset({"d1", "d2"})] / 4000 == pytest.approx(expected, abs=0.02)


def test_pools_are_full_where_a_part_runs_short(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    nothing_found = retrieve(Items(), asked("zzz"), pool(popular_above=0))
    assert len(ids(nothing_found)) == 10
    assert all(doc_id == "d1" or POPULARITY[doc_id] > 0 for doc_id in ids(nothing_found))
    assert "BM25 found fewer than 5 for 1 queries, popular documents did not suffice for 0" in caplog.text
    few_popular = retrieve(Items(), ASKED, pool(popular_above=850))
    assert len(ids(few_popular)) == 10
    assert {"d19", "d20"} <= set(ids(few_popular))
    assert "popular documents did not suffice for 1" in caplog.text


def test_pools_that_cannot_be_made() -> None:
    with pytest.raises(InputError, match="its documents carry no popularity"):
        retrieve(Items(popularity=None), ASKED, pool())
    with pytest.raises(InputError, match="'q1' has no relevant document to put into its pool"):
        retrieve(Items(qrels={"q1": {"d1": 0}}), ASKED, pool())
    small = Items(["a", "b", "c"], {"d1": 300.0, "d2": 300.0, "d3": 0.0})
    with pytest.raises(InputError, match="needs 10 documents, and only 3 may be in it"):
        retrieve(small, ASKED, pool())


def test_without_target() -> None:
    run = retrieve(Items(qrels={}), ASKED, pool(with_target=False))
    assert parts(run) == {"ship": 5, "popular": 4}


def test_baselines_order_a_pool() -> None:
    collection = Items()
    run = retrieve(collection, ASKED, pool())
    orders = baselines(collection, ASKED, run, pool())
    assert list(orders) == ["bm25", "popularity"]
    found = ids(retrieve(collection, ASKED, CandidateParameters(method="bm25")))
    unfound = [doc_id for doc_id in ids(run) if doc_id not in found]
    assert ids(orders["bm25"]) == [doc_id for doc_id in found if doc_id in ids(run)] + unfound
    assert ids(orders["popularity"]) == sorted(ids(run), key=lambda doc_id: -POPULARITY[doc_id])


def test_a_pool_that_was_written_to_a_file_has_the_same_baselines(tmp_path: Path) -> None:
    collection = Items()
    run = retrieve(collection, ASKED, pool())
    write_run(tmp_path / "pool.trec", run, "pool")
    read = CandidateParameters(method="run", file=str(tmp_path / "pool.trec"))
    again = retrieve(collection, ASKED, read)
    assert ids(again) == ids(run)
    orders = baselines(collection, ASKED, run, pool())
    assert {name: ids(order) for name, order in baselines(collection, ASKED, again, read).items()} == {
        name: ids(order) for name, order in orders.items()
    }


def test_baselines_of_all_documents_are_searched_among_all() -> None:
    collection = Items(excluded={"q1": frozenset({"d20"})})
    searched, popular = (CandidateParameters(method=method, depth=3) for method in ("bm25", "popular"))
    by_words, by_number = (retrieve(collection, ASKED, each) for each in (searched, popular))
    assert ids(by_number) == ["d19", "d18", "d17"]
    assert baselines(collection, ASKED, by_words, searched) == {"popularity": by_number}
    assert baselines(collection, ASKED, by_number, popular) == {"bm25": by_words}
    (pair,) = orderable(collection, ["q1"], by_words, searched)
    assert pair == ("q1", [f"d{n}" for n in range(1, 20)])
    assert list(orderable(collection, ["q1"], by_words, pool())) == [("q1", ids(by_words))]


def test_the_most_popular_documents() -> None:
    run = retrieve(Items(), asked("a", "b"), CandidateParameters(method="popular", depth=12))
    assert run["q1"] == run["q2"]
    # equal ones in the collection's order
    assert ids(run) == [f"d{n}" for n in range(20, 10, -1)] + ["d1", "d2"]
    with pytest.raises(InputError, match="no popularity, which method popular needs"):
        retrieve(Items(popularity=None), ASKED, CandidateParameters(method="popular"))


def test_without_popularity_there_are_no_baselines() -> None:
    collection = Items(popularity=None)
    assert baselines(collection, ASKED, {"q1": []}, CandidateParameters()) == {}

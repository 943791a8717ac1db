from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from scipy.special import betainc

from instruct_distill.cli import main
from instruct_distill.errors import InputError
from instruct_distill.evaluation.compare import compare, read_runs
from instruct_distill.evaluation.compare_table import compare_table
from instruct_distill.records import Qrels, Run, ScoredDocument
from instruct_distill.sources import open_collection
from instruct_distill.sources.qrels import read_qrels

QRELS: Qrels = {"q1": {"a": 1}, "q2": {"a": 2}, "q3": {"a": 0}, "q4": {"a": 1}}


def run(*lists: str) -> Run:
    return {f"q{i}": [ScoredDocument(d, -j) for j, d in enumerate(text)] for i, text in enumerate(lists, 1)}


def files(folder: Path) -> tuple[str, str, str, str]:
    """Two runs, judgements and a collection on disk."""
    (folder / "base.trec").write_text("q1 Q0 x 1 2 t\nq1 Q0 a 2 1 t\nq2 Q0 a 1 1 t\n")
    (folder / "new.run").write_text("q1 Q0 a 1 2 t\nq1 Q0 x 2 1 t\nq2 Q0 a 1 1 t\n")
    (folder / "qrels.txt").write_text("q1 0 a 1\nq2 0 a 1\n")
    record = {
        "query": "who is\x1b[31m it",
        "hits": [
            {"content": "an answer", "qid": "q1", "docid": "a", "rank": 1, "score": 2.0},
            {"content": "another thing " * 20, "qid": "q1", "docid": "x", "rank": 2, "score": 1.0},
        ],
    }
    (folder / "lists.jsonl").write_text(json.dumps(record) + "\n")
    return (
        str(folder / "base.trec"),
        str(folder / "new.run"),
        str(folder / "qrels.txt"),
        f"rankgpt:{folder / 'lists.jsonl'}",
    )


def test_wins_ties_losses_and_changed_queries() -> None:
    found = compare({"one": run("xa", "ax", "a", "ax"), "two": run("ax", "xa", "a")}, QRELS, metrics=["RR"])
    assert [(pair.baseline, pair.system) for pair in found.pairs] == [("one", "two")]
    test = found.pairs[0].tests["RR"]
    assert (test.wins, test.ties, test.losses) == (1, 0, 2)
    assert test.difference.mean == pytest.approx((0.5 - 0.5 - 1) / 3)
    assert [(q.query_id, q.baseline, q.system) for q in found.pairs[0].gained] == [("q1", 0.5, 1.0)]
    # q4 lost most: the second run lacks it, which counts 0.
    assert [(q.query_id, q.baseline, q.system) for q in found.pairs[0].lost] == [
        ("q4", 1.0, 0.0),
        ("q2", 1.0, 0.5),
    ]
    assert [d[:2] for d in found.pairs[0].gained[0].baseline_top] == [("x", None), ("a", 1)]
    assert found.pairs[0].lost[0].system_top == ()


def test_a_run_against_itself() -> None:
    found = compare({"one": run("xa", "ax"), "two": run("xa", "ax")}, QRELS)
    test = found.pairs[0].tests["nDCG@10"]
    assert test.difference == (0.0, 0.0, 0.0)
    assert (test.wins, test.ties, test.losses, test.p_randomisation, test.p_t) == (0, 3, 0, 1.0, 1.0)
    assert "two - one: no query gained (nDCG@10)" in compare_table(found)


def test_at_most_ten_queries_are_shown() -> None:
    qrels = {f"q{i}": {"a": 1} for i in range(1, 21)}
    found = compare({"one": run(*["xa"] * 20), "two": run(*["ax"] * 20)}, qrels)
    assert [q.query_id for q in found.pairs[0].gained] == [f"q{i}" for i in range(1, 11)]


def test_all_pairs_and_their_correction() -> None:
    runs = {"one": run("xa", "xa", "", "xa"), "two": run("ax", "xa", "", "ax"), "three": run("ax", "ax")}
    first = compare(runs, QRELS)
    every = compare(runs, QRELS, all_pairs=True)
    assert [(p.baseline, p.system) for p in first.pairs] == [("one", "two"), ("one", "three")]
    assert [(p.baseline, p.system) for p in every.pairs] == [
        ("one", "two"),
        ("one", "three"),
        ("two", "three"),
    ]
    of_first, of_every = first.pairs[0].tests["nDCG@10"], every.pairs[0].tests["nDCG@10"]
    assert of_first.p_t == of_every.p_t
    assert of_first.holm_t is not None
    assert of_every.holm_t is not None
    assert of_first.p_t is not None
    assert of_first.p_t < of_first.holm_t < of_every.holm_t


def test_fewer_than_two_runs_are_an_error() -> None:
    with pytest.raises(InputError, match="1 run was given"):
        compare({"one": run("a")}, QRELS)


def test_names_of_runs(tmp_path: Path) -> None:
    base, new, _, lists = files(tmp_path)
    (tmp_path / "other").mkdir()
    same_name = tmp_path / "other" / "base.trec"
    same_name.write_text("q1 Q0 a 1 1 t\n")
    assert list(read_runs([base, new, lists])) == ["base", "new", "lists"]
    assert list(read_runs([base, new, str(same_name)])) == [base, "new", str(same_name)]
    with pytest.raises(InputError, match="given twice"):
        read_runs([base, base])


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new, qrels, lists = files(tmp_path)
    main_exits(["compare", base, new, "--qrels", qrels, "--metrics", "RR", "--collection", lists])
    printed = capsys.readouterr().out
    assert (
        printed
        == f"""\
run       RR  queries
---------------------
base  0.7500        2
new   1.0000        2

RR           difference [95% interval]  wins/ties/losses  p randomisation  p t test
-----------------------------------------------------------------------------------
new - base  +0.2500 [+0.0000, +0.5000]             1/1/0           1.0000    0.5000

p: two-sided, paired by query; interval: paired bootstrap over queries
relevant, for metrics other than nDCG: grade 1 or more

new - base: the 1 query that gained most (RR; in brackets: grade)
+0.5000  0.5000 -> 1.0000  query q1: who is [31m it
    base  [-] x  {("another thing " * 20)[:97]}...
    base  [1] a  an answer
    new   [1] a  an answer
    new   [-] x  {("another thing " * 20)[:97]}...

new - base: no query lost (RR)
"""
    )


def main_exits(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0


def test_a_single_run_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, _, qrels, _ = files(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["compare", base, "--qrels", qrels])
    assert stopped.value.code == 2
    assert "error: 1 run was given; expected two or more" in capsys.readouterr().err


def test_json_and_lists_without_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new, qrels, _ = files(tmp_path)
    main_exits(["compare", base, new, "--qrels", qrels, "--metrics", "RR,nDCG@10", "--json"])
    content = json.loads(capsys.readouterr().out)
    assert content["queries"] == 2
    assert content["runs"]["base"]["means"]["RR"] == 0.75
    pair = content["pairs"][0]
    assert list(pair["tests"]) == ["RR", "nDCG@10"]
    assert pair["tests"]["RR"]["difference"] == {"mean": 0.25, "low": 0.0, "high": 0.5}
    assert pair["gained"][0]["baseline_top"][1] == {"doc_id": "a", "grade": 1, "text": None}
    main_exits(["compare", base, new, "--qrels", qrels, "--metrics", "RR"])
    assert "    base  [-] x  [1] a\n    new   [1] a  [-] x\n" in capsys.readouterr().out


def test_a_collection_without_the_queries_is_an_error(tmp_path: Path) -> None:
    base, new, _, lists = files(tmp_path)
    qrels: Qrels = {"q2": {"a": 1}}
    with pytest.raises(InputError, match="has none of the 1 judged queries"):
        compare(read_runs([base, new]), qrels, collection=open_collection(lists))


# The published runs: every figure below is computed without this library.


def values_by_trec_eval(qrels: Qrels, run: Run) -> dict[str, float]:
    scores = {q: {d.doc_id: float(-i) for i, d in enumerate(documents)} for q, documents in run.items()}
    found = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(scores)
    return {query_id: values["ndcg_cut_10"] for query_id, values in found.items()}


def t_test_p(differences: list[float]) -> float:
    """The two-sided p of Student's t by the incomplete beta function (Abramowitz and Stegun 26.7.1)."""
    n = len(differences)
    mean = sum(differences) / n
    t = mean / (sum((d - mean) ** 2 for d in differences) / (n - 1) / n) ** 0.5
    return float(betainc((n - 1) / 2, 0.5, (n - 1) / (n - 1 + t * t)))


def randomisation_p(differences: list[float]) -> float:
    """p over all 2**n exchanges, by the distribution of the sum on a grid of 1e-5."""
    steps = [round(abs(d) * 1e5) for d in differences]
    total = sum(steps)
    probability = np.zeros(2 * total + 1)
    probability[total] = 1.0
    for step in steps:
        if step:
            shifted = np.zeros_like(probability)
            shifted[step:] += 0.5 * probability[:-step]
            shifted[:-step] += 0.5 * probability[step:]
            probability = shifted
    observed = abs(round(sum(differences) * 1e5))
    return float(min(1.0, 2 * probability[total + observed :].sum())) if observed else 1.0


@pytest.mark.parametrize("task", ["dl19", "dl20"])
def test_published_runs_against_an_independent_computation(shared_data: Path, task: str) -> None:
    folder = shared_data / "trec-dl"
    qrels = read_qrels(folder / f"qrels.{task}-passage.txt")
    runs = read_runs(
        [
            f"rankgpt:{folder}/candidates/{task}.bm25.json",
            f"{folder}/runs/{task}.rankgpt-gpt-3.5-turbo.run",
            f"{folder}/runs/{task}.rankvicuna-7b.run",
        ]
    )
    found = compare(runs, qrels, all_pairs=True)
    values = {name: values_by_trec_eval(qrels, run) for name, run in runs.items()}
    assert len(found.pairs) == 3
    by_t = []
    for pair in found.pairs:
        one, other = values[pair.baseline], values[pair.system]
        differences = [other[q] - one[q] for q in one]
        test = pair.tests["nDCG@10"]
        assert test.difference.mean == pytest.approx(sum(differences) / len(differences), abs=1e-9)
        assert (test.wins, test.ties, test.losses) == (
            sum(d > 1e-9 for d in differences),
            sum(abs(d) <= 1e-9 for d in differences),
            sum(d < -1e-9 for d in differences),
        )
        by_t.append(t_test_p(differences))
        assert test.p_t == pytest.approx(by_t[-1], rel=1e-9)
        exact = randomisation_p(differences)
        error = (exact * (1 - exact) / 100_000) ** 0.5  # of a share of 100,000 random exchanges
        assert test.p_randomisation == pytest.approx(exact, abs=4 * error + 5e-5)
    # Holm by hand: of three, the smallest counts three times.
    by_size = sorted(range(3), key=lambda i: by_t[i])
    expected, highest = [0.0] * 3, 0.0
    for rank, i in enumerate(by_size):
        highest = expected[i] = max(highest, min(1.0, by_t[i] * (3 - rank)))
    assert [pair.tests["nDCG@10"].holm_t for pair in found.pairs] == pytest.approx(expected, rel=1e-9)
    # Both language models are far above BM25; 43 or 54 queries show no difference between the two.
    assert [p < 0.001 for p in by_t] == [True, True, False]

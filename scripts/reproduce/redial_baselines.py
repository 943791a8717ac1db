"""What a recommender of ReDial has to beat: chance, popularity and BM25, over pools of several seeds.

    python scripts/reproduce/redial_baselines.py FOLDER [--split test] [--seeds 10] [--sample N]

FOLDER has ReDial's files. Acc@1 is the mean over the seeds' pools; in brackets the 95% bootstrap interval
over examples, each with its mean over the seeds. "All movies" ranks every movie but those mentioned; of its
random order only the expectation is given, in closed form.
A pool holds BM25's best movies, so BM25 puts a target first in it exactly where it does among all movies.
The paper (arXiv 2311.01555, table 4) has random 10.77, popularity 7.69, BM25 8.62.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import statistics
from collections.abc import Sequence
from pathlib import Path

from instruct_distill.candidates import retrieve
from instruct_distill.candidates.baselines import by_bm25, by_popularity, orderable
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.evaluation.random_order import random_order_means
from instruct_distill.evaluation.results import evaluate_run
from instruct_distill.evaluation.significance import interval
from instruct_distill.files import read_json
from instruct_distill.records import Qrels, Query, Run
from instruct_distill.sources import open_collection
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.queries import sample_queries

ACCURACY = "Success@1"
ALL_MOVIES = ("nDCG@10", "RR@10", "R@50", "R@100", ACCURACY)


def pools_of(collection: Collection, queries: Sequence[Query], seeds: int) -> list[Run]:
    """The pools of seeds 1, 2, ..."""
    return [
        retrieve(collection, queries, CandidateParameters(method="pool", depth=10, seed=seed))
        for seed in range(1, seeds + 1)
    ]


def bm25_orders(collection: Collection, queries: Sequence[Query], pools: Sequence[Run]) -> list[Run]:
    """Each pool in BM25's order; every query is searched once, for the documents of all its pools."""
    scores: dict[str, dict[str, float]] = {}
    joined: Run = {}
    for query in queries:
        documents = {document.doc_id: document for pool in pools for document in pool[query.query_id]}
        joined[query.query_id] = list(documents.values())
    for query_id, ranked in by_bm25(collection, queries, joined, CandidateParameters(method="pool")).items():
        scores[query_id] = dict(ranked)
    return [
        {
            query_id: sorted(
                (document._replace(score=scores[query_id][document.doc_id]) for document in documents),
                key=lambda document: -document.score,
            )
            for query_id, documents in pool.items()
        }
        for pool in pools
    ]


def report(system: str, qrels: Qrels, runs: Sequence[Run]) -> str:
    """One line: the mean over pools and examples, the interval, the range of the single pools."""
    found = [evaluate_run(qrels, run, [ACCURACY]) for run in runs]
    values = [each.values(ACCURACY) for each in found]
    of_examples = [statistics.fmean(value[query_id] for value in values) for query_id in qrels]
    mean, low, high = interval(of_examples, seed=13)
    single = [each.means[ACCURACY] for each in found]
    return (
        f"{system:<12} {100 * mean:6.2f}  [{100 * (low or 0):.2f}, {100 * (high or 0):.2f}]   "
        f"{100 * min(single):.2f} to {100 * max(single):.2f}"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--split", default="test")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sample", type=int, help="examples drawn (seed 13); all where left out")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")

    collection = open_collection(f"redial:{arguments.folder}")
    queries = sample_queries(
        collection.queries(arguments.split), arguments.sample, seed=13, source=collection.name
    )
    kept = {query.query_id for query in queries}
    qrels = {q: grades for q, grades in (collection.qrels(arguments.split) or {}).items() if q in kept}
    targets = [next(iter(grades)) for grades in qrels.values()]
    information = Path(arguments.folder) / "movie_info.json"
    plots = (
        {m for m, entry in read_json(information).items() if entry["plot"]} if information.exists() else ()
    )
    messages = {query.query_id.rsplit("-", 1)[0] for query in queries}
    dialogues = {message.rsplit("-", 1)[0] for message in messages}
    print(
        f"{len(queries)} examples in {len(messages)} messages of {len(dialogues)} dialogues, "
        f"{len(set(targets))} different targets; "
        f"{100 * sum(target in plots for target in targets) / len(targets):.1f}% of targets have a plot"
    )

    pools = pools_of(collection, queries, arguments.seeds)
    print(f"\nAcc@1 in %, {arguments.seeds} pools of 10; mean [95% interval]   single pools")
    lists = ((query_id, [document.doc_id for document in pool]) for query_id, pool in pools[0].items())
    print(f"{'random':<12} {100 * random_order_means(qrels, lists, [ACCURACY])[ACCURACY]:6.2f}  closed form")
    print(report("random", qrels, pools))
    print(report("popularity", qrels, [by_popularity(collection, pool) for pool in pools]))
    print(report("BM25", qrels, bm25_orders(collection, queries, pools)))

    print(f"popularity: {collection.popularity_source()}")

    print("\nAll movies")
    searched = CandidateParameters(method="bm25", depth=100)
    random = random_order_means(qrels, orderable(collection, qrels, {}, searched), ALL_MOVIES)
    rows = {"random": random}
    for system, method in (("popularity", "popular"), ("BM25", "bm25")):
        found = retrieve(collection, queries, dataclasses.replace(searched, method=method))
        rows[system] = evaluate_run(qrels, found, ALL_MOVIES).means
    for system, means in rows.items():
        values = ", ".join(f"{metric} {value:.4f}" for metric, value in means.items())
        print(f"{system:<12} {values}")


if __name__ == "__main__":
    main()

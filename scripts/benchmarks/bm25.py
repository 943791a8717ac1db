"""BM25 index and search: this library beside plain bm25s and rank_bm25, in one run.

    INSTRUCT_DISTILL_DATA=FOLDER python scripts/benchmarks/bm25.py --documents 100000

The documents are drawn by a seed from the term statistics of SciFact: lengths are those of its documents,
words are drawn as often as they stand there. Queries are its test queries. Plain bm25s is used as its README
does, saved to disk as this library's index is; once with this library's terms (the same work) and once with
its own tokenizer (its default). rank_bm25 gets this library's terms, scores all documents and sorts them.

First the scores of the first ten documents are compared with those of plain bm25s over the same terms: they
must be the same. Then indexes are built in turns (``--rounds``, from texts), and all search in turns (five
rounds, from texts to ten documents, one query after another). A process of its own then opens the index on
disk and searches: its largest memory is ``search_peak_mib``. One JSON line is appended to
``docs/benchmarks/bm25.jsonl``.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import Stemmer
from measuring import append, data_folder, line_of, parser, seconds_of, table, take_turns, timed
from rank_bm25 import BM25Okapi

from instruct_distill.candidates.bm25s_engine import Bm25sEngine, write_index
from instruct_distill.candidates.engine import best
from instruct_distill.candidates.tokenise import Tokeniser
from instruct_distill.errors import InputError
from instruct_distill.evaluation.memory import process_peak
from instruct_distill.sources import open_collection

K1, B = 0.9, 0.4
DEPTH = 10
SEARCH_ROUNDS = 5
RANK_BM25_AT_MOST = 200_000
"""Documents above which rank_bm25 is left out: it holds a dict a document."""

OURS, SAME, OWN, SLOW = "instruct_distill", "bm25s, the same terms", "bm25s, its own terms", "rank_bm25"
CLOSE = 1e-4

Found = list[list[float]]
Search = Callable[[Sequence[str]], Found]


def made_texts(data: Path, documents: int) -> list[str]:
    """Texts with the lengths and the words' frequencies of SciFact."""
    counts: Counter[str] = Counter()
    lengths = []
    for document in open_collection(f"beir:{data}/scifact").documents():
        words = document.full_text.split()
        counts.update(words)
        lengths.append(len(words))
    draw = np.random.default_rng(13)
    vocabulary = np.array(list(counts), dtype=object)
    shares = np.cumsum(np.fromiter(counts.values(), dtype=float))
    texts = []
    for length in draw.choice(lengths, documents):
        # the same as a choice by probability, which would add the shares up for each text
        places = np.searchsorted(shares, draw.random(length) * shares[-1], side="right")
        texts.append(" ".join(vocabulary[places]))
    return texts


def with_library(texts: Sequence[str], folder: Path) -> Search:
    """Index into a folder, and return what searches it by memory map."""
    write_index(((str(i), text) for i, text in enumerate(texts)), folder, Tokeniser(), K1, B)
    engine = Bm25sEngine(folder)
    return lambda queries: [[each.score for each in engine.search(query, DEPTH)] for query in queries]


def with_bm25s(texts: Sequence[str], folder: Path, terms: Callable[[list[str]], Any]) -> Search:
    """The same with plain bm25s.

    Args:
        texts: what is indexed.
        folder: where to.
        terms: makes of texts what its ``index`` and ``retrieve`` take.
    """
    plain = bm25s.BM25(k1=K1, b=B, method="lucene")
    plain.index(terms(list(texts)), show_progress=False)
    plain.save(folder, show_progress=False)

    def search(queries: Sequence[str]) -> Found:
        found = []
        for query in queries:
            _, scores = plain.retrieve(terms([query]), k=min(DEPTH, len(texts)), show_progress=False)
            found.append(scores[0].tolist())
        return found

    return search


def own_terms(texts: list[str]) -> Any:
    """The tokenizer of bm25s with the same stemmer."""
    return bm25s.tokenize(
        texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False, return_ids=False
    )


def with_rank_bm25(texts: Sequence[str]) -> Search:
    """BM25Okapi, which scores every document."""
    tokeniser = Tokeniser()
    okapi = BM25Okapi([tokeniser(text) for text in texts], k1=K1, b=B)

    def search(queries: Sequence[str]) -> Found:
        scores = (okapi.get_scores(tokeniser(query)) for query in queries)
        return [each[best(each, DEPTH)].tolist() for each in scores]

    return search


def check_scores(ours: Found, theirs: Found) -> float:
    """Return the largest difference; where fewer than ten documents share a term, bm25s fills up with 0.

    Raises:
        InputError: the scores of a query are not the same.
    """
    largest = 0.0
    for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        filled = np.array([*one, *[0.0] * (len(other) - len(one))])
        apart = float(np.abs(filled - np.array(other)).max())
        largest = max(largest, apart)
        if not apart < CLOSE:
            raise InputError(f"query {place}: scores {one[:3]}... here and {other[:3]}... with plain bm25s")
    return largest


def search_peak(folder: Path, queries: Sequence[str]) -> float:
    """The largest memory of a process that opens the index and searches, in MiB."""
    command = [sys.executable, __file__, "--searcher", str(folder)]
    done = subprocess.run(command, input=json.dumps(queries), capture_output=True, text=True, check=True)
    return float(done.stdout)


def searcher(folder: Path) -> None:
    """Search as a process of its own, and print its largest memory in MiB."""
    engine = Bm25sEngine(folder)
    for query in json.load(sys.stdin):
        engine.search(query, DEPTH)
    print(round(own_peak() / 2**20, 1))


def own_peak() -> int:
    """The largest resident size of this program in bytes.

    ``getrusage`` would count the process that started it, too: its figure survives the exec.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return process_peak()
    lines = status.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def benchmark(
    texts: Sequence[str], queries: Sequence[str], slow_queries: int, rounds: int, folder: Path
) -> dict[str, Any]:
    """Build and search in turns.

    Raises:
        InputError: this library and plain bm25s do not give the same scores.
    """
    tokeniser = Tokeniser()
    builders: dict[str, Callable[[], Search]] = {
        OURS: lambda: with_library(texts, folder / "ours"),
        SAME: lambda: with_bm25s(texts, folder / "same", lambda some: [tokeniser(text) for text in some]),
        OWN: lambda: with_bm25s(texts, folder / "own", own_terms),
    }
    if len(texts) <= RANK_BM25_AT_MOST:
        builders[SLOW] = lambda: with_rank_bm25(texts)
    (folder / "ours").mkdir()
    built = take_turns({name: functools.partial(timed, build) for name, build in builders.items()}, rounds)
    searches = {name: turns[-1][0].answers for name, turns in built.items()}
    apart = check_scores(searches[OURS](queries), searches[SAME](queries))
    asked = {name: queries[:slow_queries] if name == SLOW else queries for name in searches}
    asking = {name: functools.partial(searches[name], asked[name]) for name in searches}
    found = take_turns({name: functools.partial(timed, work) for name, work in asking.items()}, SEARCH_ROUNDS)
    rate = {name: len(asked[name]) / seconds_of(turns) for name, turns in found.items()}
    index = {name: seconds_of(turns) for name, turns in built.items()}
    return {
        "largest_difference": float(f"{apart:.2g}"),
        "search_peak_mib": search_peak(folder / "ours", queries),
        "index_mib": round(sum(file.stat().st_size for file in (folder / "ours").iterdir()) / 2**20, 1),
        "systems": {
            name: {
                "index_seconds": [round(done.seconds, 3) for done, _ in built[name]],
                "index_busy_seconds": [round(done.busy, 3) for done, _ in built[name]],
                "queries_per_second": round(rate[name], 2),
                "searches": [len(asked[name]), SEARCH_ROUNDS],
                "index_ratio": round(index[OURS] / index[name], 3),
                "search_ratio": round(rate[OURS] / rate[name], 2),
            }
            for name in builders
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the line."""
    made = parser(__doc__)
    made.add_argument("--documents", type=int, default=100_000)
    made.add_argument(
        "--queries", type=int, default=100, help="of SciFact's (100); rank_bm25 gets 10 of them"
    )
    made.add_argument("--searcher", type=Path, help="the folder of an index; what measures memory uses it")
    chosen = made.parse_args(arguments)
    if chosen.searcher:
        searcher(chosen.searcher)
        return
    data = data_folder(made)
    documents, number, rounds = (
        (400, 5, 1) if chosen.smoke else (chosen.documents, chosen.queries, chosen.rounds)
    )
    queries = [query.text for query in open_collection(f"beir:{data}/scifact").queries()[:number]]
    texts = made_texts(data, documents)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = benchmark(texts, queries, max(number // 10, 1), rounds, Path(folder))
        except InputError as error:
            made.error(str(error))
    line = line_of(
        "bm25",
        "bm25.py",
        ["--documents", str(documents), "--queries", str(number), "--rounds", str(rounds)],
        smoke=chosen.smoke,
        documents=documents,
        words=sum(len(text.split()) for text in texts),
        **found,
    )
    append(line, chosen.out, "bm25.jsonl")
    rows = [
        [
            name,
            f"{np.median(each['index_seconds']):.2f}",
            f"{each['index_ratio']:.2f}",
            f"{each['queries_per_second']:.1f}",
            f"{each['search_ratio']:.1f}",
        ]
        for name, each in found["systems"].items()
    ]
    head = ["system", "index s", "ours takes times", "queries/s", "ours is times as fast"]
    print(table(head, rows))
    print(f"{found['search_peak_mib']:.0f} MiB to search, {found['index_mib']:.0f} MiB on disk")


if __name__ == "__main__":
    main()

"""A served student under load: rate and latency, with and without common batches, and at twice the rate.

    INSTRUCT_DISTILL_DATA=FOLDER OMP_NUM_THREADS=1 python scripts/benchmarks/server_load.py STUDENT

The server is a process of its own on this machine, the clients share another one, over HTTP on the loopback.
A request asks for five passages of a list of TREC DL 2019, each drawn by a seed. What every answer must be is
known before: the same student has scored all passages in this process.

1. ``--clients`` clients ask, each as soon as it has its answer: ``--requests`` in all with common batches, a
   tenth of these with a batch for each request. Every answer is compared: same order, same scores within
   1e-3 (fp32).
2. Requests arrive at twice the rate that was just measured, whether others are answered or not, for
   ``--seconds``, and the queue is short. Counted are answers, refusals (429, which must say when to come
   again) and anything else; then one more request must be answered as ever.

One JSON line is appended to ``docs/benchmarks/serve.jsonl``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
from label_throughput import ROOT, WORDS, dl19_lists

from instruct_distill.environment import environment
from instruct_distill.reranker import Reranker
from instruct_distill.teachers.labelling import CandidateTexts

DOCUMENTS = 5
CLOSE = 1e-3
PERCENTILES = (50, 95, 99)
START_SECONDS = 300
"""In which a server must have loaded its student."""


class Asked(NamedTuple):
    """A request and the scores that it must be answered with.

    Args:
        body: what is sent.
        scores: of each passage, in the order in which they are sent.
    """

    body: dict[str, Any]
    scores: list[float]


class Answered(NamedTuple):
    """What came back.

    Args:
        status: of HTTP; 0 where the connection broke.
        seconds: from sending to the whole answer.
        right: whether it is the answer to this request; a refusal is right if it says when to come again.
    """

    status: int
    seconds: float
    right: bool


def requests_of(lists: Sequence[CandidateTexts], model: str, count: int) -> list[Asked]:
    """Draw requests, and score all passages once.

    Raises:
        InputError: the student cannot be loaded.
    """
    reranker = Reranker.from_pretrained(model, device="cpu", dtype="fp32")
    scores = [reranker.score([(item.query.text, each) for each in item.documents]) for item in lists]
    draw = random.Random(13)
    found = []
    for _ in range(count):
        row = draw.randrange(len(lists))
        chosen = draw.sample(range(len(lists[row].documents)), min(DOCUMENTS, len(lists[row].documents)))
        texts = [lists[row].documents[i].full_text for i in chosen]
        body = {"query": lists[row].query.text, "documents": texts}
        found.append(Asked(body, [float(scores[row][i]) for i in chosen]))
    return found


def is_right(asked: Asked, response: httpx.Response) -> bool:
    """Compare an answer with what it must be."""
    if response.status_code == 429:
        return int(response.headers.get("retry-after", 0)) > 0
    if response.status_code != 200:
        return False
    results = response.json()["results"]
    given = [(each["index"], each["relevance_score"]) for each in results]
    right = sorted(index for index, _ in given) == list(range(len(asked.scores)))
    right = right and all(abs(score - asked.scores[index]) < CLOSE for index, score in given)
    return right and all(one >= other for (_, one), (_, other) in pairwise(given))


async def ask(client: httpx.AsyncClient, asked: Asked) -> Answered:
    """Send one request."""
    began = time.perf_counter()
    try:
        response = await client.post("/v2/rerank", json=asked.body)
    except httpx.HTTPError:
        return Answered(0, time.perf_counter() - began, False)
    seconds = time.perf_counter() - began
    return Answered(response.status_code, seconds, is_right(asked, response))


async def in_turn(url: str, requests: Sequence[Asked], clients: int) -> tuple[list[Answered], float]:
    """Let some clients ask, each when it has its answer; return the answers and the seconds of all."""
    left = iter(requests)
    answers: list[Answered] = []

    async def one_client() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=120) as client:
            for asked in left:
                answers.append(await ask(client, asked))

    began = time.perf_counter()
    await asyncio.gather(*(one_client() for _ in range(clients)))
    return answers, time.perf_counter() - began


async def at_a_rate(url: str, requests: Sequence[Asked], rate: float) -> list[Answered]:
    """Send requests at a rate, whatever becomes of those before."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        sent = []
        began = time.perf_counter()
        for number, asked in enumerate(requests):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            sent.append(asyncio.create_task(ask(client, asked)))
        return list(await asyncio.gather(*sent))


@contextlib.contextmanager
def served(model: str, *options: str) -> Iterator[str]:
    """Start a server, and yield its address."""
    command = [sys.executable, "-m", "instruct_distill", "serve", model, "--port", "0", "--device", "cpu"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:  # a pipe that nobody reads would stop it
        process = subprocess.Popen(
            [*command, "--dtype", "fp32", "--scores", "logit", *options], stderr=said, text=True
        )
        try:
            until = time.monotonic() + START_SECONDS
            while True:
                said.seek(0)
                text = said.read()
                if found := re.search(r"running on (http://\S+)", text):
                    break
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"the server did not start:\n{text}")
                time.sleep(0.1)
            yield found[1]
        finally:
            process.terminate()
            process.wait()


def waiting_times(answers: Sequence[Answered]) -> dict[str, float]:
    """Percentiles of the seconds of answers, in milliseconds."""
    seconds = [answer.seconds for answer in answers if answer.status == 200]
    return {f"p{p}_ms": round(1000 * float(np.percentile(seconds, p)), 1) for p in PERCENTILES if seconds}


def benchmark(model: str, lists: Sequence[CandidateTexts], count: int, clients: int, seconds: float) -> Any:
    """Measure.

    Raises:
        InputError: the student cannot be loaded.
    """
    requests = requests_of(lists, model, count)
    figures: dict[str, Any] = {}
    for name, options, part in (
        ("alone", ("--pairs-per-batch", "1", "--batch-wait-ms", "0"), requests[: max(count // 10, 1)]),
        ("batched", (), requests),
    ):
        with served(model, *options) as url:
            asyncio.run(in_turn(url, part[:clients], clients))  # the first ones pay for what is loaded late
            answers, took = asyncio.run(in_turn(url, part, clients))
        figures[name] = {
            "requests": len(answers),
            "right": sum(answer.right for answer in answers),
            "status": dict(Counter(answer.status for answer in answers)),
            "requests_per_second": round(len(answers) / took, 1),
            **waiting_times(answers),
        }
    rate = 2 * figures["batched"]["requests_per_second"]
    flood = [requests[i % count] for i in range(round(rate * seconds))]
    with served(model, "--queue-pairs", str(4 * DOCUMENTS * clients)) as url:
        asyncio.run(in_turn(url, requests[:clients], clients))
        began = time.perf_counter()
        answers = asyncio.run(at_a_rate(url, flood, rate))
        took = time.perf_counter() - began
        (after,), _ = asyncio.run(in_turn(url, requests[:1], 1))
    figures["twice the load"] = {
        "requests": len(answers),
        "right": sum(answer.right for answer in answers),
        "status": dict(Counter(answer.status for answer in answers)),
        "answered_per_second": round(sum(answer.status == 200 for answer in answers) / took, 1),
        **waiting_times(answers),
        "one more answered": after.status == 200 and after.right,
    }
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, print, and append the line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a student's folder")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0, help="of twice the load")
    parser.add_argument("--queries", type=int, default=43, help="of DL 2019")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks" / "serve.jsonl")
    chosen = parser.parse_args(arguments)
    given = [str(each) for each in (sys.argv[1:] if arguments is None else arguments)]
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl")
    lists = dl19_lists(Path(folder), chosen.queries, 100)
    figures = benchmark(chosen.model, lists, chosen.requests, chosen.clients, chosen.seconds)
    found = {
        "work": "serve",
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python", "scripts/benchmarks/server_load.py", *given]),
        "environment": environment(),
        "passages": {"per_request": DOCUMENTS, "words": WORDS},
        "clients": chosen.clients,
        "results": figures,
    }
    for name, values in figures.items():
        print(f"{name:<16}{json.dumps(values)}")
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    with open(chosen.out, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

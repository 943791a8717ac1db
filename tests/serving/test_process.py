"""The server as a process of its own, asked by clients that others wrote."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cohere
import httpx
import pytest

from instruct_distill.reranker import Reranker
from tests.serving.server_process import KEY, Process

DOCUMENTS = ["It is a test.", "Nothing of the kind, at all.", "A test, it is, and a long one."]
SECONDS = 60.0


def test_the_cohere_client(server: Process, reranker: Reranker) -> None:
    expected = reranker.rank("what is it", DOCUMENTS, probability=True)
    for client in (cohere.ClientV2(KEY, base_url=server.url), cohere.Client(KEY, base_url=server.url)):
        answer: Any = client.rerank(model="any", query="what is it", documents=DOCUMENTS, top_n=2)
        assert [each.index for each in answer.results] == [item.index for item in expected[:2]]
        assert [each.relevance_score for each in answer.results] == pytest.approx(
            [item.probability for item in expected[:2]], abs=1e-4
        )


def test_langchains_own_client_for_cohere(server: Process, reranker: Reranker) -> None:
    import langchain_cohere
    from langchain_core.documents import Document
    from pydantic import SecretStr

    ranks = langchain_cohere.CohereRerank(
        model="any", top_n=2, base_url=server.url, cohere_api_key=SecretStr(KEY)
    )
    found = ranks.compress_documents([Document(text) for text in DOCUMENTS], "what is it")
    assert [each.page_content for each in found] == best(reranker)


def test_llama_indexs_own_client_for_cohere(server: Process, reranker: Reranker) -> None:
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.postprocessor import cohere_rerank

    ranks = cohere_rerank.CohereRerank(model="any", top_n=2, base_url=server.url, api_key=KEY)
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.0) for text in DOCUMENTS]
    found = ranks.postprocess_nodes(nodes, query_str="what is it")
    assert [each.node.get_content() for each in found] == best(reranker)


def best(reranker: Reranker) -> list[str]:
    """The two best documents."""
    return [DOCUMENTS[item.index] for item in reranker.rank("what is it", DOCUMENTS, top_k=2)]


def test_many_clients_get_their_own_answers(server: Process, reranker: Reranker) -> None:
    lists = [[f"{text} {i}" for text in DOCUMENTS] for i in range(40)]
    expected = [item[0].index for item in reranker.rank_many(("what is it", each) for each in lists)]
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=SECONDS) as client:

        def first(documents: list[str]) -> int:
            answer = client.post("/v2/rerank", json={"query": "what is it", "documents": documents})
            return int(answer.json()["results"][0]["index"])

        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(first, lists)) == expected
        counters = client.get("/metrics").text
    batches = re.search(r"rerank_batch_pairs_count ([\d.]+)", counters)
    requests = re.search(r"rerank_batch_requests_total ([\d.]+)", counters)
    assert batches is not None
    assert requests is not None
    assert float(batches[1]) < float(requests[1])


def test_a_stopping_server_finishes_and_never_says_a_key(served: Path) -> None:
    process = Process(served, "--batch-wait-ms", "3000")
    headers = {"Authorization": f"Bearer {KEY}"}
    body = {"query": "what is it", "documents": DOCUMENTS}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            httpx.post, f"{process.url}/v2/rerank", json=body, headers=headers, timeout=SECONDS
        )
        until = time.monotonic() + SECONDS
        while "rerank_waiting_pairs 3.0" not in httpx.get(f"{process.url}/metrics", timeout=SECONDS).text:
            assert time.monotonic() < until
            assert not waiting.done()
        process.process.send_signal(signal.SIGTERM)
        assert waiting.result(SECONDS).status_code == 200
    assert process.process.wait(SECONDS) in (0, -signal.SIGTERM)
    assert KEY not in process.said


def test_a_folder_that_is_no_student() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "instruct_distill", "serve", "./nothing"], capture_output=True, text=True
    )
    assert found.returncode == 2
    assert "error: ./nothing: no such folder" in found.stderr

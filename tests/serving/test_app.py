from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from instruct_distill.errors import NonFiniteScoreError
from instruct_distill.probability import Calibration
from instruct_distill.reranker import Reranker
from instruct_distill.serving.app import create_app
from instruct_distill.serving.settings import ServerSettings

ASKED = {"query": "what is it", "documents": ["It is a test.", "", "Nothing of the kind.", "A test, it is."]}


@pytest.fixture
def client(reranker: Reranker) -> Iterator[TestClient]:
    with TestClient(create_app(reranker)) as made:
        yield made


def limited(reranker: Reranker, **settings: Any) -> TestClient:
    return TestClient(create_app(reranker, ServerSettings(**settings)))


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
def test_the_answer_is_the_librarys(client: TestClient, reranker: Reranker, path: str) -> None:
    answer = client.post(path, json=ASKED)
    assert answer.status_code == 200
    expected = reranker.rank(ASKED["query"], ASKED["documents"], probability=True)  # type: ignore[arg-type]
    found = answer.json()["results"]
    assert [each["index"] for each in found] == [item.index for item in expected]
    assert found[-1]["index"] == 1  # without text
    np.testing.assert_allclose(
        [each["relevance_score"] for each in found], [item.probability for item in expected], atol=1e-5
    )
    assert [each["logit"] for each in found] == pytest.approx([item.score for item in expected], abs=1e-4)
    assert "document" not in found[0]
    assert answer.json()["meta"]["relevance_score"] == "sigmoid"


def test_logits_top_n_and_documents(reranker: Reranker) -> None:
    with limited(reranker, scores="logit") as client:
        answer = client.post("/v2/rerank", json={**ASKED, "top_n": 2, "return_documents": True}).json()
    expected = reranker.rank(ASKED["query"], ASKED["documents"], top_k=2)  # type: ignore[arg-type]
    assert [each["document"]["text"] for each in answer["results"]] == [item.text for item in expected]
    assert [each["relevance_score"] for each in answer["results"]] == pytest.approx(
        [item.score for item in expected], abs=1e-4
    )
    assert answer["meta"]["relevance_score"] == "logit"


def test_fitted_probabilities_say_so(served: Any) -> None:
    fitted = Reranker.from_pretrained(served, dtype="fp32", device="cpu")
    fitted.calibration = Calibration(slope=0.5, intercept=0.0, lists=4, documents=40)
    with TestClient(create_app(fitted)) as client:
        assert client.post("/rerank", json=ASKED).json()["meta"]["relevance_score"] == "fitted"


def test_documents_as_objects_and_their_tokens(client: TestClient, reranker: Reranker) -> None:
    documents = [{"text": "It is a test. " * 9, "title": "T", "year": 3}, {"text": "No."}]
    whole = client.post("/v2/rerank", json={"query": "q", "documents": documents}).json()["results"]
    cut = client.post(
        "/v2/rerank", json={"query": "q", "documents": documents, "max_tokens_per_doc": 3}
    ).json()["results"]
    by_index = [{each["index"]: each["relevance_score"] for each in found} for found in (whole, cut)]
    assert by_index[0][0] != pytest.approx(by_index[1][0], abs=1e-6)
    assert by_index[0][1] == pytest.approx(by_index[1][1], abs=1e-5)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{", 400, "no JSON"),
        ("[]", 422, "body: "),
        ('{"query": "q"}', 422, "documents: Field required"),
        ('{"query": "", "documents": ["d"]}', 422, "query: "),
        ('{"query": "q", "documents": []}', 422, "documents: "),
        ('{"query": 3, "documents": ["d"]}', 422, "query: Input should be a valid string"),
        ('{"query": "q", "documents": ["d", 3]}', 422, "documents.1"),
        ('{"query": "q", "documents": ["d"], "top_n": 0}', 422, "top_n: "),
        (json.dumps({"query": "q", "documents": ["d"] * 6}), 422, "6 documents; this server takes 5"),
        (json.dumps({"query": "long " * 400, "documents": ["d"]}), 422, "no document fits beside it"),
        (json.dumps({"query": "q", "documents": ["d" * 5000]}), 413, "larger than 4000 bytes"),
    ],
)
def test_bad_requests_say_what_is_wrong(reranker: Reranker, body: str, status: int, message: str) -> None:
    with limited(reranker, max_documents=5, max_body_bytes=4000) as client:
        answer = client.post("/v2/rerank", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == status
        assert message in answer.json()["message"]
        assert len(answer.content) < 1000
        assert client.post("/v2/rerank", json={"query": "q", "documents": ["d"]}).status_code == 200


def test_a_body_of_unknown_length_has_a_limit_too(reranker: Reranker) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    with limited(reranker, max_body_bytes=4000) as client:
        assert client.post("/v2/rerank", content=endless()).status_code == 413


def test_any_unicode_comes_back(client: TestClient) -> None:
    documents = [
        "naïve \U0001f600 \u202e",
        "\u0000 null",
        "<script>alert(1)</script>",
        "\ud83d".encode("utf-8", "replace").decode(),
    ]
    answer = client.post(
        "/v2/rerank", json={"query": "Ünï", "documents": documents, "return_documents": True}
    )
    found = {each["index"]: each["document"]["text"] for each in answer.json()["results"]}
    assert [found[i] for i in range(4)] == documents


def test_keys(reranker: Reranker) -> None:
    with TestClient(create_app(reranker, api_keys=["first", "second"])) as client:
        for header, status in (
            (None, 401),
            ("Bearer wrong", 401),
            ("Basic first", 401),
            ("Bearer first", 200),
            ("bearer second", 200),
            ("Bearer é", 401),
        ):
            headers = {} if header is None else {"Authorization": header.encode()}
            answer = client.post("/v2/rerank", json=ASKED, headers=headers)  # type: ignore[arg-type]
            assert answer.status_code == status, header
            assert ("WWW-Authenticate" in answer.headers) is (status == 401)
        # who has no key does not learn what is wrong with a body, nor is it read
        assert client.post("/v2/rerank", content="{").status_code == 401
        assert client.get("/health").status_code == 200


def test_a_busy_server_says_when_to_come_again(reranker: Reranker, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def held(pairs: Any, **choices: Any) -> Any:
        assert go.wait(20)
        return np.zeros(len(pairs), dtype=np.float32)

    monkeypatch.setattr(reranker, "score", held)
    body = {"query": "q", "documents": ["d"] * 4}
    with limited(reranker, queue_pairs=6, pairs_per_batch=4) as client, ThreadPoolExecutor(4) as pool:
        first = pool.submit(client.post, "/v2/rerank", json=body)
        answers = [pool.submit(client.post, "/v2/rerank", json=body) for _ in range(3)]
        done = next(each for each in _finished(answers) if each.status_code == 429)
        assert int(done.headers["Retry-After"]) >= 1
        assert "busy" in done.json()["message"]
        go.set()
        statuses = [each.result().status_code for each in (first, *answers)]
    assert sorted(set(statuses)) == [200, 429]


def _finished(futures: Any) -> Iterator[Any]:
    from concurrent.futures import as_completed

    for future in as_completed(futures, timeout=20):
        yield future.result()


def test_a_request_that_takes_too_long(reranker: Reranker, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def held(pairs: Any, **choices: Any) -> Any:
        assert go.wait(20)
        return np.zeros(len(pairs), dtype=np.float32)

    monkeypatch.setattr(reranker, "score", held)
    with limited(reranker, timeout_seconds=0.1) as client:
        answer = client.post("/v2/rerank", json=ASKED)
        go.set()
    assert answer.status_code == 504


def test_b48_scores_that_are_no_numbers(reranker: Reranker, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(pairs: Any, **choices: Any) -> Any:
        raise NonFiniteScoreError("the model answered nan")

    monkeypatch.setattr(reranker, "score", broken)
    with limited(reranker) as client:
        answer = client.post("/v2/rerank", json=ASKED)
    assert answer.status_code == 500
    assert answer.json()["message"] == "the model answered nan"


def test_health_readiness_and_counters(client: TestClient) -> None:
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").json() == {"status": "ready"}
    client.post("/v2/rerank", json=ASKED)
    client.post("/v2/rerank", json={})
    text = client.get("/metrics").text
    assert 'rerank_requests_total{status="200"} 1.0' in text
    assert 'rerank_requests_total{status="422"} 1.0' in text
    assert "rerank_documents_total 3.0" in text
    assert client.get("/nothing").json() == {"message": "Not Found"}
    assert client.get("/v2/rerank").status_code == 405


def test_the_page_runs_nothing_but_its_own(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert len(re.findall(r"'sha256-[A-Za-z0-9+/=]+'", policy)) == 2
    assert not re.search(r"(src|href)=\"(?!data:)", answer.text)


def test_the_description_lists_every_problem(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {"/v1/rerank", "/v2/rerank", "/rerank", "/health", "/ready"}
    codes = set(described["paths"]["/v2/rerank"]["post"]["responses"])
    assert codes == {"200", "400", "401", "413", "422", "429", "500", "503", "504"}

"""The description at /openapi.json, taken at its word: requests made from it get answers that it promises."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis import GenerationMode

from tests.serving.server_process import KEY, Process

RANKING = ("/v1/rerank", "/v2/rerank", "/rerank")
STATES = ("/health", "/ready")
HEADERS = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def description(server: Process) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


def statuses(operation: Any, mode: GenerationMode, examples: int) -> set[int]:
    """Ask what the description allows, or just does not allow, and return the status codes that came.

    The status code, the content type, the headers and the body must be described, right requests be taken,
    wrong ones be refused, and no key but the right one be let in.
    """
    found = set()

    @seed(13)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        response = case.call(headers=HEADERS)
        found.add(response.status_code)
        case.validate_response(response)

    ask()
    return found


def test_every_path_is_tried(description: Any) -> None:
    assert {each.ok().path for each in description.get_all_operations()} == {*RANKING, *STATES}


@pytest.mark.parametrize("path", RANKING)
def test_right_requests_get_a_ranking(description: Any, path: str) -> None:
    assert statuses(description[path]["POST"], GenerationMode.POSITIVE, 30) == {200}


@pytest.mark.parametrize("path", RANKING)
def test_wrong_requests_are_refused(description: Any, path: str) -> None:
    # what is no JSON is 400, a wrong key 401; some wrong values are right ones once they are on the wire
    found = statuses(description[path]["POST"], GenerationMode.NEGATIVE, 40)
    assert 422 in found
    assert found <= {200, 400, 401, 422}


@pytest.mark.parametrize("path", STATES)
def test_states(description: Any, path: str) -> None:
    assert statuses(description[path]["GET"], GenerationMode.POSITIVE, 2) == {200}


def test_the_description_has_this_servers_limits(server: Process, description: Any) -> None:
    body = {"query": "q", "documents": ["d"] * 8}
    limit = description.raw_schema["components"]["schemas"]["RerankRequest"]["properties"]["documents"]
    assert limit["maxItems"] == len(body["documents"])
    with httpx.Client(base_url=server.url, headers=HEADERS) as client:
        assert client.post("/v2/rerank", json=body).status_code == 200
        assert client.post("/v2/rerank", json={**body, "documents": ["d"] * 9}).status_code == 422


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (r'{"query": "q", "documents": ["\udc00"]}', 422),  # half a surrogate pair
        (r'{"query": "q", "documents": [{"text": "d", "title": "\ud83d"}]}', 422),
        (r'{"query": "\ud83d", "documents": ["d"]}', 422),
        ('{"query": "q", "documents": ["d"], "x": ' + "[" * 100_000 + "]" * 100_000 + "}", 400),
        ('{"query": "q", "documents": ["d"], "top_n": ' + "9" * 5000 + "}", 400),
        ('{"query": "q", "documents": ["d"], "top_n": 1e400}', 422),
        ('{"query": "q", "documents": ["d"], "top_n": NaN}', 422),
        ('{"query": "é", "documents": ["d"]}'.encode("latin-1"), 400),
        ("", 422),
    ],
)
def test_what_no_description_can_make(server: Process, description: Any, body: Any, status: int) -> None:
    answer = httpx.post(
        f"{server.url}/v2/rerank", content=body, headers={**HEADERS, "Content-Type": "application/json"}
    )
    assert answer.status_code == status
    assert set(answer.json()) == {"message"}
    assert len(answer.content) < 500

"""The description at /openapi.json, taken at its word: requests made from it get answers that it promises."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from instruct_distill.reranker import Reranker
from instruct_distill.serving.app import create_app
from instruct_distill.serving.settings import ServerSettings


@pytest.fixture(scope="module")
def description(reranker: Reranker) -> Any:
    # few and short: what matters is the form, and every document is scored
    app = create_app(reranker, ServerSettings(max_documents=8, max_body_bytes=4096))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


SCHEMA = schemathesis.pytest.from_fixture("description")


@SCHEMA.parametrize()
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_what_the_description_says(case: Any) -> None:
    """Status codes, content types and bodies conform, whether the request does or not."""
    response = case.call()
    case.validate_response(response, excluded_checks=[not_a_server_error])
    # a tiny random model may be short of time or of room, but never breaks
    assert response.status_code not in (500, 502), response.text

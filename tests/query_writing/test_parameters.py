from __future__ import annotations

from typing import Any

import pytest

from instruct_distill.errors import RecipeError
from instruct_distill.prompts.named import PROMPTS
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.query_writing.parameters import TrainingQueriesParameters
from instruct_distill.recipe import Recipe

RECIPE: dict[str, Any] = {
    "name": "r",
    "collection": "files:corpus",
    "teacher": {"model": "m"},
    "student": {"model": "m"},
}


def recipe(queries: dict[str, Any], **changes: Any) -> Recipe:
    return Recipe.from_dict({**RECIPE, "queries": queries, **changes})


def test_the_prompt_is_a_name_or_a_record() -> None:
    assert recipe({"generate": "5", "model": "w"}).queries.prompt_record == PROMPTS["write-query"]
    named = recipe({"generate": 5, "model": "w", "prompt": "query-generation"})
    assert named.queries.prompt_record == PROMPTS["query-generation"]
    own = recipe({"generate": 5, "model": "w", "prompt": {"template": "Ask about: {text}"}})
    assert own.queries.prompt_record == Prompt(template="Ask about: {text}")


@pytest.mark.parametrize(
    ("queries", "problem"),
    [
        ({"model": "w"}, "model: for written queries only; say how many with 'generate'"),
        ({"prompt": "write-query", "sample": 3}, "prompt: for written queries only"),
        ({"generate": 5}, "'generate' needs a 'model' that writes the queries"),
        ({"generate": 5, "model": "w", "sample": 3}, "have no split or sample"),
        ({"generate": 5, "model": "w", "split": "train"}, "have no split or sample"),
        ({"server": {"url": "http://x/v1"}}, "server: for written queries only"),
        (
            {"generate": 5, "model": "w", "revision": "main", "server": {"url": "http://x/v1"}},
            "revision: a server has one revision of its model",
        ),
        ({"generate": 0, "model": "w"}, "queries.generate: input should be greater than 0"),
        ({"generate": 5, "model": "w", "prompt": "pointwise-passage"}, "does not fit queries.generate"),
        ({"generate": 5, "model": "w", "prompt": "pairwise-passage"}, "it shows 2 document"),
        ({"generate": 5, "model": "w", "promt": "x"}, "unknown key; did you mean 'prompt'"),
    ],
)
def test_sections_that_are_refused(queries: dict[str, Any], problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe(queries)
    assert problem in str(caught.value)


def test_what_does_not_know_written_queries() -> None:
    written = {"generate": 5, "model": "w"}
    with pytest.raises(RecipeError, match="nobody judged the queries that a model writes"):
        recipe(written, teacher="qrels")
    with pytest.raises(RecipeError, match="the collection brings no lists for written queries"):
        recipe(written, candidates={"method": "given"})
    assert recipe({}, teacher="qrels").teacher.qrels


def test_a_smaller_section() -> None:
    assert TrainingQueriesParameters().smaller(8) == TrainingQueriesParameters(sample=8)
    assert TrainingQueriesParameters(sample=5).smaller(8).sample == 5
    written = TrainingQueriesParameters(generate=40, model="w")
    assert (written.smaller(8).generate, written.smaller(8).sample) == (8, None)
    assert written.smaller(50) == written


def test_the_writer_is_a_needed_file() -> None:
    written = {"generate": 5, "model": "./no/model"}
    assert "./no/model" in recipe(written).needed_files()
    assert "./no/model" not in recipe({**written, "server": {"url": "http://x/v1"}}).needed_files()


def test_how_a_server_is_asked_changes_no_query() -> None:
    server = {"url": "http://x/v1", "concurrency": 4}
    one = recipe({"generate": 5, "model": "w", "server": server}).queries
    other = recipe({"generate": 5, "model": "w", "server": {**server, "url": "http://y/v1", "retries": 1}})
    assert one.settings == other.queries.settings
    assert one.settings != recipe({"generate": 5, "model": "w"}).queries.settings

"""Requests and answers, in the shapes that Cohere's (v1, v2) and Jina's clients send and expect."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from instruct_distill.prompts.unicode import check_unicode


def _in_unicode(text: str) -> str:
    check_unicode([text])  # an InputError is a ValueError, which the answer shows
    return text


Text = Annotated[str, StringConstraints(strict=True), AfterValidator(_in_unicode)]


class DocumentText(BaseModel):
    """A document as an object; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    text: Text
    title: Text = ""


class RerankRequest(BaseModel):
    """What is to be ranked. Fields that only other servers know are ignored."""

    model_config = ConfigDict(extra="ignore")

    query: Annotated[Text, Field(min_length=1, description="What is asked.")]
    documents: Annotated[
        list[Text | DocumentText], Field(min_length=1, description="Texts, or objects with a text.")
    ]
    top_n: Annotated[int | None, Field(ge=1, description="How many to return; all if left out.")] = None
    return_documents: Annotated[bool, Field(description="Send the texts back, too.")] = False
    max_tokens_per_doc: Annotated[
        int | None, Field(ge=1, description="Tokens of a document that are looked at, at most.")
    ] = None
    model: Annotated[str | None, Field(description="Ignored: the server has one model.")] = None


class ReturnedDocument(BaseModel):
    """A document's text."""

    text: str


class RerankResult(BaseModel):
    """One document: its position in the request, and its scores."""

    index: int
    relevance_score: Annotated[
        float, Field(description="From 0 to 1, or the logit; meta.relevance_score says what it is.")
    ]
    logit: Annotated[float, Field(description="The student's own score, which orders the results.")]
    document: ReturnedDocument | None = None


class ResponseMeta(BaseModel):
    """What the numbers are."""

    api_version: dict[str, str]
    relevance_score: Annotated[
        Literal["fitted", "sigmoid", "logit"],
        Field(
            description="fitted: the chance to beat a random candidate of the same query, fitted to the "
            "teacher's choices; sigmoid: of the logit, no more than a monotone map; logit."
        ),
    ]


class RerankResponse(BaseModel):
    """The documents, best first."""

    id: str
    model: str
    results: list[RerankResult]
    usage: dict[str, int]
    meta: ResponseMeta


class Problem(BaseModel):
    """Why a request was not answered."""

    message: str

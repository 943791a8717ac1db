from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import TypeAdapter, ValidationError

from instruct_distill.prompts.prompt import Prompt
from instruct_distill.teachers.parameters import TeacherParameters


def read(**values: object) -> TeacherParameters:
    return TypeAdapter(TeacherParameters).validate_python(values)


def test_defaults() -> None:
    teacher = read(model="google/flan-t5-large")
    assert (teacher.kind, teacher.max_length, teacher.tokens_per_batch, teacher.prompts_per_chunk) == (
        "allpairs",
        512,
        4096,
        512,
    )
    assert (teacher.dtype, teacher.document_words, teacher.prompt) == ("auto", None, None)


def test_scalars_of_a_recipe_are_strings() -> None:
    teacher = read(model="x", max_length="256", document_words="100", prompt="pairwise-movie")
    assert (teacher.max_length, teacher.document_words, teacher.prompt) == (256, 100, "pairwise-movie")
    assert read(qrels="true").kind == "qrels"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"model": "x", "strategy": "query_generation"}, "query_generation"),
        ({"run": "x.trec"}, "run"),
        ({"permutations": "x.json"}, "permutations"),
        ({"qrels": True}, "qrels"),
    ],
)
def test_kinds(values: dict[str, object], kind: str) -> None:
    assert read(**values).kind == kind


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "a teacher is one of model, run, permutations and qrels; given: none"),
        ({"model": "x", "run": "y"}, "given: model, run"),
        ({"qrels": False}, "given: none"),
        ({"model": "x", "prompt": "pairwise-pasage"}, "unknown prompt 'pairwise-pasage'; did you mean"),
        ({"model": "x", "prompt": {"template": "{query}{a}"}}, r"no white space before field \{a\}"),
        ({"model": "x", "max_length": 0}, "greater than 0"),
        ({"model": "x", "document_words": "0"}, "greater than 0"),
        ({"model": "x", "strategy": "all-pairs"}, "unknown strategy 'all-pairs'; did you mean 'allpairs'"),
        ({"model": "x", "stratgy": "allpairs"}, "stratgy"),
        ({"model": "x", "dtype": "float16"}, "Input should be 'auto', 'bf16', 'fp32', 'fp16' or 'fp64'"),
    ],
)
def test_sections_that_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        read(**values)


def test_a_prompt_record_of_ones_own() -> None:
    record = {"template": "{query}: {a} or {b}?", "answers": ["A", "B"], "answer_prefix": "It is"}
    prompt = read(model="x", prompt=record).prompt
    assert isinstance(prompt, Prompt)
    assert (prompt.document_fields, prompt.answers, prompt.name) == (("a", "b"), ("A", "B"), "custom")


def test_reading_a_section_needs_no_torch() -> None:
    code = (
        "import sys, instruct_distill.teachers.parameters;"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

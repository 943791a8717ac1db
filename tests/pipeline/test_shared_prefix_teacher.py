"""A recipe's decoder-only teacher shares beginnings where its strategy reads the logits of answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from instruct_distill.pipeline.teacher import load_teacher
from instruct_distill.teachers.parameters import TeacherParameters
from tests.teachers.stub_engine import context


@pytest.mark.parametrize(
    ("section", "shares"),
    [
        ({}, True),
        ({"strategy": "relevance_generation"}, True),
        ({"share_prefix": "off"}, False),
        ({"strategy": "query_generation"}, False),
        ({"answers": "written"}, False),
    ],
)
def test_who_shares(tiny_llama: Path, section: dict[str, Any], shares: bool) -> None:
    given = {"model": str(tiny_llama), "dtype": "fp32"} | section
    parameters = TypeAdapter(TeacherParameters).validate_python(given)
    teacher = load_teacher(parameters, context())
    assert getattr(teacher.engine, "shares_prefix", False) is shares
    assert ("share_prefix" in teacher.fingerprint([])) is shares

"""Recommendation is a matter of sources, candidates and prompts; no other part has heard of movies."""

from __future__ import annotations

import re
from pathlib import Path

import instruct_distill

PACKAGE = Path(instruct_distill.__file__).parent
MAY_KNOW = ("sources/redial", "prompts/", "evaluation/tasks.py")


def test_only_sources_and_prompts_know_movies() -> None:
    knowing = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"movie|film|(?<!what )redial", path.read_text(encoding="utf-8"), re.IGNORECASE)
    }
    assert {name for name in knowing if not name.startswith(MAY_KNOW)} <= {
        "sources/__init__.py",  # the registry names the files beside its members
        "candidates/pool.py",  # whose docstring says whose pool it is
        "evaluation/measures.py",  # which says what Success@1 is called elsewhere
    }
    assert any(name.startswith("sources/redial") for name in knowing)

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.registry import Registry, nearest


@pytest.fixture
def shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    package = tmp_path / "some_shapes"
    package.mkdir()
    for name in ("__init__", "square", "circle", "shape"):
        (package / f"{name}.py").write_text(f"NAME = {name!r}\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("some_shapes")]:
        monkeypatch.delitem(sys.modules, name)
    return Registry("some_shapes", "shape", besides=("shape",))


def test_members_are_files(shapes: Registry) -> None:
    assert shapes.names() == ["circle", "square"]
    assert shapes.load("square").NAME == "square"
    assert "some_shapes.circle" not in sys.modules  # loaded when asked for


@pytest.mark.parametrize("name", ["sqare", "shape", "__init__", "square.NAME", ""])
def test_unknown_names(shapes: Registry, name: str) -> None:
    with pytest.raises(InputError, match=rf"unknown shape '{name}'.* \(known: circle, square\)"):
        shapes.load(name)


def test_the_nearest_name() -> None:
    assert nearest("sqare", ["circle", "square"]) == "; did you mean 'square'?"
    assert nearest("xyz", ["circle", "square"]) == ""
    assert nearest("x", []) == ""

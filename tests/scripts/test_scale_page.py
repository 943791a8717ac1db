"""The page about scale holds what its script computes, and the script computes what it says."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "benchmarks"))
    return import_module("write_scale")


def test_the_page_is_what_the_script_writes(script: ModuleType) -> None:
    """After a change: PYTHONPATH=. python scripts/benchmarks/write_scale.py."""
    assert script.PAGE.read_text("utf-8") == script.page()


def test_operations_are_about_two_for_each_weight_and_token_of_the_encoder(script: ModuleType) -> None:
    shape = script.MODELS["FLAN-T5-XXL"]
    found = script.cost(shape)
    assert found.parameters == pytest.approx(11.1e9, rel=0.01)
    inner = shape["num_heads"] * shape["d_kv"]
    encoder = shape["num_layers"] * (4 * shape["d_model"] * inner + 3 * shape["d_model"] * shape["d_ff"])
    assert found.pair == pytest.approx(2 * encoder * script.PAIR_TOKENS, rel=0.05)


def test_hours_are_of_the_sustained_rate(script: ModuleType) -> None:
    assert script.hours(script.PEAK * script.SUSTAINED * 7200) == pytest.approx(2.0)


def test_sizes(script: ModuleType) -> None:
    assert [script.size(n) for n in (1_500, 2.5e9, 1.2e12)] == ["1.5 kB", "2.5 GB", "1.2 TB"]
    # ten ids of seven digits, ten scores, 90 comparisons of at least nine characters
    assert 90 * 9 + 10 * 15 < script.label_bytes() < 90 * 22 + 10 * 20

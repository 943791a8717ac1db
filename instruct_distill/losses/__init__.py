"""Ranking losses: pure functions, one a file, found by name."""

from __future__ import annotations

from instruct_distill.registry import Registry

LOSSES = Registry("instruct_distill.losses", "loss", besides=("target",))

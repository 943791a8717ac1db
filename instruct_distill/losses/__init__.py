"""Ranking losses: pure functions, one a file, found by name.

A loss is a function ``loss(scores [lists, documents], target) -> per_list [lists]``. Its keyword-only
arguments are its parameters in a recipe: the signature is the schema (see ``signature``).
"""

from __future__ import annotations

from instruct_distill.registry import Registry

LOSSES = Registry("instruct_distill.losses", "loss", besides=("gains", "signature", "target"))

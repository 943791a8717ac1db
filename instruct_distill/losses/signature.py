"""The parameters of a loss, read from its source: a recipe is checked without importing torch."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, PositiveFloat, TypeAdapter, ValidationError

from instruct_distill.errors import InputError
from instruct_distill.losses import LOSSES
from instruct_distill.registry import nearest

_TYPES: dict[str, Any] = {"float": float, "int": int, "bool": bool, "PositiveFloat": PositiveFloat}


class LossParameter(NamedTuple):
    """A keyword-only argument of a loss.

    Args:
        type: what its values are, as pydantic reads it: float, int, bool, PositiveFloat or a Literal.
        default: its value where a recipe says nothing.
    """

    type: Any
    default: Any


@cache
def loss_parameters(name: str) -> Mapping[str, LossParameter]:
    """Return the parameters of a loss by name, in the order of its signature.

    Raises:
        InputError: there is no loss of that name.
        TypeError: its function ``loss`` is annotated with something else.
    """
    module = f"{LOSSES.package}.{LOSSES.check(name)}"
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "loss")
    found = {}
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if default is None:
            raise TypeError(f"{module}.loss: parameter {argument.arg!r} has no default")
        found[argument.arg] = LossParameter(
            _type(argument.annotation, f"{module}.loss: {argument.arg}"), ast.literal_eval(default)
        )
    return MappingProxyType(found)


def complete_parameters(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters of a loss: those that are given, in their types, and the others' defaults.

    Raises:
        InputError: there is no loss of that name, or parameters that it does not have or not with that value;
            one error with every problem.
    """
    known = loss_parameters(name)
    complete = {key: parameter.default for key, parameter in known.items()}
    problems = []
    for key, value in given.items():
        if key not in known:
            listed = f"known: {', '.join(known)}" if known else "it has none"
            problems.append(f"unknown parameter {key!r}{nearest(key, known)} ({listed})")
            continue
        adapter = TypeAdapter(known[key].type, config=ConfigDict(allow_inf_nan=False))
        try:
            complete[key] = adapter.validate_python(value)
        except ValidationError as error:
            message = str(error.errors()[0]["msg"])
            problems.append(f"{key}: {message[0].lower()}{message[1:]}, not {value!r}")
    if problems:
        raise InputError(f"loss {name!r}: {'; '.join(problems)}")
    return complete


def _type(annotation: ast.expr | None, where: str) -> Any:
    """Return the type that an annotation names."""
    if isinstance(annotation, ast.Name) and annotation.id in _TYPES:
        return _TYPES[annotation.id]
    if (
        isinstance(annotation, ast.Subscript)
        and isinstance(annotation.value, ast.Name)
        and annotation.value.id == "Literal"
    ):
        values = ast.literal_eval(annotation.slice)
        return Literal[values]
    raise TypeError(f"{where}: expected an annotation out of {', '.join(_TYPES)} and Literal[...]")

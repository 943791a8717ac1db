"""The form of recipe sections: frozen dataclasses whose fields say what is allowed.

YAML scalars are read as strings and get their type here, from the field: ``3e-5`` is a number where a
number is due, ``no`` a string where a string is due, and a key that no field has is an error.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import dataclass_transform

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def parameters(cls: type[T]) -> type[T]:
    """Make a class a recipe section: frozen, keyword-only, checked, unknown keys refused.

    The string literal under a field is its documentation, with its unit.
    """
    config = ConfigDict(extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=False)
    make: Any = pydantic_dataclass  # its own types promise another class
    section: type[T] = make(cls, frozen=True, kw_only=True, config=config)
    return section

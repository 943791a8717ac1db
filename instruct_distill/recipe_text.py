"""Recipes as text: YAML whose scalars stay strings, so that the schema gives their type, not their looks."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from instruct_distill.errors import InputError, RecipeError

Path = tuple[str | int, ...]
"""Keys and list positions from the top of a recipe."""

_SECRET = re.compile(
    r"(^|_)(API_?)?(KEYS?|TOKENS?|SECRETS?|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE
)
"""Names of variables whose values must not be written into a run's folder."""


class RecipeText:
    """A recipe's content with the line of each key.

    Args:
        where: the file's name, for messages.
        content: nested dicts and lists of strings (None for null).
        lines: path → line number from 1.
    """

    def __init__(self, where: str, content: dict[str, Any], lines: dict[Path, int]) -> None:
        self.where, self.content, self.lines = where, content, lines
        self.problems: list[str] = []

    def place(self, path: Path) -> str:
        """Return ``training.loss (line 7)``, or the key alone where it stands on no line of the file."""
        key = ".".join(str(part) for part in path) or "recipe"
        line = self.lines.get(path)
        return f"{key} (line {line})" if line else key

    def override(self, assignments: Sequence[str]) -> None:
        """Set keys from ``key=value`` strings, dotted keys for sections; the value is YAML.

        A bad assignment is added to ``problems``.
        """
        for assignment in assignments:
            key, equals, value = assignment.partition("=")
            path: Path = tuple(int(part) if part.isdecimal() else part for part in key.split("."))
            if not equals or not all(str(part) for part in path):
                self.problems.append(f"{assignment!r}: expected key=value, such as training.epochs=2")
                continue
            try:
                _set(self.content, path, _value(value))
            except (YAMLError, InputError, TypeError, IndexError, ValueError) as error:
                self.problems.append(f"{assignment!r}: {' '.join(str(error).split())[:200]}")
            for known in [known for known in self.lines if known[: len(path)] == path]:
                del self.lines[known]

    def expand_variables(self) -> None:
        """Replace ``${NAME}`` by environment variables; one that is not set is added to ``problems``."""
        self.content = self._expanded(self.content, ())

    def _expanded(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: self._expanded(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._expanded(item, (*path, i)) for i, item in enumerate(value)]
        if not isinstance(value, str):
            return value

        def replaced(match: re.Match[str]) -> str:
            name = match.group(1)
            if _SECRET.search(name):
                self.problems.append(
                    f"{self.place(path)}: {name} looks like a key, and the run's recipe.yaml would hold its "
                    "value; name the variable where one is asked for (server.key_variable: "
                    f"{name}), or give another variable if it is none"
                )
                return match.group()
            if name not in os.environ:
                self.problems.append(
                    f"{self.place(path)}: environment variable {name} is not set; "
                    f"set it, for example with: export {name}=/path/to/folder"
                )
                return match.group()
            return os.environ[name]

        return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", replaced, value)


def parse(text: str, where: str) -> RecipeText:
    """Read YAML.

    Raises:
        RecipeError: the text is no YAML mapping, or a key stands twice.
    """
    try:
        node = _yaml().compose(io.StringIO(text))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise RecipeError(f"{where}{line}", [f"not YAML: {' '.join(str(problem).split())}"]) from None
    if not isinstance(node, MappingNode):
        raise RecipeError(where, ["expected keys and values, such as 'name: my-recipe'"])
    lines: dict[Path, int] = {}
    problems: list[str] = []
    content = _plain(node, (), lines, problems)
    if problems:
        raise RecipeError(where, problems)
    return RecipeText(where, content, lines)


def dump(content: dict[str, Any]) -> str:
    """Write YAML that :func:`parse` reads back."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 10_000
    stream = io.StringIO()
    yaml.dump(content, stream)
    return stream.getvalue()


def _yaml() -> YAML:
    return YAML(typ="safe", pure=True)


def _value(text: str) -> Any:
    """Read the value of an override."""
    node = _yaml().compose(io.StringIO(text))
    problems: list[str] = []
    value = None if node is None else _plain(node, (), {}, problems)
    if problems:
        raise InputError("; ".join(problems))
    return value


def _plain(node: Node, path: Path, lines: dict[Path, int], problems: list[str]) -> Any:
    """Turn a YAML node into dicts, lists and strings; unquoted null, ~ and nothing are None."""
    if isinstance(node, ScalarNode):
        return (
            None
            if node.style is None and node.value in ("", "~", "null", "Null", "NULL")
            else str(node.value)
        )
    if isinstance(node, SequenceNode):
        return [_plain(item, (*path, i), lines, problems) for i, item in enumerate(node.value)]
    assert isinstance(node, MappingNode)
    content: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            problems.append(f"line {line}: a key must be a word")
            continue
        key = str(key_node.value)
        here = (*path, key)
        if key in content:
            problems.append(f"{'.'.join(map(str, here))} stands twice: lines {lines[here]} and {line}")
        lines[here] = line
        content[key] = _plain(value_node, here, lines, problems)
    return content


def _set(content: Any, path: Path, value: Any) -> None:
    """Set a value in nested dicts and lists; sections that are missing are made."""
    for part in path[:-1]:
        if isinstance(content, dict) and content.get(str(part)) is None:
            content[str(part)] = {}
        content = content[_position(content, part)]
        if not isinstance(content, (dict, list)):
            raise InputError(f"{part} is a single value, it has no keys")
    content[_position(content, path[-1])] = value


def _position(content: dict[str, Any] | list[Any], part: str | int) -> Any:
    """Return the key or the position that a part of a path means in a dict or a list."""
    if isinstance(content, dict):
        return str(part)
    if not isinstance(part, int) or part >= len(content):
        raise InputError(f"{part!r} is no position in a list of {len(content)}; the first is 0")
    return part

"""Write docs/reference/: the public names, every key of a recipe, all losses and strategies, from the code.

    python scripts/write_reference.py [--check]

With --check nothing is written, and the exit status is 1 where a page is not what the code says.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import instruct_distill
from instruct_distill.losses import LOSSES
from instruct_distill.recipe import Recipe
from instruct_distill.teachers import STRATEGIES

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
ALSO = {
    "Query": "instruct_distill.records",
    "Document": "instruct_distill.records",
    "RankedDocument": "instruct_distill.records",
    "export_onnx": "instruct_distill.exporting",
}
"""What the public names take and give, and where it is; and what has no short name."""
ELSEWHERE = {"Recipe": "Its sections and keys are [a page of their own](recipe.md)."}
"""Classes that are not made by their constructor, and where their fields are described."""
_ROLE = re.compile(r":[a-z]+:`(~?)\.?([^`]+)`")
NOTICE = "<!-- written by scripts/write_reference.py from the docstrings: change those -->"


def statements(section: type) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Each statement of a class and of those that it is made from, with the one below it."""
    for each in reversed(section.__mro__):
        if dataclasses.is_dataclass(each):
            tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
            body = typing.cast(ast.ClassDef, tree.body[0]).body
            yield from zip_longest(body, body[1:])


def field_docs(section: type) -> dict[str, str]:
    """Field → the string that stands below it in the class."""
    found = {}
    for statement, following in statements(section):
        if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
            text = getattr(following.value, "value", None)
            if isinstance(statement.target, ast.Name) and isinstance(text, str):
                found[statement.target.id] = " ".join(text.split())
    return found


def field_types(section: type) -> dict[str, str]:
    """Field → its type as it stands in the class."""
    return {
        statement.target.id: ast.unparse(statement.annotation)
        for statement, _ in statements(section)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }


def default_of(field: dataclasses.Field[Any]) -> str:
    """The default as YAML shows it."""
    value: Any = field.default
    if hasattr(value, "get_default"):  # pydantic's own description of a field
        if value.is_required():
            return "needed"
        value = value.get_default(call_default_factory=True)
    elif value is dataclasses.MISSING:
        factory: Any = field.default_factory
        if factory is dataclasses.MISSING:
            return "needed"
        value = factory()
    if dataclasses.is_dataclass(value):
        return "see below"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if value != "" else "empty"


def sections_in(annotation: Any) -> Iterator[type]:
    """The parameter classes that an annotation names."""
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        yield annotation
    for part in typing.get_args(annotation):
        yield from sections_in(part)


def section_table(section: type) -> list[str]:
    """A row a key: its type, its default, and what it is."""
    docs, types = field_docs(section), field_types(section)
    lines = ["| key | type | default | |", "|---|---|---|---|"]
    for field in dataclasses.fields(section):
        kind = types[field.name].replace("|", "\\|")
        about = docs.get(field.name, "").replace("|", "\\|").replace("``", "`")
        lines.append(f"| `{field.name}` | `{kind}` | {default_of(field)} | {about} |")
    return lines


def plain_text(docstring: str | None) -> str:
    """A docstring whose roles and double backquotes are code in Markdown."""
    text = inspect.cleandoc(docstring or "")
    text = _ROLE.sub(lambda m: f"`{m[2].split('.')[-1] if m[1] else m[2]}`", text)
    return text.replace("``", "`")


def recipe_page() -> str:
    """Every section of a recipe, the outermost first."""
    lines = [
        "# Recipe reference",
        NOTICE,
        "",
        "A recipe is a YAML file. Unknown keys are errors; every default is",
    ]
    lines += ["written out in `runs/NAME/recipe.yaml`.", ""]
    seen: list[type] = []
    waiting: list[tuple[str, type]] = [("the recipe", Recipe)]
    while waiting:
        path, section = waiting.pop(0)
        if section in seen:
            continue
        seen.append(section)
        summary = plain_text(section.__doc__)
        lines += [f"## {path}", "", summary, "", *section_table(section), ""]
        hints = typing.get_type_hints(section, include_extras=False)
        for field in dataclasses.fields(section):
            inner = field.name if section is Recipe else f"{path}.{field.name}"
            waiting += [(inner, each) for each in sections_in(hints[field.name])]
    return "\n".join(lines)


def text_of(docstring: str | None) -> str:
    """A docstring as Markdown: roles and double backquotes become code, parts become bold."""
    lines: list[str] = []
    listed = False
    for line in plain_text(docstring).splitlines():
        part = line.strip()
        if (
            line == part
            and part.endswith(":")
            and part[:-1] in ("Args", "Returns", "Raises", "Example", "When to use")
        ):
            listed = part in ("Args:", "Raises:")
            lines += [f"**{part[:-1]}**", ""]
        elif part.startswith(">>>") or (lines and lines[-1].startswith("    >>>")):
            lines.append(f"    {part}")
        else:
            begins = listed and line.startswith("    ") and not line.startswith("     ") and ":" in part
            lines.append(f"* {part}" if begins else part)
    return "\n".join(lines)


def losses_page() -> str:
    """Every loss, by its docstring."""
    lines = ["# Losses", NOTICE, ""]
    for name in sorted(LOSSES.names()):
        module = LOSSES.load(name)
        lines += [
            f"## `{name}`",
            "",
            inspect.cleandoc(module.__doc__ or ""),
            "",
            text_of(module.loss.__doc__),
            "",
        ]
    return "\n".join(lines)


def strategies_page() -> str:
    """Every strategy, by its docstring and its keys."""
    lines = ["# Teacher strategies", NOTICE, ""]
    for name in sorted(STRATEGIES.names()):
        module = STRATEGIES.load(name)
        lines += [
            f"## `{name}`",
            "",
            inspect.cleandoc(module.__doc__ or ""),
            "",
            text_of(module.STRATEGY.__doc__),
            "",
        ]
        section = getattr(module, "Parameters", None)
        if section is not None:
            lines += [f"Keys beside `name: {name}`:", "", *section_table(section), ""]
    return "\n".join(lines)


def signature_of(name: str, function: Any) -> list[str]:
    """A call with the names and the defaults of its arguments, as code.

    What only serves as a bound first argument (self, cls) is left out, and types: the text below says what
    the arguments are.
    """
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(function).parameters.values()
        if each.name not in ("self", "cls")
    ]
    written = str(inspect.Signature(parameters))
    return ["```text", *textwrap.wrap(name + written, 100, subsequent_indent="    "), "```", ""]


def own_members(section: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class itself defines and describes, in the order of its source."""
    for name, member in vars(section).items():
        if isinstance(member, property):
            described = member.__doc__
        else:
            described = getattr(inspect.unwrap(getattr(section, name)), "__doc__", None)
        routine = isinstance(member, (property, classmethod, staticmethod)) or inspect.isfunction(member)
        if not name.startswith("_") and routine and described:
            yield name, member


def api_page() -> str:
    """What `import instruct_distill` gives: classes with their methods, and functions."""
    lines = ["# Python reference", NOTICE, "", "```text"]
    public = [name for name in instruct_distill.__all__ if not name.startswith("_")]
    lines += [f"from instruct_distill import {', '.join(public)}", "```", ""]
    for name, place in [*((each, None) for each in public), *ALSO.items()]:
        given = getattr(importlib.import_module(place or "instruct_distill"), name)
        lines += [f"## `{name}`", ""]
        lines += [f"From `{place}`.", ""] if place else []
        if not inspect.isclass(given):
            lines += [*signature_of(name, given), text_of(given.__doc__), ""]
            continue
        lines += [] if name in ELSEWHERE else signature_of(name, given)
        lines += [text_of(given.__doc__), ""]
        lines += [ELSEWHERE[name], ""] if name in ELSEWHERE else []
        for member_name, member in own_members(given):
            title = f"### `{name}.{member_name}`"
            if isinstance(member, property):
                lines += [title, "", text_of(member.__doc__), ""]
            else:
                called = getattr(given, member_name)
                lines += [title, "", *signature_of(member_name, called), text_of(called.__doc__), ""]
    return "\n".join(lines)


PAGES = {
    "api.md": api_page,
    "recipe.md": recipe_page,
    "losses.md": losses_page,
    "strategies.md": strategies_page,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args(arguments)
    stale = []
    for name, page in PAGES.items():
        text = page().rstrip() + "\n"
        file = FOLDER / name
        if chosen.check:
            stale += [name] if not file.exists() or file.read_text(encoding="utf-8") != text else []
        else:
            FOLDER.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    if stale:
        print(f"not what the code says: {', '.join(stale)}; run python scripts/write_reference.py")
        sys.exit(1)


if __name__ == "__main__":
    main()

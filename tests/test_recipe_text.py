from __future__ import annotations

import pytest

from instruct_distill.errors import RecipeError
from instruct_distill.recipe_text import dump, parse


def test_scalars_stay_as_they_are_written() -> None:
    found = parse(
        "a: 1e-4\nb: no\nc: 0071\nd: 1_000\ne: 12:30\nf: 2024-01-31\ng: 'null'\nh: .inf\n", "r.yaml"
    )
    assert found.content == {
        "a": "1e-4",
        "b": "no",
        "c": "0071",
        "d": "1_000",
        "e": "12:30",
        "f": "2024-01-31",
        "g": "null",
        "h": ".inf",
    }


@pytest.mark.parametrize("nothing", ["", "~", "null", "Null", "NULL"])
def test_unquoted_null_is_none(nothing: str) -> None:
    assert parse(f"a: {nothing}\n", "r.yaml").content == {"a": None}


def test_each_key_has_its_line() -> None:
    found = parse("a: 1\nb:\n  - c: {d: 2}\n\n  - 3\n", "r.yaml")
    assert found.content == {"a": "1", "b": [{"c": {"d": "2"}}, "3"]}
    assert found.place(("b", 0, "c", "d")) == "b.0.c.d (line 3)"
    assert found.place(("b",)) == "b (line 2)"
    assert found.place(("x",)) == "x"
    assert found.place(()) == "recipe"


def test_keys_that_stand_twice_are_all_named() -> None:
    with pytest.raises(RecipeError) as caught:
        parse("a: 1\nb: {c: 1, c: 2}\na: 2\n", "r.yaml")
    assert caught.value.problems == ["b.c stands twice: lines 2 and 2", "a stands twice: lines 1 and 3"]


def test_a_key_that_is_no_word_is_refused() -> None:
    with pytest.raises(RecipeError, match="line 1: a key must be a word"):
        parse("[a, b]: 1\n", "r.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.yaml: 1 problem\n  - expected keys and values"),
        ("- a\n- b\n", "expected keys and values"),
        ("just words\n", "expected keys and values"),
        ("a: {b: 1\nc: 2\n", r"r.yaml line 2: 1 problem\n  - not YAML"),
        ("a: 1\n\tb: 2\n", r"r.yaml line 2: 1 problem\n  - not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
        ("a: \x07\n", "not YAML"),
    ],
)
def test_what_is_no_yaml_mapping_is_refused(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse(text, "r.yaml")


def test_overrides_set_values_sections_and_list_items() -> None:
    found = parse("a: 1\nb: {c: 2}\nd: [{e: 3}]\n", "r.yaml")
    found.override(["a=5", "b.c=no", "d.0.e=~", "f.g.h=[1, x]", "k={l: 1e-4}", "m=a=b", "n="])
    assert found.problems == []
    assert found.content == {
        "a": "5",
        "b": {"c": "no"},
        "d": [{"e": None}],
        "f": {"g": {"h": ["1", "x"]}},
        "k": {"l": "1e-4"},
        "m": "a=b",
        "n": None,
    }


def test_an_overridden_key_has_no_line_any_more() -> None:
    found = parse("a: 1\nb:\n  c: 2\n", "r.yaml")
    found.override(["b={c: 3}"])
    assert found.place(("b", "c")) == "b.c"
    assert found.place(("a",)) == "a (line 1)"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("training", "expected key=value"),
        ("=3", "expected key=value"),
        ("a..b=3", "expected key=value"),
        ("a.b=3", "a is a single value, it has no keys"),
        ("d.1=3", "1 is no position in a list of 1; the first is 0"),
        ("d.-1.e=3", "'-1' is no position in a list of 1"),
        ("d.e=3", "'e' is no position in a list of 1"),
        ("d.²=3", "'²' is no position in a list of 1"),
        ("a={x: 1", "expected ',' or '}'"),
        ("a={x: 1, x: 2}", "x stands twice"),
    ],
)
def test_bad_overrides_are_collected_and_change_nothing(assignment: str, message: str) -> None:
    found = parse("a: 1\nd: [{e: 3}]\n", "r.yaml")
    found.override([assignment, "z=1"])
    assert len(found.problems) == 1
    assert found.problems[0].startswith(f"'{assignment}': ")
    assert message in found.problems[0]
    assert found.content == {"a": "1", "d": [{"e": "3"}], "z": "1"}


def test_variables_are_replaced_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", "/data/café")
    found = parse("a: beir:${FOLDER}/x\nb: [{c: '${FOLDER}'}]\nd: $FOLDER\ne: '{query} costs $5'\n", "r.yaml")
    found.expand_variables()
    assert found.problems == []
    assert found.content == {
        "a": "beir:/data/café/x",
        "b": [{"c": "/data/café"}],
        "d": "$FOLDER",
        "e": "{query} costs $5",
    }


def test_variables_that_are_not_set_are_all_named_with_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_FOLDER", raising=False)
    monkeypatch.delenv("NOR_THIS", raising=False)
    found = parse("a: ${NO_SUCH_FOLDER}/x\nb:\n  - c: ${NOR_THIS}\n", "r.yaml")
    found.expand_variables()
    assert found.problems == [
        "a (line 1): environment variable NO_SUCH_FOLDER is not set; "
        "set it, for example with: export NO_SUCH_FOLDER=/path/to/folder",
        "b.0.c (line 3): environment variable NOR_THIS is not set; "
        "set it, for example with: export NOR_THIS=/path/to/folder",
    ]


def test_what_dump_writes_parse_reads() -> None:
    text = {"a": "no", "b": "0071", "c": "null", "d": None, "e": ["x: y", {"f": " two  blanks\nand a line "}]}
    assert parse(dump(text), "r.yaml").content == text
    assert parse(dump({"a": 3e-05, "b": True, "c": 12}), "r.yaml").content == {
        "a": "3e-05",
        "b": "true",
        "c": "12",
    }
    assert dump({"z": 1, "a": {}}) == "z: 1\na: {}\n"

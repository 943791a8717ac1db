from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.files import cache_folder, read_json, read_jsonl, read_lines, write_json, write_whole


def test_b52_lines_end_at_newlines_only(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffone\r\n\r\ntwo \u2028 \u0085 three\n  \nfour".encode())
    assert list(read_lines(path)) == [(1, "one"), (3, "two \u2028 \u0085 three"), (5, "four")]


def test_packed_files(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress('{"a": "é"}\n'.encode()))
    assert list(read_jsonl(path)) == [(1, {"a": "é"})]
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 1000)[:-12])
    with pytest.raises(InputError, match=r"x\.jsonl\.gz: cannot be read"):
        list(read_jsonl(path))


def test_b52_a_byte_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"good\nab\x9dcd\n")
    with pytest.raises(InputError, match=r"x\.txt line 2: byte 0x9d at column 3 is not UTF-8; convert"):
        list(read_lines(path))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1', "line 2: not JSON"),
        ("[1]", "line 2: expected a JSON object, found list"),
        ("null", "line 2: expected a JSON object, found NoneType"),
        ("[" * 100_000, "line 2: not JSON"),
    ],
)
def test_lines_that_are_no_objects(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"a": 0}}\n{line}\n', "utf-8")
    with pytest.raises(InputError, match=message):
        list(read_jsonl(path))


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "x.json"
    write_json(path, {"b": "é", "a": [1, 2]})
    assert path.read_text("utf-8") == '{\n  "b": "é",\n  "a": [\n    1,\n    2\n  ]\n}\n'
    assert read_json(path) == {"b": "é", "a": [1, 2]}
    path.write_text("{", "utf-8")
    with pytest.raises(InputError, match=r"x\.json: not JSON"):
        read_json(path)


def test_nothing_that_is_not_json_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("old", "utf-8")

    def fail() -> None:
        with write_whole(path) as stream:
            stream.write("half of the ne")
            stream.flush()
            assert path.read_text("utf-8") == "old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text("utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["x.txt"]
    with write_whole(path) as stream:
        stream.write("é\nnew\n")
    assert path.read_bytes() == "é\nnew\n".encode()
    with write_whole(path, "wb") as stream:
        stream.write(b"\x00\r\n")
    assert path.read_bytes() == b"\x00\r\n"


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INSTRUCT_DISTILL_CACHE", str(tmp_path / "a"))
    assert cache_folder() == tmp_path / "a"
    monkeypatch.delenv("INSTRUCT_DISTILL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_folder() == tmp_path / "b" / "instruct_distill"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "instruct_distill"


def test_the_written_form_is_json(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"1": None, "2": True})
    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == {"1": None, "2": True}

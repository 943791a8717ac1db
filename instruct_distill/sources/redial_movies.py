"""ReDial's movies: titles and years, and what a file of movie information adds to them."""

from __future__ import annotations

import csv
import html
import logging
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.files import read_json, read_lines
from instruct_distill.records import Document
from instruct_distill.sources.record_fields import first_key, text_field

logger = logging.getLogger(__name__)

LEAST_AGREEMENT = 0.8
"""Share of equal titles below which movie information belongs to other ids."""

# A final bracket of four digits, or of a span of years, of which the first is taken: (2004), (2004– ).
_YEAR = re.compile(r"(?P<title>.*\S)\s*\(\s*(?P<year>[0-9]{4})\s*(?:[-–—]\s*(?:[0-9]{4})?\s*)?\)")
# What tables write where they know nothing.
_UNKNOWN = frozenset({"", "nan", "none", "null", "n/a"})


class Movie(NamedTuple):
    """A movie's title as ReDial gives it.

    Args:
        title: without the year; never empty.
        year: four digits, or an empty string.
    """

    title: str
    year: str

    @property
    def name(self) -> str:
        """Title and year as people write them: ``Lantern (1951)``, or ``Lantern``."""
        return f"{self.title} ({self.year})" if self.year else self.title

    def may_be(self, other: Movie) -> bool:
        """Whether both may be one film: the same words, and no two different years."""
        same_words = title_words(self.title) == title_words(other.title)
        return same_words and (self.year == other.year or not (self.year and other.year))


def parse_movie(text: str) -> Movie | None:
    """Return a movie of a title such as ``Harbour 2049  (2017)``; None for a blank one.

    ReDial's list has two blanks before many years, blanks at the ends and ``%3F`` for a question mark.
    """
    text = " ".join(html.unescape(urllib.parse.unquote(text)).split())
    match = _YEAR.fullmatch(text)
    movie = Movie(match["title"], match["year"]) if match else Movie(text, "")
    return movie if movie.title else None


def title_words(text: str, apostrophe: str = "") -> str:
    """Return the words of a text in one form, a blank on each side, so that ``in`` finds whole words.

    Args:
        text: a title, or a text that may hold one.
        apostrophe: what stands in its place; a blank makes two words of ``it's``.
    """
    words = re.findall(r"\w+", re.sub(r"['\u2019]", apostrophe, text.casefold()))
    return f" {' '.join(words)} " if words else ""


class Movies:
    """Every movie that has a title, by its ReDial id.

    Args:
        titles: movie id → title text, as in the files; None where they have none.
    """

    def __init__(self, titles: Mapping[str, str | None]) -> None:
        parsed = {movie_id: parse_movie(title or "") for movie_id, title in titles.items()}
        self.by_id: dict[str, Movie] = {movie_id: movie for movie_id, movie in parsed.items() if movie}
        nameless = [movie_id for movie_id, movie in parsed.items() if movie is None]
        if nameless:
            logger.warning(
                "%d of %d movies have no title and are no candidates (ids %s)",
                len(nameless),
                len(parsed),
                ", ".join(nameless[:5] + ["..."] * (len(nameless) > 5)),
            )

    @cached_property
    def _by_words(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for movie_id, movie in self.by_id.items():
            found.setdefault(title_words(movie.title), []).append(movie_id)
        return found

    def same(self, movie_ids: Iterable[str]) -> frozenset[str]:
        """Return these ids and all others that may stand for the same films.

        ReDial has films under several ids: ``American Pie (1999)`` and ``American Pie``.
        """
        found = set(movie_ids)
        for movie_id in list(found):
            movie = self.by_id.get(movie_id)
            if movie:
                others = self._by_words[title_words(movie.title)]
                found.update(other for other in others if movie.may_be(self.by_id[other]))
        return frozenset(found)

    def documents(self, descriptions: Mapping[str, str]) -> dict[str, Document]:
        """Return each movie as a document: name, and description where there is one."""
        return {
            movie_id: Document(movie_id, descriptions.get(movie_id, ""), movie.name)
            for movie_id, movie in self.by_id.items()
        }


def read_mentions(path: Path) -> dict[str, tuple[str, int]]:
    """Return movie id → (title, number of mentions) of ``movies_with_mentions.csv``.

    Raises:
        InputError: a column is missing, or a line is not usable.
    """
    wanted = ("movieId", "movieName", "nbMentions")
    rows = _rows(path)
    header = [name.strip() for name in next(rows, (0, []))[1]]
    if missing := [name for name in wanted if name not in header]:
        raise InputError(f"{path}: no column {missing[0]!r} (it has: {', '.join(header) or 'nothing'})")
    places = [header.index(name) for name in wanted]
    found: dict[str, tuple[str, int]] = {}
    for number, row in rows:
        where = f"{path} line {number}"
        if len(row) != len(header):
            raise InputError(f"{where}: {len(row)} columns; expected {len(header)}, as in the first line")
        movie_id, title, mentions = (row[place] for place in places)
        if not re.fullmatch("[0-9]+", mentions.strip()):
            raise InputError(f"{where}: nbMentions is {mentions!r}; expected a whole number")
        if movie_id.strip() in found:
            raise InputError(f"{where}: movie {movie_id!r} stands in a line before; remove one of them")
        found[movie_id.strip()] = (title, int(mentions))
    return found


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each row of a CSV file with the number of its last line."""
    rows = csv.reader(line + "\n" for _, line in read_lines(path))
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise InputError(f"{path} line {rows.line_num}: not a row of a CSV file ({error})") from None


def read_descriptions(path: Path, movies: Movies) -> dict[str, str]:
    """Return movie id → genre, plot and people, as far as known, of a JSON object with an entry a movie.

    The keys are ReDial's movie ids. Ids of another numbering match by chance, so titles are compared: what
    stands under another title is left out.

    Raises:
        InputError: no id is one of ReDial's, or fewer than ``LEAST_AGREEMENT`` of the titles agree.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not all(isinstance(entry, dict) for entry in content.values()):
        raise InputError(f"{path}: expected a JSON object of movie id → object with name, genre, plot, ...")
    matched = [movie_id for movie_id in content if movie_id in movies.by_id]
    if not matched:
        raise InputError(
            f"{path}: none of its {len(content)} ids is one of the {len(movies.by_id)} movies' ids "
            f"({next(iter(content), None)!r} and {next(iter(movies.by_id), None)!r}); its keys must be "
            "ReDial's movie ids"
        )
    disagreeing = [
        movie_id for movie_id in matched if not _agrees(movies.by_id[movie_id], content[movie_id], path)
    ]
    agreeing = len(matched) - len(disagreeing)
    report = (
        f"{path}: {len(matched)} of {len(movies.by_id)} movies have information, "
        f"{agreeing} of {len(matched)} titles agree"
    )
    if disagreeing:
        first = disagreeing[0]
        report += f" (movie {first}: {movies.by_id[first].name!r} and {_name(content[first], path)!r})"
    if agreeing < LEAST_AGREEMENT * len(matched):
        raise InputError(f"{report}; its keys are not ReDial's movie ids")
    if disagreeing:
        logger.warning("%s; that of the others is left out", report)
    else:
        logger.info("%s", report)
    others = frozenset(disagreeing)
    return {
        movie_id: _description(content[movie_id], f"{path}, movie {movie_id}")
        for movie_id in matched
        if movie_id not in others
    }


def _name(entry: Mapping[str, Any], path: Path) -> str:
    return text_field(entry[first_key(entry, ("name", "title"), str(path))], str(path), "name")


def _agrees(movie: Movie, entry: Mapping[str, Any], path: Path) -> bool:
    other = parse_movie(_name(entry, path))
    return other is not None and movie.may_be(other)


def _description(entry: Mapping[str, Any], where: str) -> str:
    """Return one text; it has no word on what is not known."""
    parts = []
    for key, label in (
        ("genre", "Genre"),
        ("plot", ""),
        ("director", "Director"),
        ("writer", "Writer"),
        ("star", "Cast"),
    ):
        values = entry.get(key)
        texts = [_known(value, where, key) for value in (values if isinstance(values, list) else [values])]
        joined = ", ".join(text for text in texts if text)
        if joined:
            sentence = f"{label}: {joined}" if label else joined
            parts.append(sentence if sentence[-1] in ".!?…" else f"{sentence}.")
    return " ".join(parts)


def _known(value: object, where: str, key: str) -> str:
    # NaN, which tables of numbers write for an empty cell, is no text.
    text = "" if isinstance(value, float) and value != value else text_field(value, where, key)
    text = " ".join(html.unescape(text).split())
    return "" if text.casefold() in _UNKNOWN else text

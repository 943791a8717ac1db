"""ReDial's dialogues: who said what, which movies were named, and the examples that follow from that."""

from __future__ import annotations

import html
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.files import read_jsonl
from instruct_distill.records import Query
from instruct_distill.sources.record_fields import id_field, text_field
from instruct_distill.sources.redial_movies import Movies, title_words

logger = logging.getLogger(__name__)

SEEKER, RECOMMENDER = "Seeker", "Recommender"
UNKNOWN_MOVIE = "a movie"
"""Stands in a dialogue for a movie whose title is not known."""

_PLACEHOLDER = re.compile("@([0-9]+)")


class Message(NamedTuple):
    """One message.

    Args:
        speaker: ``Seeker`` or ``Recommender``.
        text: as written, HTML entities decoded, white space collapsed; movies are still ``@ID``.
    """

    speaker: str
    text: str

    @property
    def movies(self) -> list[str]:
        """Ids of the movies that are named, in their order, repeated ones repeated."""
        return _PLACEHOLDER.findall(self.text)


class Dialogue(NamedTuple):
    """One conversation.

    Args:
        dialogue_id: ``conversationId``.
        titles: movie id → title as it stands there, None where there is none.
        messages: in the order of the file, empty ones included.
    """

    dialogue_id: str
    titles: dict[str, str | None]
    messages: list[Message]


class Example(NamedTuple):
    """A movie that a recommender names for the first time, and what was said before.

    Args:
        query: the dialogue before the message.
        target: the movie's id.
        excluded: movies that are no candidates: those mentioned before and others of the same message, also
            under other ids, and other ids of the target.
    """

    query: Query
    target: str
    excluded: frozenset[str]


def read_dialogues(path: Path) -> Iterator[Dialogue]:
    """Yield the dialogues of a file in ReDial's format, whose roles are known by the workers' ids.

    The initiator seeks, the respondent recommends, whoever writes first. Dialogues whose two workers have one
    id, or with a message of somebody else, are left out, and a warning says how many.

    Raises:
        InputError: a line is not a dialogue of this format.
    """
    without_roles = []
    for number, record in read_jsonl(path):
        where = f"{path} line {number}"
        dialogue_id = id_field(record.get("conversationId"), where, "conversationId")
        if len(dialogue_id.split()) != 1:
            raise InputError(f"{where}: conversationId {dialogue_id!r} holds white space")
        seeker, recommender = (
            id_field(record.get(key), where, key) for key in ("initiatorWorkerId", "respondentWorkerId")
        )
        names = {seeker: SEEKER, recommender: RECOMMENDER}
        messages = []
        for sender, text in _messages(record, where):
            messages.append(Message(names.get(sender, ""), text))
        if len(names) < 2 or any(not message.speaker for message in messages):
            without_roles.append(number)
            continue
        yield Dialogue(dialogue_id, _titles(record, where), messages)
    if without_roles:
        logger.warning(
            "%s: %d dialogues are left out: their worker ids do not tell seeker from recommender (line %d)",
            path,
            len(without_roles),
            without_roles[0],
        )


def _messages(record: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Yield (sender, text)."""
    messages = record.get("messages") or []
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InputError(f"{where}: 'messages' is not a list of JSON objects")
    for message in messages:
        text = html.unescape(text_field(message.get("text"), where, "text"))
        yield id_field(message.get("senderWorkerId"), where, "senderWorkerId"), " ".join(text.split())


def _titles(record: dict[str, Any], where: str) -> dict[str, str | None]:
    """Return ``movieMentions``, which is a list where it is empty."""
    mentions = record.get("movieMentions") or {}
    if not isinstance(mentions, dict):
        raise InputError(
            f"{where}: 'movieMentions' is {mentions!r}; expected an object of movie id → title, or []"
        )
    return {
        movie_id: None if title is None else text_field(title, where, "movieMentions")
        for movie_id, title in mentions.items()
    }


def examples(dialogues: Iterable[Dialogue], movies: Movies, source: str) -> list[Example]:
    """Return an example for each movie newly named in a message of the recommender.

    No example's query holds its target's title. Left out, and counted in a log line, are targets without a
    title, those named before anything is said, and those whose title somebody has typed before.

    Args:
        dialogues: the dialogues of one split.
        movies: the titles.
        source: for the log line.
    """
    found: list[Example] = []
    counts: Counter[str] = Counter()
    for dialogue in dialogues:
        said: list[str] = []
        words: list[tuple[str, ...]] = []
        named: set[str] = set()
        for place, message in enumerate(dialogue.messages, start=1):
            here = list(dict.fromkeys(message.movies))
            new = [movie_id for movie_id in here if movie_id not in named]
            for target in new if message.speaker == RECOMMENDER else ():
                counts["named"] += 1
                reason = _unusable(target, movies, words)
                if reason:
                    counts[reason] += 1
                    continue
                query = Query(f"{dialogue.dialogue_id}-{place}-{target}", "\n".join(said))
                excluded = movies.same([*named, *here]) - {target}
                found.append(Example(query, target, excluded))
            named.update(here)
            if message.text:
                shown, unknown = _with_titles(message.text, movies)
                counts["unknown"] += unknown
                said.append(f"{message.speaker}: {shown}")
                words.append(_as_words(shown))
    logger.info(
        "%s: %d movies newly named by a recommender, %d examples; left out: %d named before anything is "
        "said, %d whose title stands in the dialogue before, %d without a title; %d placeholders without a "
        "title read %r",
        source,
        counts["named"],
        len(found),
        counts["nothing said"],
        counts["title said"],
        counts["no title"],
        counts["unknown"],
        UNKNOWN_MOVIE,
    )
    return found


def _as_words(text: str) -> tuple[str, ...]:
    """Return the words with apostrophes left out (``oceans eleven``) and as blanks (``it s great``)."""
    return title_words(text), title_words(text, " ")


def _unusable(target: str, movies: Movies, words: list[tuple[str, ...]]) -> str:
    """Return why a newly named movie makes no example, or an empty string."""
    if target not in movies.by_id:
        return "no title"
    if not any(any(forms) for forms in words):
        return "nothing said"
    title = _as_words(movies.by_id[target].title)
    said = any(form and form in text for forms in words for form, text in zip(title, forms, strict=True))
    return "title said" if said else ""


def _with_titles(text: str, movies: Movies) -> tuple[str, int]:
    """Return the text with a name for each placeholder, and how many names are not known."""
    unknown = 0

    def name(match: re.Match[str]) -> str:
        nonlocal unknown
        movie = movies.by_id.get(match[1])
        unknown += movie is None
        return movie.name if movie else UNKNOWN_MOVIE

    return _PLACEHOLDER.sub(name, text), unknown

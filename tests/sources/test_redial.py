from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from instruct_distill.errors import InputError
from instruct_distill.records import Document, Query
from instruct_distill.sources import open_collection
from instruct_distill.sources.collection import Collection
from instruct_distill.sources.redial_dialogues import UNKNOWN_MOVIE
from instruct_distill.sources.redial_movies import parse_movie

SEEKER, RECOMMENDER = 7, 8
TITLES = {
    "10": "Night Ferry  (1994) ",
    "20": "Lantern (1951)",
    "30": "Harbour 2049 (2017)",
    "40": "Where Is Tuesday%3F (2003)",
    "50": "Night Ferry ",
    "60": "Coast Patrol",
}
MENTIONS = {"10": 3, "20": 2, "30": 1, "40": 0, "50": 1, "60": 5}


def dialogue(
    conversation: object, messages: Sequence[tuple[int, str | None]], mentions: object = None, **more: object
) -> dict[str, Any]:
    """A record as in ReDial's files."""
    named = re.findall("@([0-9]+)", " ".join(text or "" for _, text in messages))
    return {
        "conversationId": conversation,
        "movieMentions": {m: TITLES.get(m) for m in named} if mentions is None else mentions,
        "initiatorWorkerId": SEEKER,
        "respondentWorkerId": RECOMMENDER,
        "initiatorQuestions": [],
        "respondentQuestions": {},
        "messages": [
            {"timeOffset": 9 * place, "text": text, "senderWorkerId": worker, "messageId": place}
            for place, (worker, text) in enumerate(messages)
        ],
        **more,
    }


def folder_of(
    tmp_path: Path,
    *,
    info: object = None,
    mentions: Mapping[str, int] | None = MENTIONS,
    **splits: Sequence[Mapping[str, Any]],
) -> Collection:
    for split, records in splits.items():
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / f"{split}_data.jsonl").write_text(lines, "utf-8")
    if mentions is not None:
        rows = [f'{movie_id},"{TITLES[movie_id]}",{count}' for movie_id, count in mentions.items()]
        (tmp_path / "movies_with_mentions.csv").write_text(
            "\n".join(["movieId,movieName,nbMentions", *rows]) + "\n", "utf-8"
        )
    if info is not None:
        (tmp_path / "movie_info.json").write_text(json.dumps(info), "utf-8")
    return open_collection(f"redial:{tmp_path}")


B55 = dialogue(
    "1",
    [
        (SEEKER, "I liked @10, anything similar?"),
        (RECOMMENDER, "Try @20"),
        (SEEKER, "Seen it"),
        (RECOMMENDER, "Then @30"),
    ],
)


def test_b55_a_query_is_what_was_said_before_its_target(tmp_path: Path) -> None:
    collection = folder_of(tmp_path, test=[B55])
    first = "Seeker: I liked Night Ferry (1994), anything similar?"
    assert collection.queries("test") == [
        Query("1-2-20", first),
        Query("1-4-30", f"{first}\nRecommender: Try Lantern (1951)\nSeeker: Seen it"),
    ]
    assert collection.qrels("test") == {"1-2-20": {"20": 1}, "1-4-30": {"30": 1}}


def test_b55_what_was_mentioned_is_no_candidate_under_any_id(tmp_path: Path) -> None:
    collection = folder_of(tmp_path, test=[B55])
    # 50 is "Night Ferry" without a year, which may be 10
    assert collection.excluded("1-2-20") == {"10", "50"}
    assert collection.excluded("1-4-30") == {"10", "50", "20"}
    assert collection.excluded("other") == frozenset()


def test_b55_several_movies_in_one_message_and_movies_named_again(tmp_path: Path) -> None:
    messages = [
        (SEEKER, "Hello"),
        (RECOMMENDER, "@20 or @30, I mean @20"),
        (RECOMMENDER, "@30 again, and @60"),
        (SEEKER, "I would add @40"),
        (RECOMMENDER, "@40 is good"),
    ]
    collection = folder_of(tmp_path, test=[dialogue("1", messages)])
    assert [query.query_id for query in collection.queries()] == ["1-2-20", "1-2-30", "1-3-60"]
    assert {query.text for query in collection.queries()[:2]} == {"Seeker: Hello"}
    assert [collection.excluded(query.query_id) for query in collection.queries()] == [
        {"30"},
        {"20"},
        {"20", "30"},
    ]


@pytest.mark.parametrize(
    ("said", "target", "kept"),
    [
        ("I saw lantern yesterday", "20", False),
        ("THE LANTERN!", "20", False),
        ("Lanterns are nice", "20", True),
        ("the lantern's light", "20", False),
        ("where is tuesday's film", "40", False),
        ("where is tuesday", "40", False),
        ("where is it, Tuesday?", "40", True),
        ("I liked @50", "10", False),  # the same film under another id
    ],
)
def test_b55_a_target_whose_title_was_typed_makes_no_example(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: str, target: str, kept: bool
) -> None:
    caplog.set_level(logging.INFO)
    messages = [(SEEKER, said), (RECOMMENDER, f"Try @{target}"), (RECOMMENDER, "or @60")]
    collection = folder_of(tmp_path, test=[dialogue("1", messages)])
    ids = [f"1-2-{target}"] * kept + ["1-3-60"]
    assert [query.query_id for query in collection.queries()] == ids
    assert f"{1 - kept} whose title stands in the dialogue before" in caplog.text


def test_a_movie_named_before_anything_is_said_makes_no_example(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    messages = [(SEEKER, " "), (RECOMMENDER, "@20!"), (RECOMMENDER, "@30")]
    collection = folder_of(tmp_path, test=[dialogue("1", messages)])
    assert collection.queries() == [Query("1-3-30", "Recommender: Lantern (1951)!")]
    assert "1 named before anything is said" in caplog.text


def test_b56_all_shapes_of_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    titles = {"10": "Night Ferry (1994) ", "20": None}
    records = [
        dialogue("a", [(RECOMMENDER, "Hi"), (SEEKER, None)], mentions=[], initiatorQuestions={}),
        dialogue(
            20001,
            [
                (SEEKER, "Seen @10? @10's great, @999 too. mail me @home"),
                (SEEKER, "Tom &amp; Jane&#39;s\n&quot;pick&quot;"),
                (RECOMMENDER, "@20, @77 or @30?"),
                (RECOMMENDER, "Or @60"),
            ],
            mentions={**titles, "77": "Only Here (1990)", "30": TITLES["30"], "60": TITLES["60"]},
            respondentQuestions=[],
        ),
    ]
    collection = folder_of(tmp_path, test=records, mentions={"10": 1, "30": 1, "60": 1})
    said = (
        f"Seeker: Seen Night Ferry (1994)? Night Ferry (1994)'s great, {UNKNOWN_MOVIE} too. mail me @home\n"
        'Seeker: Tom & Jane\'s "pick"'
    )
    assert collection.queries() == [
        Query("20001-3-77", said),
        Query("20001-3-30", said),
        Query("20001-4-60", f"{said}\nRecommender: a movie, Only Here (1990) or Harbour 2049 (2017)?"),
    ]
    assert "1 without a title; 2 placeholders without a title" in caplog.text
    assert "1 of 5 movies have no title and are no candidates (ids 20)" in caplog.text
    assert [document.doc_id for document in collection.documents()] == ["10", "30", "60", "77"]


def test_b56_roles_are_known_by_worker_ids_and_not_by_turns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first_line = [(RECOMMENDER, "Welcome"), (RECOMMENDER, "Try @20"), (SEEKER, "I prefer @30")]
    records = [
        dialogue("a", first_line),
        dialogue("b", first_line, respondentWorkerId=SEEKER),
        dialogue("c", [(9, "Who am I?")]),
    ]
    collection = folder_of(tmp_path, test=records)
    assert collection.queries() == [Query("a-2-20", "Recommender: Welcome")]
    assert "2 dialogues are left out: their worker ids do not tell" in caplog.text


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (dialogue("1", [], mentions=["10"]), r"line 1: 'movieMentions' is \['10'\]; expected an object"),
        ({**B55, "messages": "hello"}, r"line 1: 'messages' is not a list"),
        ({**B55, "conversationId": None}, r"line 1: 'conversationId' is None"),
        ({**B55, "conversationId": "a b"}, r"line 1: conversationId 'a b' holds white space"),
        ({**B55, "initiatorWorkerId": None}, r"line 1: 'initiatorWorkerId' is None"),
        ({**B55, "messages": [{"text": 1.5, "senderWorkerId": 7}]}, r"line 1: 'text' is 1.5"),
    ],
)
def test_records_that_cannot_be_used(tmp_path: Path, record: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        folder_of(tmp_path, test=[record]).queries()


@pytest.mark.parametrize(
    ("text", "title", "year"),
    [
        ("Night Ferry", "Night Ferry", ""),
        ("Harbour 2049 (2017)", "Harbour 2049", "2017"),
        ("1987", "1987", ""),
        ("(1987)", "(1987)", ""),
        ("Il Faro (The Lighthouse) (1995)", "Il Faro (The Lighthouse)", "1995"),
        ("Il Faro (The Lighthouse)", "Il Faro (The Lighthouse)", ""),
        ("(40) Steps (2003)", "(40) Steps", "2003"),
        ("Coast Patrol (2004– )", "Coast Patrol", "2004"),
        ("Coast Patrol (2004-2009)", "Coast Patrol", "2004"),
        ("Lantern  (1951) ", "Lantern", "1951"),
        ("%22Crocodile%22 &amp; Why%3F (1986)", '"Crocodile" & Why?', "1986"),
        ("100% Sure", "100% Sure", ""),
    ],
)
def test_b58_titles_and_years(text: str, title: str, year: str) -> None:
    assert parse_movie(text) == (title, year)


def test_b58_nothing_is_dropped_but_movies_without_a_title(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TITLES, "70", " ")
    info = {
        "20": {"name": "Lantern", "genre": [], "plot": None, "director": "nan", "writer": [None]},
        "30": {"name": "Harbour 2049 (2017)", "genre": ["drama", "sci-fi"], "plot": "A town &amp; its sea."},
        "60": {"title": "Coast Patrol", "plot": float("nan"), "director": ["A. Bell"], "star": ["C", "D"]},
    }
    collection = folder_of(tmp_path, test=[B55], info=info, mentions={**MENTIONS, "70": 4})
    assert list(collection.documents()) == [
        Document("10", "", "Night Ferry (1994)"),
        Document("20", "", "Lantern (1951)"),
        Document("30", "Genre: drama, sci-fi. A town & its sea.", "Harbour 2049 (2017)"),
        Document("40", "", "Where Is Tuesday? (2003)"),
        Document("50", "", "Night Ferry"),
        Document("60", "Director: A. Bell. Cast: C, D.", "Coast Patrol"),
    ]
    assert "1 of 7 movies have no title and are no candidates (ids 70)" in caplog.text


def named(*names: str) -> dict[str, dict[str, str]]:
    """Information of the movies 10, 20, 30, ... under these names."""
    return {str(10 * place): {"name": name, "plot": f"Plot {place}."} for place, name in enumerate(names, 1)}


def test_b59_information_of_other_ids_is_refused(tmp_path: Path) -> None:
    collection = folder_of(tmp_path, test=[B55], info=named("The Mill", "Old Bridge", "Fog (1999)"))
    with pytest.raises(InputError, match=r"0 of 3 titles agree .*'Night Ferry \(1994\)' and 'The Mill'"):
        list(collection.documents())


def test_b59_the_year_belongs_to_the_title(tmp_path: Path) -> None:
    collection = folder_of(tmp_path, test=[B55], info=named("Night Ferry (1995)", "Lantern (1951)"))
    with pytest.raises(InputError, match=r"1 of 2 titles agree"):
        list(collection.documents())


def test_b59_ids_that_match_nothing_are_refused(tmp_path: Path) -> None:
    collection = folder_of(tmp_path, test=[B55], info={"tt1": {"name": "Lantern"}})
    with pytest.raises(InputError, match=r"none of its 1 ids .*\('tt1' and '10'\)"):
        list(collection.documents())


def test_b59_movies_without_information_keep_their_titles(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collection = folder_of(tmp_path, test=[B55], info=named("NIGHT FERRY", "Lantern (1951)"))
    texts = [document.text for document in collection.documents()]
    assert texts == ["Plot 1.", "Plot 2.", "", "", "", ""]
    assert "2 of 6 movies have information, 2 of 2 titles agree" in caplog.text


def test_b59_what_stands_under_another_title_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    info = named("Night Ferry", "Lantern", "Harbour 2049", "Where Is Monday?", "Night Ferry", "Coast Patrol")
    collection = folder_of(tmp_path, test=[B55], info=info)
    assert [document.text for document in collection.documents()][2:5] == ["Plot 3.", "", "Plot 5."]
    assert "5 of 6 titles agree (movie 40: 'Where Is Tuesday? (2003)'" in caplog.text


def test_splits_are_files_and_share_no_conversation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = {**B55, "conversationId": "2"}
    collection = folder_of(tmp_path, test=[B55], train=[other, B55], valid=[other])
    assert collection.splits() == ("test", "train", "valid")
    assert [query.query_id for query in collection.queries("test")] == ["1-2-20", "1-4-30"]
    assert [query.query_id for query in collection.queries("valid")] == ["2-2-20", "2-4-30"]
    assert collection.queries("train") == []
    assert "2 of 2 conversations are left out" in caplog.text
    assert len(collection.queries()) == 4
    assert collection.qrels() == {**collection.qrels("test"), **collection.qrels("valid")}  # type: ignore[dict-item]
    with pytest.raises(InputError, match="no split 'dev'"):
        collection.queries("dev")


def test_popularity_is_counted_in_train_else_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "a").mkdir()
    read = folder_of(tmp_path / "a", test=[B55])
    assert read.popularity() == {movie_id: float(count) for movie_id, count in MENTIONS.items()}
    whole = "mentions in the whole data set, test dialogues included (movies_with_mentions.csv)"
    assert read.popularity_source() == whole
    assert whole in caplog.text
    (tmp_path / "b").mkdir()
    other = dialogue("2", [(SEEKER, "@10 and @10"), (RECOMMENDER, "@30")])
    counted = folder_of(tmp_path / "b", test=[B55], train=[other])
    assert counted.popularity() == {"10": 2.0, "20": 0.0, "30": 1.0, "40": 0.0, "50": 0.0, "60": 0.0}
    assert counted.popularity_source() == "mentions in the training dialogues (train_data.jsonl)"
    (tmp_path / "c").mkdir()
    neither = folder_of(tmp_path / "c", test=[B55], mentions=None)
    assert (neither.popularity(), neither.popularity_source()) == (None, None)


def test_the_table_of_movies_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "movies_with_mentions.csv"
    for content, message in [
        ("movieId,nbMentions\n1,2\n", "no column 'movieName'"),
        ("movieId,movieName,nbMentions\n1,A\n", "line 2: 2 columns; expected 3"),
        ("movieId,movieName,nbMentions\n1,A,many\n", "line 2: nbMentions is 'many'"),
        ("movieId,movieName,nbMentions\n1,A,1\n1,B,1\n", "line 3: movie '1' stands in a line before"),
    ]:
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            folder_of(tmp_path, test=[B55], mentions=None).queries()


def test_the_fingerprint_follows_the_documents(tmp_path: Path) -> None:
    before = folder_of(tmp_path, test=[B55]).fingerprint()
    assert folder_of(tmp_path, test=[B55]).fingerprint() == before
    assert folder_of(tmp_path, test=[B55], info=named("Night Ferry")).fingerprint() != before


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no test_data.jsonl, valid_data.jsonl or train_data.jsonl"):
        open_collection(f"redial:{tmp_path}")
    with pytest.raises(InputError, match="write redial:FOLDER"):
        open_collection("redial")


@pytest.fixture(scope="module")
def redial(shared_data: Path) -> Collection:
    return open_collection(f"redial:{shared_data / 'redial'}")


def test_b55_no_target_stands_in_its_query(redial: Collection) -> None:
    titles = {document.doc_id: document.title for document in redial.documents()}
    qrels = redial.qrels() or {}
    for query in redial.queries():
        (target,) = qrels[query.query_id]
        bare = re.sub(r" \([0-9]{4}\)$", "", titles[target])
        assert not re.search(rf"(?<!\w){re.escape(bare)}(?!\w)", query.text, re.IGNORECASE), query
        assert not re.search("@[0-9]", query.text)
        assert query.text.startswith(("Seeker: ", "Recommender: "))
        assert target not in redial.excluded(query.query_id)


def test_the_official_files(redial: Collection) -> None:
    assert len(redial.queries("test")) == 4380
    assert len(redial.queries("valid")) == 3175
    documents = {document.doc_id: document for document in redial.documents()}
    assert len(documents) == 6924
    assert sum(bool(document.text) for document in documents.values()) == 6583
    assert not any(re.search(r": (nan|None)\b|\(\)|%3F", d.full_text) for d in documents.values())
    popularity = redial.popularity() or {}
    assert sum(count > 200 for count in popularity.values()) == 45

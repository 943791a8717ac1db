"""Whatever stands in a file, its reader returns it or raises an error of the library that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instruct_distill.errors import InstructDistillError
from instruct_distill.evaluation.system_run import rank_with_resume
from instruct_distill.files import read_json, read_jsonl, read_lines
from instruct_distill.label_files import verify_labels
from instruct_distill.labels import header_line, read_labels, to_line
from instruct_distill.prompts.named import named_prompt, read_prompt
from instruct_distill.prompts.unicode import check_unicode
from instruct_distill.query_writing.files import read_written
from instruct_distill.query_writing.log import AnswerLog
from instruct_distill.ranking_files import Choices, rank_requests, rank_run
from instruct_distill.recipe import Recipe
from instruct_distill.records import Comparison, ListLabel, RankedDocument
from instruct_distill.sources import open_collection
from instruct_distill.sources.item_files import read_excluded, read_popularity
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.student_folder import StudentRecord, read_record
from instruct_distill.trec import RunFile, read_run

EXAMPLE = Path(__file__).resolve().parents[1] / "data" / "example"


class Reader(NamedTuple):
    """One reader.

    Args:
        file: the file's place in a folder.
        valid: what may stand in it.
        read: reads all of it, from the folder.
        beside: other files of the folder.
    """

    file: str
    valid: bytes
    read: Callable[[Path], object]
    beside: Mapping[str, bytes] = MappingProxyType({})


def all_of(prefix: str, split: str | None = None) -> Callable[[Path], object]:
    """Read everything of a collection."""

    def read(place: Path) -> object:
        collection = open_collection(f"{prefix}:{place}")
        queries = collection.queries(split)
        return [queries, list(collection.documents()), collection.qrels(split), collection.given()]

    return read


def lines(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def examples(name: str) -> bytes:
    """The beginning of an example file, whole lines."""
    return b"".join((EXAMPLE / name).read_bytes().splitlines(keepends=True)[:4])


LABELS = [ListLabel("q1", ("d1", "d2"), (1.0, 0.0), (Comparison(0, 1, 0.5), Comparison(1, 0, -0.5)))]
DIALOGUE = {
    "conversationId": "1",
    "initiatorWorkerId": 0,
    "respondentWorkerId": 1,
    "movieMentions": {"7": "Heat (1995)", "8": "Ronin (1998)"},
    "messages": [
        {"senderWorkerId": 0, "text": "I liked @7", "messageId": 1, "timeOffset": 0},
        {"senderWorkerId": 1, "text": "Then see @8", "messageId": 2, "timeOffset": 9},
    ],
}
MOVIES = b"movieId,movieName,nbMentions\n7,Heat (1995),3\n8,Ronin  (1998),2\n"
RECIPE = b"name: r\ncollection: files:x\nteacher: qrels\nstudent: {model: m}\ntraining: {epochs: 2}\n"
RECORD = StudentRecord(
    family="decoder-only",
    prompt=named_prompt("pointwise-short"),
    score="yes_logit",
    max_length=128,
    document_words=None,
    dtype="fp32",
    base_model="m",
    base_revision="r",
    training={},
)

QUERIES = {"queries.tsv": b"q1\tone\n"}

RANKED = {
    "queries.jsonl": lines({"id": "q1", "text": "one"}),
    "documents.jsonl": lines({"id": "d1", "text": "a"}, {"id": "d2", "text": "b"}),
}


class Mirror:
    """Gives every list back in its order; a real one reads the texts with a tokenizer, so texts are encoded."""

    probability_kind = None

    def rank_many(self, lists: Any, **_: Any) -> Iterator[list[RankedDocument]]:
        for query, documents in lists:
            check_unicode([query.text, *(each if isinstance(each, str) else each.text for each in documents)])
            yield [
                RankedDocument(i, None if isinstance(each, str) else each.doc_id, -float(i), i + 1, "")
                for i, each in enumerate(documents)
            ]


def ranked_run(folder: Path) -> list[str]:
    places = [str(folder / name) for name in ("queries.jsonl", "documents.jsonl", "f.trec")]
    return list(rank_run(Mirror(), *places, "trec", Choices()))  # type: ignore[arg-type]


READERS = {
    "lines": Reader("f.txt", b"a\nb\n", lambda folder: list(read_lines(folder / "f.txt"))),
    "jsonl": Reader(
        "f.jsonl", b'{"a": 1}\n{"b": [2]}\n', lambda folder: list(read_jsonl(folder / "f.jsonl"))
    ),
    "json": Reader("f.json", b'{"a": [1, null]}', lambda folder: read_json(folder / "f.json")),
    "run": Reader("f.trec", examples("files/candidates.trec"), lambda folder: read_run(folder / "f.trec")),
    "large run": Reader(
        "f.trec", examples("files/candidates.trec"), lambda folder: dict(RunFile(folder / "f.trec"))
    ),
    "qrels": Reader("f.txt", examples("files/qrels.txt"), lambda folder: read_qrels(folder / "f.txt")),
    "labels": Reader(
        "labels.jsonl",
        (header_line({"teacher": "t"}) + "".join(to_line(label) for label in LABELS)).encode(),
        lambda folder: list(read_labels(folder / "labels.jsonl")),
    ),
    "verified labels": Reader(
        "labels.jsonl",
        (header_line({"teacher": "t"}) + "".join(to_line(label) for label in LABELS)).encode(),
        lambda folder: verify_labels(folder / "labels.jsonl"),
    ),
    "documents": Reader(
        "documents.jsonl", lines({"id": "d1", "title": "t", "text": "x"}), all_of("files"), QUERIES
    ),
    "documents of a table": Reader(
        "documents.tsv", examples("files/documents.tsv"), all_of("files"), QUERIES
    ),
    "queries": Reader(
        "queries.tsv",
        b"q1\tone\n",
        all_of("files"),
        {"documents.tsv": b"d1\tone\n", "qrels.txt": b"q1 0 d1 1\n"},
    ),
    "corpus of BEIR": Reader(
        "corpus.jsonl",
        examples("beir/corpus.jsonl"),
        all_of("beir"),
        {"queries.jsonl": examples("beir/queries.jsonl")},
    ),
    "judgements of BEIR": Reader(
        "qrels/test.tsv",
        examples("beir/qrels/test.tsv"),
        all_of("beir", "test"),
        {"corpus.jsonl": examples("beir/corpus.jsonl"), "queries.jsonl": examples("beir/queries.jsonl")},
    ),
    "candidate lists": Reader(
        "f.json",
        json.dumps(json.loads((EXAMPLE / "rankgpt.json").read_bytes())[:1]).encode(),
        lambda folder: all_of("rankgpt")(folder / "f.json"),
    ),
    "dialogues": Reader(
        "test_data.jsonl",
        lines(DIALOGUE),
        all_of("redial", "test"),
        {"movies_with_mentions.csv": MOVIES},
    ),
    "movies": Reader(
        "movies_with_mentions.csv", MOVIES, all_of("redial", "test"), {"test_data.jsonl": lines(DIALOGUE)}
    ),
    "plots": Reader(
        "movie_info.json",
        json.dumps({"7": {"name": "Heat", "genre": "Crime", "plot": "Two men."}}).encode(),
        all_of("redial", "test"),
        {"test_data.jsonl": lines(DIALOGUE), "movies_with_mentions.csv": MOVIES},
    ),
    "recipe": Reader("r.yaml", RECIPE, lambda folder: Recipe.load(folder / "r.yaml")),
    "popularity": Reader("p.tsv", b"d1\t3\nd2\t0.5\n", lambda folder: read_popularity(folder / "p.tsv")),
    "excluded": Reader("e.tsv", b"q1\td1\nq1\td2\n", lambda folder: read_excluded(folder / "e.tsv")),
    "prompt": Reader(
        "p.yaml",
        json.dumps(named_prompt("pointwise-short").as_dict()).encode(),
        lambda folder: read_prompt(str(folder / "p.yaml")),
    ),
    "written queries": Reader(
        "queries.jsonl",
        lines({"query_id": "q1", "text": "one", "document_id": "d1"}),
        lambda folder: read_written(folder / "queries.jsonl"),
    ),
    "answers": Reader(
        "answers.jsonl",
        lines({"answers": 1, "fingerprint": {"m": "x"}}, {"document_id": "d1", "written": "one"}),
        lambda folder: AnswerLog(folder / "answers.jsonl", {"m": "x"}).take(["d1"]),
    ),
    "a system's lists": Reader(
        "student.jsonl",
        lines({"query_id": "q1", "documents": [["d1", 1.5]], "reranked": 1, "seconds": 0.1}),
        lambda folder: rank_with_resume(
            Mirror(), [], {}, {}, file=folder / "student.jsonl", depth=None, name="student"
        ),
    ),
    "requests": Reader(
        "r.jsonl",
        lines({"query": "one", "documents": ["a", {"id": "d2", "title": "t", "text": "b"}], "more": 1}),
        lambda folder: list(rank_requests(Mirror(), str(folder / "r.jsonl"), Choices())),  # type: ignore[arg-type]
    ),
    "ranked run": Reader("f.trec", b"q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\n", ranked_run, RANKED),
    "ranked documents": Reader(
        "documents.jsonl",
        RANKED["documents.jsonl"],
        ranked_run,
        {**RANKED, "f.trec": b"q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\n"},
    ),
    "student": Reader("reranker.json", json.dumps(RECORD.as_dict()).encode(), read_record),
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
ODD = [
    *(
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\r",
        b"\n\n",
        b"\t",
        b" ",
        b'"',
        b"\\ud800",
        b"\\u0000",
        b"\xe2\x80\xa8",
    ),
    *(
        b"null",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"1" * 5000,
        b"1" * 400,
        b"[Infinity, 1, 0]",
        b"2024-99-99",
        b"{",
        b"[",
        b"]" * 9,
        b"[" * 99999,
        b"- &a [*a]",
        b": :",
    ),
]


@st.composite
def damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    """A valid file with some bytes cut, and others put in their place, one to three times."""
    text = valid
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + draw(st.sampled_from([b"", *ODD]) | st.binary(max_size=3)) + text[end:]
    return text


@st.composite
def replaced(draw: st.DrawFn, valid: bytes) -> bytes:
    """A valid JSON file, or one of JSON lines, in which one value is another."""
    whole = [json.loads(line) for line in valid.splitlines()]
    places = list(_places(whole))
    if places:
        container, key = draw(st.sampled_from(places))
        container[key] = draw(JSON)
    return b"\n".join(json.dumps(line).encode() for line in whole) + b"\n"


def _places(value: Any) -> Any:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


def contents(reader: Reader) -> st.SearchStrategy[bytes]:
    try:
        json.loads(reader.valid.splitlines()[0])
    except ValueError:
        return damaged(reader.valid) | st.binary(max_size=40)
    return damaged(reader.valid) | replaced(reader.valid) | st.binary(max_size=40)


@pytest.mark.parametrize("name", READERS)
def test_a_valid_file_is_read(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    write(tmp_path, {**reader.beside, reader.file: reader.valid})
    reader.read(tmp_path)


@pytest.mark.parametrize("name", READERS)
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_other_file_is_read_or_named(name: str, tmp_path: Path, data: st.DataObject) -> None:
    reader = READERS[name]
    content = data.draw(contents(reader))
    write(tmp_path, {**reader.beside, reader.file: content})
    said = ""
    try:
        reader.read(tmp_path)
    except InstructDistillError as error:
        said = str(error)
    assert not said or any(Path(file).name in said for file in (reader.file, *reader.beside)), said


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

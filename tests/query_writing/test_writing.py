from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from instruct_distill.errors import InputError
from instruct_distill.inference.engine import Question
from instruct_distill.prompts.named import PROMPTS
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.query_writing.files import read_written, save_queries
from instruct_distill.query_writing.log import AnswerLog
from instruct_distill.query_writing.writing import Written, WrittenQuery, tidy, write_queries
from instruct_distill.records import Document, Query
from tests.teachers.stub_engine import StubEngine

DOCUMENTS = [Document(f"d{i}", f"text {i}") for i in range(300)]
PRINT = {"model": "stub", "seed": 13}


class WritingEngine(StubEngine):
    """Writes what a function says of a document's number."""

    prompt: Prompt

    def __init__(self, text: Callable[[int], str]) -> None:
        super().__init__(lambda question: 0.0)
        self.prompt = PROMPTS["write-query"]
        self.text = text
        self.calls_of: list[int] = []

    def generate(self, questions: Sequence[Question], max_tokens: int) -> list[str]:
        self.calls_of.append(len(questions))
        assert max_tokens == 40
        return [self.text(int(question.documents[0].doc_id[1:])) for question in questions]


def write(engine: WritingEngine, path: Path, wanted: int, documents: int = 300) -> Written:
    return write_queries(engine, DOCUMENTS[:documents], wanted, AnswerLog(path, PRINT))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("how do tides work", "how do tides work"),
        ("  How do tides\twork?\n\nBecause of the moon.", "How do tides work?"),
        ("Question: how do tides work", "how do tides work"),
        ("query 3: how do tides work", "how do tides work"),
        ('"How do tides work?"', "How do tides work?"),
        ("**Question:** How do tides work?", "How do tides work?"),
        ("1. How do tides work?\n2. Why?", "How do tides work?"),
        ("- how do tides work", "how do tides work"),
        ("Here is a question:\n\nHow do tides work?", "How do tides work?"),
        ("3 reasons for tides", "3 reasons for tides"),
        ("questions about tides", "questions about tides"),
        ("„Wie entstehen Gezeiten?“", "Wie entstehen Gezeiten?"),
        ("潮はどうして起こるのか", "潮はどうして起こるのか"),
        ("", ""),
        ("\n \n", ""),
        ("Question:", ""),
        ('""', ""),
    ],
)
def test_a_query_in_what_a_model_wrote(text: str, query: str) -> None:
    assert tidy(text) == query


def test_empty_and_repeated_queries_are_replaced(tmp_path: Path) -> None:
    texts = ["why tides", "", "Why tides?!", "...", "why ferries", "why", "WHY   Ferries", "why rain"]
    engine = WritingEngine(lambda i: texts[i])
    found = write(engine, tmp_path / "log", 4, documents=8)
    assert found.queries == [
        WrittenQuery(Query("g:d0", "why tides"), "d0"),
        WrittenQuery(Query("g:d4", "why ferries"), "d4"),
        WrittenQuery(Query("g:d5", "why"), "d5"),
        WrittenQuery(Query("g:d7", "why rain"), "d7"),
    ]
    assert (found.asked, found.empty, found.repeated) == (8, 2, 2)
    # four are asked for, three of them replaced; one of these again
    assert engine.calls_of == [4, 3, 1]


def test_no_more_is_asked_than_is_wanted(tmp_path: Path) -> None:
    engine = WritingEngine(lambda i: f"why {i}")
    assert len(write(engine, tmp_path / "log", 150).queries) == 150
    assert engine.calls_of == [64, 64, 22]


def test_documents_that_run_out(tmp_path: Path) -> None:
    found = write(WritingEngine(lambda i: f"why {i % 3}"), tmp_path / "log", 10, documents=30)
    assert (len(found.queries), found.asked, found.repeated) == (3, 30, 27)


def numbered(i: int) -> str:
    return "" if i % 7 == 0 else f"why {i % 90} é"


@pytest.mark.parametrize("lines", [0, 1, 2, 64, 65, 66, 100, 129])
@pytest.mark.parametrize("torn", [0, 5])
def test_a_stopped_run_goes_on_and_ends_with_the_same_file(tmp_path: Path, lines: int, torn: int) -> None:
    path = tmp_path / "log"
    first = WritingEngine(numbered)
    expected = write(first, path, 70)
    whole = path.read_bytes()
    ends = [0, *(i + 1 for i, byte in enumerate(whole) if byte == 10)]
    path.write_bytes(whole[: min(ends[min(lines, len(ends) - 1)] + torn, len(whole))])
    again = WritingEngine(numbered)
    assert write(again, path, 70) == expected
    assert path.read_bytes() == whole
    # whole chunks are not asked for again: the first has 64 documents
    finished = 0 if lines < 65 else 64
    assert sum(again.calls_of) <= sum(first.calls_of) - finished
    idle = WritingEngine(numbered)
    assert write(idle, path, 70) == expected
    assert idle.calls_of == []


def test_a_log_of_another_model_or_seed(tmp_path: Path) -> None:
    AnswerLog(tmp_path / "log", PRINT)
    with pytest.raises(InputError, match=r"with other settings \(seed: 13 there, 14 now\); .*redo=write"):
        AnswerLog(tmp_path / "log", {**PRINT, "seed": 14})


@pytest.mark.parametrize(
    ("line", "content", "message"),
    [
        (1, b'{"labels": 1}', r"log line 1: expected a header with answers: 1"),
        (
            2,
            b'{"document_id": "d9", "written": "x"}',
            r"log line 2: expected what was written for document 'd0'",
        ),
        (3, b'{"document_id": "d1"}', r"log line 3: expected what was written for document 'd1'"),
        (3, b"{", r"log line 3: damaged"),
        (3, b"\xff", r"log line 3: damaged"),
        (3, b"[]", r"log line 3: expected a JSON object"),
    ],
)
def test_a_damaged_log(tmp_path: Path, line: int, content: bytes, message: str) -> None:
    path = tmp_path / "log"
    write(WritingEngine(numbered), path, 5)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[: line - 1], content, *lines[line:]]))
    with pytest.raises(InputError, match=message):
        write(WritingEngine(numbered), path, 5)


def test_the_file_of_queries(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    queries = [WrittenQuery(Query("g:d1", 'why "é"'), "d1"), WrittenQuery(Query("g:d2", "how"), "d2")]
    save_queries(path, queries)
    assert path.read_text("utf-8").splitlines() == [
        '{"query_id": "g:d1", "text": "why \\"é\\"", "document_id": "d1"}',
        '{"query_id": "g:d2", "text": "how", "document_id": "d2"}',
    ]
    assert read_written(path) == queries
    path.write_text('{"query_id": "g:d1", "text": "why"}\n')
    with pytest.raises(InputError, match=r"queries.jsonl line 1: expected query_id, text and document_id"):
        read_written(path)
    with pytest.raises(InputError, match="no such file"):
        read_written(tmp_path / "other.jsonl")

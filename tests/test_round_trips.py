"""What a writer accepts comes back equal through its reader; what cannot is refused in writing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from instruct_distill.errors import InputError
from instruct_distill.label_files import verify_labels
from instruct_distill.labels import LabelStore, from_record, read_labels, to_line
from instruct_distill.query_writing.files import read_written, save_queries
from instruct_distill.query_writing.log import AnswerLog
from instruct_distill.query_writing.writing import WrittenQuery
from instruct_distill.records import Comparison, ListLabel, Query, ScoredDocument
from instruct_distill.sources.qrels import read_qrels
from instruct_distill.sources.record_fields import read_documents
from instruct_distill.trec import RunFile, read_run, write_qrels, write_run

ODD = [
    "\u2028",
    "\u0085",
    "\ufeff",
    "\r\n",
    "\r",
    "e\u0301",
    "👩‍👩‍👧",
    "\u00a0",
    "\u3000",
    "\x1c",
    "\x00",
    "\ud83d",
]
TEXTS = st.lists(st.sampled_from(ODD) | st.text(st.characters(codec=None), max_size=4), max_size=4).map(
    "".join
)
IDS = TEXTS.filter(bool)
quick = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def holds_half(*texts: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for text in texts for character in text)


def fits_trec(*ids: str) -> bool:
    """Not said as the library says it: one field between blanks, in UTF-8, that a C program reads whole."""
    return not holds_half(*ids) and all(
        one and not set(one) & set(" \t\n\v\f\r\0") and one[0] != "\ufeff" for one in ids
    )


@quick
@given(query=IDS, documents=st.lists(IDS, min_size=1, max_size=3, unique=True))
@example(query="\ufeffq", documents=["d"])
@example(query="q\u0085", documents=["\u2028"])
@example(query="q", documents=["\ud83d"])
def test_b49_b52_ids_of_runs_and_judgements(query: str, documents: list[str], tmp_path: Path) -> None:
    run = {query: [ScoredDocument(doc_id, -float(i)) for i, doc_id in enumerate(documents)]}
    qrels = {query: {doc_id: i for i, doc_id in enumerate(documents)}}
    if not fits_trec(query, *documents):
        for write in (
            lambda: write_run(tmp_path / "r", run, "t"),
            lambda: write_qrels(tmp_path / "q", qrels),
        ):
            with pytest.raises(InputError, match="cannot stand in a TREC run"):
                write()
        return
    write_run(tmp_path / "r", run, "t")
    write_qrels(tmp_path / "q", qrels)
    assert read_run(tmp_path / "r") == dict(RunFile(tmp_path / "r")) == run
    assert read_qrels(tmp_path / "q") == qrels


@quick
@given(query=IDS, documents=st.lists(IDS, min_size=2, max_size=3, unique=True))
def test_b52_ids_of_labels(query: str, documents: list[str], tmp_path: Path) -> None:
    label = ListLabel(
        query, tuple(documents), tuple(map(float, range(len(documents)))), (Comparison(0, 1, 0.5),)
    )
    file = tmp_path / "labels.jsonl"
    file.unlink(missing_ok=True)
    store = LabelStore(file, {"teacher": "t"}, [[query]])
    if holds_half(query, *documents):
        with pytest.raises(InputError, match="half of a surrogate pair"):
            store.append(0, [label])
        return
    store.append(0, [label])
    assert list(read_labels(file)) == [label]
    assert verify_labels(file).problems == []


@quick
@given(query=IDS, text=TEXTS, document=IDS)
def test_b52_written_queries_and_answers(query: str, text: str, document: str, tmp_path: Path) -> None:
    file, log = tmp_path / "queries.jsonl", tmp_path / "answers.jsonl"
    log.unlink(missing_ok=True)
    written = [WrittenQuery(Query(query, text), document)]
    answers = AnswerLog(log, {})
    if holds_half(query, text, document):
        with pytest.raises(InputError, match=r"queries\.jsonl.*half of a surrogate pair"):
            save_queries(file, written)
    else:
        save_queries(file, written)
        assert read_written(file) == written
    if holds_half(document, text):
        with pytest.raises(InputError, match=r"answers\.jsonl.*half of a surrogate pair"):
            answers.append([document], [text])
    else:
        answers.append([document], [text])
        assert AnswerLog(log, {}).take([document]) == [text]


@quick
@given(doc_id=IDS, title=TEXTS, text=TEXTS)
def test_b51_b52_documents(doc_id: str, title: str, text: str, tmp_path: Path) -> None:
    """Halves of surrogate pairs become U+FFFD in texts; in ids, which must stay apart, they are refused."""
    file = tmp_path / "documents.jsonl"
    file.write_text(json.dumps({"id": doc_id, "title": title, "text": text}) + "\n", encoding="utf-8")
    if holds_half(doc_id) or not doc_id.strip():
        with pytest.raises(InputError, match=r"documents\.jsonl line 1"):
            list(read_documents(file))
        return
    (found,) = read_documents(file)
    # two halves that meet are one character in JSON, and are read as such
    wanted = [json.loads(json.dumps(each)).encode("utf-16", "surrogatepass") for each in (title, text)]
    assert found.doc_id == doc_id
    assert [found.title, found.text] == [each.decode("utf-16", "replace") for each in wanted]


@pytest.mark.parametrize("number", ["1" + "0" * 400, "Infinity", "NaN"])
def test_b48_numbers_beyond_float_in_labels(number: str) -> None:
    label = to_line(ListLabel("q", ("a", "b"), (2.0, 1.0), (Comparison(0, 1, 0.5),)))
    for before, after in (("2.0", number), ("[0,", f"[{number},"), ("0.5]", f"{number}]")):
        assert before in label
        with pytest.raises(InputError, match="f line 2"):
            from_record(json.loads(label.replace(before, after, 1)), "f line 2")

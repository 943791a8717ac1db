from __future__ import annotations

import pytest

from instruct_distill.records import Document
from instruct_distill.sources.document_store import DocumentStore

DOCUMENTS = [
    Document("007", "Oil the chain.", "Chains"),
    Document("7", "Ferries leave \x00 \u2028 at 8."),
    Document("é 🛶", "", ""),
    Document("1e5", "null"),
]


def test_what_goes_in_comes_out() -> None:
    store = DocumentStore(iter(DOCUMENTS))
    assert len(store) == 4
    assert list(store) == [document.doc_id for document in DOCUMENTS]
    assert list(store.values()) == DOCUMENTS
    assert dict(store) == {document.doc_id: document for document in DOCUMENTS}
    for document in DOCUMENTS:
        assert store[document.doc_id] == document
        assert store[document.doc_id].title == document.title


def test_an_id_that_is_not_there() -> None:
    store = DocumentStore(DOCUMENTS)
    assert "0007" not in store
    assert store.get("8") is None
    with pytest.raises(KeyError, match="'8'"):
        store["8"]


def test_no_documents() -> None:
    assert (len(DocumentStore([])), list(DocumentStore([]).values())) == (0, [])


def test_reading_goes_on_while_others_read() -> None:
    store = DocumentStore(DOCUMENTS)
    assert [(one.doc_id, len(list(store.values()))) for one in store.values()] == [
        (document.doc_id, 4) for document in DOCUMENTS
    ]


def test_more_are_added_and_none_twice() -> None:
    store = DocumentStore(DOCUMENTS[:2])
    store.add([DOCUMENTS[1]._replace(text="another"), *DOCUMENTS[2:]])
    assert list(store.values()) == DOCUMENTS

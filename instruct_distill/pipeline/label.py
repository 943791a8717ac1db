"""The stage ``label``: the teacher says what it thinks of every candidate list."""

from __future__ import annotations

import logging
import time
from typing import Any

from tqdm import tqdm

from instruct_distill.labels import LabelStore, read_labels
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.stage import this_process
from instruct_distill.pipeline.teacher import load_teacher
from instruct_distill.teachers.labelling import chunks_of, label_chunk
from instruct_distill.teachers.statistics import label_statistics

logger = logging.getLogger(__name__)


def label_candidates(inputs: Inputs) -> dict[str, Any]:
    """Write ``labels.jsonl``; every process labels its own chunks, the main process puts them together.

    Returns:
        the statistics of the labels.
    """
    rank, processes = this_process()
    parameters = inputs.recipe.teacher
    teacher = load_teacher(parameters, inputs.context())
    lists = inputs.lists()
    chunks = chunks_of(teacher.strategy, lists.lengths, parameters)
    query_ids = lists.query_ids
    store = LabelStore(
        inputs.folder / "labels.jsonl",
        teacher.fingerprint(lists),
        [[query_ids[i] for i in positions] for positions in chunks],
        rank=rank,
        processes=processes,
    )
    finished = store.finished_queries()
    with tqdm(total=len(lists), initial=finished, desc="label", unit="query", disable=None) as bar:
        for number in store.pending():
            items = [lists[i] for i in chunks[number]]
            store.append(number, label_chunk(teacher.strategy, teacher.engine, items))
            bar.update(len(items))
    if rank != 0:
        return {}
    while not store.complete():
        time.sleep(0.5)
    store.merge()
    statistics = label_statistics(read_labels(store.path))
    logger.info("labels: %s", statistics)
    return statistics.as_dict()

"""Some scores of the trained student, which the written folder must give again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from instruct_distill.errors import InputError
from instruct_distill.inference.score_rules import ScoreRule, student_score
from instruct_distill.models.precision import DTYPES
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.reranker import Reranker
from instruct_distill.student_folder import read_record
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.updates.updater import Updater

_DOCUMENTS = 4


class Probe(NamedTuple):
    """A query with documents and what the student scored them when its training ended.

    Args:
        query: the query's text.
        documents: the texts.
        scores: the scores.
    """

    query: str
    documents: tuple[str, ...]
    scores: tuple[float, ...]


def take_probe(
    updater: Updater, encoder: PromptEncoder, lists: Sequence[TrainingList], score: ScoreRule
) -> Probe | None:
    """Score the first documents of the first list; every process calls it, with the student not training.

    Returns:
        the probe; None without lists.
    """
    if not lists:
        return None
    assert encoder.answers is not None
    texts = tuple(document.full_text for document in lists[0].documents[:_DOCUMENTS])
    query = lists[0].query.text
    with torch.no_grad():
        scores = [
            float(student_score(updater.forward([prompt], encoder.answers), score)[0])
            for prompt in encoder.encode((query, [text]) for text in texts)
        ]
    return Probe(query, texts, tuple(scores))


def check_probe(folder: Path, probe: Probe) -> None:
    """Load a student's folder and make sure that it scores what the student in training did.

    Args:
        folder: the folder that was written.
        probe: what was scored before.

    Raises:
        InputError: it gives other scores: weights were lost or changed on the way.
    """
    dtype = read_record(folder).dtype
    reranker = Reranker.from_pretrained(folder, dtype=dtype)
    found = reranker.score([(probe.query, document) for document in probe.documents])
    # another batch, or another machine's kernels, may round the last digits differently
    allowed = max(1e-3, 16 * torch.finfo(DTYPES[dtype]).eps) * max(1.0, *map(abs, probe.scores))
    worst = max(abs(a - float(b)) for a, b in zip(probe.scores, found, strict=True))
    if not worst <= allowed:  # NaN included
        raise InputError(
            f"{folder}: the written student scores {[round(float(s), 4) for s in found]} where the trained "
            f"one scored {[round(s, 4) for s in probe.scores]}; its weights are not what was trained. The "
            "checkpoint stands: start the same command again to have them written again"
        )

"""A student in ONNX's form, for CPUs without a fast bf16 and for other runtimes."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from instruct_distill.errors import InputError
from instruct_distill.files import write_json
from instruct_distill.models.loading import load_model
from instruct_distill.models.onnx import write_onnx
from instruct_distill.reranker import Reranker
from instruct_distill.student_folder import RECORD, read_record

_QUERY = "what is this about"
_SENTENCE = "it is a text about the sea and the ships that sail on it "
_PAIRS = [(_QUERY, _SENTENCE * (1 + 2 * i)) for i in range(4)]
"""What the exported student must score as the original does: of several lengths, so that rows are padded."""


class Exported(NamedTuple):
    """What was written.

    Args:
        folder: where it is.
        difference: largest difference of a score to the original's in float32, on a few pairs.
        megabytes: size of the weights.
    """

    folder: Path
    difference: float
    megabytes: float


def export_onnx(
    student: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    int8: bool = False,
    tolerance: float = 1e-3,
) -> Exported:
    """Write a student as ONNX; ``Reranker.from_pretrained`` loads the folder.

    Args:
        student: a folder that training wrote.
        to: a folder that is not there yet.
        int8: 8-bit weights: smaller, and with other scores. Measure before you use it.
        tolerance: the largest difference of a score to the original's; not for ``int8``.

    Raises:
        InputError: the student cannot be exported, the folder is there already, or the scores differ.
    """
    source, target = Path(student), Path(to)
    if target.exists():
        raise InputError(f"{target} is there already; give another folder")
    record = read_record(source)
    loaded = load_model(str(source), dtype="fp32", device=torch.device("cpu"), local_files_only=True)
    original = Reranker(
        loaded,
        record.prompt,
        score=record.score,
        max_length=record.max_length,
        document_words=record.document_words,
    )
    expected = original.score(_PAIRS)
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    example = original.encoder.encode([(query, [text]) for query, text in _PAIRS[1:2]])[0]
    answers = original.encoder.answers
    assert answers is not None
    write_onnx(loaded, answers, example, temporary, int8=int8)
    write_json(temporary / RECORD, dataclasses.replace(record, dtype="int8" if int8 else "fp32").as_dict())
    found = Reranker.from_pretrained(temporary).score(_PAIRS)
    difference = float(np.abs(found - expected).max())
    if not int8 and not difference <= tolerance:
        raise InputError(
            f"the exported student scores {found.tolist()} what the original scores {expected.tolist()}; "
            f"nothing was written to {target}, look at {temporary}"
        )
    os.replace(temporary, target)
    size = sum(file.stat().st_size for file in target.glob("model.onnx*"))
    return Exported(target, difference, size / 2**20)

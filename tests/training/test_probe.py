from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from instruct_distill.errors import InputError
from instruct_distill.models.loading import LoadedModel
from instruct_distill.student_folder import StudentRecord, write_student
from instruct_distill.training.lists import TrainingList
from instruct_distill.training.loop import student_encoder
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.probe import Probe, check_probe, take_probe
from instruct_distill.training.updates.plain import PlainUpdater


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_written_student_scores_the_same_or_is_refused(
    load: Callable[..., LoadedModel],
    lists: Callable[..., list[TrainingList]],
    student: StudentParameters,
    tmp_path: Path,
    dtype: str,
) -> None:
    loaded = load(dtype)
    updater, encoder = PlainUpdater(loaded.model, TrainingParameters()), student_encoder(student, loaded)
    assert take_probe(updater, encoder, [], "yes_logit") is None
    data = lists(2, documents=6)
    probe = take_probe(updater, encoder, data, "yes_logit")
    assert probe is not None
    assert probe.query == data[0].query.text
    assert probe.documents == tuple(document.full_text for document in data[0].documents[:4])
    assert len(set(probe.scores)) == 4

    folder = tmp_path / "student"
    record = StudentRecord(
        family="decoder-only",
        prompt=student.prompt_record,
        score="yes_logit",
        max_length=160,
        document_words=None,
        dtype=dtype,
        base_model="tiny",
        base_revision="0",
        training={},
    )
    write_student(folder, loaded, record)
    check_probe(folder, probe)

    with pytest.raises(InputError, match=r"scores \[.*\] where the trained one scored \[nan"):
        check_probe(folder, Probe(probe.query, probe.documents, (float("nan"), *probe.scores[1:])))
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] *= -1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="its weights are not what was trained"):
        check_probe(folder, probe)

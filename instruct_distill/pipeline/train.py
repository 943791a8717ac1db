"""The stage ``train``: the student learns the teacher's order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from instruct_distill.errors import InputError
from instruct_distill.files import read_json
from instruct_distill.labels import read_header, read_labels
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.stage import this_process
from instruct_distill.training.lists import TrainingList, training_list

if TYPE_CHECKING:
    from instruct_distill.models.loading import LoadedModel
    from instruct_distill.probability import Calibration

logger = logging.getLogger(__name__)


def train_student(inputs: Inputs) -> dict[str, Any]:
    """Write ``checkpoints/``, ``training.jsonl`` and ``student/``, its model card included.

    Returns:
        steps, seconds, tokens and the agreement with the teacher.
    """
    # torch is imported by the stages that need it
    from instruct_distill.model_card import write_card
    from instruct_distill.models.precision import dtype_name
    from instruct_distill.pipeline.dev_task import dev_task
    from instruct_distill.student_folder import StudentRecord, write_student
    from instruct_distill.training.loop import train
    from instruct_distill.training.probe import check_probe
    from instruct_distill.training.student import finished_student, load_student

    recipe, folder = inputs.recipe, inputs.folder
    student = recipe.student
    lists = labelled_lists(inputs)
    loaded = load_student(student, recipe.training.precision, recipe.seed)
    trained = train(
        loaded,
        student,
        lists,
        recipe.training,
        seed=recipe.seed,
        checkpoints=folder / "checkpoints",
        log=folder / "training.jsonl",
        name=recipe.name,
        dev=dev_task(inputs),
    )
    warn_of_disagreement(trained.agreement)
    if this_process()[0] == 0:
        record = StudentRecord(
            family=loaded.model.family,
            prompt=student.prompt_record,
            score=student.score,
            max_length=student.max_length,
            document_words=student.document_words,
            dtype=dtype_name(loaded.model.model.dtype),
            weights="adapter" if student.lora and student.lora.save == "adapter" else "whole",
            base_model=student.model,
            base_revision=loaded.revision,
            probability=fitted_probability(inputs, loaded, lists),
            training={
                "recipe": recipe.name,
                "collection": recipe.collection,
                "queries": len(lists),
                "teacher": read_header(folder / "labels.jsonl"),
                "label_statistics": read_json(folder / "label.done.json")["outcome"],
                "lora": recipe.as_dict()["student"]["lora"],
                **recipe.as_dict()["training"],
            },
        )
        write_student(folder / "student", finished_student(loaded, student, lists), record)
        # quantised weights are trained on, and the whole ones are used with what they learned
        if trained.probe is not None and not (student.lora and student.lora.quantize):
            check_probe(folder / "student", trained.probe)
        write_card(folder / "student")
    logger.info("train: %d steps, agreement with the teacher %s", trained.steps, _figure(trained.agreement))
    outcome = trained._asdict()
    del outcome["probe"]
    return {"lists": len(lists), **outcome}


def warn_of_disagreement(agreement: float | None) -> None:
    """Say so where a trained student does not order its own training lists as the teacher did.

    Args:
        agreement: mean Kendall τ of student and teacher; None where no list has an order.
    """
    if agreement is not None and agreement <= 0:
        logger.warning(
            "the student does not agree with its own training labels (Kendall tau %.3f): "
            "it learned nothing, or learned the order backwards",
            agreement,
        )


def fitted_probability(
    inputs: Inputs, loaded: LoadedModel, lists: Sequence[TrainingList]
) -> Calibration | None:
    """Fit probabilities on the lists that were held back; None where none were, or where they do not fit."""
    from instruct_distill.probability import fit, win_rates
    from instruct_distill.reranker import Reranker
    from instruct_distill.training.dev import held_back_positions

    recipe = inputs.recipe
    dev, student = recipe.training.dev, recipe.student
    if dev is None or not dev.held_back:
        return None
    useful = [item for item in lists if item.documents]
    kept = [useful[i] for i in held_back_positions(useful, dev.held_back, recipe.seed)]
    reranker = Reranker(
        loaded,
        student.prompt_record,
        score=student.score,
        max_length=student.max_length,
        document_words=student.document_words,
        tokens_per_batch=student.tokens_per_batch,
    )
    scores = [
        reranker.score([(item.query, document) for document in item.documents]).tolist() for item in kept
    ]
    # empty documents were not compared, and are not in these lists; broken ties are no sums any more
    sums = recipe.teacher.kind == "allpairs" and recipe.training.ties == "skip"
    try:
        return fit(scores, [win_rates(item.scores, sums=sums) for item in kept])
    except InputError as error:
        logger.warning("train: no probabilities: %s", error)
        return None


def labelled_lists(inputs: Inputs) -> list[TrainingList]:
    """Return the labelled lists with their texts, in candidate-file order.

    Raises:
        InputError: the labels are not one for each query, or one names a document that the candidates do not
            have.
    """
    queries = {query.query_id: query for query in inputs.queries}
    lists = []
    unlabelled = dict.fromkeys(queries)
    for label in read_labels(inputs.folder / "labels.jsonl"):
        if label.query_id not in unlabelled:
            problem = "has a second label" if label.query_id in queries else "is not in the collection"
            raise InputError(f"{inputs.folder / 'labels.jsonl'}: query {label.query_id!r} {problem}")
        del unlabelled[label.query_id]
        missing = [doc_id for doc_id in label.doc_ids if doc_id not in inputs.documents]
        if missing:
            raise InputError(
                f"{inputs.folder / 'labels.jsonl'}: document {missing[0]!r} of query {label.query_id!r} "
                "is not among the candidates"
            )
        documents = [inputs.documents[doc_id] for doc_id in label.doc_ids]
        training = inputs.recipe.training
        query = queries[label.query_id]
        lists.append(training_list(query, documents, label, training.ties, soft=training.soft_pairs))
    if unlabelled:
        raise InputError(
            f"{inputs.folder / 'labels.jsonl'}: {len(unlabelled)} of {len(queries)} queries have no label, "
            f"such as {next(iter(unlabelled))!r}; lines were taken out after the stage label was finished. "
            f"Remove {inputs.folder / 'label.done.json'} to have them labelled, or use redo=label"
        )
    return lists


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"

"""How long one prompt takes on this device: a few real ones are asked, and a few documents are trained on."""

from __future__ import annotations

import functools
import gc
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from instruct_distill.inference.engine import Engine, Question
from instruct_distill.pipeline.plan_sample import Measured
from instruct_distill.pipeline.teacher import load_teacher
from instruct_distill.recipe import Recipe
from instruct_distill.records import ListLabel
from instruct_distill.teachers.labelling import CandidateTexts
from instruct_distill.teachers.strategy import Context, Strategy

PROMPTS = 20
"""Prompts that are measured."""


class Seconds(NamedTuple):
    """What was measured, after a warm-up, by one process.

    Args:
        device: where.
        label: seconds a teacher's prompt; 0 for a teacher that asks nothing; None for one behind a server,
            which is not asked: that may cost money.
        train: seconds a document, forward and backward.
        evaluate: seconds a student's prompt.
    """

    device: str
    label: float | None
    train: float
    evaluate: float


def calibrate(
    recipe: Recipe,
    context: Context,
    teacher: Measured,
    student: Measured,
    lists: Sequence[CandidateTexts],
) -> Seconds:
    """Load teacher and student, one after the other, and measure.

    Args:
        recipe: what will be run.
        context: what the teacher's strategy may look at.
        teacher: its prompts over the sample.
        student: its prompts over the sample.
        lists: the sample; there is a document with text in it.

    Raises:
        InputError: a model cannot be loaded.
    """
    from instruct_distill.models.loading import own_device

    label: float | None = 0.0
    if recipe.teacher.server is not None:
        label = None
    elif teacher.questions:
        loaded = load_teacher(recipe.teacher, context)
        assert loaded.engine is not None
        label = _asking(_ask(loaded.engine, loaded.strategy), teacher, recipe.seed)
        del loaded
        gc.collect()
    train, evaluate = _student(recipe, teacher.labels, student, lists)
    return Seconds(str(own_device()), label, train, evaluate)


def _ask(engine: Engine, strategy: Strategy) -> Callable[[Sequence[Question]], Any]:
    if strategy.asks == "generate":
        return lambda questions: engine.generate(questions, strategy.max_tokens)
    ask: Callable[[Sequence[Question]], Any] = getattr(engine, strategy.asks or "")
    return ask


def _asking(ask: Callable[[Sequence[Question]], Any], measured: Measured, seed: int) -> float:
    """Seconds a prompt of the sample's mean length."""
    assert measured.counter is not None
    assert measured.tokens_per_prompt is not None
    # as they are asked in the run, one list's together: a teacher may read what they have in common once
    start = PROMPTS * random.Random(seed).randrange(-(-len(measured.questions) // PROMPTS))
    some = measured.questions[start : start + PROMPTS]
    ask(some[:2])
    began = time.perf_counter()
    ask(some)
    seconds = (time.perf_counter() - began) / len(some)
    # a continuation that is read besides is as long in both
    return seconds * measured.counter.tokens_per_prompt / max(measured.counter.length_of(some), 1.0)


def _student(
    recipe: Recipe, labels: Sequence[ListLabel], measured: Measured, lists: Sequence[CandidateTexts]
) -> tuple[float, float]:
    """Seconds a document in training, and a prompt in evaluation."""
    from instruct_distill.inference.local import LocalEngine
    from instruct_distill.losses import LOSSES
    from instruct_distill.models.attention import use_cpu_attention
    from instruct_distill.models.checkpointing import gradient_checkpointing
    from instruct_distill.models.loading import load_model
    from instruct_distill.training.gradient import add_gradient
    from instruct_distill.training.lists import TrainingList, choose_documents, training_list
    from instruct_distill.training.loop import student_encoder
    from instruct_distill.training.student import load_student
    from instruct_distill.training.updates.plain import PlainUpdater

    student, training = recipe.student, recipe.training
    loaded = load_model(student.model, revision=student.revision, dtype=student.dtype, new_head=recipe.seed)
    engine = LocalEngine(
        loaded,
        student.prompt_record,
        max_length=student.max_length,
        document_words=student.document_words,
        tokens_per_batch=student.tokens_per_batch,
    )
    evaluate = _asking(engine.answer_logits, measured, recipe.seed)
    del engine, loaded
    gc.collect()

    loaded = load_student(student, training.precision, recipe.seed)
    use_cpu_attention(loaded.model.model)
    loaded.model.train()
    encoder = student_encoder(student, loaded)
    loss = functools.partial(LOSSES.load(training.loss_choice.name).loss, **training.loss_choice.parameters)
    batch: list[TrainingList] = []
    for item, label in zip(lists, labels, strict=True):
        whole = training_list(item.query, item.documents, label, training.ties, soft=training.soft_pairs)
        chosen = choose_documents(whole, training, recipe.seed, 0)
        if chosen.informative:
            batch.append(chosen)
        if sum(len(each.documents) for each in batch) >= PROMPTS:
            break
    if not batch:
        return 0.0, evaluate

    updater = PlainUpdater(loaded.model, training)

    def step(part: Sequence[TrainingList]) -> None:
        add_gradient(
            updater,
            encoder,
            part,
            loss,
            informative=len(part),
            score=student.score,
            tokens_per_micro_batch=training.tokens_per_micro_batch,
        )

    with gradient_checkpointing(loaded.model.model, training.gradient_checkpointing):
        step(batch[:1])
        began = time.perf_counter()
        step(batch)
        seconds = time.perf_counter() - began
    return seconds / sum(len(each.documents) for each in batch), evaluate

"""What a recipe will ask for and how much of it, before the first prompt is asked."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from instruct_distill.errors import InputError
from instruct_distill.evaluation.parameters import TeacherRun
from instruct_distill.pipeline.calibrate import PROMPTS, Seconds, calibrate, calibrate_writing
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.plan_sample import (
    Measured,
    measure_student,
    measure_teacher,
    measure_writer,
    sample_lists,
)
from instruct_distill.pipeline.write import drawn_documents
from instruct_distill.query_writing.writing import QUERY_TOKENS
from instruct_distill.recipe import Recipe
from instruct_distill.teachers.budgets import FLIPS, SHARES, Budget, budgets, usual_length
from instruct_distill.teachers.labelling import prompt_of, strategy_of
from instruct_distill.teachers.sampled_pairs import SampledPairs
from instruct_distill.teachers.strategy import Strategy
from instruct_distill.training.document_choice import documents_used
from instruct_distill.training.schedule import steps_per_epoch

_CHECKPOINT_BYTES = 12
"""A weight in a checkpoint: itself and AdamW's two moments, in float32."""
_UNITS = ("", "k", "M", "G", "T")
_STUDENT_BYTES = 4
"""A weight of the student, at most."""
_CLOSE = 0.9
"""Kendall τ from which an order is called that of all pairs."""


class _Counts(NamedTuple):
    """How much each stage does.

    Args:
        lengths: candidates of each list.
        label: prompts to the teacher.
        train: documents, over all epochs.
        evaluate: prompts to the student, and to the untrained one where that can score.
        evaluate_teacher: prompts to the teacher.
    """

    lengths: list[int]
    label: int
    train: int
    evaluate: int
    evaluate_teacher: int


def plan_of(recipe: Recipe, *, measure: bool = False) -> str:
    """Return the prompts, tokens and bytes of each stage, as text.

    Candidate lists that are there already are counted as they are, others at their full depth. Tokens are
    those of some of the real prompts, and need the candidates and a tokenizer on this machine.

    Args:
        recipe: what will be run.
        measure: load the models, measure some prompts on this device, and add the hours; models that are not
            on this machine are downloaded. Before queries are written, that is the hours of writing alone.

    Raises:
        InputError: a collection cannot be read; or ``measure`` without candidates or queries to be written.
    """
    inputs = Inputs(recipe)
    strategy = strategy_of(recipe.teacher, inputs.context())
    retrieved = (recipe.folder / "retrieve.done.json").exists()
    if measure and not retrieved and recipe.queries.generate is None:
        raise InputError(
            "hours are measured on the real candidates: run 'instruct-distill retrieve RECIPE' first"
        )
    lines, counts = _counted(inputs, strategy, retrieved, measure)
    if retrieved:
        lines += _measured(inputs, strategy, counts, measure)
    else:
        lines.append("tokens    not known before the candidates are there (instruct-distill retrieve RECIPE)")
    if recipe.teacher.kind in ("allpairs", "sampled_pairs"):
        lines += _budget_table(recipe, strategy, counts.lengths)
    return "\n".join(lines)


def _counted(inputs: Inputs, strategy: Strategy, retrieved: bool, measure: bool) -> tuple[list[str], _Counts]:
    recipe, teacher = inputs.recipe, inputs.recipe.teacher
    if retrieved:
        lengths = [inputs.candidates.count(query.query_id) for query in inputs.queries]
        known = "from the candidate file"
    else:
        queries = recipe.queries.generate or len(inputs.queries)
        lengths, known = [recipe.candidates.depth] * queries, "at most"
    prompts = sum(strategy.prompts(length) for length in lengths)
    per_list = [documents_used(recipe.training.documents_per_list, length) for length in lengths]
    steps = recipe.training.epochs * steps_per_epoch(len(lengths), recipe.training.lists_per_step)
    documents = recipe.training.epochs * sum(per_list)
    lines = [
        f"{recipe.name}: {recipe.folder}",
        *_written(inputs, retrieved, measure),
        f"retrieve  {len(lengths):,} queries, {sum(lengths):,} candidates ({known})",
        f"label     {prompts:,} prompts by {teacher.model or teacher.kind} ({teacher.kind})",
        f"train     {steps:,} optimizer steps, {documents:,} documents",
    ]
    evaluate = by_teacher = 0
    untrained = _scores_untrained(recipe) if recipe.evaluation else True
    for task, data in zip(recipe.evaluation, inputs.tasks, strict=True):
        depth = min(task.depth or task.candidates.depth, task.candidates.depth)
        pairs = len(data.queries) * depth
        asked = len(data.queries) * strategy.prompts(depth) if task.teacher == "same" else 0
        both = untrained and task.zero_shot
        evaluate, by_teacher = evaluate + (2 * pairs if both else pairs), by_teacher + asked
        kind = "a run" if isinstance(task.teacher, TeacherRun) else f"{asked:,} prompts"
        lines.append(
            f"evaluate  {task.task}: {len(data.queries):,} queries; "
            + (f"zero_shot and student {pairs:,} prompts each" if both else f"student {pairs:,} prompts")
            + f", teacher {kind} (at most)"
        )
    return lines, _Counts(lengths, prompts, documents, evaluate, by_teacher)


def _scores_untrained(recipe: Recipe) -> bool:
    """Whether the untrained student is evaluated, too; where its config is absent, a head counts as there."""
    if recipe.student.score != "head":
        return True
    # torch is imported where it is needed
    from instruct_distill.models.unloaded import unloaded_model

    try:
        return unloaded_model(recipe.student.model, recipe.student.revision).scores
    except InputError:
        return True


def _written(inputs: Inputs, done: bool, measure: bool) -> list[str]:
    """What a model is asked for queries, where it writes them, and how long that takes."""
    queries = inputs.recipe.queries
    if queries.generate is None:
        return []
    if done:
        return [f"write     done: {len(inputs.queries):,} queries by {queries.model}"]
    writer = measure_writer(queries, drawn_documents(inputs), seed=inputs.recipe.seed, download=measure)
    lines = [
        f"write     {queries.generate:,} prompts by {queries.model} (one more for each that is replaced)",
        _token_line("write", queries.generate, writer, f"up to {QUERY_TOKENS} are written after each"),
    ]
    if measure:
        if writer.missing or not writer.questions:
            raise InputError(f"nothing could be measured: {writer.missing or 'no document is long enough'}")
        device, seconds = calibrate_writing(inputs.recipe, writer)
        lines.append(
            "hours     write not known (a server's: it is not asked)"
            if seconds is None
            else f"hours     write {queries.generate * seconds / 3600:.2f}, by one process on {device} "
            f"({PROMPTS} prompts measured: a query takes {1000 * seconds:.0f} ms); those of the other stages "
            "are measured once the candidates are there"
        )
    return lines


def _measured(inputs: Inputs, strategy: Strategy, counts: _Counts, measure: bool) -> list[str]:
    """Tokens, disk and hours, by a sample of the real lists."""
    recipe = inputs.recipe
    prompt = prompt_of(recipe.teacher, strategy)
    lists = sample_lists(
        inputs.queries, inputs.candidates, inputs.collection, strategy.prompts, seed=recipe.seed
    )
    teacher = measure_teacher(recipe.teacher, strategy, prompt, lists, seed=recipe.seed, download=measure)
    student = measure_student(recipe.student, lists, seed=recipe.seed, download=measure)
    lines = [
        _token_line("label", counts.label + counts.evaluate_teacher, teacher, "evaluation included")
        if prompt is not None
        else "tokens    label 0",
        _token_line("train", counts.train, student, "forward and backward"),
        _token_line("evaluate", counts.evaluate, student, "all that the student is asked"),
        _disk_line(recipe.folder, teacher.label_bytes * len(counts.lengths), student, _kept(recipe, counts)),
    ]
    if measure:
        problem = teacher.missing or student.missing
        if problem or student.counter is None or not student.questions:
            raise InputError(f"nothing could be measured: {problem or 'no candidate has a text'}")
        seconds = calibrate(recipe, inputs.context(), teacher, student, lists)
        lines.append(_hours_line(counts, seconds))
    return lines


def _token_line(stage: str, prompts: int, measured: Measured, note: str) -> str:
    if measured.tokens_per_prompt is None:
        return f"tokens    {stage} not known: {measured.missing}"
    if measured.estimated:
        return (
            f"tokens    {stage} about {_rounded(prompts * measured.tokens_per_prompt).strip()} ({note}; "
            f"{measured.tokens_per_prompt:.0f} a prompt, estimated from the size of {measured.tokenised:,} "
            "real ones, without the answers: the tokenizer is the server's)"
        )
    return (
        f"tokens    {stage} {_rounded(prompts * measured.tokens_per_prompt).strip()} ({note}; "
        f"{measured.tokens_per_prompt:.0f} a prompt, mean of {measured.tokenised:,} real ones)"
    )


def _kept(recipe: Recipe, counts: _Counts) -> int:
    """Checkpoints that stay, the best one included."""
    training = recipe.training
    steps = training.epochs * steps_per_epoch(len(counts.lengths), training.lists_per_step)
    every = -(-steps // training.checkpoint_every)
    return every if training.keep == "all" else training.keep + (training.dev is not None)


def _disk_line(folder: Path, label_bytes: float, student: Measured, keep: int) -> str:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    parts = [f"labels {_rounded(label_bytes)}B"]
    if student.weights:
        # a new checkpoint is whole before an old one is removed
        checkpoints = student.weights * _CHECKPOINT_BYTES * (keep + 1)
        parts.append(f"checkpoints {_rounded(checkpoints)}B")
        parts.append(f"student {_rounded(student.weights * _STUDENT_BYTES)}B (at most)")
    else:
        parts.append("checkpoints and student not known: its config is not on this machine")
    return f"disk      {', '.join(parts)}; {_rounded(free)}B free"


def _hours_line(counts: _Counts, seconds: Seconds) -> str:
    train = counts.train * seconds.train
    evaluate = counts.evaluate * seconds.evaluate
    if seconds.label is None:
        label, teacher = "not known (a server's)", "the server is not asked"
    else:
        label = f"{counts.label * seconds.label / 3600:.2f}"
        teacher = f"a teacher's takes {1000 * seconds.label:.1f} ms"
        evaluate += counts.evaluate_teacher * seconds.label
    return (
        f"hours     label {label}, train {train / 3600:.2f}, evaluate {evaluate / 3600:.2f}, "
        f"by one process on {seconds.device} ({PROMPTS} prompts measured: {teacher}, a student's "
        f"{1000 * seconds.evaluate:.1f} ms, a document in training {1000 * seconds.train:.1f} ms)"
    )


def _budget_table(recipe: Recipe, strategy: Strategy, lengths: Sequence[int]) -> list[str]:
    depth = usual_length(lengths)
    own = None
    if isinstance(strategy, SampledPairs) and depth > 1:
        own = strategy.pairs(depth) / (depth * (depth - 1) / 2)
    shares = sorted({*SHARES, *([own] if own is not None else [])})
    rows = budgets(lengths, recipe.teacher, shares=shares, seed=recipe.seed)
    if not rows:
        return []
    lines = [
        f"budgets   of sampled_pairs at depth {depth}: Kendall tau to all pairs, by simulated teachers that "
        f"answer {', '.join(f'{flips:.0%}' for flips in FLIPS)} of their prompts wrongly",
        f"          share        prompts {''.join(f'{flips:>7.0%}' for flips in FLIPS)}",
    ]
    for row in rows:
        here = row.share == own or (own is None and row.share == 1.0)
        taus = "".join(f"{tau:>7.2f}" for tau in row.agreement)
        mark = "   <- this recipe" if here else ""
        lines.append(f"          {row.share:>5.0%} {row.prompts:>14,} {taus}{mark}")
    return lines + [
        _warning(row, rows, depth) for row in rows if row.share == own and row.agreement[0] < _CLOSE
    ]


def _warning(own: Budget, rows: Sequence[Budget], depth: int) -> str:
    enough = next(row for row in rows if row.agreement[0] >= _CLOSE)
    return (
        f"          at depth {depth} this recipe's budget gives another order than all pairs (tau "
        f"{own.agreement[0]:.2f}) even where no answer is wrong; {enough.share:.0%} of the pairs give "
        f"{enough.agreement[0]:.2f}"
    )


def _rounded(number: float) -> str:
    """Three digits and a unit: 1.23 M."""
    power = 0
    while number >= 999.5 and power < len(_UNITS) - 1:
        number, power = number / 1000, power + 1
    return f"{number:.3g} {_UNITS[power]}"

"""What a recipe will ask for, before a model is loaded."""

from __future__ import annotations

from instruct_distill.evaluation.parameters import TeacherRun
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.recipe import Recipe
from instruct_distill.teachers.labelling import strategy_of
from instruct_distill.training.document_choice import documents_used
from instruct_distill.training.schedule import steps_per_epoch


def plan_of(recipe: Recipe) -> str:
    """Return the counts of prompts and steps of each stage, as text.

    Candidate lists that are there already are counted as they are, others at their full depth.

    Raises:
        InputError: a collection cannot be read.
    """
    inputs = Inputs(recipe)
    teacher = recipe.teacher
    strategy = strategy_of(teacher, inputs.context())
    if (recipe.folder / "retrieve.done.json").exists():
        lengths, known = [len(ranked) for ranked in inputs.candidates.values()], "from the candidate file"
    else:
        lengths, known = [recipe.candidates.depth] * len(inputs.queries), "at most"
    prompts = sum(strategy.prompts(length) for length in lengths)
    per_list = [documents_used(recipe.training.documents_per_list, length) for length in lengths]
    steps = recipe.training.epochs * steps_per_epoch(len(lengths), recipe.training.lists_per_step)
    lines = [
        f"{recipe.name}: {recipe.folder}",
        f"retrieve  {len(lengths):,} queries, {sum(lengths):,} candidates ({known})",
        f"label     {prompts:,} prompts by {teacher.model or teacher.kind} ({teacher.kind})",
        f"train     {steps:,} optimizer steps, {recipe.training.epochs * sum(per_list):,} documents",
    ]
    for task, data in zip(recipe.evaluation, inputs.tasks, strict=True):
        depth = min(task.depth or task.candidates.depth, task.candidates.depth)
        pairs = len(data.queries) * depth
        asked = len(data.queries) * strategy.prompts(depth) if task.teacher == "same" else 0
        kind = "a run" if isinstance(task.teacher, TeacherRun) else f"{asked:,} prompts"
        lines.append(
            f"evaluate  {task.task}: {len(data.queries):,} queries; zero_shot and student {pairs:,} prompts "
            f"each, teacher {kind} (at most)"
        )
    return "\n".join(lines)

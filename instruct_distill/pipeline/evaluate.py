"""The stage ``evaluate``: first stage, untrained student, teacher and student side by side on every task."""

from __future__ import annotations

import dataclasses
import gc
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from instruct_distill.candidates.baselines import baselines
from instruct_distill.environment import environment
from instruct_distill.errors import InputError
from instruct_distill.evaluation.contamination import contamination
from instruct_distill.evaluation.evaluate import task_result
from instruct_distill.evaluation.joining import joined
from instruct_distill.evaluation.parameters import EvaluationParameters, TeacherRun
from instruct_distill.evaluation.ranker import Ranker, RerankedList, Timing, run_of, timing_of
from instruct_distill.evaluation.summary import check_expected, summary, write_summary
from instruct_distill.evaluation.system_run import rank_with_resume
from instruct_distill.evaluation.table import task_table
from instruct_distill.evaluation.task_data import TaskQueries
from instruct_distill.files import write_whole
from instruct_distill.labels import LabelStore
from instruct_distill.pipeline.inputs import Inputs
from instruct_distill.pipeline.stage import this_process
from instruct_distill.pipeline.teacher import load_teacher
from instruct_distill.records import Document, Run
from instruct_distill.report.page import write_report
from instruct_distill.teachers.labelling import CandidateTexts
from instruct_distill.teachers.ranker import TeacherRanker
from instruct_distill.teachers.strategy import Context
from instruct_distill.trec import read_run, write_run

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class _Task:
    """A task while it is evaluated: system → run, system → time."""

    parameters: EvaluationParameters
    data: TaskQueries
    folder: Path
    candidates: Run
    documents: dict[str, Document]
    runs: dict[str, Run] = dataclasses.field(default_factory=dict)
    timings: dict[str, Timing] = dataclasses.field(default_factory=dict)
    reranked: dict[str, list[RerankedList]] = dataclasses.field(default_factory=dict)
    others: list[_Task] = dataclasses.field(default_factory=list)

    def rank(self, system: str, ranker: Ranker) -> None:
        """Put the task's lists through a system and write its run, going on from what is there.

        Lists that another task has too, such as a larger sample of the same queries, are ranked once.
        """
        partial = self.folder / f"{system}.jsonl"
        lists = rank_with_resume(
            ranker,
            self.data.queries,
            self.candidates,
            joined(self.documents, self.parameters.joining),
            file=partial,
            depth=self.parameters.depth,
            name=f"evaluate {system}",
            known={
                item.query_id: item
                for other in self.others
                if self._shows_the_same(other)
                for item in other.reranked.get(system, ())
                if self.candidates.get(item.query_id) == other.candidates[item.query_id]
            },
        )
        self.reranked[system] = lists
        self.runs[system] = run_of(lists)
        timing = timing_of(lists)
        if timing:
            self.timings[system] = timing
        write_run(self.folder / f"{system}.trec", self.runs[system], system)

    def _shows_the_same(self, other: _Task) -> bool:
        """Whether an equal list of candidates is the same question in both tasks."""
        mine, its = self.parameters, other.parameters
        return (mine.collection, mine.qrels, mine.joining, mine.depth) == (
            its.collection,
            its.qrels,
            its.joining,
            its.depth,
        )

    def lists(self) -> list[CandidateTexts]:
        """Return what a teacher is asked about."""
        documents = joined(self.documents, self.parameters.joining)
        return [
            CandidateTexts(
                query,
                tuple(
                    documents[candidate.doc_id]
                    for candidate in self.candidates[query.query_id][: self.parameters.depth]
                ),
            )
            for query in self.data.queries
        ]


def evaluate_systems(inputs: Inputs) -> dict[str, Any]:
    """Write each system's run, ``summary.json``, ``table.txt`` and the results on the student's model card.

    The main process does it alone.

    Raises:
        InputError: a figure is not within the tolerance of what the recipe expects; everything is written
            before that is said.
    """
    if this_process()[0] != 0:
        return {}
    recipe, folder = inputs.recipe, inputs.folder / "evaluation"
    tasks = []
    for parameters, data in zip(recipe.evaluation, inputs.tasks, strict=True):
        task_folder = folder / parameters.task
        found = read_run(task_folder / "first_stage.trec")
        candidates = {query.query_id: found.get(query.query_id, []) for query in data.queries}
        tasks.append(_Task(parameters, data, task_folder, candidates, data.documents(candidates)))
    for task in tasks:
        task.others = [other for other in tasks if other is not task]
    overlaps = [
        contamination(inputs.queries, inputs.documents.values(), task.data.queries, task.documents.values())
        for task in tasks
    ]
    for system, rank in _systems(inputs):
        for task in tasks:
            rank(task)
        logger.info("evaluated: %s", system)
        del rank  # it holds the model, and the next one is loaded before its name is given away
        gc.collect()
    results = [
        task_result(
            task.parameters,
            task.data.qrels,
            task.runs,
            task.timings,
            seed=recipe.seed,
            collection=task.data.collection,
        )
        for task in tasks
    ]
    overlap_of = {
        result.name: overlap.as_dict(result.evaluations, task.data.qrels)
        for task, result, overlap in zip(tasks, results, overlaps, strict=True)
    }
    content = summary(results, about={"contamination": overlap_of, "environment": environment()})
    write_summary(folder / "summary.json", content)
    table = "\n\n".join(
        f"{task_table(result)}\n{overlap.line(result.evaluations)}"
        for result, overlap in zip(results, overlaps, strict=True)
    )
    with write_whole(folder / "table.txt") as stream:
        stream.write(table + "\n")
    from instruct_distill.model_card import write_card  # it needs the student's tokenizer

    write_card(inputs.folder / "student", content)
    collections = {task.parameters.task: task.data.collection for task in tasks}
    write_report([inputs.folder], texts=lambda run, task: collections[task], seed=recipe.seed)
    failures = [
        f"{task.parameters.task}: {failure}"
        for task in tasks
        for failure in check_expected(
            content[task.parameters.task], task.parameters.expected, task.parameters.tolerance
        )
    ]
    if failures:
        raise InputError("\n".join(["not the figures that the recipe expects:", *failures, "", table]))
    return {"tasks": [task.parameters.task for task in tasks]}


def _systems(inputs: Inputs) -> Iterator[tuple[str, Callable[[_Task], None]]]:
    """Yield each system with what evaluates it on a task; one model is in memory at a time."""
    recipe = inputs.recipe

    def first_stage(task: _Task) -> None:
        task.runs["first_stage"] = task.candidates
        data = task.data
        for system, run in baselines(
            data.collection, data.queries, task.candidates, task.parameters.candidates
        ).items():
            task.runs[system] = run
            write_run(task.folder / f"{system}.trec", run, system)

    yield "first_stage", first_stage
    if not recipe.evaluation:
        return
    if any(task.zero_shot for task in recipe.evaluation) and _scores_untrained(inputs):
        yield "zero_shot", _zero_shot(inputs)
    if any(task.teacher == "same" for task in recipe.evaluation):
        yield "teacher", _teacher(inputs)
    else:
        yield "teacher", _teacher_run
    student = _student(inputs)
    yield "student", lambda task: task.rank("student", student)


def _zero_shot(inputs: Inputs) -> Callable[[_Task], None]:
    """The student before it was trained, on the tasks that want it."""
    ranker = _untrained(inputs)

    def rank(task: _Task) -> None:
        if task.parameters.zero_shot:
            task.rank("zero_shot", ranker)

    return rank


def _scores_untrained(inputs: Inputs) -> bool:
    """Whether the student could score before it was trained; says so where it could not."""
    from instruct_distill.models.loading import scores_untrained

    student = inputs.recipe.student
    if scores_untrained(student.model, student.revision):
        return True
    logger.info(
        "evaluate: zero_shot is left out: %s has no score head of its own, and a new one scores at random",
        student.model,
    )
    return False


def _untrained(inputs: Inputs) -> Ranker:
    from instruct_distill.models.loading import load_model
    from instruct_distill.reranker import Reranker

    student = inputs.recipe.student
    return Reranker(
        load_model(student.model, revision=student.revision, dtype=student.dtype),
        student.prompt_record,
        score=student.score,
        max_length=student.max_length,
        document_words=student.document_words,
        tokens_per_batch=student.tokens_per_batch,
    )


def _student(inputs: Inputs) -> Ranker:
    from instruct_distill.reranker import Reranker

    return Reranker.from_pretrained(inputs.folder / "student", dtype=inputs.recipe.student.dtype)


def _teacher(inputs: Inputs) -> Callable[[_Task], None]:
    """The recipe's own teacher, where a task asks for it; its labels of test queries stay with the task."""
    parameters = inputs.recipe.teacher
    tasks = dict(zip((task.task for task in inputs.recipe.evaluation), inputs.tasks, strict=True))

    def context(task: str) -> Context:
        return Context(
            lambda: tasks[task].qrels,
            lambda: [query.query_id for query in tasks[task].collection.queries()],
            seed=inputs.recipe.seed,
        )

    teacher = load_teacher(parameters, context(next(iter(tasks))))

    def rank(task: _Task) -> None:
        if task.parameters.teacher != "same":
            _teacher_run(task)
            return
        strategy = teacher.strategy
        if teacher.engine is None:
            strategy = load_teacher(parameters, context(task.parameters.task)).strategy
        store = LabelStore(
            task.folder / "teacher.labels.jsonl",
            teacher.fingerprint(task.lists()),
            [[query.query_id] for query in task.data.queries],
        )
        task.rank("teacher", TeacherRanker(strategy, teacher.engine, store))

    return rank


def _teacher_run(task: _Task) -> None:
    """A teacher's ranking that somebody already has."""
    if not isinstance(task.parameters.teacher, TeacherRun):
        return
    found = read_run(task.parameters.teacher.run)
    if not any(query.query_id in found for query in task.data.queries):
        raise InputError(
            f"{task.parameters.teacher.run} ranks none of the queries of {task.parameters.collection}: "
            f"it has {next(iter(found), None)!r}, the task {task.data.queries[0].query_id!r}"
        )
    task.runs["teacher"] = {query.query_id: found.get(query.query_id, []) for query in task.data.queries}
    write_run(task.folder / "teacher.trec", task.runs["teacher"], "teacher")

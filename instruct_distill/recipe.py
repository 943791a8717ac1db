"""The recipe: everything that a run depends on, checked before a model is loaded."""

from __future__ import annotations

import dataclasses
import os
import re
import typing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError, ValidationInfo, field_validator

from instruct_distill import recipe_text
from instruct_distill.candidates.parameters import CandidateParameters
from instruct_distill.errors import RecipeError
from instruct_distill.evaluation.parameters import EvaluationParameters, TeacherRun
from instruct_distill.files import read_lines, write_whole
from instruct_distill.query_writing.parameters import TrainingQueriesParameters
from instruct_distill.recipe_text import RecipeText
from instruct_distill.registry import nearest
from instruct_distill.schema import parameters
from instruct_distill.sources import check_prefix, open_collection
from instruct_distill.sources.collection import Collection
from instruct_distill.teachers.labelling import prompt_of, strategy_of
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Context
from instruct_distill.training.parameters import StudentParameters, TrainingParameters

TRAINING_DEPTH = 10
"""Candidates that are labelled of each query where the recipe says nothing (arXiv 2311.01555, section 4)."""


@parameters
class Recipe:
    """One run from collection to student."""

    name: str
    """Name of the run and of its folder."""
    runs: str = "runs"
    """The folder that holds the run's folder."""
    seed: int = Field(default=13, ge=0, lt=2**32)
    """Sampling, order, dropout and intervals are functions of it."""
    collection: str
    """Where documents and queries come from, with its prefix, such as beir:FOLDER."""
    queries: TrainingQueriesParameters = Field(default_factory=TrainingQueriesParameters)
    """The queries that are labelled and trained on."""
    qrels: str | None = None
    """Judgements for the teacher 'qrels', in place of the collection's."""
    candidates: CandidateParameters = Field(default_factory=lambda: CandidateParameters(depth=TRAINING_DEPTH))
    """The lists that are labelled; depth is 10 where nothing is said."""
    teacher: TeacherParameters
    """Who ranks them."""
    student: StudentParameters
    """What is trained."""
    training: TrainingParameters = Field(default_factory=TrainingParameters)
    """How it is trained."""
    evaluation: list[EvaluationParameters] = Field(default_factory=list)
    """What it is tested on."""

    @field_validator("name")
    @classmethod
    def _is_a_file_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise ValueError(f"{name!r} cannot name a folder; use letters, digits, '.', '_' and '-'")
        return name

    @field_validator("collection")
    @classmethod
    def _prefix_is_known(cls, collection: str) -> str:
        return check_prefix(collection)

    @field_validator("teacher")
    @classmethod
    def _prompt_fits_the_strategy(cls, teacher: TeacherParameters) -> TeacherParameters:
        nothing = Context(qrels=lambda: None, query_ids=list)
        prompt_of(teacher, strategy_of(teacher, nothing))
        return teacher

    @field_validator("teacher", "candidates")
    @classmethod
    def _knows_written_queries(cls, section: Any, info: ValidationInfo) -> Any:
        queries = info.data.get("queries")
        if queries is not None and queries.generate:
            if getattr(section, "qrels", False):
                raise ValueError("nobody judged the queries that a model writes ('queries.generate')")
            if getattr(section, "method", None) == "given":
                raise ValueError("the collection brings no lists for written queries; use method bm25")
        return section

    @field_validator("evaluation")
    @classmethod
    def _tasks_have_their_own_names(cls, tasks: list[EvaluationParameters]) -> list[EvaluationParameters]:
        for name, times in Counter(task.task for task in tasks).items():
            if times > 1:
                raise ValueError(f"{times} tasks are called {name!r}; give each its own 'name'")
        return tasks

    @classmethod
    def load(cls, path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Recipe:
        """Read a recipe file.

        Args:
            path: a YAML file.
            overrides: ``key=value`` strings (``training.epochs=2``), which win over the file.

        Raises:
            RecipeError: one error with every problem of the recipe.
            InputError: the file is missing.
        """
        text = "\n".join(_with_blank_lines(path))
        found = recipe_text.parse(text, str(path))
        found.override(overrides)
        found.expand_variables()
        return cls._checked(found)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Recipe:
        """Make a recipe from nested dicts.

        Raises:
            RecipeError: one error with every problem.
        """
        return cls._checked(RecipeText("recipe", dict(content), {}))

    @classmethod
    def _checked(cls, found: RecipeText) -> Recipe:
        content = dict(found.content)
        if content.get("teacher") == "qrels":
            content["teacher"] = {"qrels": True}
        candidates = content.get("candidates")
        if isinstance(candidates, dict) and "depth" not in candidates:
            content["candidates"] = {**candidates, "depth": TRAINING_DEPTH}
        problems = list(found.problems)
        try:
            recipe = TypeAdapter(cls).validate_python(content)
        except ValidationError as error:
            problems += list(_problems(error, found))
        if problems:
            raise RecipeError(found.where, problems)
        return recipe

    def as_dict(self) -> dict[str, Any]:
        """Return the recipe as plain values, every default written out."""
        content: dict[str, Any] = TypeAdapter(Recipe).dump_python(self, mode="json")
        return content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recipe as YAML, every default written out."""
        with write_whole(path) as stream:
            stream.write(recipe_text.dump(self.as_dict()))

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.runs) / self.name

    def smaller(self) -> Recipe:
        """Return the recipe in a size that shows in minutes whether it works; its figures mean nothing."""
        tasks = [
            dataclasses.replace(
                task,
                queries=dataclasses.replace(task.queries, sample=min(task.queries.sample or 6, 6)),
                candidates=dataclasses.replace(task.candidates, depth=min(task.candidates.depth, 5)),
                depth=min(task.depth, 5) if task.depth else None,
                expected={},
            )
            for task in self.evaluation
        ]
        return dataclasses.replace(
            self,
            name=f"{self.name}-smoke",
            queries=self.queries.smaller(8),
            candidates=dataclasses.replace(self.candidates, depth=min(self.candidates.depth, 5)),
            training=dataclasses.replace(
                self.training, epochs=min(self.training.epochs, 1), lists_per_step=4
            ),
            evaluation=tasks,
        )

    def needed_files(self) -> list[str]:
        """Return files and folders that the recipe names and that are not there."""
        named = [self.qrels, self.teacher.run, self.teacher.permutations, self.candidates.file]
        collections = [self.collection]
        for task in self.evaluation:
            named += [task.qrels, task.candidates.file]
            named.append(task.teacher.run if isinstance(task.teacher, TeacherRun) else None)
            collections.append(task.collection)
        for collection in collections:
            prefix, _, location = collection.partition(":")
            named.append(location if location and prefix != "irds" else None)
        teacher = None if self.teacher.server else self.teacher.model
        writer = None if self.queries.server else self.queries.model
        for model in (writer, teacher, self.student.model):
            named.append(
                model if model and (model.endswith(".gguf") or model.startswith((".", "/"))) else None
            )
        return [name for name in dict.fromkeys(named) if name and not os.path.exists(name)]

    def open(self) -> Collection:
        """Open the collection that is trained on."""
        return open_collection(self.collection)


def _with_blank_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The file's lines in their places, so that line numbers in messages are right."""
    expected = 1
    for number, line in read_lines(path):
        while expected < number:
            yield ""
            expected += 1
        yield line
        expected += 1


def _problems(error: ValidationError, found: RecipeText) -> Iterator[str]:
    """Yield one line a problem, in the recipe's words, in the order of the file."""
    by_path: dict[recipe_text.Path, list[str]] = {}
    for detail in error.errors():
        path, section = _known_path(detail["loc"])
        message = str(detail["msg"]).removeprefix("Value error, ")
        if detail["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            key = str(path[-1])
            keys = [field.name for field in dataclasses.fields(section)] if section else []
            message = f"unknown key{nearest(key, keys)} (known: {', '.join(keys)})"
        elif detail["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
            message = "is missing"
        elif detail["type"] != "value_error":
            given = detail["input"]
            message = re.sub(r"a dictionary or an instance of \w+", "keys and values", message)
            message = f"{message[0].lower()}{message[1:]}" + (
                f", not {given!r}" if isinstance(given, (str, int, float, type(None))) else ""
            )
        by_path.setdefault(path, []).append(message)
    order = {path: position for position, path in enumerate(found.lines)}
    for path in sorted(by_path, key=lambda path: order.get(path, len(order))):
        # a section that has problems inside is one: that it is no name either is no news
        if not any(other != path and other[: len(path)] == path for other in by_path):
            yield f"{found.place(path)}: {' or '.join(dict.fromkeys(by_path[path]))}"


def _known_path(location: tuple[str | int, ...]) -> tuple[recipe_text.Path, Any]:
    """Return the recipe's own path of a pydantic location, without tags, and the section that holds it."""
    path: list[str | int] = []
    section: Any = Recipe
    candidates: list[Any] = []
    for position, part in enumerate(location):
        last = position == len(location) - 1
        if section is not None and isinstance(part, str):
            hints = typing.get_type_hints(section)
            if part in hints:
                path.append(part)
                if last:
                    break
                candidates = [member for member in _members(hints[part]) if member is not type(None)]
                sections = [member for member in candidates if dataclasses.is_dataclass(member)]
                section = sections[0] if len(candidates) == 1 and sections else None
                continue
            if last:
                path.append(part)
                break
        if isinstance(part, int):
            path.append(part)
            sections = [member for member in candidates if dataclasses.is_dataclass(member)]
            section = sections[0] if sections else None
            continue
        tagged = [member for member in candidates if getattr(member, "__name__", None) == part]
        if tagged and dataclasses.is_dataclass(tagged[0]):
            section = tagged[0]
        elif candidates and any(typing.get_origin(member) is dict for member in candidates):
            path.append(part)
    return tuple(path), section


def _members(hint: Any) -> list[Any]:
    """The alternatives of a type, lists opened."""
    origin = typing.get_origin(hint)
    if origin is list:
        return _members(typing.get_args(hint)[0])
    if origin is dict or origin is typing.Literal:
        return [hint]
    arguments = typing.get_args(hint)
    return [member for argument in arguments for member in _members(argument)] if arguments else [hint]

"""What a plan looks at more closely: some of the real lists, as the models would read them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from instruct_distill.errors import InputError
from instruct_distill.evaluation.task_data import candidate_documents
from instruct_distill.inference.counting import CountingEngine
from instruct_distill.inference.engine import Engine, Question
from instruct_distill.labels import to_line
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.query_writing.parameters import TrainingQueriesParameters
from instruct_distill.records import Document, ListLabel, Query, ScoredDocument
from instruct_distill.sources.collection import Collection
from instruct_distill.teachers.labelling import CandidateTexts, label_chunk
from instruct_distill.teachers.parameters import TeacherParameters
from instruct_distill.teachers.strategy import Strategy
from instruct_distill.training.parameters import StudentParameters

_LISTS = 64
_PROMPTS = 20_000
_TOKENISED = 3_000
_WRITTEN = 200


def sample_lists(
    queries: Sequence[Query],
    candidates: Mapping[str, list[ScoredDocument]],
    collection: Collection,
    prompts: Callable[[int], int],
    *,
    seed: int,
) -> list[CandidateTexts]:
    """Draw some lists that have candidates, and read their texts only.

    Args:
        queries: all queries.
        candidates: all lists.
        collection: where the texts are.
        prompts: the prompts of a list of some length; there are some ten thousand in the sample at most.
        seed: the draw is a function of it.
    """
    drawn = [query for query in queries if candidates.get(query.query_id)]
    random.Random(seed).shuffle(drawn)
    chosen: list[Query] = []
    total = 0
    for query in drawn[:_LISTS]:
        total += prompts(len(candidates[query.query_id]))
        if chosen and total > _PROMPTS:
            break
        chosen.append(query)
    part = {query.query_id: candidates[query.query_id] for query in chosen}
    documents = candidate_documents(collection, part)
    return [
        CandidateTexts(query, tuple(documents[d.doc_id] for d in part[query.query_id])) for query in chosen
    ]


@dataclass
class Measured:
    """One model's prompts over a sample of lists.

    Args:
        tokens_per_prompt: their mean length; None where there is no tokenizer.
        tokenised: how many were tokenised.
        missing: why there is no tokenizer.
        weights: the number of the model's weights; 0 where it is not known.
        labels: a teacher's labels of the sample, answers drawn by lot.
        questions: the first prompts of each list, in the order in which they are asked.
        counter: what counted.
        estimated: the tokens are a guess from the texts' size: the tokenizer is a server's.
    """

    tokens_per_prompt: float | None = None
    tokenised: int = 0
    missing: str = ""
    weights: int = 0
    labels: list[ListLabel] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    counter: CountingEngine | None = None
    estimated: bool = False

    @property
    def label_bytes(self) -> float:
        """Mean size of a line of the label file."""
        return sum(len(to_line(label).encode()) for label in self.labels) / max(len(self.labels), 1)


def measure_teacher(
    parameters: TeacherParameters,
    strategy: Strategy,
    prompt: Prompt | None,
    lists: Sequence[CandidateTexts],
    *,
    seed: int,
    download: bool = False,
) -> Measured:
    """Let a teacher without a model label some lists."""
    if prompt is None or parameters.model is None:
        return Measured(0.0, labels=_labels_by_lot(lists, seed))
    if parameters.server is not None:
        counter = CountingEngine(
            prompt,
            None,
            "decoder-only",
            decoder_start=None,
            max_length=parameters.max_length,
            document_words=parameters.document_words,
            per_call=max(_TOKENISED // max(len(lists), 1), 20),
            seed=seed,
            estimate=True,
        )
        found = _found(counter, 0, _labels(strategy, counter, lists))
        found.estimated = True
        return found
    try:
        counter, weights = _counter(parameters, prompt, len(lists), seed, download)
    except InputError as error:
        blind = CountingEngine(prompt, None, "encoder-decoder", decoder_start=None, max_length=1, seed=seed)
        return Measured(missing=str(error), labels=_labels(strategy, blind, lists))
    return _found(counter, weights, _labels(strategy, counter, lists))


def measure_student(
    student: StudentParameters, lists: Sequence[CandidateTexts], *, seed: int, download: bool = False
) -> Measured:
    """Tokenise the prompts of a student."""
    try:
        counter, weights = _counter(student, student.prompt_record, len(lists), seed, download)
    except InputError as error:
        return Measured(missing=str(error))
    for item in lists:
        counter.answer_logits([Question(item.query, (d,)) for d in item.documents if d.full_text])
    return _found(counter, weights, [])


def measure_writer(
    parameters: TrainingQueriesParameters, documents: Iterable[Document], *, seed: int
) -> Measured:
    """Tokenise the prompts by which queries are written from some documents."""
    try:
        counter, weights = _counter(parameters, parameters.prompt_record, 1, seed, download=False)
    except InputError as error:
        return Measured(missing=str(error))
    some = islice(documents, min(parameters.generate or 0, _WRITTEN))
    counter.generate([Question(Query("", ""), (document,)) for document in some], 0)
    return _found(counter, weights, [])


def _counter(
    model: TeacherParameters | StudentParameters | TrainingQueriesParameters,
    prompt: Prompt,
    lists: int,
    seed: int,
    download: bool,
) -> tuple[CountingEngine, int]:
    # torch is imported where it is needed
    from instruct_distill.models.unloaded import unloaded_model

    assert model.model is not None
    unloaded = unloaded_model(model.model, model.revision, download=download)
    counter = CountingEngine(
        prompt,
        unloaded.tokenizer,
        unloaded.family,
        decoder_start=unloaded.decoder_start,
        max_length=model.max_length,
        document_words=model.document_words,
        per_call=max(_TOKENISED // max(lists, 1), 20),
        seed=seed,
    )
    return counter, unloaded.weights


def _found(counter: CountingEngine, weights: int, labels: list[ListLabel]) -> Measured:
    return Measured(
        counter.tokens_per_prompt,
        counter.tokenised,
        weights=weights,
        labels=labels,
        questions=counter.some,
        counter=counter,
    )


def _labels(strategy: Strategy, engine: Engine, lists: Sequence[CandidateTexts]) -> list[ListLabel]:
    return [label for item in lists for label in label_chunk(strategy, engine, [item])]


def _labels_by_lot(lists: Sequence[CandidateTexts], seed: int) -> list[ListLabel]:
    """Labels of a teacher that compares nothing."""
    lot = random.Random(seed)
    return [
        ListLabel(
            item.query.query_id,
            tuple(document.doc_id for document in item.documents),
            tuple(lot.gauss(0.0, 1.0) for _ in item.documents),
        )
        for item in lists
    ]

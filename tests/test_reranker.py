from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.inference.engine import Question
from instruct_distill.inference.windows import windows_of
from instruct_distill.models.loading import LoadedModel, load_model
from instruct_distill.probability import Calibration
from instruct_distill.prompts.named import named_prompt
from instruct_distill.records import Document, Query, RankedDocument
from instruct_distill.reranker import Reranker
from instruct_distill.student_folder import StudentRecord, write_student

QUERY = Query("q1", "how to oil a bicycle chain")
DOCUMENTS = [
    Document("d1", "Ferries leave the harbour every twenty minutes.", "Harbour ferries"),
    Document("d2", "Clean and oil the chain after wet rides.", "Bicycle chain care"),
    Document("d3", "Tomato plants need full sun and steady water.", "Growing tomatoes"),
    Document("d4", "Tides rise and fall twice a day along the coast.", "Tide tables"),
    Document("d5", "A drop of oil stops a hinge from squeaking.", "Squeaky hinges"),
]
LONG = Document("long", "Clean and oil the chain after wet rides. " * 250)
PAIRS = [(QUERY.text, document.full_text) for document in [*DOCUMENTS, LONG]]

PROMPT = named_prompt("pointwise-passage")
MAX_LENGTH = 256


@dataclass
class Student:
    """A student folder, and the model with its scores from before it was written."""

    folder: Path
    loaded: LoadedModel
    scores: Any


def write(model: Path, folder: Path, device: torch.device) -> Student:
    loaded = load_model(str(model), dtype="fp32", device=device)
    record = StudentRecord(
        family=loaded.model.family,
        prompt=PROMPT,
        score="yes_logit",
        max_length=MAX_LENGTH,
        document_words=None,
        dtype="fp32",
        base_model=str(model),
        base_revision=loaded.revision,
        training={},
    )
    write_student(folder, loaded, record)
    return Student(folder, loaded, Reranker(loaded, PROMPT, max_length=MAX_LENGTH).score(PAIRS))


@pytest.fixture(scope="module")
def llama(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Student:
    return write(tiny_llama, tmp_path_factory.mktemp("llama") / "student", device)


@pytest.fixture(scope="module")
def t5(tiny_t5: Path, tmp_path_factory: pytest.TempPathFactory, device: torch.device) -> Student:
    return write(tiny_t5, tmp_path_factory.mktemp("t5") / "student", device)


@pytest.fixture(params=["t5", "llama"])
def student(request: pytest.FixtureRequest) -> Student:
    found: Student = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def reranker(student: Student) -> Reranker:
    return Reranker(student.loaded, PROMPT, max_length=MAX_LENGTH)


@pytest.fixture
def tabled(llama: Student, monkeypatch: pytest.MonkeyPatch) -> Reranker:
    """A reranker whose model answers with the number that a document's text begins with."""
    reranker = Reranker(llama.loaded, PROMPT)

    def answer(questions: Sequence[Question], *told: Any) -> Any:
        numbers = [float(question.documents[0].text.split()[0]) for question in questions]
        return np.array([[number, -number] for number in numbers], dtype=np.float32).reshape(-1, 2)

    monkeypatch.setattr(reranker._engine, "answer_logits", answer)
    return reranker


def test_b12_a_score_is_the_same_alone_in_any_batch_and_order(reranker: Reranker) -> None:
    together = reranker.score(PAIRS)
    assert together.dtype == np.float32
    assert together.shape == (6,)
    assert len(set(np.round(together, 4))) == 6
    alone = np.concatenate([reranker.score([pair]) for pair in PAIRS])
    np.testing.assert_allclose(alone, together, atol=1e-4, rtol=0)
    assert np.argsort(alone).tolist() == np.argsort(together).tolist()
    order = [4, 0, 5, 2, 1, 3]
    shuffled = reranker.score([PAIRS[i] for i in order])
    np.testing.assert_allclose(shuffled, together[order], atol=1e-4, rtol=0)
    for size in (1, 2, 7):
        reranker._engine.tokens_per_batch = MAX_LENGTH * size
        np.testing.assert_allclose(reranker.score(PAIRS), together, atol=1e-4, rtol=0)


def test_texts_and_records_score_alike(reranker: Reranker) -> None:
    records = reranker.score([(QUERY, document) for document in DOCUMENTS])
    texts = reranker.score(PAIRS[:5])
    assert records.tolist() == texts.tolist()
    assert reranker.score([]).shape == (0,)
    assert reranker.score([("", "x"), ("x", "")]).shape == (2,)


def test_the_ranking_is_that_of_the_scores(reranker: Reranker) -> None:
    scores = reranker.score([(QUERY, document) for document in DOCUMENTS])
    ranked = reranker.rank(QUERY, DOCUMENTS)
    assert [item.index for item in ranked] == np.argsort(-scores, kind="stable").tolist()
    assert [item.rank for item in ranked] == [1, 2, 3, 4, 5]
    assert [item.doc_id for item in ranked] == [DOCUMENTS[item.index].doc_id for item in ranked]
    np.testing.assert_allclose([item.score for item in ranked], np.sort(scores)[::-1], atol=1e-6)
    plain = reranker.rank(QUERY.text, [document.full_text for document in DOCUMENTS])
    assert [item.index for item in plain] == [item.index for item in ranked]
    assert {item.doc_id for item in plain} == {None}
    assert [item.text for item in plain] == [item.text for item in ranked]


def test_b39_scoring_twice_gives_the_same_also_in_training_mode(
    student: Student, device: torch.device
) -> None:
    reranker = Reranker.from_pretrained(student.folder, dtype="fp32", device=device)
    first = reranker.score(PAIRS)
    assert reranker.score(PAIRS).tolist() == first.tolist()
    model = reranker._engine.model
    model.train()
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    assert reranker.score(PAIRS).tolist() == first.tolist()
    assert model.training
    assert all(part.training for part in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_score_is_the_logit_of_the_first_answer_or_the_difference(student: Student) -> None:
    logit = Reranker(student.loaded, PROMPT)
    logits = logit._engine.answer_logits([Question(QUERY, (document,)) for document in DOCUMENTS])
    pairs = [(QUERY, document) for document in DOCUMENTS]
    assert logit.score(pairs).tolist() == logits[:, 0].tolist()
    difference = Reranker(student.loaded, PROMPT, score="yes_minus_no").score(pairs)
    assert difference.tolist() == (logits[:, 0] - logits[:, 1]).tolist()


def test_another_wording_over_the_same_weights(reranker: Reranker) -> None:
    pair = ("what is it", "It is a test.")
    other = reranker.with_prompt("pointwise-released")
    assert other.identity["prompt"]["name"] == "pointwise-released"
    assert {k: v for k, v in other.identity.items() if k != "prompt"} == {
        k: v for k, v in reranker.identity.items() if k != "prompt"
    }
    assert other.score([pair])[0] != reranker.score([pair])[0]
    again = other.with_prompt(named_prompt(reranker.identity["prompt"]["name"]))
    assert again.score([pair])[0] == reranker.score([pair])[0]
    with pytest.raises(InputError, match="shows 2 document"):
        reranker.with_prompt("pairwise-passage")


def test_a_long_document_is_as_good_as_its_best_window(reranker: Reranker) -> None:
    filler = "There is nothing here that anybody would ask for. " * 40
    long = Document("d", f"{filler} The moon is 384,400 km away. {filler}")
    query = "how far is the moon"
    first, best = (
        float(reranker.score([(query, long)], long_documents=choice)[0]) for choice in ("first", "max")
    )
    assert best >= first
    windows = windows_of(reranker._engine.encoder, query, long)
    assert len(windows) > 2
    assert best == pytest.approx(max(float(reranker.score([(query, w)])[0]) for w in windows), abs=1e-4)
    ranked = reranker.rank(query, [long, "moon"], long_documents="max")
    assert {item.index for item in ranked} == {0, 1}
    with pytest.raises(InputError, match="expected 'first' or 'max'"):
        reranker.score([(query, long)], long_documents="last")  # type: ignore[arg-type]


def test_many_queries_are_ranked_as_each_alone(reranker: Reranker) -> None:
    lists: list[tuple[str, list[str]]] = [
        ("what is it", ["It is a test.", "", "Nothing of the kind, at all."]),
        ("where", []),
        ("when was it", ["In May.", "It was yesterday, they say."]),
    ]
    together = list(reranker.rank_many(lists, top_k=2))
    for (query, documents), found in zip(lists, together, strict=True):
        alone = reranker.rank(query, documents, top_k=2)
        assert [(item.index, item.rank) for item in found] == [(item.index, item.rank) for item in alone]
        assert [item.score for item in found] == pytest.approx([item.score for item in alone], abs=1e-4)


def test_probabilities_are_asked_for(tabled: Reranker) -> None:
    plain = tabled.rank("q", ["1 a", "-1 b"])
    assert [(item.probability, item.probability_kind) for item in plain] == [(None, None)] * 2
    found = tabled.rank("q", ["1 a", "-1 b"], probability=True)
    assert [item.probability for item in found] == pytest.approx(
        [1 / (1 + np.exp(-item.score)) for item in found], abs=1e-6
    )
    assert [item.score for item in found] == [item.score for item in plain]  # the logit stays
    assert {item.probability_kind for item in found} == {tabled.probability_kind} == {"sigmoid"}
    tabled.calibration = Calibration(slope=2.0, intercept=1.0, lists=3, documents=9)
    found = tabled.rank("q", ["1 a", "-1 b"], probability=True)
    assert [item.probability for item in found] == pytest.approx(
        [1 / (1 + np.exp(-(2 * item.score + 1))) for item in found], abs=1e-6
    )
    assert {item.probability_kind for item in found} == {tabled.probability_kind} == {"fitted"}


def test_progress_is_shown_where_it_is_asked_for(
    reranker: Reranker, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [*DOCUMENTS, Document("empty", ""), LONG]
    pairs = [(QUERY, document) for document in [*DOCUMENTS, LONG]]
    plain = reranker.rank(QUERY, documents)
    scores = reranker.score(pairs, long_documents="max")
    assert "rank" not in capsys.readouterr().err
    assert reranker.rank(QUERY, documents, progress=True) == plain
    assert "7/7" in capsys.readouterr().err
    assert list(reranker.rank_many([(QUERY, documents)] * 2, progress=True)) == [plain, plain]
    assert "14/14" in capsys.readouterr().err
    assert list(reranker.rank_many(iter([(QUERY, documents)] * 2), progress=True)) == [plain, plain]
    assert "14document" in capsys.readouterr().err  # how many there will be is not known
    assert reranker.score(pairs, long_documents="max", progress=True).tolist() == scores.tolist()
    assert "6/6" in capsys.readouterr().err


@pytest.mark.parametrize("copies", [2, 3])
def test_b47_copies_on_several_devices_score_each_pair_once(
    student: Student, device: torch.device, copies: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twenty-two pairs do not divide by three; of one pair two copies have nothing."""
    pairs = [("what is it", f"It is test number {i}, or so.") for i in range(22)]
    one = Reranker.from_pretrained(student.folder, dtype="fp32", device=device)
    several = Reranker.from_pretrained(student.folder, dtype="fp32", device=[device] * copies)
    assert several.score(pairs) == pytest.approx(one.score(pairs), abs=1e-4)
    assert several.score(pairs[:1]) == pytest.approx(one.score(pairs[:1]), abs=1e-6)
    assert several.score(pairs, progress=True) == pytest.approx(one.score(pairs), abs=1e-4)
    assert "22/22" in capsys.readouterr().err


def test_equal_scores_keep_the_input_order(tabled: Reranker) -> None:
    ranked = tabled.rank("q", ["1 a", "2 b", "1 c", "2 d", "1 e"])
    assert ranked == [
        RankedDocument(1, None, 2.0, 1, "2 b"),
        RankedDocument(3, None, 2.0, 2, "2 d"),
        RankedDocument(0, None, 1.0, 3, "1 a"),
        RankedDocument(2, None, 1.0, 4, "1 c"),
        RankedDocument(4, None, 1.0, 5, "1 e"),
    ]


@pytest.mark.parametrize(("top_k", "length"), [(None, 5), (0, 0), (1, 1), (4, 4), (5, 5), (6, 5), (1000, 5)])
def test_b08_top_k_never_loses_what_it_should_return(
    tabled: Reranker, top_k: int | None, length: int
) -> None:
    texts = ["3 a", "1 b", "5 c", "2 d", "4 e"]
    ranked = tabled.rank("q", texts, top_k=top_k)
    assert [item.text for item in ranked] == ["5 c", "4 e", "3 a", "2 d", "1 b"][:length]


def test_a_negative_top_k_is_refused(tabled: Reranker) -> None:
    with pytest.raises(InputError, match="top_k is -1; give 0 or more, or None for all documents"):
        tabled.rank("q", ["1 a"], top_k=-1)


def test_b20_documents_without_text_come_last_and_are_not_asked_about(tabled: Reranker) -> None:
    documents = [Document("a", ""), Document("b", "-7.5 x"), Document("c", " \n"), Document("d", "2 y", "")]
    ranked = tabled.rank("q", documents)
    assert [(item.index, item.doc_id, item.score, item.rank) for item in ranked] == [
        (3, "d", 2.0, 1),
        (1, "b", -7.5, 2),
        (0, "a", -8.5, 3),
        (2, "c", -9.5, 4),
    ]
    assert [item.score for item in tabled.rank("q", ["", " "])] == [-1.0, -2.0]
    assert tabled.rank("q", []) == []


def test_the_text_of_a_document_is_what_the_model_was_shown(tabled: Reranker) -> None:
    shown = tabled.rank("q", [Document("d", "1 body", "Title")])
    assert shown[0].text == "Title 1 body"
    assert tabled.rank("q", ["1  two blanks "])[0].text == "1  two blanks "


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_b48_a_model_that_answers_nan_is_an_error_that_names_the_pair(
    reranker: Reranker, monkeypatch: pytest.MonkeyPatch, broken: float
) -> None:
    model = reranker._engine.model
    answer = type(model).forward

    def forward(self: Any, prompts: Any, answers: Any) -> torch.Tensor:
        logits = answer(self, prompts, answers).clone()
        logits[0] = broken
        return logits

    monkeypatch.setattr(type(model), "forward", forward)
    reranker._engine.tokens_per_batch = 1  # one prompt a batch: every answer is broken
    with pytest.raises(NonFiniteScoreError, match=r"query 'q1' with document\(s\) 'd1' \(5 such answers\)"):
        reranker.score([(QUERY, document) for document in DOCUMENTS])
    with pytest.raises(NonFiniteScoreError, match=r"query 'q1' with document\(s\) 'd1'"):
        reranker.rank(QUERY, DOCUMENTS)
    with pytest.raises(NonFiniteScoreError, match=r"document\(s\) '0'"):
        reranker.rank("plain", ["text"], top_k=0)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["ab"], r"pair 0: expected \(query, document\), found 'ab'"),
        (("query", "document"), r"pair 0: expected \(query, document\), found 'query'"),
        ([("q", "d"), ("q", "d", "e")], "pair 1: expected"),
        ([("q", 7)], "document 0 must be a string or a Document, not int"),
        ([(None, "d")], "a query must be a string or a Query, not NoneType"),
        ([("q", "d"), ("q", ("i", "t"))], "document 1 must be a string or a Document, not tuple"),
    ],
)
def test_what_is_no_pair_is_refused(tabled: Reranker, pairs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tabled.score(pairs)


def test_one_text_is_not_a_list_of_documents(tabled: Reranker) -> None:
    with pytest.raises(InputError, match="documents is one string; give a list of documents"):
        tabled.rank("q", "1 a")


_IN_A_NEW_PROCESS = """
import json, sys, time
from instruct_distill import Reranker
from instruct_distill.errors import InputError
pairs, folders, device = json.loads(sys.stdin.read())
found = []
for folder in folders:
    begin = time.monotonic()
    try:
        scores = Reranker.from_pretrained(folder, dtype="fp32", device=device).score(pairs).tolist()
    except InputError as error:
        scores = str(error)
    found.append([scores, time.monotonic() - begin])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def elsewhere(
    request: pytest.FixtureRequest,
    llama: Student,
    device: torch.device,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """What another process finds, whose hub cannot be reached: name → (scores or message, seconds)."""
    hub = tmp_path_factory.mktemp("hub")
    for name, missing in (("student", ""), ("weightless", "model.safetensors"), ("plain", "reranker.json")):
        cached = hub / f"models--org--{name}"
        (cached / "refs").mkdir(parents=True)
        (cached / "refs" / "main").write_text("0" * 40, encoding="utf-8")
        shutil.copytree(
            llama.folder, cached / "snapshots" / ("0" * 40), ignore=shutil.ignore_patterns(missing)
        )
    models = {"llama": str(llama.folder), "cached": "org/student"}
    models |= {name: f"org/{name}" for name in ("weightless", "plain", "absent")}
    with contextlib.suppress(pytest.skip.Exception):
        models["t5"] = str(request.getfixturevalue("t5").folder)
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_NEW_PROCESS],
        input=json.dumps([PAIRS, list(models.values()), str(device)]),
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "HF_HUB_CACHE": str(hub),
            "HF_HUB_OFFLINE": "0",
            "HF_ENDPOINT": "http://127.0.0.1:9",
        },
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(models, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("family", ["t5", "llama"])
def test_b36_another_process_gives_the_same_scores_without_a_network(
    request: pytest.FixtureRequest, elsewhere: dict[str, Any], family: str
) -> None:
    before: Student = request.getfixturevalue(family)
    scores, seconds = elsewhere[family]
    np.testing.assert_allclose(scores, before.scores, atol=1e-6, rtol=0)
    assert seconds < 20


def test_b36_a_cached_student_works_where_the_hub_does_not_answer(
    elsewhere: dict[str, Any], llama: Student
) -> None:
    scores, seconds = elsewhere["cached"]
    np.testing.assert_allclose(scores, llama.scores, atol=1e-6, rtol=0)
    assert seconds < 20


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("weightless", "no .safetensors weights"),
        ("plain", "no reranker.json"),
        ("absent", "org/absent: no such folder, and not to be had from the hub"),
    ],
)
def test_b36_what_is_missing_is_named(elsewhere: dict[str, Any], name: str, message: str) -> None:
    found, seconds = elsewhere[name]
    assert message in found
    assert seconds < 20


def test_a_hub_id_that_is_not_cached_is_a_clear_error_at_once() -> None:
    begin = time.monotonic()
    with pytest.raises(InputError, match="org/nothing-here: no such folder, and not to be had from the hub"):
        Reranker.from_pretrained("org/nothing-here")
    with pytest.raises(InputError, match="org/nothing-here: no such folder, and not to be had"):
        Reranker.from_pretrained("org/nothing-here", local_files_only=True)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "a/b/c", "nothing here"])
def test_a_folder_that_is_not_there_is_a_clear_error(name: str) -> None:
    with pytest.raises(InputError, match="no such folder, and no hub id"):
        Reranker.from_pretrained(name)


def test_a_model_without_a_tokenizer_is_refused(llama: Student, tmp_path: Path) -> None:
    shutil.copytree(llama.folder, tmp_path / "s", ignore=shutil.ignore_patterns("tokenizer*"))
    with pytest.raises(InputError, match="holds no tokenizer; save it beside the weights"):
        Reranker.from_pretrained(tmp_path / "s")


def test_its_name_is_what_it_was_asked_for_by(student: Student, device: torch.device) -> None:
    reranker = Reranker.from_pretrained(student.folder, dtype="fp32", device=device)
    assert reranker.name == str(student.folder)
    np.testing.assert_allclose(reranker.score(PAIRS), student.scores, atol=1e-6, rtol=0)

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard

from instruct_distill.card_update import is_generated, updated_card
from instruct_distill.errors import InputError
from instruct_distill.model_card import model_card, write_card
from instruct_distill.models.loading import load_model
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt
from instruct_distill.reranker import Reranker
from instruct_distill.student_folder import StudentRecord, write_student

COMMIT = "a" * 40
TRAINING = {
    "recipe": "r",
    "collection": "beir:/home/me/data/mine",
    "queries": 3,
    "teacher": {
        "teacher": "google/flan-t5-xl",
        "revision": "b" * 40,
        "strategy": "allpairs",
        "prompt": named_prompt("pairwise-passage").as_dict(),
    },
    "label_statistics": {"documents": 12, "comparisons": 132, "inconsistent": 0.25},
    "loss": "ranknet",
    "epochs": 4,
    "learning_rate": 3e-5,
}
SUMMARY = {
    "mine": {
        "first_stage": {"nDCG@1": 0.25, "nDCG@10": 0.5},
        "zero_shot": {"nDCG@1": 0.125, "nDCG@10": 0.25},
        "student": {"nDCG@1": 0.5, "nDCG@10": 0.62504},
    },
    "_meta": {
        "tasks": {
            "mine": {
                "queries": 43,
                "recall_ceiling": {"nDCG@1": 1.0, "nDCG@10": 0.875},
                "significance": {
                    "student": {
                        "first_stage": {"nDCG@10": {"difference": 0.125, "low": -0.0625, "high": 0.25}},
                        "zero_shot": {"nDCG@10": {"difference": 0.375, "low": 0.3125, "high": 0.5}},
                    }
                },
            }
        },
        "contamination": {
            "mine": {
                "compared": {"training_queries": 3, "training_documents": 12, "test_queries": 43},
                "queries": {"found": 2},
                "documents": {"same_document": {"count": 5}, "found_without_same_document": 1},
                "without_found_queries": {"systems": {"student": {"nDCG@10": {"all": 0.62504, "left": 0.6}}}},
            }
        },
    },
}


def student(model: Path, folder: Path, **changes: Any) -> Path:
    loaded = load_model(str(model), dtype="fp32", device=torch.device("cpu"))
    record = {
        "family": loaded.model.family,
        "prompt": named_prompt("pointwise-passage"),
        "score": "yes_logit",
        "max_length": 128,
        "document_words": None,
        "dtype": "fp32",
        "base_model": "google/flan-t5-base",
        "base_revision": COMMIT,
        "training": TRAINING,
    }
    write_student(folder, loaded, StudentRecord(**{**record, **changes}))
    return folder


@pytest.fixture(scope="module")
def llama(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return student(tiny_llama, tmp_path_factory.mktemp("card") / "student")


def programs(card: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)


def run(program: str, folder: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(program.replace("ORG/r", str(folder)), names)
    names["printed"] = out.getvalue()
    return names


PREFIXED = Prompt(
    template="Is {{this}} it? {query} or {passage} so", answers=("A", "B"), answer_prefix="passage"
)
PAIRS = [("oil a chain", "Clean and {oil} the chain."), ("a", "Ferries leave <hourly>. " * 3)]


@pytest.mark.parametrize("score", ["yes_logit", "yes_minus_no"])
@pytest.mark.parametrize(
    ("model", "prompt"),
    [
        ("tiny_llama", named_prompt("pointwise-passage")),  # in the chat template
        ("tiny_llama", named_prompt("pointwise-short")),
        ("tiny_llama", PREFIXED),
        ("tiny_t5", named_prompt("pointwise-passage")),
        ("tiny_t5", named_prompt("monot5")),
        ("tiny_t5", PREFIXED),
    ],
)
def test_the_programs_of_the_card_give_the_students_scores(
    request: pytest.FixtureRequest, tmp_path: Path, model: str, prompt: Prompt, score: str
) -> None:
    folder = student(
        request.getfixturevalue(model),
        tmp_path / "s",
        prompt=prompt,
        score=score,
        document_words=6,
    )
    library, plain = programs(model_card(folder))
    wanted = Reranker.from_pretrained(folder, dtype="fp32", device="cpu").score(PAIRS)
    found = [run(plain, folder)["score"](*pair) for pair in PAIRS]
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert len(run(library, folder)["printed"].splitlines()) == 2


def test_y_is_two_pieces_of_t5s(tiny_t5: Path, tmp_path: Path) -> None:
    assert (
        len(programs(model_card(student(tiny_t5, tmp_path / "s", prompt=named_prompt("pointwise-movie")))))
        == 1
    )


def test_answers_of_several_tokens_are_left_to_the_library(tiny_llama: Path, tmp_path: Path) -> None:
    prompt = Prompt(template="{query} {passage}\n", answers=("yes it is", "no it is not"))
    card = model_card(student(tiny_llama, tmp_path / "s", prompt=prompt))
    assert len(programs(card)) == 1
    assert "Its answers are not single tokens" in card


def test_the_card_says_what_the_student_is(llama: Path) -> None:
    card = model_card(llama, repo_id="me/mine", license="apache-2.0")
    data = ModelCard(card).data
    assert data.base_model == "google/flan-t5-base"
    assert data.license == "apache-2.0"
    assert data.library_name == "transformers"
    assert data.pipeline_tag == "text-ranking"
    assert "arxiv:2311.01555" in data.tags
    assert data.eval_results is None
    text = ModelCard(card).text
    for part in (
        "# mine",
        'from_pretrained("me/mine")',
        f"| base model | `google/flan-t5-base`, revision `{COMMIT}` |",
        f"| teacher | `google/flan-t5-xl`, revision `{'b' * 40}` |",
        "| teacher strategy | allpairs |",
        "| teacher prompt | pairwise-passage |",
        "| training collection | beir:mine |",
        "| training queries | 3 |",
        "| comparisons by the teacher | 132 |",
        "| of them inconsistent in the two orders | 25.0% |",
        named_prompt("pointwise-passage").template,
        "the score is the logit of `Yes`. Prompts are cut to 128 tokens.",
        "No results are given",
        "apache-2.0; the licence of the base model",
        "@article{sun2023instruction,",
    ):
        assert part in text, part
    assert "/home/me" not in card
    assert "## Results" not in card
    assert "without human judgements" in text
    assert len(card) < 8000


def test_results_stand_on_the_card_and_in_its_metadata(llama: Path) -> None:
    card = model_card(llama, summary=SUMMARY)
    results = ModelCard(card).data.eval_results
    assert results is not None
    assert [(r.dataset_name, r.metric_type, r.metric_name, r.metric_value) for r in results] == [
        ("mine", "ndcg@1", "nDCG@1", 0.5),
        ("mine", "ndcg@10", "nDCG@10", 0.625),
    ]
    for line in (
        "| mine | nDCG@1 | nDCG@10 |",
        "| first stage | 0.2500 | 0.5000 |",
        "| base model, untrained | 0.1250 | 0.2500 |",
        "| **this model** | 0.5000 | 0.6250 |",
        "| best order of these candidates | 1.0000 | 0.8750 |",
    ):
        assert f"\n{line}\n" in card
    assert "Means over 43 judged queries" in card
    assert "nDCG@10 against the first stage: +0.1250 (95% interval -0.0625 to +0.2500)." in card
    assert "- mine: 2 of 43 test queries and 1 test passages (besides 5 that are candidates in both)" in card
    assert "Without these queries nDCG@10 is 0.6000." in card
    assert "No results are given" not in card


def test_labels_that_people_made_are_called_so(tiny_llama: Path, tmp_path: Path) -> None:
    teacher = {"teacher": "qrels", "revision": "", "strategy": "qrels"}
    card = model_card(student(tiny_llama, tmp_path / "s", training={**TRAINING, "teacher": teacher}))
    assert "from relevance judgements." in card
    assert "without human judgements" not in card


def test_a_local_base_model_is_named_without_its_path(tiny_llama: Path, tmp_path: Path) -> None:
    folder = student(tiny_llama, tmp_path / "s", base_model="/home/me/flan", base_revision="0123456789abcdef")
    card = model_card(folder)
    assert "| base model | `flan`, digest `0123456789abcdef` |" in card
    assert "base_model:" not in card
    assert "/home/me" not in card


def test_the_card_beside_the_weights_gets_the_results(llama: Path) -> None:
    file = llama / "README.md"
    file.unlink(missing_ok=True)
    write_card(llama)
    assert file.read_text(encoding="utf-8") == model_card(llama)
    write_card(llama, SUMMARY)
    assert file.read_text(encoding="utf-8") == model_card(llama, summary=SUMMARY)
    changed = file.read_text(encoding="utf-8").replace("## Limits", "## What I saw\n\nIt works.\n\n## Limits")
    file.write_text(changed, encoding="utf-8")
    write_card(llama)
    assert file.read_text(encoding="utf-8") == changed
    file.unlink()


# -- a card that is there ------------------------------------------------------------------------------


def card(text: str, **metadata: Any) -> str:
    return f"---\n{json.dumps(metadata)}\n---\n{text}"


def results(task: str, value: float) -> dict[str, Any]:
    return {
        "task": {"type": "text-ranking"},
        "dataset": {"name": task, "type": task},
        "metrics": [{"type": "ndcg@10", "value": value}],
    }


def test_metadata_are_merged_and_the_text_stays() -> None:
    old = card("mine\r\n", license="mit", tags=["a", "b"], base_model="me/base")
    merged = ModelCard(updated_card(old, card("new", license="x", tags=["b", "c"], base_model="o/b", y=1)))
    assert merged.text == "mine\r\n"
    assert merged.data.to_dict() == {
        "license": "mit",
        "tags": ["a", "b", "c"],
        "base_model": "me/base",
        "y": 1,
    }


def test_results_of_the_same_task_are_the_new_ones() -> None:
    old = card("t", **{"model-index": [{"name": "n", "results": [results("x", 0.1), results("y", 0.2)]}]})
    new = card("t", **{"model-index": [{"name": "m", "results": [results("y", 0.3), results("z", 0.4)]}]})
    index = ModelCard(updated_card(old, new)).data.to_dict()["model-index"]
    assert index[0]["name"] == "n"
    assert [(r["dataset"]["name"], r["metrics"][0]["value"]) for r in index[0]["results"]] == [
        ("x", 0.1),
        ("y", 0.3),
        ("z", 0.4),
    ]


@pytest.mark.parametrize("broken", ["none", [], [{}], [{"results": 3}], {"a": 1}])
def test_results_that_nobody_can_read_stay(broken: Any) -> None:
    old = card("t", **{"model-index": broken})
    new = card("t", **{"model-index": [{"name": "m", "results": [results("y", 0.3)]}]})
    assert updated_card(old, new) == old


def test_a_card_with_all_metadata_stays_byte_for_byte() -> None:
    old = '---\n# my comment\ntags: ["a",   "b"]\n---\ntext'
    assert updated_card(old, card("new", tags=["b"])) == old


def test_a_card_without_metadata_gets_them() -> None:
    assert updated_card("text", card("new", license="mit")) == "---\nlicense: mit\n---\ntext"


def test_a_generated_card_gives_way_and_keeps_what_was_added_to_its_metadata(llama: Path) -> None:
    first, second = model_card(llama, summary=SUMMARY), model_card(llama, repo_id="me/other")
    assert is_generated(first)
    assert is_generated(first.replace("\n", "\r\n"))
    assert updated_card(first, second) == second
    licensed = first.replace("library_name:", "license: mit\nlibrary_name:", 1)
    assert is_generated(licensed)
    assert "license: mit" in updated_card(licensed, second)
    assert "model-index" not in updated_card(licensed, second)  # those were of other weights
    changed = first.replace("## Limits", "## My limits")
    assert not is_generated(changed)
    assert "## My limits" in updated_card(changed, second)


def test_metadata_that_are_not_yaml_are_an_error() -> None:
    for broken in ("---\na: [\n---\ntext", "---\n- a\n---\ntext"):
        with pytest.raises(InputError, match="are not YAML; mend them first"):
            updated_card(broken, card("new", license="mit"))

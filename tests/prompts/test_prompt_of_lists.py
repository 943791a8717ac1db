from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from transformers import AutoTokenizer

from instruct_distill.errors import InputError
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.prompts.named import PROMPTS, named_prompt
from instruct_distill.prompts.prompt import Prompt, check_prompt

LISTS = [name for name, prompt in PROMPTS.items() if prompt.block]


def test_the_published_wording_of_listwise_movie() -> None:
    assert named_prompt("listwise-movie").for_documents(2).template == (
        "Question: Given the conversation history between the recommender and the user:⏎⏎{query}⏎⏎Based on "
        "the user's preference, which of the following movies is the most suitable for the user?⏎⏎"
        "[1]: {movie_1}⏎⏎[2]: {movie_2}⏎⏎Answer the question with the number of the movie. The answer will "
        "include one and only one number. Give the answer after Answer: ."
    ).replace("⏎", "\n")


def test_a_block_is_written_out() -> None:
    prompt = Prompt(
        name="x",
        template="{{}} {query}:\n{documents}Best:",
        block="({letter}) {text}{{}}\n",
        answers=("({letter})",),
    )
    three = prompt.for_documents(3)
    assert three.template == ("{{}} {query}:\n(A) {text_1}{{}}\n(B) {text_2}{{}}\n(C) {text_3}{{}}\nBest:")
    assert three.document_fields == ("text_1", "text_2", "text_3")
    assert (three.answers, three.block, three.name) == (("(A)", "(B)", "(C)"), "", "x")
    assert three.template.format(query="q", text_1="a", text_2="b", text_3="c") == (
        "{} q:\n(A) a{}\n(B) b{}\n(C) c{}\nBest:"
    )
    assert prompt.for_documents(26).answers[-1] == "(Z)"


def test_a_ranking_has_no_answers_to_compare() -> None:
    assert named_prompt("listwise-passage").for_documents(5).answers == ()


def test_more_documents_than_letters() -> None:
    with pytest.raises(InputError, match=r"of which there are 26; 27 documents need \{number\} in its block"):
        named_prompt("setwise-passage").for_documents(27)
    assert named_prompt("listwise-movie").for_documents(27).answers[-1] == "27"


def test_a_prompt_without_a_block_shows_what_it_shows() -> None:
    with pytest.raises(InputError, match=r"'pairwise-passage' has no block, it shows 2 document\(s\)"):
        named_prompt("pairwise-passage").for_documents(2)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"block": ""}, r"shows \{documents\}, and there is no block for one"),
        ({"template": "{query} {passage}"}, r"with a block its fields are \{query\} and \{documents\}"),
        ({"template": "{query} {documents} {passage}"}, "with a block its fields are"),
        (
            {"block": "[{number}]\n"},
            r"must have one field for the document, such as \{passage\}; it has \[\]",
        ),
        ({"block": "[{number}] {a} {b}\n"}, r"must have one field for the document.*it has \['a', 'b'\]"),
        ({"block": "[{number}] {query}\n"}, "must have one field for the document"),
        ({"block": "{passage}\n"}, r"must name its document by one of \{number\} and \{letter\}"),
        ({"block": "{letter} {number} {passage}\n"}, "must name its document by one of"),
        (
            {"block": "[{number}] {passage} {passage}\n"},
            r"block of prompt 'custom': field \{passage\} stands",
        ),
        ({"block": "[{number}] {0}\n"}, r"block of prompt 'custom': \{0\} is no field name"),
        ({"block": "{number {passage}\n"}, r"block of prompt 'custom': .*; write \{\{ or \}\} for a brace"),
        ({"block": "{passage}[{number}]"}, r"no white space before field \{passage_2\}"),
        ({"answers": ("A", "B")}, r"with this block the answer is \{number\}, not \['A', 'B'\]"),
        ({"answers": ("{letter}",)}, r"with this block the answer is \{number\}, not \['\{letter\}'\]"),
    ],
)
def test_records_that_are_refused(record: dict[str, Any], problem: str) -> None:
    good = {"template": "{query} {documents}", "block": "[{number}] {passage}\n"}
    Prompt(**good)
    with pytest.raises(ValidationError, match=problem):
        Prompt(**(good | record))


@pytest.mark.parametrize("name", LISTS)
def test_a_record_survives_being_written(name: str) -> None:
    prompt = PROMPTS[name]
    assert prompt.as_dict()["block"] == prompt.block
    assert TypeAdapter(Prompt).validate_python(prompt.as_dict()) == prompt


def test_records_without_a_list_are_written_as_before() -> None:
    assert list(named_prompt("pairwise-passage").as_dict()) == [
        "name",
        "template",
        "answers",
        "answer_prefix",
        "cut",
        "chat",
    ]


@pytest.mark.parametrize(
    ("prompt", "documents", "answers", "query", "problem"),
    [
        ("setwise-passage", 1, True, True, "its block shows a list of documents, strategy x needs 1"),
        ("listwise-movie", 2, True, True, "its block shows a list of documents, strategy x needs 2"),
        ("pairwise-passage", None, True, True, "it has no block for a list of documents"),
        ("listwise-passage", None, True, True, "it has no answer for each document"),
        ("query-generation", 1, False, True, r"it has no field \{query\}"),
    ],
)
def test_prompts_that_do_not_fit(
    prompt: str, documents: int | None, answers: bool, query: bool, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        check_prompt(
            named_prompt(prompt), documents=documents, answers=answers, query=query, purpose="strategy x"
        )


def test_prompts_that_fit() -> None:
    for name in ("setwise-passage", "listwise-movie"):
        check_prompt(named_prompt(name), documents=None, answers=True, purpose="strategy setwise")
    for name in ("listwise-passage", "listwise-movie"):
        check_prompt(named_prompt(name), documents=None, answers=False, query=True, purpose="listwise")


# -- encoded ------------------------------------------------------------------------------------------------

QUERY = "how to oil a bicycle chain"
TEXTS = [
    "Clean and oil the chain after wet rides.",
    "A drop of oil stops a hinge.",
    "Ferries leave the harbour every twenty minutes.",
]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", LISTS)
def test_t5_ids_are_those_of_the_whole_string(t5_tokenizer_folder: Path, name: str, count: int) -> None:
    t5 = AutoTokenizer.from_pretrained(t5_tokenizer_folder)
    prompt = named_prompt(name).for_documents(count)
    encoder = PromptEncoder(prompt, t5, family="encoder-decoder", max_length=512, decoder_start=0)
    whole = prompt.template.format(query=QUERY, **dict(zip(prompt.document_fields, TEXTS, strict=False)))
    assert encoder.joined
    assert encoder.encode([(QUERY, TEXTS[:count])]) == [t5(whole)["input_ids"]]


@pytest.mark.parametrize("name", LISTS)
def test_chat_ids_are_those_of_the_whole_string(tiny_llama: Path, name: str) -> None:
    bpe: Any = AutoTokenizer.from_pretrained(tiny_llama)
    prompt = named_prompt(name).for_documents(3)
    encoder = PromptEncoder(prompt, bpe, family="decoder-only", max_length=1024)
    asked = prompt.template.format(query=QUERY, **dict(zip(prompt.document_fields, TEXTS, strict=True)))
    whole = bpe.apply_chat_template(
        [{"role": "user", "content": asked}], tokenize=False, add_generation_prompt=True
    )
    (ids,) = encoder.encode([(QUERY, TEXTS)])
    assert encoder.joined
    assert bpe.decode(ids) == whole + prompt.answer_prefix


def test_answers_of_a_set_are_the_letters_after_the_prefix(t5_tokenizer_folder: Path) -> None:
    t5 = AutoTokenizer.from_pretrained(t5_tokenizer_folder)
    prompt = named_prompt("setwise-passage").for_documents(4)
    answers = PromptEncoder(prompt, t5, family="encoder-decoder", max_length=512, decoder_start=0).answers
    assert answers is not None
    assert answers.single
    assert t5.decode(answers.prefix[1:]) == "Passage"
    assert [t5.decode(ids) for ids in answers.continuations] == ["A", "B", "C", "D"]


def test_b09_every_document_of_a_list_is_cut_and_the_cue_stays(t5_tokenizer_folder: Path) -> None:
    t5 = AutoTokenizer.from_pretrained(t5_tokenizer_folder)
    prompt = named_prompt("listwise-passage").for_documents(6)
    encoder = PromptEncoder(prompt, t5, family="encoder-decoder", max_length=256, decoder_start=0)
    (ids,) = encoder.encode([(QUERY, ["red " * 500] * 6)])
    text = t5.decode(ids)
    assert 250 <= len(ids) <= 256
    assert f"Query: {QUERY} Passages" in text
    assert [f"[{i}] red red" in text for i in range(1, 8)] == [True] * 6 + [False]
    assert text.endswith("in the form [2] > [1]. Order:</s>")


def test_an_encoder_uses_what_another_has_tokenised(t5_tokenizer_folder: Path) -> None:
    t5 = AutoTokenizer.from_pretrained(t5_tokenizer_folder)
    first, second = (named_prompt("listwise-passage").for_documents(n) for n in (2, 3))
    settings: dict[str, Any] = {"family": "encoder-decoder", "max_length": 512, "decoder_start": 0}
    one = PromptEncoder(first, t5, **settings)
    two = PromptEncoder(second, t5, beside=one, **settings)
    alone = PromptEncoder(second, t5, **settings)
    one.encode([(QUERY, TEXTS[:2])])
    assert two.encode([(QUERY, TEXTS)]) == alone.encode([(QUERY, TEXTS)])


def test_an_encoder_needs_to_know_how_many_documents(t5_tokenizer_folder: Path) -> None:
    t5 = AutoTokenizer.from_pretrained(t5_tokenizer_folder)
    with pytest.raises(InputError, match=r"shows a list; encode prompt.for_documents\(n\)"):
        PromptEncoder(named_prompt("setwise-passage"), t5, family="encoder-decoder", max_length=512)

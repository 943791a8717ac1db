"""The programs on a model card."""

from __future__ import annotations

from pathlib import Path

from instruct_distill.files import read_json
from instruct_distill.models.loading import load_tokenizer
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.student_folder import StudentRecord


def usage(student: Path, repo_id: str, record: StudentRecord) -> str:
    """Return the programs that score with a student: by this library, and without it.

    Args:
        student: its folder.
        repo_id: where the programs load it from.
        record: its record.

    Raises:
        InputError: the folder has no tokenizer or config.
    """
    library = (
        "```python\n"
        "from instruct_distill import Reranker\n\n"
        f'reranker = Reranker.from_pretrained("{repo_id}")\n'
        'passages = ["Copy a file with its permission bits.", "Sleep for a while."]\n'
        'for found in reranker.rank("duplicate a file", passages):\n'
        "    print(found.rank, found.score, found.text)\n"
        "```"
    )
    if record.family == "encoder":
        return f"{library}\n\n{_cross_encoder(repo_id, record)}"
    plain = _plain_transformers(student, repo_id, record)
    without = (
        f"The same scores with transformers alone:\n\n```python\n{plain}```"
        if plain
        else "Its answers are not single tokens after one string: use the library, which reads them right."
    )
    return f"{library}\n\n{without}"


def _cross_encoder(repo_id: str, record: StudentRecord) -> str:
    """A program with sentence-transformers, which makes the same pairs of texts and gives the same logits."""
    shown = "passage"
    if record.document_words is not None:
        shown = f'" ".join(passage.split()[:{record.document_words}])'
    return (
        "The same scores (logits, not probabilities) with sentence-transformers alone:\n\n"
        "```python\n"
        "from sentence_transformers import CrossEncoder\n\n"
        f'model = CrossEncoder("{repo_id}")  # cuts a pair to {record.max_length} tokens\n\n\n'
        "def score(query, passage):\n"
        f"    return float(model.predict([(query, {shown})])[0])\n\n\n"
        'print(score("duplicate a file", "Copy a file with its permission bits."))\n'
        "```"
    )


def _plain_transformers(student: Path, repo_id: str, record: StudentRecord) -> str | None:
    """A program with transformers alone, or None where one string and one token are not enough."""
    config = read_json(student / "config.json")
    tokenizer = load_tokenizer(str(student), str(student), {"local_files_only": True})
    start = config.get("decoder_start_token_id")
    encoder = PromptEncoder(
        record.prompt,
        tokenizer,
        family="encoder-decoder" if record.family == "encoder-decoder" else "decoder-only",
        max_length=record.max_length,
        decoder_start=start,
    )
    template, answers = encoder.template, encoder.answers
    (field,) = record.prompt.document_fields
    if answers is None or not answers.single:
        return None
    probe = template.format(**{"query": "who is it", field: "It is a test."})
    wanted = encoder.encode([("who is it", ["It is a test."])])[0]
    special = [
        flag for flag in (True, False) if tokenizer(probe, add_special_tokens=flag)["input_ids"] == wanted
    ]
    if not special:
        return None
    seq2seq = record.family == "encoder-decoder"
    auto = "AutoModelForSeq2SeqLM" if seq2seq else "AutoModelForCausalLM"
    shown = "passage"
    if record.document_words is not None:
        shown = f'" ".join(passage.split()[:{record.document_words}])'
    ids = [continuation[0] for continuation in answers.continuations]
    names = record.prompt.answers
    score = f"logits[{ids[0]}]" + (f" - logits[{ids[1]}]" if record.score == "yes_minus_no" else "")
    said = f"{names[0]!r}" + (f" minus {names[1]!r}" if record.score == "yes_minus_no" else "")
    decoder = f", decoder_input_ids=torch.tensor([{list(answers.prefix)}])" if seq2seq else ""
    return (
        "import torch\n"
        f"from transformers import {auto}, AutoTokenizer\n\n"
        f'tokenizer = AutoTokenizer.from_pretrained("{repo_id}")\n'
        f'model = {auto}.from_pretrained("{repo_id}").eval()\n'
        f"PROMPT = {template!r}\n\n\n"
        "def score(query, passage):\n"
        f"    text = PROMPT.format(query=query, {field}={shown})"
        f"  # shorten passages that make it longer than {record.max_length} tokens\n"
        f'    inputs = tokenizer(text, add_special_tokens={special[0]}, return_tensors="pt")\n'
        "    with torch.no_grad():\n"
        f"        logits = model(input_ids=inputs.input_ids{decoder}).logits[0, -1]\n"
        f"    return float({score})  # {said}\n\n\n"
        'print(score("duplicate a file", "Copy a file with its permission bits."))\n'
    )

"""Rerankers that others published: how they want to be asked, though they have no ``reranker.json``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from instruct_distill.files import read_json
from instruct_distill.inference.score_rules import ScoreRule
from instruct_distill.probability import Calibration
from instruct_distill.prompts.named import named_prompt
from instruct_distill.prompts.prompt import Prompt

CARD = "README.md"


class Usage(NamedTuple):
    """What a model needs to be used as a reranker.

    Args:
        prompt: a pointwise prompt, positive answer first.
        score: how answer logits become a score.
        max_length: the longest prompt in tokens.
        document_words: words of a document that are shown at most, or None.
        calibration: how a score becomes a probability, or None.
    """

    prompt: Prompt
    score: ScoreRule = "yes_logit"
    max_length: int = 512
    document_words: int | None = None
    calibration: Calibration | None = None


class _Family(NamedTuple):
    """Published models of one kind, all of them T5 with its language-model head.

    Args:
        ids: their hub ids, owner included.
        card: what only their cards say; so a copy in a folder is known, too.
        usage: how they are used.
    """

    ids: str
    card: str
    usage: Usage


_FAMILIES = (
    # the students of arXiv 2311.01555; 1,024 tokens as in their authors' example, 200 words as in their code
    _Family(
        r"fireballoon/rank-flan-t5-[\w.-]+",
        r"Predict whether the given passage answer the question",
        Usage(named_prompt("pointwise-released"), "yes_logit", 1024, 200),
    ),
    # arXiv 2003.06713; the log-probability of "true" against "false" is a monotone map of the difference
    _Family(
        r"castorini/monot5-[\w.-]+",
        r"T5-\w+ reranker fine-tuned on (the )?MS ?MARCO passage dataset",
        Usage(named_prompt("monot5"), "yes_minus_no", 512),
    ),
)


# what only the cards of sentence-transformers' cross-encoders say, of whatever owner
_CROSS_ENCODER_IDS = r"cross-encoder/[\w.-]+"
_CROSS_ENCODER_CARD = r"\bCrossEncoder\b|\bcross-encoder\b|pipeline_tag: text-ranking"


def known_usage(folder: str | os.PathLike[str], name: str) -> Usage | None:
    """Return how a published reranker is used, or None where it is not known.

    Its config must be that of a T5 with a language-model head, or of an encoder with a head for one label;
    then its card, or its hub id with the owner, tells the family.

    Args:
        folder: where its files are.
        name: as it was asked for.

    Raises:
        InputError: ``config.json`` is no JSON.
    """
    file = Path(folder) / "config.json"
    config = read_json(file) if file.exists() else None
    if not isinstance(config, dict):
        return None
    card = Path(folder) / CARD
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    text = " ".join(text.split())
    architectures = [str(architecture) for architecture in config.get("architectures") or []]
    if any("ForSequenceClassification" in architecture for architecture in architectures):
        return _cross_encoder(Path(folder), name, config, text)
    if config.get("model_type") not in ("t5", "mt5"):
        return None
    if architectures and not any("ConditionalGeneration" in architecture for architecture in architectures):
        return None
    for family in _FAMILIES:
        if re.fullmatch(family.ids, name) or re.search(family.card, text):
            return family.usage
    return None


def _cross_encoder(folder: Path, name: str, config: dict[str, Any], card: str) -> Usage | None:
    """Return the usage of a sentence-transformers cross-encoder; None for any other classifier of texts.

    Its texts are cut where ``CrossEncoder`` cuts them: to the tokenizer's own limit within the model's.
    """
    if len(config.get("id2label") or {"0": ""}) != 1 or config.get("num_labels", 1) != 1:
        return None
    marks = ("sentence_transformers", "sbert_ce_default_activation_function")
    if not (
        re.fullmatch(_CROSS_ENCODER_IDS, name)
        or any(mark in config for mark in marks)
        or re.search(_CROSS_ENCODER_CARD, card)
    ):
        return None
    file = folder / "tokenizer_config.json"
    tokenizer = read_json(file) if file.exists() else {}
    limits = [config.get("max_position_embeddings"), tokenizer.get("model_max_length")]
    # a tokenizer without a limit says 1e30, and the class of a model without positions nothing
    found = [int(limit) for limit in limits if isinstance(limit, int | float) and 0 < limit < 1_000_000]
    return Usage(named_prompt("pair"), "head", min(found, default=512))

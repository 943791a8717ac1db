"""Writing a model card again: what somebody wrote by hand stays."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from huggingface_hub import CardData, RepoCard
from yaml import YAMLError

from instruct_distill.errors import InputError
from instruct_distill.version import __version__

_YAML = re.compile(r"\A\s*---\r?\n.*?\r?\n---(\r?\n|\Z)", re.DOTALL)
_MARK = re.compile(r"<!-- instruct-distill [\w.+-]+, text (?P<digest>[0-9a-f]{16}): .*? -->\s*\Z")
_FACTS = ("model-index", "base_model")
"""What an older card of this library says of weights that are no more."""


def updated_card(existing: str | None, new: str) -> str:
    """Return the card to write where there may be one.

    A card that this library wrote and nobody changed gives way to the new one. Of any other the text stays
    byte for byte, and the metadata are merged: its own values stay, lists get what they lack, and results of
    the same task and data set are the new ones.

    Args:
        existing: the card that is there, or None.
        new: what `model_card` returned.

    Raises:
        InputError: the metadata of the card that is there are not YAML.
    """
    if existing is None:
        return new
    made = RepoCard(new)
    try:
        there = RepoCard(existing)
    except (YAMLError, ValueError) as error:
        raise InputError(
            "README.md: the metadata of the card that is there are not YAML; mend them first "
            f"({' '.join(str(error).split())[:200]})"
        ) from None
    old, own = _metadata(there), _metadata(made)
    if is_generated(existing):
        added = {key: old[key] for key in old if key not in own and key not in _FACTS}
        made.data = CardData(**{**own, **added})
        return str(made)
    merged = {**own, **old}
    for key in old.keys() & own.keys():
        if key == "model-index":
            merged[key] = _merged_results(old[key], own[key])
        elif isinstance(old[key], list) and isinstance(own[key], list):
            merged[key] = [*old[key], *(each for each in own[key] if each not in old[key])]
    if merged == old:
        return existing
    there.data = CardData(**merged)
    return str(there)


def is_generated(card: str) -> bool:
    """Whether a card's text is as this library wrote it, changed by nobody; its metadata may be."""
    text = _YAML.sub("", card)
    found = _MARK.search(text)
    return found is not None and found["digest"] == _digest(text[: found.start()])


def _merged_results(old: Any, new: Any) -> Any:
    """Results of the card that is there, those of the same task and data set replaced."""
    try:
        fresh = new[0]["results"]
        same = [(result["task"], result["dataset"]) for result in fresh]
        first = old[0]
        kept = [result for result in first["results"] if (result["task"], result["dataset"]) not in same]
    except (KeyError, IndexError, TypeError):
        return old
    return [{**first, "results": [*kept, *fresh]}, *old[1:]]


def _metadata(card: RepoCard) -> dict[str, Any]:
    return {key: value for key, value in card.data.__dict__.items() if value is not None}


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().replace("\r\n", "\n").encode("utf-8")).hexdigest()[:16]


def mark(text: str) -> str:
    """Return the last line of a card with this text: by it the card is known to be as it was written."""
    return (
        f"\n<!-- instruct-distill {__version__}, text {_digest(text)}: a text that is changed is kept "
        "when the card is written again -->\n"
    )

"""Models whose architecture is code in their own repository: that code is never run, whoever is asked."""

from __future__ import annotations

REFUSED = {"trust_remote_code": False}
"""For transformers' ``from_pretrained``, which otherwise asks at the terminal and runs it after a ``y``."""


def needs_foreign_code(error: Exception) -> bool:
    """Whether transformers stopped because a model is code in its own repository."""
    return "trust_remote_code" in str(error)


def reason(error: Exception) -> str:
    """Return why a model or tokenizer cannot be loaded, on one line."""
    if needs_foreign_code(error):
        return (
            "it needs code of its own repository, and code of others is never run here; choose a model of a "
            "type that transformers has"
        )
    return " ".join(str(error).split())[:400]

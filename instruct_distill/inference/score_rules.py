"""From the logits of a prompt's answers to one score a document."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from instruct_distill.inference.engine import FloatArray

ScoreRule = Literal["yes_logit", "yes_minus_no", "head"]


def student_score(logits: Any, rule: ScoreRule) -> Any:
    """Return the student's score from answer logits, as an array or tensor like the one given.

    Args:
        logits: [..., answers], the positive answer first.
        rule: ``yes_logit``: the logit of the positive answer (arXiv 2311.01555, section 3.3);
            ``yes_minus_no``: the difference to the second answer (monoT5's, up to a monotone map);
            ``head``: the output of an encoder's score head, which is all that it gives.
    """
    if rule == "yes_minus_no":
        return logits[..., 0] - logits[..., 1]
    return logits[..., 0]


def relevance_generation_score(logits: FloatArray) -> FloatArray:
    """Return equation (2) of arXiv 2311.01555: 1 + p(Yes) if the output is Yes, else 1 − p(No).

    The output is the likelier of the answers, and p is over the prompt's answers.

    Args:
        logits: [documents, answers], Yes first.
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    says_yes = logits.argmax(axis=1) == 0
    # 1 − p(No) as the sum of all others: near p(No) = 1 the difference would be the same for all
    not_no = np.delete(p, 1, axis=1).sum(axis=1)
    score: FloatArray = np.where(says_yes, 1 + p[:, 0], not_no).astype(np.float32)
    return score

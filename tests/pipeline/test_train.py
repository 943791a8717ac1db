from __future__ import annotations

import logging

import pytest

from instruct_distill.pipeline.train import warn_of_disagreement


@pytest.mark.parametrize(
    ("agreement", "said"),
    [(-1.0, True), (-0.01, True), (0.0, True), (0.01, False), (1.0, False), (None, False)],
)
def test_b23_a_student_that_learned_the_reverse_is_said(
    agreement: float | None, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_disagreement(agreement)
    assert ("learned the order backwards" in caplog.text) is said

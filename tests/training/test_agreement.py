from __future__ import annotations

import pytest

from instruct_distill.training.agreement import mean_kendall


def test_mean_over_lists_that_have_an_order() -> None:
    teacher = [[3.0, 1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 1.0], [5.0]]
    student = [[0.3, 0.1, 0.2], [0.3, 0.1, 0.2], [0.1, 0.2], [0.7]]
    # 1 and, with 1 pair of 3 in the teacher's order, -1/3
    assert mean_kendall(teacher, student) == (pytest.approx(1 / 3), 2)


def test_no_list_has_an_order() -> None:
    assert mean_kendall([[1.0, 1.0], []], [[0.1, 0.2], []]) == (0.0, 0)
    assert mean_kendall([], []) == (0.0, 0)

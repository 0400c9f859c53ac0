"""The measure of the tests that say how work grows."""

from __future__ import annotations

import pytest

from effort import assert_linear, steps
from unspool import list_dialects, render
from unspool._core.values.message import Message


def work(times: int) -> None:
    for _ in range(times):
        render("hermes", Message(content="Hi"))


def test_it_is_the_same_whatever_else_the_machine_does() -> None:
    list_dialects()  # what is loaded once does not count
    work(1)
    assert steps(lambda: work(1)) * 7 == steps(lambda: work(7)) > 0


def test_quadratic_work_is_noticed() -> None:
    assert_linear(work, 10)
    with pytest.raises(AssertionError, match="steps for 10"):
        assert_linear(lambda size: work(size * size), 10)

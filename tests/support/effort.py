"""Work, counted instead of timed: a busy machine executes as many lines as an idle one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import unspool
from unspool._core.search.scan import COMPILED

_HERE = str(Path(unspool.__file__).parent)


def steps(work: Callable[[], object]) -> int:
    """How many lines of the package run.  Compiled ones are not seen."""
    count = 0

    def line(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def called(frame: FrameType, _: str, __: object) -> Any:
        return line if frame.f_code.co_filename.startswith(_HERE) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Four times the input takes four times the work; quadratic work would be sixteen times as much."""
    few, many = (steps(lambda size=size: work(size)) for size in (size, 4 * size))  # type: ignore[misc]
    assert few or COMPILED
    assert many <= 6 * few, f"{few} steps for {size}, {many} for {4 * size}"

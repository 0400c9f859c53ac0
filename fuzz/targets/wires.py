"""Target: the four APIs. A streaming client assembles the complete response, and can run only that."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.choices import Choices, read_case, written_case
from fuzz.outputs import outputs
from unspool.testing import assert_wires


def run(data: bytes) -> None:
    dialect, case, chunks = read_case(Choices(data))
    assert_wires(dialect, case, [chunks])


def seeds() -> Iterator[bytes]:
    for dialect, text in outputs():
        yield written_case(dialect, text, number=1)

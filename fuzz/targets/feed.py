"""Outputs as text, under any policies: every law that holds for a single reading, in pieces and at once."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.choices import Choices, read_case, written_case
from fuzz.outputs import outputs
from unspool.testing import assert_laws


def run(data: bytes) -> None:
    dialect, case, chunks = read_case(Choices(data))
    assert_laws(dialect, case, [chunks])


def seeds() -> Iterator[bytes]:
    for dialect, text in outputs():
        yield written_case(dialect, text)

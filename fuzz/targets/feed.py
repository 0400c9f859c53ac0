"""Outputs as text, under any policies: every law that holds for a single reading, in pieces and at once.

The same text, quoted in a prompt, says nothing about the output that follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.choices import Choices, read_case, written_case
from fuzz.outputs import outputs
from fuzz.targets.prompts import assert_said_nothing
from unspool.testing import assert_laws


def run(data: bytes) -> None:
    dialect, case, chunks = read_case(Choices(data))
    assert_laws(dialect, case, [chunks])
    assert_said_nothing(dialect, case, case.text)


def seeds() -> Iterator[bytes]:
    for dialect, text in outputs():
        yield written_case(dialect, text)

"""The four APIs: a client puts together of a stream what the whole response has, and runs only that."""

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

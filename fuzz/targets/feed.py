"""Target: outputs as text under any policies, which obey every law of a single parser run.

The same text, quoted in a prompt, does not change how the output after it is parsed.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.choices import Choices, read_case, written_case
from fuzz.outputs import outputs
from fuzz.targets.prompts import assert_no_effect
from unspool.testing import assert_laws


def run(data: bytes) -> None:
    dialect, case, chunks = read_case(Choices(data))
    assert_laws(dialect, case, [chunks])
    assert_no_effect(dialect, case, case.text)


def seeds() -> Iterator[bytes]:
    for dialect, text in outputs():
        yield written_case(dialect, text)

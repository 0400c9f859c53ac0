"""Random mutations of known inputs, without coverage feedback.

The compiled build provides no coverage, and this loop runs several times as many inputs.
``python -m fuzz.chance TARGET FOLDER SECONDS [corpora]`` prints the number of inputs.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from fuzz.findings import Findings
from fuzz.targets import head, target
from fuzz.trees import mutated

_LONGEST: Final = 2048
_ROUND: Final = 64
"""Number of inputs between two looks at the clock."""
_WORDS: Final = re.compile(rb'"\w+":?|<[^<>\s]{1,30}>|\[/?[A-Z_]{3,}\]|[{}\[\]",:\\\n]')


def changed(data: bytes, pool: Sequence[bytes], rng: Random) -> bytes:
    """Return an input with one to four random changes to its bytes."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, kind, other = rng.randint(0, len(out)), rng.randrange(6), rng.choice(pool)
        start = rng.randint(0, len(other))
        if kind == 0:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del out[at : at + rng.randint(1, 30)]
        elif kind == 2:
            out[at:at] = other[start : start + rng.randint(1, 60)]
        elif kind == 3:
            out[at:] = other[start:]
        elif kind == 4:
            out[at:at] = bytes(out[start : start + rng.randint(1, 60)]) * rng.choice((1, 1, 5))
        else:
            out[at:at] = rng.choice(_WORDS.findall(other) or [b"\n"])
    return bytes(out[:_LONGEST])


def fuzz(name: str, run: Callable[[bytes], None], pool: Sequence[bytes], seconds: float) -> int:
    """Run mutations for ``seconds`` and return their number."""
    rng = Random()  # noqa: S311 - not used for secrets
    behind = head(name)
    count = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(_ROUND):
            data = rng.choice(pool)
            by_value = behind is not None and rng.random() < 0.7
            run(mutated(data, behind or 0, rng)[:_LONGEST] if by_value else changed(data, pool, rng))
        count += _ROUND
    return count


if __name__ == "__main__":
    name, folder, limit, *corpora = sys.argv[1:]
    inputs = [path.read_bytes() for corpus in corpora for path in Path(corpus).iterdir()]
    print(fuzz(name, Findings(target(name), Path(folder)), inputs or [b""], float(limit)))

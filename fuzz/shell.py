"""The shell around a target: atheris chooses the inputs, guided by what they reach in the pure build.

``python -m fuzz.shell TARGET FOLDER [options of libFuzzer] [corpora]``: findings go to the folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import atheris


def _target() -> Callable[[bytes], None]:
    # The laws are not what is tested, and take most of the time if they are watched.
    watched = {"include": ["unspool", "fuzz.targets"], "exclude": ["unspool.testing", "unspool.dialects"]}
    with atheris.instrument_imports(**watched, enable_loader_override=False):
        from fuzz.findings import Findings
        from fuzz.targets import target

        run = target(sys.argv[1])
        run(b"")  # what is imported late is watched, too
    return Findings(run, Path(sys.argv[2]))


def _mutator() -> Callable[[bytes, int, int], bytes] | None:
    """Where inputs are JSON: changes of values as often as of bytes."""
    from fuzz.targets import head
    from fuzz.trees import mutated

    behind = head(sys.argv[1])
    if behind is None:
        return None

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = Random(seed)  # noqa: S311 - reproducible, not secret
        if rng.random() < 0.5:
            found = mutated(data, behind, rng)
            if len(found) <= most:
                return found
        return bytes(atheris.Mutate(data, most))

    return mutate


if __name__ == "__main__":
    run = _target()
    mutator = _mutator()
    more = {} if mutator is None else {"custom_mutator": mutator}
    atheris.Setup([sys.argv[0], *sys.argv[3:]], run, **more)
    atheris.Fuzz()

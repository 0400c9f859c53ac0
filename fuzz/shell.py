"""Coverage-guided fuzzing of one target in the pure build, with atheris.

``python -m fuzz.shell TARGET FOLDER [libFuzzer options] [corpora]`` writes findings to the folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import atheris


def _target() -> Callable[[bytes], None]:
    # The laws are not under test, and instrumenting them would take most of the time.
    watched = {"include": ["unspool", "fuzz.targets"], "exclude": ["unspool.testing", "unspool.dialects"]}
    with atheris.instrument_imports(**watched, enable_loader_override=False):
        from fuzz.findings import Findings
        from fuzz.targets import target

        run = target(sys.argv[1])
        run(b"")  # so that lazily imported modules are instrumented
    return Findings(run, Path(sys.argv[2]))


def _mutator() -> Callable[[bytes, int, int], bytes] | None:
    """Return a mutator for JSON inputs that changes values as often as bytes; None for other inputs."""
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

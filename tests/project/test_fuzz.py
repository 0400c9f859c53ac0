"""Stored fuzzing inputs pass: every target, over its corpus and its first seeds."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from fuzz.targets import NAMES, seeds, target
from paths import ROOT

for needed in ("starlette", "aiohttp", "msgspec", "jinja2"):
    pytest.importorskip(needed)

BESIDE = {"builds", "tokenizers"}
"""Targets that need a second build or real vocabularies."""
REPLAYED = [name for name in NAMES if name not in BESIDE]
FOLDER = ROOT / "fuzz" / "corpus"


def corpus(name: str) -> list[Path]:
    return sorted((FOLDER / name).glob("*"))


@pytest.mark.parametrize("name", REPLAYED)
def test_stored_inputs_pass(name: str) -> None:
    run = target(name)
    for path in corpus(name):
        try:
            run(path.read_bytes())
        except Exception as error:
            error.add_note(f"python -m fuzz.replay {name} {path.relative_to(ROOT)}")
            raise


@pytest.mark.parametrize("name", REPLAYED)
def test_seeds_pass(name: str) -> None:
    run = target(name)
    for data in islice(seeds(name), 0, 200, 25):
        run(data)

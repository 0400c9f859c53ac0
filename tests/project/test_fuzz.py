"""Stored fuzzing inputs pass: every target, over its corpus and its first seeds."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from fuzz.choices import Choices, choosing, read_case, written_case
from fuzz.forgiving import value_of
from fuzz.targets import NAMES, seeds, target
from paths import ROOT
from unspool import get_dialect, list_dialects

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


def test_every_dialect_can_be_chosen() -> None:
    for dialect in list_dialects():
        assert Choices(choosing(dialect)).dialect() is dialect


def test_case_round_trips() -> None:
    dialect, case, chunks = read_case(Choices(written_case(get_dialect("hermes"), "So. é")))
    assert (dialect.name, case.text, "".join(chunks)) == ("hermes", "So. é", "So. é")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, true, "b\\n"]}', {"a": [1, True, "b\n"]}),
        ('{"a": [1, tru "b', {"a": [1, True, "b"]}),
        ('{"a" 1 "b": }', {"a": 1, "b": None}),
        ("[[[", [[[]]]),
        ("x", None),
        ("", None),
    ],
)
def test_near_json_is_read_as_intended(text: str, value: object) -> None:
    assert value_of(text) == value

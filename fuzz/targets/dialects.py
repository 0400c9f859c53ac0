"""Target: dialect declarations as JSON. They are refused with an error, or work everywhere.

An accepted dialect can be exported as JSON, explained and parsed with. It comes from
outside, so it must obey all laws.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from fuzz.choices import Choices
from fuzz.forgiving import object_of
from fuzz.outputs import outputs
from unspool import UnspoolError
from unspool.dialects import dialect_from_json, dialect_to_json, explain
from unspool.testing import ModelOutput, assert_laws

HEAD: Final = 1
"""Number of bytes for choices in front of the JSON."""


def run(data: bytes) -> None:
    choices = Choices(data)
    number = Choices(bytes([choices.byte()]))
    declaration = object_of(choices.utf8_text())
    declared, text = declaration.get("dialect"), declaration.get("text")
    if not isinstance(declared, dict):
        return
    try:
        dialect = dialect_from_json(declared)
    except UnspoolError:
        return
    assert dialect_from_json(dialect_to_json(dialect)) == dialect
    with suppress(UnspoolError):
        explain(dialect)
    output = text if isinstance(text, str) else ""
    assert_laws(dialect, ModelOutput(output), [number.chunks(output)])


def seeds() -> Iterator[bytes]:
    for number, (dialect, text) in enumerate(outputs()):
        if number % 4 == 0:
            exported = dialect_to_json(dialect)
            empty = dialect_to_json(type(dialect)("x"))
            own = {key: value for key, value in exported.items() if value != empty[key]}
            own = {
                key: value for key, value in own.items() if key not in ("family", "request", "also_accepts")
            }
            yield bytes([number % 256]) + json.dumps({"dialect": own, "text": text}).encode()

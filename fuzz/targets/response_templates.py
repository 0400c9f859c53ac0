"""Target: response templates of tokenizers.

They are refused with an error, or give a dialect that obeys the laws.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from fuzz.choices import Choices
from fuzz.forgiving import object_of
from fuzz.outputs import outputs
from unspool import UnspoolError
from unspool.models import from_response_template, to_response_template
from unspool.testing import ModelOutput, assert_laws

HEAD: Final = 1
"""Number of bytes for choices in front of the JSON."""


def run(data: bytes) -> None:
    choices = Choices(data)
    number = Choices(bytes([choices.byte()]))
    fields = object_of(choices.utf8_text())
    template, text = fields.get("template"), fields.get("text")
    if not isinstance(template, dict):
        return
    try:
        dialect = from_response_template(template)
    except UnspoolError:
        return
    output = text if isinstance(text, str) else ""
    assert_laws(dialect, ModelOutput(output), [number.chunks(output)])
    try:
        to_response_template(dialect)
    except UnspoolError:
        return


def seeds() -> Iterator[bytes]:
    seen: set[str] = set()
    for number, (dialect, text) in enumerate(outputs()):
        if dialect.name in seen and number % 7:
            continue
        seen.add(dialect.name)
        try:
            template = to_response_template(dialect)
        except UnspoolError:
            continue
        yield bytes([number % 256]) + json.dumps({"template": template, "text": text}).encode()

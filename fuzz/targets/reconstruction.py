"""Target: decoding of any server's stream.

It gives a message or names the broken rule, and never raises another error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from fuzz.choices import Choices
from fuzz.forgiving import value_of
from fuzz.outputs import outputs
from unspool import Parser
from unspool.errors import ProtocolError
from unspool.wire import ChatStream, ChatStreamDecoder

HEAD: Final = 1
"""Number of bytes for choices in front of the JSON."""


def run(data: bytes) -> None:
    choices = Choices(data)
    flags = choices.byte()
    value = value_of(choices.utf8_text())
    reader = ChatStreamDecoder(lenient=bool(flags & 1), check_json=not flags & 2)
    try:
        for chunk in value if isinstance(value, list) else [value]:
            if isinstance(chunk, dict):
                reader.feed(chunk)
        reader.finish()
    except ProtocolError:
        return
    assert reader.finished


def seeds() -> Iterator[bytes]:
    for number, (dialect, text) in enumerate(outputs()):
        if number % 20 == 0:
            parser = Parser(dialect)
            chat = ChatStream(parser, include_usage=bool(number % 40))
            chunks = [*chat.feed(parser.feed(text)), *chat.feed(parser.finish("stop"))]
            small = [{"choices": chunk["choices"]} for chunk in chunks]
            yield bytes([number % 4]) + json.dumps(small).encode()

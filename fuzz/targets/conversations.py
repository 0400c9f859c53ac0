"""Target: conversations of several turns.

The turns are contiguous and every id has a label, or the input is a usage error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fuzz.choices import LONGEST, OFFERED, Choices, choosing
from fuzz.outputs import outputs
from fuzz.vocabulary import vocabulary
from unspool import UnspoolError
from unspool.tokens import conversation

_ROLES: Final = ("system", "user", "assistant", "tool")
_OPENERS: Final = {f"<|im_start|>{role}\n": role for role in _ROLES}
_TOKENS: Final = ("<|im_start|>", "<|im_end|>")


def run(data: bytes) -> None:
    choices = Choices(data)
    dialect, tools = choices.dialect(), choices.choose(OFFERED)
    pad = choices.choose((None, None, 0, -1))
    words = vocabulary(dialect.name, *_TOKENS)
    ids = words.ids(choices.rest()[:LONGEST])
    try:
        found = conversation(ids, dialect, tokenizer=words, openers=_OPENERS, tools=tools, pad=pad)
    except UnspoolError:
        return
    assert len(found.labels) == len(ids), (found.labels, ids)
    at = None
    for turn in found.turns:
        assert turn.role in _ROLES, turn
        assert at in (None, turn.start), (at, turn)
        assert 0 <= turn.start <= turn.end <= len(ids), turn
        assert turn.reading is None or turn.start <= turn.written <= turn.end, turn
        at = turn.end


def seeds() -> Iterator[bytes]:
    for number, (dialect, text) in enumerate(outputs()):
        if number % 3 == 0:
            conversation_text = f"<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n{text}<|im_end|>\n"
            data = vocabulary(dialect.name, *_TOKENS).data(conversation_text * (1 + number % 2))
            yield choosing(dialect) + bytes([number % 3, 0]) + data

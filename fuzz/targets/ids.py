"""Target: outputs as token ids. All chunkings agree, the events tile the text, and every id has a label.

If no marker is a token, ids give the events of their text. An engine that has decoded them
gets the same events through ``feed_decoded``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuzz.choices import LONGEST, OFFERED, REASONS, Choices, choosing
from fuzz.outputs import outputs
from fuzz.vocabulary import PLAIN, Vocabulary, vocabulary
from unspool import Dialect, Event, MalformedOutput, Parser
from unspool.testing import ModelOutput, ParseRun, assert_order, assert_tiles, comparable, run_parser
from unspool.tokens import label_tokens


def run(data: bytes) -> None:
    choices = Choices(data)
    dialect = choices.dialect()
    policies, tools, reason = choices.policies(), choices.choose(OFFERED), choices.choose(REASONS)
    words = choices.choose((vocabulary(dialect.name), vocabulary(dialect.name), PLAIN))
    number = Choices(bytes([choices.byte()]))
    ids = words.ids(choices.rest()[:LONGEST])
    case = ModelOutput(words.text(ids), tools, None, policies, reason)
    pieces = [ids[start:end] for start, end in number.spans(len(ids))]

    whole = ParseRun(dialect, case, [case.text], _events(dialect, words, case, [ids]), None, [])
    assert_tiles(whole)
    assert_order(whole)
    _assert_same(whole, "in pieces", _events(dialect, words, case, pieces))
    _assert_same(whole, "decoded", _decoded(dialect, words, case, ids))
    if words is PLAIN:
        _assert_same(whole, "as text", run_parser(dialect, case).events)
    try:
        found = label_tokens(
            ids, dialect, tokenizer=words, tools=tools, finish_reason=reason, policies=policies
        )
    except MalformedOutput:
        return
    if len(found.labels) != len(ids):
        whole.fail("labels", f"{len(found.labels)} labels for {len(ids)} ids")


def _assert_same(whole: ParseRun, way: str, events: Sequence[Event]) -> None:
    text = whole.case.text
    expected, got = comparable(whole.events, text), comparable(events, text)
    if expected != got:
        whole.fail("ids", f"\n    at once: {expected}\n    {way}: {got}")


def _events(
    dialect: Dialect, words: Vocabulary, case: ModelOutput, pieces: Sequence[Sequence[int]]
) -> list[Event]:
    parser = Parser(dialect, tools=case.tools, tokenizer=words, policies=case.policies)
    fed = [event for piece in pieces for event in parser.feed_tokens(piece)]
    return fed + parser.finish(case.finish_reason)


def _decoded(dialect: Dialect, words: Vocabulary, case: ModelOutput, ids: Sequence[int]) -> list[Event]:
    parser = Parser(dialect, tools=case.tools, tokenizer=words, policies=case.policies)
    return parser.feed_decoded(case.text, ids) + parser.finish(case.finish_reason)


def seeds() -> Iterator[bytes]:
    for number, (dialect, text) in enumerate(outputs()):
        data = vocabulary(dialect.name).data(text)
        yield choosing(dialect) + bytes([0, number % 3, number % 4, 0, number % 256]) + data
        if number % 4 == 0:
            yield choosing(dialect) + bytes([0, number % 3, number % 4, 2, number % 256]) + text.encode()

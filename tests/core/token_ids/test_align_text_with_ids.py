"""Text and ids together: the text is shown, and the ids distinguish markers from spelled text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool import CallEnd, Diagnostic, Event, Message, Parser, UsageError, get_dialect, list_dialects
from unspool._core.render.example_output import EXAMPLE_TOOLS, example
from unspool._core.token_ids.align_text_with_ids import Alignment
from unspool.events import normalise
from unspool.tokens import ReasoningIds
from vocabularies import Bytes, bytes_for

NAMES = [dialect.name for dialect in list_dialects()]
SPELLED_TEXT = "It is spelt <tool_call>, é."
LAGS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40)


def text_of(ids: list[int], tokenizer: Bytes, *, special: bool = True) -> list[str]:
    """Return the text that an engine's decoder adds for each id, with or without special tokens."""
    pieces: list[str] = []
    partial = b""
    for id in ids:
        if id >= 256:
            pieces.append(tokenizer.special_tokens()[id] if special else "")
            continue
        partial += bytes([id])
        try:
            pieces.append(partial.decode())
            partial = b""
        except UnicodeDecodeError:
            pieces.append("")
    return pieces


def deltas(ids: list[int], pieces: list[str], lags: list[tuple[int, int]]) -> Iterator[tuple[str, list[int]]]:
    """Yield steps with a fixed number of ids, whose text lags behind."""
    text, shown, start = "".join(pieces), 0, 0
    ends = [0, *accumulate(map(len, pieces))]
    for step, lag in lags:
        end = min(start + step, len(ids))
        reach = max(ends[end] - lag, shown)
        yield text[shown:reach], ids[start:end]
        shown, start = reach, end
    yield text[shown:], ids[start:]


def read(
    dialect: str, steps: Iterator[tuple[str, list[int]]], tokenizer: Bytes
) -> tuple[list[Event], Message]:
    parser = Parser(dialect, tokenizer=tokenizer, tools=EXAMPLE_TOOLS, new_id=lambda _, index: f"{index}")
    events = [event for text, ids in steps for event in parser.feed_decoded(text, ids)]
    events += parser.finish("stop")
    return normalise(events), parser.message(events)


def parse_ids(dialect: str, ids: list[int], tokenizer: Bytes) -> tuple[list[Event], Message]:
    parser = Parser(dialect, tokenizer=tokenizer, tools=EXAMPLE_TOOLS, new_id=lambda _, index: f"{index}")
    events = parser.feed_tokens(ids) + parser.finish("stop")
    return normalise(events), parser.message(events)


@pytest.mark.parametrize("special", [True, False], ids=["decoded", "omitted"])
@pytest.mark.parametrize("dialect", NAMES)
def test_decoded_text_that_lags_is_read_like_ids(dialect: str, special: bool) -> None:
    tokenizer = bytes_for(dialect)
    ids = tokenizer.encode(example(get_dialect(dialect, tokenizer=tokenizer))[0])
    pieces = text_of(ids, tokenizer, special=special)
    expected = parse_ids(dialect, ids, tokenizer)
    random = Random(dialect)  # noqa: S311 - the same each time
    for most in (0, 1, 9, 40):
        lags = [(random.randint(1, 5), random.randint(0, most)) for _ in ids]
        assert read(dialect, deltas(ids, pieces, lags), tokenizer) == expected


HERMES = bytes_for("hermes")
CALL = [HERMES.markers["<tool_call>"], *b'{"name": "now", "arguments": {}}', HERMES.markers["</tool_call>"]]


@given(lags=LAGS)
def test_spelled_marker_next_to_a_real_one_is_text(lags: list[tuple[int, int]]) -> None:
    ids = [*SPELLED_TEXT.encode(), *CALL]
    _, message = read("hermes", deltas(ids, text_of(ids, HERMES), lags), HERMES)
    assert message.content == SPELLED_TEXT
    assert [call.name for call in message.tool_calls] == ["now"]


def test_text_cut_by_a_stop_string_is_all_that_is_shown() -> None:
    steps = [("Hello", [*b"Hello END and more"]), ("", CALL)]
    _, message = read("hermes", iter(steps), HERMES)
    assert (message.content, message.tool_calls) == ("Hello", ())


def test_stop_token_closes_the_call() -> None:
    steps = [("".join(text_of(CALL[:-1], HERMES)), CALL)]
    events, message = read("hermes", iter(steps), HERMES)
    assert [call.name for call in message.tool_calls] == ["now"]
    assert not [event for event in events if isinstance(event, Diagnostic)]


@pytest.mark.parametrize("gap", ["", " ", "\n"])
def test_spaces_around_decoded_markers_do_not_hide_them(gap: str) -> None:
    pieces = text_of(CALL, HERMES)
    pieces[0] = gap + pieces[0] + gap
    pieces[-1] = gap + pieces[-1]
    _, message = read("hermes", ((piece, [id]) for piece, id in zip(pieces, CALL, strict=True)), HERMES)
    assert [call.name for call in message.tool_calls] == ["now"]


def test_mismatching_text_is_shown() -> None:
    steps = [
        ("don't ", [*b"do n't "]),
        ("<tool_call>", CALL[:1]),
        ("".join(text_of(CALL[1:], HERMES)), CALL[1:]),
    ]
    _, message = read("hermes", iter(steps), HERMES)
    assert message.content == "don't"
    assert [call.name for call in message.tool_calls] == ["now"]


def test_invalid_bytes_do_not_hide_the_next_marker() -> None:
    steps = [("\ufffd", [0xFF]), ("\ufffd\ufffd", [0xF0, 0x9F]), ("".join(text_of(CALL, HERMES)), CALL)]
    _, message = read("hermes", iter(steps), HERMES)
    assert message.content == "\ufffd" * 3
    assert [call.name for call in message.tool_calls] == ["now"]


def test_text_cannot_fake_a_special_token() -> None:
    parser = Parser("hermes", tokenizer=HERMES)
    (event,) = parser.feed_decoded("\ud800", [])
    assert parser.reasoning_ended
    assert "\ufffd" in repr(event)


def test_waiting_text_is_not_copied_repeatedly() -> None:
    alignment = Alignment({})
    for _ in range(1000):
        assert alignment.feed("", "x" * 1000) == ""
    assert sum(len(alignment.feed("x", "")) for _ in range(1000)) == 1000


def test_feed_methods_cannot_be_mixed() -> None:
    parser = Parser("hermes", tokenizer=HERMES)
    parser.feed_decoded("a", [97])
    with pytest.raises(UsageError, match="feed_decoded"):
        parser.feed_tokens([97])
    parser = Parser("hermes", tokenizer=HERMES)
    parser.feed_tokens([97])
    with pytest.raises(UsageError, match="feed_tokens"):
        parser.feed_decoded("a", [97])
    with pytest.raises(UsageError, match="tokenizer"):
        Parser("hermes").feed_decoded("a", [97])


# -- end of reasoning


@cache
def thoughtful() -> list[str]:
    return [name for name in NAMES if example(get_dialect(name))[1].reasoning]


@pytest.mark.parametrize("dialect", thoughtful())
def test_reasoning_ends_where_ids_say(dialect: str) -> None:
    tokenizer = bytes_for(dialect)
    reasoning = ReasoningIds(dialect, tokenizer)
    text, message = example(reasoning.dialect)
    ids = tokenizer.encode(text)
    end = reasoning.end(ids)
    assert end is not None
    before = "".join(text_of(ids[:end], tokenizer))
    assert (message.reasoning or "") in before
    assert (message.content or "")[1:] not in before or not message.content
    assert reasoning.count(ids) >= len((message.reasoning or "").encode())
    prompt = [*get_dialect(dialect).prompt.start.encode()]
    steps = [
        reasoning.ended_by([*prompt, *ids[:place]], ids[place - 1 : place]) for place in range(1, end + 1)
    ]
    assert steps == [False] * (end - 1) + [True]
    assert reasoning.ended([*tokenizer.encode(get_dialect(dialect).prompt.start), *ids[:end]])


@pytest.mark.parametrize("dialect", thoughtful())
def test_reasoning_token_count_matches_while_streaming(dialect: str) -> None:
    tokenizer = bytes_for(dialect)
    reasoning = ReasoningIds(dialect, tokenizer)
    ids = tokenizer.encode(example(reasoning.dialect)[0].replace("a", "å"))
    for end in (len(ids), len(ids) // 3, len(ids) // 2):
        counter = reasoning.counter()
        totals = [0]
        for place, id in enumerate(ids[:end], 1):
            counter.feed([id])
            totals.append(counter.total)
            assert totals[-2] <= totals[-1] <= counter.fed == place
        assert totals[-1] <= counter.finish() == reasoning.count(ids[:end])


def test_spelled_closing_marker_does_not_end_reasoning() -> None:
    reasoning = ReasoningIds("hermes", HERMES)
    ids = [*b"I close with </think>."]
    assert reasoning.end(ids, start_channel="reasoning") is None
    assert not reasoning.ended_by(ids, ids[-2:])
    assert reasoning.count(ids, start_channel="reasoning") == len(ids)


def test_call_ends_unclosed_reasoning() -> None:
    reasoning = ReasoningIds("hermes", HERMES)
    ids = [*b"Hm. ", *CALL]
    end = reasoning.end(ids, start_channel="reasoning")
    assert end is not None
    assert 4 < end < len(ids)
    assert reasoning.ended_by(ids[:end], ids[end - 1 : end])


def test_dialect_without_reasoning_has_always_ended_it() -> None:
    dialect = next(name for name in NAMES if not get_dialect(name).reasoning and not get_dialect(name).frame)
    reasoning = ReasoningIds(dialect, bytes_for(dialect))
    assert reasoning.ended([])
    assert reasoning.ended_by([97], [97])
    assert reasoning.end([97]) == 0
    assert reasoning.count([97]) == 0


def test_prompt_may_be_given_as_ids() -> None:
    opened = [*b"<|im_start|>assistant\n", HERMES.markers["<think>"]]
    assert Parser("hermes", tokenizer=HERMES, prompt=opened).start_channel == "reasoning"
    closed = [*opened, *b"\n\n", HERMES.markers["</think>"]]
    parser = Parser("hermes", tokenizer=HERMES, prompt=closed)
    assert (parser.start_channel, parser.reasoning_ended) == ("content", True)
    with pytest.raises(UsageError, match="tokenizer"):
        Parser("hermes", prompt=opened)


def test_tag_with_a_special_token_closes_a_malformed_call() -> None:
    tokenizer = Bytes("deepseek_v3_2")
    tokenizer.markers = {"｜DSML｜": 256}
    text = (
        "<｜DSML｜function_calls>\n"
        '<｜DSML｜invoke name="f">\n'
        '<｜DSML｜parameter name="a" string="false"3</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n"
        '<｜DSML｜invoke name="g">\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>"
    )
    parser = Parser("deepseek_v3_2", tokenizer=tokenizer)
    by_ids = normalise(parser.feed_tokens(tokenizer.encode(text)) + parser.finish("stop"))
    ends = [event.end for event in by_ids if isinstance(event, CallEnd)]
    assert ends == [text.index('\n<｜DSML｜invoke name="g"'), text.index("\n</｜DSML｜function_calls>")]

"""Arguments of calls that are still incomplete; ``tests/laws`` checks them in every dialect and chunking."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from unspool import CallArgs, CallEnd, CallStart, Event, Parser, PartialArguments, UsageError
from unspool.events import Status
from unspool.testing._linear_time_law import assert_linear


def call(*pieces: str, index: int = 0, status: Status | None = None) -> Iterator[Event]:
    """Yield the events of a call with these pieces of arguments."""
    yield CallStart(index, "f", f"call_{index}", 0, 0)
    for piece in pieces:
        yield CallArgs(index, piece, 0, 0)
    if status is not None:
        yield CallEnd(index, status, "", 0, 0)


def test_one_event_may_be_fed() -> None:
    partial = PartialArguments()
    for event in call('{"a": ', "1}", status="complete"):
        assert partial.feed(event) == [event]
    assert (partial.value(0), partial.status(0)) == ({"a": 1}, "complete")


def shown(*pieces: str) -> dict[str, Any]:
    partial = PartialArguments()
    partial.feed(call(*pieces))
    return partial.value(0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("{", {}),
        ('{"city', {}),
        ('{"city"', {}),
        ('{"city": ', {}),
        ('{"city": "', {"city": ""}),
        ('{"city": "Os', {"city": "Os"}),
        ('{"city": "Oslo"', {"city": "Oslo"}),
        ('{"n": 1', {}),
        ('{"n": 12 ', {"n": 12}),
        ('{"n": tru', {}),
        ('{"n": true', {}),
        ('{"n": true}', {"n": True}),
        ('{"n": null,', {"n": None}),
        ('{"n": -1.5e3,', {"n": -1500.0}),
        ('{"rows": [', {"rows": []}),
        ('{"rows": [[], {}, "a", 1', {"rows": [[], {}, "a"]}),
        ('{"rows": [1, {"a": "b', {"rows": [1, {"a": "b"}]}),
        ('{"a": "x", "a": ', {"a": "x"}),
        ('{"a": "x", "a": [', {"a": []}),
    ],
)
def test_partial_arguments_show_what_is_certain(text: str, value: object) -> None:
    assert shown(text) == value
    assert shown(*text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a\\', "a"),
        ('"a\\n', "a\n"),
        ('"a\\u00', "a"),
        ('"a\\u00e9', "aé"),
        ('"\\ud83d', ""),
        ('"\\ud83d\\', ""),
        ('"\\ud83d\\ude0', ""),
        ('"\\ud83d\\ude00', "😀"),
        ('"\\ud83d\\n', "\ud83d\n"),
        ('"\\ud83dx', "\ud83dx"),
        ('"\\ud83d"', "\ud83d"),
        ('"\\ud83d\\ud83d', "\ud83d"),
        ('"\\ud83d\\ud83d\\ude00', "\ud83d😀"),
        ('"\\ude00', "\ude00"),
    ],
)
def test_partial_arguments_show_complete_escapes(text: str, value: str) -> None:
    text = '{"a": ' + text
    assert shown(text) == shown(*text) == {"a": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2]", {}),
        ('{"a": "x" "b": 1}', {"a": "x"}),
        ('{"a": "x",, "b": 1}', {"a": "x"}),
        ('{"a": "x", }, "b": 1}', {"a": "x"}),
        ('{"a": "x\ny"}', {"a": "x"}),
        ('{"a": "x\\zy"}', {"a": "x"}),
        ('{"a": "x\\u00zz"}', {"a": "x"}),
        ('{"a": NaN, "b": 1}', {}),
        ('{"a": 01, "b": 1}', {}),
        ('{"a": [1}, "b": 1}', {"a": [1]}),
        ('{"a": 1] "b": 1}', {"a": 1}),
        ("{'a': 1}", {}),
        ('{"a": 1}{"b": 1}', {"a": 1}),
        (f'{{"a": 1, "n": {"9" * 5000}, "b": 1}}', {"a": 1}),  # json.loads refuses it, too
    ],
)
def test_partial_arguments_end_at_the_first_error(text: str, value: object) -> None:
    assert shown(text) == shown(*text) == value


def random_value(rng: Random, depth: int = 0) -> Any:
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind == 0:
        return rng.choice([1, -2.5, 10**400, 0, 1e300, True, False, None])
    if kind < 5:
        return "".join(rng.choice('a"\\\n\x01/é😀{}[]:, ') for _ in range(rng.randrange(6)))
    if kind == 5:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {f"{rng.randrange(9)}é": random_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def test_partial_arguments_equal_json_loads_at_the_end() -> None:
    rng = Random(0)  # noqa: S311 - reproducible, not secret
    for number in range(300):
        value = {"a": random_value(rng), "b": random_value(rng)}
        text = json.dumps(value, ensure_ascii=number % 2 == 0)
        for size in (1, 2, 5, len(text)):
            assert shown(*re.findall(f"(?s).{{1,{size}}}", text)) == value


def test_partial_arguments_show_as_much_as_jiter() -> None:
    """jiter shows incomplete numbers and literals; otherwise both show equal values."""
    jiter = pytest.importorskip("jiter")
    rng = Random(1)  # noqa: S311 - reproducible, not secret
    inside = re.compile(r'(?:[^"]|"(?:[^"\\]|\\.)*")*"(?:[^"\\]|\\.)*\\?', re.DOTALL)
    for _ in range(40):
        text = json.dumps({"a": random_value(rng), "b": random_value(rng)}, ensure_ascii=False)
        partial = PartialArguments()
        partial.feed(call())
        for at, char in enumerate(text):
            partial.feed([CallArgs(0, char, 0, 0)])
            prefix = text[: at + 1]
            if inside.fullmatch(prefix) is None:
                prefix = re.sub(r"[-+.\w]+\Z", "", prefix)
            expected = jiter.from_json(prefix.encode(), partial_mode="trailing-strings")
            assert partial.value(0) == expected, prefix


def test_partial_arguments_of_each_call_are_apart() -> None:
    partial = PartialArguments()
    events = [*call('{"a": "x', index=0), *call('{"b": 1}', index=1, status="complete")]
    assert partial.feed(events) == events
    assert partial.value(0) == {"a": "x"}
    assert partial.value(1) == {"b": 1}
    assert (partial.status(0), partial.status(1)) == ("open", "complete")


@pytest.mark.parametrize("status", ["malformed", "truncated"])
def test_broken_call_keeps_what_was_read(status: Status) -> None:
    partial = PartialArguments()
    partial.feed(call('{"a": "x', status=status))
    assert (partial.value(0), partial.status(0)) == ({"a": "x"}, status)


def test_value_is_live() -> None:
    partial = PartialArguments()
    partial.feed(call('{"a": "x'))
    value = partial.value(0)
    kept = value["a"]
    partial.feed([CallArgs(0, "yz", 0, 0)])
    assert partial.value(0) is value
    assert (kept, value) == ("x", {"a": "xyz"})


def test_partial_arguments_need_the_start_of_a_call() -> None:
    partial = PartialArguments()
    partial.feed(Parser("hermes").feed('Hi. <tool_call>{"name": "f'))
    for ask in (partial.value, partial.status):
        with pytest.raises(KeyError):
            ask(0)
    for event in (CallArgs(0, "{", 0, 0), CallEnd(0, "complete", "", 0, 0)):
        with pytest.raises(UsageError, match="feed all events"):
            partial.feed([event])


def test_partial_arguments_read_deep_nesting() -> None:
    depth = 100_000
    value: Any = shown('{"a": ' + "[" * depth + '"x')
    value = value["a"]
    for _ in range(depth - 1):
        (value,) = value
    assert value == ["x"]
    assert isinstance(shown('{"a": ' + '{"a": ' * depth), dict)
    assert shown('{"a": ' + "[" * depth + "]" * depth + ', "b": 1}')["b"] == 1


UNITS = ["x", "\\n", '", "k": "', "[", '{"k": ', "1", "1, ", " ", "\\ud83d", "\\u00e9"]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("opening", ['{"a": ', '{"a": "', '{"a": [', "{"])
@pytest.mark.parametrize("size", [1, 4])
def test_partial_arguments_do_linear_work(opening: str, unit: str, size: int) -> None:
    """Also if the value is read after each piece."""

    def work(length: int) -> None:
        text = opening + unit * (length // len(unit))
        partial = PartialArguments()
        partial.feed(call())
        for at in range(0, len(text), size):
            partial.feed([CallArgs(0, text[at : at + size], 0, 0)])
            partial.value(0)

    assert_linear(work, 800)


@pytest.mark.parametrize("arguments", ['{"a": [1, 2}', "{'a': True, }", '{"a": "x"'])
def test_repaired_arguments_are_those_of_the_message(arguments: str) -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
    parser, partial = Parser("hermes", policies={"malformed_call": "repair"}), PartialArguments()
    events = parser.feed(text) + parser.finish()
    partial.feed(events)
    (repaired,) = parser.message(events).tool_calls
    assert (partial.value(0), partial.status(0)) == (repaired.args, "complete")

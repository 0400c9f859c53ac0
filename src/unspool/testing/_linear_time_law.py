"""Property test: the work for an output grows linearly with its length, even for hostile texts.

A hostile text tries to make the parser slow. It consists of a prefix that brings the parser into one of its
states, and of a unit (a short text) that is repeated. Units are markers, incomplete markers, quotes,
brackets, backslashes and whitespace.

Work is measured in executed lines instead of time, because the number of lines does not depend on other
programs. Work that C code does inside one line (copying or searching a text) is not measured.
``lab/complexity.py``, which is not part of the package, counts processor instructions, so it measures this
work, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final, Literal

from .._core.render.example_output import EXAMPLE_TOOLS
from .._core.render.message import render
from .._core.scan.character_runs import COMPILED
from ..dialects import Dialect, find
from ..errors import MalformedOutput, UsageError
from ..events import Event, channel_after
from ..message import Message, ToolCall
from ..parser import Parser
from ..policies import Policies
from ..wire import ChatStream, MessagesStream, OllamaStream, ResponsesStream
from ._parser_runs import markers
from ._parsing_laws import POLICIES

_COUNTED_FILES: Final = (str(Path(__file__).parent.parent), "<string>")
"""File name prefixes of the code whose lines are counted: the package, and the generated code of data classes
(``<string>``)."""
_WIRES: Final = (ChatStream, MessagesStream, ResponsesStream, OllamaStream)
_CALLS: Final = (
    ToolCall("call_1", "get_weather", '{"city": "Paris, France", "days": 3}'),
    ToolCall("call_2", "now", "{}"),
)
_MESSAGES: Final = (
    Message(reasoning="Let me see.", content="Hello there.", tool_calls=_CALLS),
    Message(reasoning="Let me see.", tool_calls=_CALLS),
    Message(content="Hello there.", tool_calls=_CALLS),
    Message(tool_calls=_CALLS),
    Message(reasoning="Let me see.", content="Hello there."),
    Message(content="Hello there."),
)
_UNITS: Final = (
    *"\"'\\\n\t {}[](),:;<>=/|`.-09aN_é\0",
    *(
        "\r\n",
        '""',
        "''",
        '"""',
        "'''",
        "\\\\",
        '\\"',
        "\\u00e9",
        "\\ud83d",
        "\\u",
        "[[",
        "{{",
        "{}",
        "[]",
        "}}",
        "]}",
        "}]",
    ),
    *(
        "</",
        "<|",
        "|>",
        "</a>",
        "<a>",
        '<a b="c">',
        "<a ",
        "a b",
        ", ",
        '", "',
        "', '",
        '":"',
        '"}',
        '"a",',
        "'a',",
    ),
    *('{"a":', '{"a":1,', '"a":1,', "{'a':", "a=1,", "a:1,", "a='b',", "(a", "f(", "[f(", "1,", "1e", "0x"),
    *('{"name":', '{"arguments":', '[{"parameters":', '{"function":', '{"id":"a",'),
    *("None,", "True", "nul", "Infinity,"),
)
"""Units that the hostile texts of every dialect repeat."""
_MALFORMING_TEXTS: Final = ("}", "]", "\x01", "<", "!", "}}", '"', ")", "x y")
"""Texts that may make a call malformed if they are inserted into its arguments."""

_PAIR_PROBABILITY: Final = 0.3
"""Probability that a hostile text repeats a pair of units instead of one unit."""

InputForm = Literal["text", "ids", "decoded", "prompt"]
"""Form in which a parser receives a hostile text: text, token ids, text with token ids, or a prompt."""
_INPUT_FORMS: Final[tuple[InputForm, ...]] = ("text", "ids", "decoded", "prompt")


@dataclass(frozen=True, slots=True)
class HostileText:
    """Hostile text (a prefix and a repeated unit), with the options for parsing the text."""

    dialect: str | Dialect
    state: str
    """Name of the parser state after the prefix, for reports."""
    prefix: str
    unit: str
    policies: Policies = Policies()
    step: int = 1
    """Number of characters or tokens per chunk; 0 means a single chunk."""
    input_form: InputForm = "text"

    def text(self, size: int) -> str:
        """Return the prefix, followed by ``size`` characters of repeated units."""
        return self.prefix + (self.unit * (size // len(self.unit) + 1))[:size]

    def read(self, size: int) -> list[Event]:
        """Parse the text, build the message and encode the stream, as the gateway does; return the events."""
        text = self.text(size)
        prompt = text if self.input_form == "prompt" else None
        vocabulary = (
            None if self.input_form in ("text", "prompt") else CharacterVocabulary(markers(self.dialect))
        )
        parser = Parser(
            self.dialect, tools=EXAMPLE_TOOLS, prompt=prompt, tokenizer=vocabulary, policies=self.policies
        )
        builder = parser.fold()
        wire = _WIRES[len(text) % len(_WIRES)](parser)
        events: list[Event] = []
        with suppress(MalformedOutput):
            for batch in self._parse_in_chunks(parser, "" if prompt else text, vocabulary):
                events += batch
                builder.feed(batch)
                wire.feed(batch)
                max_pending = parser.max_pending
                if max_pending is not None and parser.pending > max_pending:
                    raise AssertionError(
                        f"{self}: {parser.pending} characters are pending, but max_pending is {max_pending}"
                    )
            _ = builder.message
        return events

    def _parse_in_chunks(
        self, parser: Parser, text: str, vocabulary: CharacterVocabulary | None
    ) -> Iterator[list[Event]]:
        pieces: Sequence[str] = text if vocabulary is None else vocabulary.tokenize(text)
        size = self.step or len(pieces) or 1
        for index in range(0, len(pieces), size):
            chunk = pieces[index : index + size]
            if vocabulary is None:
                yield parser.feed("".join(chunk))
                continue
            ids = [vocabulary.id(piece) for piece in chunk]
            if self.input_form == "ids":
                yield parser.feed_tokens(ids)
            else:  # without special tokens, which engines omit from the text
                yield parser.feed_decoded("".join(piece for piece in chunk if len(piece) == 1), ids)
        yield parser.finish()


class CharacterVocabulary:
    """Vocabulary in which each character and each marker is a token."""

    def __init__(self, special: Iterable[str]) -> None:
        self._special = {0x110000 + number: marker for number, marker in enumerate(special)}
        self._ids = {marker: id for id, marker in self._special.items()}
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._token = re.compile("|".join((*map(re.escape, longest_first), ".")), re.DOTALL)

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of a token."""
        return chr(id).encode()

    def special_tokens(self) -> dict[int, str]:
        """Return the markers by token id."""
        return self._special

    def tokenize(self, text: str) -> list[str]:
        """Split a text into tokens."""
        return self._token.findall(text)

    def id(self, token: str) -> int:
        """Return the id of a token."""
        return self._ids[token] if token in self._ids else ord(token)


def states(dialect: str | Dialect) -> dict[str, str]:
    """Return the parser states that the dialect can reach, each with a text that leads to it."""
    return dict(_states(find(dialect)))


@lru_cache(maxsize=256)
def _states(spec: Dialect) -> dict[str, str]:
    found: dict[str, str] = {"start": ""}
    for message in _MESSAGES:
        try:
            text = render(message, spec, check=False)
        except UsageError:
            continue
        parser = Parser(spec, tools=EXAMPLE_TOOLS)
        channel = parser.start_channel
        for index, char in enumerate(text):
            for event in parser.feed(char):
                channel = channel_after(event, channel)
            mode, prefix = parser.mode, text[: index + 1]
            if mode == "text":
                mode = channel
            elif mode == "arguments" and prefix.endswith("Paris"):
                mode = "string"
            found.setdefault(mode, prefix)
            # For these states, also keep the longest text that leads to the state.
            if mode in ("matching", "arguments", "between"):
                found[f"late {mode}"] = prefix
    arguments = found.get("late arguments", "")
    for fault in _MALFORMING_TEXTS if arguments else ():
        parser = Parser(spec, tools=EXAMPLE_TOOLS)
        parser.feed(arguments + fault)
        if parser.mode == "recovery":
            found["recovery"] = arguments + fault
            break
    return found


def units(dialect: str | Dialect) -> list[str]:
    """Return the units for hostile texts: common units, and (parts of) the dialect's markers and calls."""
    return list(_units(find(dialect)))


@lru_cache(maxsize=256)
def _units(spec: Dialect) -> list[str]:
    dialect_markers = markers(spec)
    rendered = []
    for message in _MESSAGES:
        with suppress(UsageError):
            rendered.append(render(message, spec, check=False))
    prefixes = [
        prefix for state, prefix in states(spec).items() if state not in ("start", "content", "reasoning")
    ]
    return list(
        dict.fromkeys(
            unit
            for unit in (
                *_UNITS,
                *dialect_markers,
                *(marker[:-1] for marker in dialect_markers),
                *(marker + "\n" for marker in dialect_markers),
                *(marker + '{"arguments":{"a":"' for marker in dialect_markers),
                *prefixes,
                *rendered[-2:],
            )
            if unit
        )
    )


def hostile(dialect: str | Dialect, rng: Random) -> HostileText:
    """Return a random hostile text for a dialect."""
    spec = find(dialect)
    state, prefix = rng.choice(list(states(spec).items()))
    unit = rng.choice(units(spec))
    if rng.random() < _PAIR_PROBABILITY:
        unit += rng.choice(units(spec))
    input_form = rng.choices(_INPUT_FORMS, (12, 2, 2, 1))[0]
    return HostileText(
        spec,
        state,
        prefix,
        unit,
        rng.choice(list(POLICIES.values())),
        rng.choice((1, 1, 1, 4, 0)),
        input_form,
    )


def count_lines(work: Callable[[], object]) -> int:
    """Return how many lines of the package a function executes; compiled code is not counted."""
    count = 0

    def trace_line(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace_line

    def trace_call(frame: FrameType, _: str, __: object) -> Any:
        return trace_line if frame.f_code.co_filename.startswith(_COUNTED_FILES) else None

    previous = sys.gettrace()
    sys.settrace(trace_call)
    try:
        work()
    finally:
        sys.settrace(previous)
    return count


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Assert that an input four times as long takes about four times the work, and not sixteen times.

    Six times the work is still accepted, because caches may be incomplete at ``size`` characters.
    """
    work(1)  # fill the caches first, so that filling them is not counted
    least, few, many = (count_lines(partial(work, length)) for length in (1, size, 4 * size))
    if not (least or COMPILED):
        raise AssertionError("no line of the package was executed")
    # ``least`` is the work that does not depend on the length of the input.
    if many - least > 6 * max(0, few - least) + least:
        raise AssertionError(f"{few} lines executed for {size} characters, {many} for {4 * size}")


def assert_complexity(hostile: HostileText, size: int = 1000) -> None:
    """Assert that the work for a hostile text is linear, and that the parser's buffer stays small."""
    try:
        assert_linear(hostile.read, size)
    except AssertionError as error:
        raise AssertionError(f"complexity: {error}\n  {hostile}") from None

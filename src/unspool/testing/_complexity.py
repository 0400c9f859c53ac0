"""The law of effort: however hostile an output is, the work for it grows with its length, and no faster.

Hostile texts follow from the dialect: what leads into one of its states, and behind that one unit
again and again, of markers, halves of markers, quotes, brackets, backslashes, blanks.  Work is counted
instead of timed, as lines that run: a busy machine runs as many as an idle one.  What C code does
within one line (copy a text, search it) does not show in lines; ``tools/complexity.py``, which is not
part of the package, counts instructions.
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

from .._core.render.example import EXAMPLE_TOOLS
from .._core.render.message import render
from .._core.scan.runs import COMPILED
from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ..errors import MalformedOutput, UsageError
from ..events import Event, channel_behind
from ..message import Message, ToolCall
from ..parser import Parser
from ..policies import Policies
from ..wire import ChatStream, MessagesStream, OllamaStream, ResponsesStream
from ._outputs import markers
from ._parsing_laws import POLICIES

_COUNTED: Final = (str(Path(__file__).parent.parent), "<string>")
"""Where lines count: in the package, and in what data classes are given to compare by."""
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
"""What is repeated in every dialect."""
_FAULTS: Final = ("}", "]", "\x01", "<", "!", "}}", '"', ")", "x y")
"""What may make an open call a broken one."""

_PAIRS: Final = 0.3
"""So often two units take turns."""

Way = Literal["text", "ids", "decoded", "prompt"]
"""How it comes in: as an output, as a prompt that the output goes on from, as ids, as ids with their text."""
_WAYS: Final[tuple[Way, ...]] = ("text", "ids", "decoded", "prompt")


@dataclass(frozen=True, slots=True)
class Hostile:
    """A text without end, and how it is read: what leads into a state, and a unit again and again."""

    dialect: str | Dialect
    state: str
    """Where the unit is repeated; for reports."""
    before: str
    unit: str
    policies: Policies = Policies()
    step: int = 1
    """So many characters come at a time; 0: all at once."""
    way: Way = "text"

    def text(self, size: int) -> str:
        """The text, with so many characters of units."""
        return self.before + (self.unit * (size // len(self.unit) + 1))[:size]

    def read(self, size: int) -> list[Event]:
        """Read it as a gateway does: with a fold and a wire behind it, and what is held asked each time."""
        text = self.text(size)
        prompt = text if self.way == "prompt" else None
        vocabulary = None if self.way in ("text", "prompt") else Letters(markers(self.dialect))
        parser = Parser(
            self.dialect, tools=EXAMPLE_TOOLS, prompt=prompt, tokenizer=vocabulary, policies=self.policies
        )
        fold = parser.fold()
        wire = _WIRES[len(text) % len(_WIRES)](parser)
        events: list[Event] = []
        with suppress(MalformedOutput):
            for portion in self._portions(parser, "" if prompt else text, vocabulary):
                events += portion
                fold.push(portion)
                wire.encode(portion)
                max_pending = parser.max_pending
                if max_pending is not None and parser.pending > max_pending:
                    raise AssertionError(
                        f"{self}: {parser.pending} characters are held, and the bound is {max_pending}"
                    )
            fold.message()
        return events

    def _portions(self, parser: Parser, text: str, vocabulary: Letters | None) -> Iterator[list[Event]]:
        pieces: Sequence[str] = text if vocabulary is None else vocabulary.cut(text)
        size = self.step or len(pieces) or 1
        for at in range(0, len(pieces), size):
            some = pieces[at : at + size]
            if vocabulary is None:
                yield parser.feed("".join(some))
                continue
            ids = [vocabulary.id(piece) for piece in some]
            if self.way == "ids":
                yield parser.feed_tokens(ids)
            else:  # engines leave special tokens out
                yield parser.feed_decoded("".join(piece for piece in some if len(piece) == 1), ids)
        yield parser.finish()


class Letters:
    """A vocabulary of letters, in which markers are tokens of their own."""

    def __init__(self, special: Iterable[str]) -> None:
        self._special = {0x110000 + number: marker for number, marker in enumerate(special)}
        self._ids = {marker: id for id, marker in self._special.items()}
        known = sorted(self._ids, key=len, reverse=True)
        self._token = re.compile("|".join((*map(re.escape, known), ".")), re.DOTALL)

    def token_bytes(self, id: int) -> bytes:
        """What a token stands for."""
        return chr(id).encode()

    def special_tokens(self) -> dict[int, str]:
        """Those that are markers."""
        return self._special

    def cut(self, text: str) -> list[str]:
        """The tokens of a text."""
        return self._token.findall(text)

    def id(self, token: str) -> int:
        """The number of a token."""
        return self._ids[token] if token in self._ids else ord(token)


def states(dialect: str | Dialect) -> dict[str, str]:
    """What leads into each state of a dialect, by its name: from an output that goes through all of them."""
    return dict(_states(find(dialect)))


@lru_cache(maxsize=256)
def _states(spec: Dialect) -> dict[str, str]:
    found: dict[str, str] = {"start": ""}
    for message in _MESSAGES:
        try:
            text = render(spec, message, check=False)
        except UsageError:
            continue
        parser = Parser(spec, tools=EXAMPLE_TOOLS)
        channel = parser.start_channel
        for at, char in enumerate(text):
            for event in parser.feed(char):
                channel = channel_behind(event, channel)
            mode, before = parser.mode, text[: at + 1]
            if mode == "text":
                mode = channel
            elif mode == "payload" and before.endswith("Paris"):
                mode = "string"
            found.setdefault(mode, before)
            if mode in ("trial", "payload", "between"):  # both ends of it
                found[f"late {mode}"] = before
    payload = found.get("late payload", "")
    for fault in _FAULTS if payload else ():
        parser = Parser(spec, tools=EXAMPLE_TOOLS)
        parser.feed(payload + fault)
        if parser.mode == "junk":
            found["junk"] = payload + fault
            break
    return found


def units(dialect: str | Dialect) -> list[str]:
    """What is worth repeating: the same for all, and the dialect's own markers, halves of them, and calls."""
    return list(_units(find(dialect)))


@lru_cache(maxsize=256)
def _units(spec: Dialect) -> list[str]:
    own = markers(spec)
    written = []
    for message in _MESSAGES:
        with suppress(UsageError):
            written.append(render(spec, message, check=False))
    heads = [
        before for state, before in states(spec).items() if state not in ("start", "content", "reasoning")
    ]
    return list(
        dict.fromkeys(
            unit
            for unit in (
                *_UNITS,
                *own,
                *(marker[:-1] for marker in own),
                *(marker + "\n" for marker in own),
                *(marker + '{"arguments":{"a":"' for marker in own),
                *heads,
                *written[-2:],
            )
            if unit
        )
    )


def hostile(dialect: str | Dialect, rng: Random) -> Hostile:
    """One of the many texts of a dialect that could cost too much."""
    spec = find(dialect)
    state, before = rng.choice(list(states(spec).items()))
    unit = rng.choice(units(spec))
    if rng.random() < _PAIRS:
        unit += rng.choice(units(spec))
    way = rng.choices(_WAYS, (12, 2, 2, 1))[0]
    return Hostile(
        spec, state, before, unit, rng.choice(list(POLICIES.values())), rng.choice((1, 1, 1, 4, 0)), way
    )


def steps(work: Callable[[], object]) -> int:
    """How many lines of the package run.  Compiled ones are not seen."""
    count = 0

    def line(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def called(frame: FrameType, _: str, __: object) -> Any:
        return line if frame.f_code.co_filename.startswith(_COUNTED) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Four times the input takes four times the work; quadratic work would be sixteen times as much.

    What is bounded may still grow at ``size``, so there is some room between.
    """
    work(1)  # what is made once does not count, ...
    least, few, many = (steps(partial(work, length)) for length in (1, size, 4 * size))
    if not (least or COMPILED):
        raise AssertionError("nothing of the package has run")
    if many - least > 6 * max(0, few - least) + least:  # ... nor does what is made each time
        raise AssertionError(f"{few} steps for {size}, {many} for {4 * size}")


def assert_complexity(hostile: Hostile, size: int = 1000) -> None:
    """However often its unit is repeated, it costs the same each time; what is held is within the bound."""
    try:
        assert_linear(hostile.read, size)
    except AssertionError as error:
        raise AssertionError(f"effort: {error}\n  {hostile}") from None

r"""Broken calls on a wire: a call that was announced, and turned out malformed or was cut off.

What was sent cannot be taken back, and clients run what they can read: they take
no arguments for ``{}``, close what is open, repair what is wrong, and few of them
look at the finish reason.  So the arguments of a broken call end with *poison*,
after which they are not JSON, and cannot become JSON by closing, trimming or
repairing:

- ``\u`` without its digits, inside a string: what repairs JSON gives up there;
- a bracket that closes nothing that is open: what completes JSON gives up there.

Of a call that was cut off no more than three characters stand behind the ``\u``,
so that readers of partial JSON see a text that is not complete, as it is; of a
malformed one they see an error.  Events and messages have what the model wrote:
the poison belongs to the wires, and a gateway takes it off again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .._core.arguments.json_value import json_kind
from .._core.stages.message_builder import UNFINISHED
from ..errors import MalformedOutput
from ..events import (
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    Status,
)
from ..message import BrokenCall
from ..parser import Parser

MALFORMED: Final = "<malformed>"
"""What stands in the poison of a call that is malformed, for those who read it."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|(?P<open>\\?)\Z)|[\[\]{},:]|[^\s"\[\]{},:]++', re.DOTALL)
_HALF: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_SPOILT: Final = re.compile(r'(?:[,:{]?")?\\?u(?:<malformed>)?"[\]}]\Z')


def poison(sent: str, status: str) -> str:
    r"""What to send behind these arguments of a broken call.

    >>> poison('{"path": "a.p', "truncated")
    '\\u"]'
    >>> poison('{"paths": [1, ', "malformed")
    '"\\u<malformed>"}'
    >>> poison("", "truncated")
    '{"\\u"]'
    """
    brackets: list[str] = []
    last = ""  # the token before the end, and the one before it
    before = ""
    inside: str | None = None
    for token in _TOKEN.finditer(sent):
        before, last = last, token[0][0]
        inside = token["open"]
        if last in "[{":
            brackets.append(last)
        elif last in "]}" and brackets:
            brackets.pop()
    innermost = brackets[-1] if brackets else ""
    if inside is not None:
        opening = "" if inside else "\\"
    elif not last:
        opening = '{"\\'
    elif last in "[{,:":
        opening = '"\\'
    else:
        is_key = last == '"' and innermost == "{" and before in "{,"
        opening = ':"\\' if is_key else ',"\\'
    wrong = "}" if innermost == "[" else "]"
    return f'{opening}u{MALFORMED if status == "malformed" else ""}"{wrong}'


def is_poisoned(arguments: str) -> bool:
    """Whether these are the arguments of a broken call, as a wire sends them."""
    return _taken_off(arguments) is not None


def is_poisoned_as_malformed(arguments: str) -> bool:
    """Likewise, of one that is malformed, not cut off."""
    return MALFORMED in arguments and is_poisoned(arguments)


def without_poison(arguments: str) -> str:
    r"""The arguments as the model wrote them.

    >>> without_poison('{"path": "a.p\\u"]')
    '{"path": "a.p'
    >>> without_poison('{"path": "a.py"}')
    '{"path": "a.py"}'
    """
    found = _taken_off(arguments)
    return arguments if found is None else found


def _taken_off(arguments: str) -> str | None:
    spoilt = _SPOILT.search(arguments, max(0, len(arguments) - 24))
    if spoilt is None:
        return None
    status = "malformed" if MALFORMED in spoilt[0] else "truncated"
    for end in range(spoilt.start(), len(arguments)):
        if arguments[end:] == poison(arguments[:end], status):
            return arguments[:end]
    return None


class SentCalls:
    """The calls of one stream, as far as its client has been sent them."""

    __slots__ = ("_half", "_notes", "_pieces", "_policies", "_reason_for_calls", "_start", "malformed")

    def __init__(self, parser: Parser) -> None:
        self._policies = parser.policies
        self._reason_for_calls: FinishReason = (
            parser.policies.forced_finish_reason if parser.forced else "tool_calls"
        )
        self._pieces: list[str] = []  # of the open call's arguments
        self._half = ""  # of them, what is not sent yet
        self._start = 0
        self._notes: dict[str, Diagnostic] = {}
        self.malformed = False
        """Whether one of them turned out malformed."""

    def begin(self, start: CallStart) -> None:
        """Another call is announced."""
        self._start = start.start

    def add(self, piece: str) -> str:
        r"""More of its arguments; what is to be sent now.

        The first half of a surrogate pair (``\ud83d``) waits for the second: alone it is no character.
        """
        self._pieces.append(piece)
        if self._half:
            piece, self._half = self._half + piece, ""
        if piece[-6:-4] == "\\u" and _HALF.search(piece):
            self._half = piece[-6:]
            return piece[:-6]
        return piece

    def rest(self) -> str:
        """What still waits, now that the call is over."""
        half, self._half = self._half, ""
        return half

    def note(self, note: Diagnostic) -> None:
        """Something is odd, and may have to be told."""
        self._notes[note.kind] = note

    def ending(self, status: Status) -> str:
        """What its arguments end with, if it has ended like this."""
        pieces, self._pieces = self._pieces, []
        if status != "complete":
            self.malformed = self.malformed or status == "malformed"
            return poison("".join(pieces), status)
        # Without this, half of the clients hand "" to json.loads.
        return "" if pieces else "{}"

    def whole(self, call: BrokenCall) -> str:
        """The arguments of a broken call, as the stream would have sent them."""
        if call.arguments:
            self._pieces.append(call.arguments)
        return call.arguments + self.ending(call.status)

    def error(self, event: CallEnd | Finish) -> MalformedOutput | None:
        """What the policies call an error, now that a call or the output has ended like this."""
        policies = self._policies
        if isinstance(event, CallEnd):
            if event.status == "complete" or policies.for_broken(event.status) != "error":
                return None
            kind = f"{event.status}_call"
            note = self._notes.get(kind, event)
            return MalformedOutput(kind, _detail(note, kind), self._start, event.end, event.raw, note.start)
        if policies.truncated_call == "error":
            for kind in UNFINISHED:
                if kind in self._notes:
                    at = self._notes[kind].start
                    return MalformedOutput(kind, _detail(self._notes[kind], kind), at, at, "", at)
        return None

    def reason(self, reason: FinishReason) -> FinishReason:
        """How the output ended for the client: malformed calls are calls to it.

        It answers them with an error, which the model can read.
        """
        return self._reason_for_calls if self.malformed and reason == "stop" else reason


def cannot_say(name: str, raw: str) -> MalformedOutput:
    """A malformed call, where the response has no place for text that is no JSON object."""
    return MalformedOutput(
        "malformed_call",
        f"the arguments of {name} are no JSON object, and this response cannot carry what they are",
        0,
        len(raw),
        raw,
        0,
        'Stream the response, or parse with Policies(commit="call") to have such calls as text.',
    )


def as_object(name: str, arguments: str, load: Callable[[str], object]) -> object:
    """Return the arguments of a call as ``load`` makes them of their text.

    Raises ``MalformedOutput`` if they are not a JSON object that every client reads.
    """
    arguments = arguments or "{}"
    if json_kind(arguments) != "{":
        raise cannot_say(name, arguments)
    try:
        return load(arguments)
    except (ValueError, RecursionError) as error:
        raise cannot_say(name, arguments) from error


def _detail(event: Event, kind: str) -> str:
    return event.detail if isinstance(event, Diagnostic) else kind

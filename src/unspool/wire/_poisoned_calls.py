r"""Poison for calls that turn out to be malformed or truncated after a client has received their start.

A chunk cannot be taken back, and clients run every call that they can read.  They read missing
arguments as ``{}``, close open strings and brackets, and repair invalid JSON; few check the finish
reason.  A call that the model did not finish must never run, because its arguments are not what the
model meant: ``rm -rf /tmp/x`` may be truncated to ``rm -rf /``.

So the encoders append *poison*, a few characters, to the arguments of a broken call.  Poisoned
arguments are not JSON, and closing, trimming or repairing them does not yield JSON:

- An incomplete ``\u`` escape inside a string stops programs that repair JSON.
- A closing bracket that does not match the open bracket stops programs that complete JSON.

For a truncated call, at most three characters follow the ``\u``, so parsers of partial JSON still treat
the text as incomplete.  For a malformed call, they report an error.  Only wire formats contain poison:
events and messages contain the model's own text, and the gateway removes poison from requests that send
such a call back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .._core.arguments.json_value import json_kind
from .._core.schema.mismatch import find_mismatch
from .._core.schema.tools import as_tools
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
"""Text in the poison of a malformed call, which shows people and programs what is wrong."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|(?P<open>\\?)\Z)|[\[\]{},:]|[^\s"\[\]{},:]++', re.DOTALL)
_HIGH_SURROGATE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_POISON: Final = re.compile(r'(?:[,:{]?")?\\?u(?:<malformed>)?"[\]}]\Z')
_MAX_POISON: Final = 24
"""Upper bound for the length of poison, in characters."""


def make_poison(sent: str, status: str) -> str:
    r"""Return the poison to append to the arguments that a client has received.

    >>> make_poison('{"path": "a.p', "truncated")
    '\\u"]'
    >>> make_poison('{"paths": [1, ', "malformed")
    '"\\u<malformed>"}'
    >>> make_poison("", "truncated")
    '{"\\u"]'
    """
    # Find the state at the end of the text: the innermost open bracket, and whether a string is open.
    # open_string is None outside strings, a backslash in an incomplete escape, and otherwise empty.
    brackets: list[str] = []
    last = ""  # the first character of the last token
    before_last = ""
    open_string: str | None = None
    for token in _TOKEN.finditer(sent):
        before_last, last = last, token[0][0]
        open_string = token["open"]
        if last in "[{":
            brackets.append(last)
        elif last in "]}" and brackets:
            brackets.pop()
    innermost = brackets[-1] if brackets else ""
    # Open a string if none is open, then start an escape in it.
    if open_string is not None:
        opening = "" if open_string else "\\"
    elif not last:
        opening = '{"\\'
    elif last in "[{,:":
        opening = '"\\'
    else:
        is_key = last == '"' and innermost == "{" and before_last in "{,"
        opening = ':"\\' if is_key else ',"\\'
    wrong_bracket = "}" if innermost == "[" else "]"
    return f'{opening}u{MALFORMED if status == "malformed" else ""}"{wrong_bracket}'


def is_poisoned(arguments: str) -> bool:
    """Return whether arguments end with poison."""
    return _strip_poison(arguments) is not None


def is_poisoned_as_malformed(arguments: str) -> bool:
    """Return whether arguments end with the poison of a malformed call."""
    return MALFORMED in arguments and is_poisoned(arguments)


def remove_poison(arguments: str) -> str:
    r"""Return arguments without poison, as the model wrote them.

    >>> remove_poison('{"path": "a.p\\u"]')
    '{"path": "a.p'
    >>> remove_poison('{"path": "a.py"}')
    '{"path": "a.py"}'
    """
    stripped = _strip_poison(arguments)
    return arguments if stripped is None else stripped


def _strip_poison(arguments: str) -> str | None:
    """Return the arguments without their poison, or None if they have none."""
    match = _POISON.search(arguments, max(0, len(arguments) - _MAX_POISON))
    if match is None:
        return None
    status = "malformed" if MALFORMED in match[0] else "truncated"
    # The first characters of the match may belong to the model's text, so try every start.
    for end in range(match.start(), len(arguments)):
        if arguments[end:] == make_poison(arguments[:end], status):
            return arguments[:end]
    return None


class SentCalls:
    """Tracker for the calls in one response, which poisons broken calls.

    For each call, use ``open_call()``, ``add_arguments()`` any number of times, ``flush()`` and
    ``close_call()``, in this order.
    """

    __slots__ = (
        "_arguments",
        "_diagnostics",
        "_function",
        "_half_pair",
        "_policies",
        "_start",
        "_tools",
        "malformed",
    )

    def __init__(self, parser: Parser) -> None:
        self._policies = parser.policies
        self._arguments: list[str] = []
        """Arguments of the open call, in pieces."""
        self._half_pair = ""
        """First half of a surrogate pair, which waits for the second half."""
        self._start = 0
        self._function = ""
        self._tools = as_tools(parser.tools)
        self._diagnostics: dict[str, Diagnostic] = {}
        self.malformed = False
        """True after the first malformed call."""

    def open_call(self, start: CallStart) -> None:
        """Record the start of a call."""
        self._start = start.start
        self._function = start.name

    def add_arguments(self, text: str) -> str:
        r"""Record more arguments of the open call, and return the text to send now.

        The first half of a surrogate pair (``\ud83d``) waits for the second half, because clients cannot
        decode one half alone.
        """
        self._arguments.append(text)
        if self._half_pair:
            text, self._half_pair = self._half_pair + text, ""
        if text[-6:-4] == "\\u" and _HIGH_SURROGATE.search(text):
            self._half_pair = text[-6:]
            return text[:-6]
        return text

    def flush(self) -> str:
        """Return the text that ``add_arguments()`` has held back, at the end of a call."""
        half, self._half_pair = self._half_pair, ""
        return half

    def record_diagnostic(self, diagnostic: Diagnostic) -> None:
        """Record a diagnostic, because it may explain a later error."""
        self._diagnostics[diagnostic.kind] = diagnostic

    def close_call(self, status: Status) -> str:
        """Record the end of a call, and return the text to append to its arguments."""
        arguments, self._arguments = self._arguments, []
        if status != "complete":
            self.malformed = self.malformed or status == "malformed"
            return make_poison("".join(arguments), status)
        # Many clients pass the arguments to json.loads, which rejects an empty string.
        return "" if arguments else "{}"

    def poison_arguments(self, call: BrokenCall) -> str:
        """Return the poisoned arguments of a call for a response that is not streamed."""
        if call.arguments:
            self._arguments.append(call.arguments)
        return call.arguments + self.close_call(call.status)

    def policy_error(self, event: CallStart | CallEnd | Finish) -> MalformedOutput | None:
        """Return the error that the policies require at this event, or None."""
        policies = self._policies
        if isinstance(event, CallStart):
            if policies.unknown_tool != "error" or "unknown_tool" not in self._diagnostics:
                return None
            return MalformedOutput("unknown_tool", event.name, event.start, event.end, "", event.start)
        if isinstance(event, CallEnd):
            if event.status == "complete":
                return self._schema_error(event) if policies.schema_mismatch == "error" else None
            if policies.for_broken(event.status) != "error":
                return None
            kind = f"{event.status}_call"
            cause = self._diagnostics.get(kind, event)
            detail = _detail(cause, kind)
            return MalformedOutput(kind, detail, self._start, event.end, event.raw, cause.start)
        if policies.truncated_call == "error":
            for kind in UNFINISHED:
                if kind in self._diagnostics:
                    cause = self._diagnostics[kind]
                    return MalformedOutput(
                        kind, _detail(cause, kind), cause.start, cause.start, "", cause.start
                    )
        return None

    def _schema_error(self, event: CallEnd) -> MalformedOutput | None:
        """Return the error for a complete call whose arguments do not fit the schema of the tool, or None."""
        detail = find_mismatch(self._tools, self._function, "".join(self._arguments))
        if not detail:
            return None
        start, end = event.args_start, event.args_end
        return MalformedOutput("schema_mismatch", f"{self._function}: {detail}", start, end, "", start)

    def finish_reason(self, reason: FinishReason) -> FinishReason:
        """Return the finish reason for the client.

        A malformed call is reported like any other call: the client answers it with an error, which the
        model can read.
        """
        return "tool_calls" if self.malformed and reason == "stop" else reason


def unsendable_call(name: str, raw: str) -> MalformedOutput:
    """Return the error for a malformed call in a response that requires JSON objects as arguments."""
    return MalformedOutput(
        "malformed_call",
        f"the arguments of {name} are not a JSON object, and this response cannot carry anything else",
        0,
        len(raw),
        raw,
        0,
        'Stream the response, or parse with Policies(commit="call") to get such calls as text.',
    )


def load_object(name: str, arguments: str, load: Callable[[str], object]) -> object:
    """Convert the arguments of a call to an object with the function ``load``.

    :raises MalformedOutput: if the arguments are not a JSON object that every client can read.
    """
    arguments = arguments or "{}"
    if json_kind(arguments) != "{":
        raise unsendable_call(name, arguments)
    try:
        return load(arguments)
    except (ValueError, RecursionError) as error:
        raise unsendable_call(name, arguments) from error


def _detail(event: Event, kind: str) -> str:
    return event.detail if isinstance(event, Diagnostic) else kind

"""State of the calls in one response, for encoders that poison broken calls.

``_core/conversions/make_broken_arguments_unparsable.py`` explains what poison is and why it is needed.
"""

from __future__ import annotations

import re
from typing import Final

from .._core.conversions.make_broken_arguments_unparsable import make_poison
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
from ..parser import Parser

_HIGH_SURROGATE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


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
        """Fragments of the open call's arguments."""
        self._half_pair = ""
        """First half of a surrogate pair, held back until the second half arrives."""
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

        The first half of a surrogate pair (``\ud83d``) is held back until the second half arrives, because
        clients cannot decode one half alone.
        """
        self._arguments.append(text)
        if self._half_pair:
            text, self._half_pair = self._half_pair + text, ""
        if text[-6:-4] == "\\u" and _HIGH_SURROGATE.search(text):
            self._half_pair = text[-6:]
            return text[:-6]
        return text

    def flush(self) -> str:
        """End the arguments of a call, and return the text that ``add_arguments()`` has held back."""
        half, self._half_pair = self._half_pair, ""
        return half

    def record_diagnostic(self, diagnostic: Diagnostic) -> MalformedOutput | None:
        """Record a diagnostic, which may explain a later error.

        Return the error that the policies require for the diagnostic itself, or None.  A call of an unknown
        tool is an error even if the parser later replaces the call by text, as in a complete message.
        """
        self._diagnostics[diagnostic.kind] = diagnostic
        if diagnostic.kind != "unknown_tool" or self._policies.unknown_tool != "error":
            return None
        at = diagnostic.start
        return MalformedOutput("unknown_tool", diagnostic.detail, at, diagnostic.end, "", at)

    def close_call(self, status: Status) -> str:
        """Record the end of a call, and return the text to append to its arguments."""
        arguments, self._arguments = self._arguments, []
        if status != "complete":
            self.malformed = self.malformed or status == "malformed"
            return make_poison("".join(arguments), status)
        # Many clients pass the arguments to json.loads, which rejects an empty string.
        return "" if arguments else "{}"

    def policy_error(self, event: CallEnd | Finish) -> MalformedOutput | None:
        """Return the error that the policies require for this event, or None if they do not require one."""
        policies = self._policies
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

        A malformed call counts as a call, because the client answers it with an error that the model can
        read.
        """
        return "tool_calls" if self.malformed and reason == "stop" else reason


def _detail(event: Event, kind: str) -> str:
    return event.detail if isinstance(event, Diagnostic) else kind

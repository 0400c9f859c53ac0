"""Rule for the finish reason of a response."""

from __future__ import annotations

from typing import Final

from ..events import CallEnd, Diagnostic, Event, Finish, FinishReason

_CUT: Final = ("cut_head", "truncated_call")
"""Kinds of diagnostics that report an incomplete call.  A commit buffer does not remove these diagnostics."""


class FinishRule:
    """Rule that determines the finish reason of a response from the events of a stream.

    The first row that applies determines the finish reason:

    ==========================================  ================================================
    the stream contains                         finish reason
    ==========================================  ================================================
    a call that was cut off                     ``length``, whatever the backend reports, so that
                                            clients do not trust the incomplete call
    a complete call                             ``tool_calls``, even if generation was stopped in
                                                the text after the call
    ``Finish`` with ``length`` or               the reason of ``Finish``
    ``content_filter``
    a malformed call, under the policy          as for a complete call
    ``malformed_call="call"``
    none of these                               ``stop``
    ==========================================  ================================================
    """

    __slots__ = ("_backend_reason", "_complete", "_cut", "_malformed", "_reports_malformed")

    def __init__(self, *, reports_malformed: bool) -> None:
        """Create a rule that has not read any event.

        :param reports_malformed: true under the policy ``malformed_call="call"``.
        """
        self._reports_malformed = reports_malformed
        self._malformed = False
        self._complete = False
        self._cut = False
        self._backend_reason: FinishReason | None = None

    def feed(self, event: Event) -> None:
        """Read the next event of the stream."""
        if isinstance(event, CallEnd):
            if event.status == "complete":
                self._complete = True
            elif event.status == "truncated":
                self._cut = True
            else:
                self._malformed = self._reports_malformed
        elif isinstance(event, Diagnostic):
            if event.kind in _CUT:
                self._cut = True
        elif isinstance(event, Finish):
            self._backend_reason = event.reason

    def reason(self) -> FinishReason:
        """Return the finish reason, given the events so far."""
        if self._cut:
            return "length"
        if self._complete:
            return "tool_calls"
        # A backend that reports "tool_calls" is only guessing, so rely on the calls in the stream instead.
        if self._backend_reason in ("length", "content_filter"):
            return self._backend_reason
        return "tool_calls" if self._malformed else "stop"

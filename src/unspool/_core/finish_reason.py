"""Rule for the finish reason of a response."""

from __future__ import annotations

from typing import Final

from ..events import CallEnd, Diagnostic, Event, Finish, FinishReason

_CUT: Final = ("cut_head", "truncated_call")
"""Diagnostics that report a call that was cut off, even if a commit buffer has removed the call's events."""


class FinishRule:
    """Observer of a stream that determines the finish reason.

    The first row that applies determines the finish reason:

    ==========================================  ================================================
    the stream contains                         finish reason
    ==========================================  ================================================
    a call that was cut off                     ``length``, whatever the backend reports, so that
                                            clients do not trust the incomplete call
    a complete call                             ``tool_calls``, even if generation was stopped in
                                                the text after the call; for a forced call, the
                                                policy ``forced_finish_reason``
    ``Finish`` with ``length`` or               the reason of ``Finish``
    ``content_filter``
    a malformed call, under the policy          as for a complete call
    ``malformed_call="keep"``
    none of these                               ``stop``
    ==========================================  ================================================
    """

    __slots__ = ("_backend_reason", "_complete", "_cut", "_for_calls", "_keep", "_kept")

    def __init__(self, for_calls: FinishReason, *, keep: bool) -> None:
        """Create an observer that has not seen any event.

        :param for_calls: the finish reason if there is a complete call.
        :param keep: true if malformed calls are reported as calls.
        """
        self._for_calls: FinishReason = for_calls
        self._keep = keep
        self._kept = False
        self._complete = False
        self._cut = False
        self._backend_reason: FinishReason | None = None

    def see(self, event: Event) -> None:
        """Take the next event into account."""
        if isinstance(event, CallEnd):
            if event.status == "complete":
                self._complete = True
            elif event.status == "truncated":
                self._cut = True
            else:
                self._kept = self._keep
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
            return self._for_calls
        # A backend that reports "tool_calls" is only guessing, so rely on the calls in the stream instead.
        if self._backend_reason in ("length", "content_filter"):
            return self._backend_reason
        return self._for_calls if self._kept else "stop"

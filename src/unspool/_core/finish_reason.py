"""The rule for the finish reason, which ``WhitespaceFilter`` applies for messages and wires."""

from __future__ import annotations

from typing import Final

from ..events import CallEnd, Diagnostic, Event, Finish, FinishReason

_CUT: Final = ("cut_head", "truncated_call")
"""Notes of a call that the input ended in; a gate may have taken the call itself away."""


class FinishRule:
    """Watches a stream and says how it ended.

    The first line that applies:

    - a call was truncated or its head cut off: ``length``, whatever the backend
      said, because clients then know not to trust the last call;
    - a call is complete: ``tool_calls``, also
      if generation ended as ``length`` in the text behind it (``stop`` for a
      forced call, if the policy says so);
    - generation ended as ``length`` or ``content_filter``: that;
    - a malformed call is kept among the calls: as for a complete one;
    - else ``stop``.
    """

    __slots__ = ("_complete", "_cut", "_for_calls", "_keep", "_kept", "_told")

    def __init__(self, for_calls: FinishReason, *, keep: bool) -> None:
        """Begin to watch.

        :param for_calls: what complete calls make of it.
        :param keep: malformed calls are kept.
        """
        self._for_calls: FinishReason = for_calls
        self._keep = keep
        self._kept = False
        self._complete = False
        self._cut = False
        self._told: FinishReason | None = None

    def see(self, event: Event) -> None:
        """Take notice of the next event."""
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
            self._told = event.reason

    def reason(self) -> FinishReason:
        """The finish reason of what was seen so far."""
        if self._cut:
            return "length"
        if self._complete:
            return self._for_calls
        # A backend's "tool_calls" is only its guess at what we have just decided.
        if self._told in ("length", "content_filter"):
            return self._told
        return self._for_calls if self._kept else "stop"

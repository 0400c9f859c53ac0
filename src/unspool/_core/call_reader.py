"""Reader of an open tool call, from its commit point to its end.

Theory of operation
-------------------

The *head* of a call is everything up to the function's name, or up to the arguments if they follow the name.
The end of the head is the *commit point*: once the head has matched, ``CallStart`` is emitted and the call is
never retracted.  At this point ``Machine`` creates an ``OpenCall``, and passes all further input to
``OpenCall.read`` until ``has_ended`` is true.

=========  ======================================  =====================================================
phase      reads                                   ends
=========  ======================================  =====================================================
ARGUMENTS  the arguments, through a codec          when the codec is done (TAIL) or fails (RECOVERY)
TAIL       closing markers, each of them optional  when no further closing marker follows
RECOVERY   the text after the error                at a closing marker, or at the opening marker of a call
=========  ======================================  =====================================================

All input that is read here becomes part of ``CallArgs`` events, except the closing markers, which become part
of ``CallEnd``.

In the middle of the arguments, ``source`` is the codec that reads them.  To save time, the machine steps this
codec directly.  When the codec is done, has failed or has a diagnostic to report, the machine calls
``resume``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .compiler.argument_codec_base import NamedPayload
from .compiler.matcher import FAIL, MATCH, NEED_MORE, follows
from .scan.character_runs import BOUND, MORE, match_literal, skip_whitespace

if TYPE_CHECKING:
    from ..events import Status
    from .compiler.argument_codec_base import Codec
    from .compiler.message_headers import FrameForm
    from .compiler.split_templates import CallForm, SectionForm
    from .ledger import Ledger
    from .scan.markers import MarkerSet

ARGUMENTS: Final = 0
TAIL: Final = 1
RECOVERY: Final = 2
PHASE_NAMES: Final = ("arguments", "tail", "recovery")


class OpenCall:
    """Reader of the call that is open."""

    __slots__ = (
        "_arguments_started",
        "_body_is_empty",
        "_codec",
        "_ledger",
        "_repair",
        "_resync",
        "_section",
        "_trailing_data_reported",
        "closes_section",
        "form",
        "frame",
        "has_ended",
        "phase",
        "source",
    )

    def __init__(
        self,
        ledger: Ledger,
        form: CallForm,
        codec: Codec | None,
        *,
        section: SectionForm | None,
        frame: FrameForm | None,
        resync: MarkerSet,
        repair: bool,
    ) -> None:
        """Create a reader that starts after the head of the call.

        :param codec: the codec for the arguments; None if the call has no arguments.
        :param section: the section that began with this call, or None.  If such a call is broken, it ends
            with the closing markers of the section.
        :param frame: the form of the message whose body is this call; None if there is no such message.
        :param resync: markers at which a malformed call ends.
        :param repair: true under the policy ``malformed_call="repair"``: add missing closing brackets.
        """
        self._ledger: Final = ledger
        self._codec: Final = codec
        self._resync: Final = resync
        self._repair: Final = repair
        self.form: Final = form
        self.frame: Final = frame
        self._section: Final = section
        self._body_is_empty = frame is not None
        # A codec that reads the name itself also records where the arguments start; see `_mark_arguments`.
        self._arguments_started = isinstance(codec, NamedPayload)
        self._trailing_data_reported = False
        self.phase = ARGUMENTS
        self.has_ended = False
        """True once the event ``CallEnd`` has been emitted."""
        self.closes_section = False
        """True if the call was broken, and the closing markers of its section ended it."""
        self.source: Codec | None = None
        """Codec that the machine may step directly; None if the machine must call ``read``."""
        if codec is None:
            ledger.emit_arguments("{}", 0)
            self.phase = TAIL

    @property
    def needs_no_closer(self) -> bool:
        """True if the arguments are complete and no closing marker has to follow."""
        closers = self.form.closers if self.frame is None else self.frame.ends
        return self.phase == TAIL and not closers

    def close(self) -> None:
        """End the call directly after its arguments."""
        self._end("complete", 0)

    def read(self, final: bool) -> bool:
        """Continue reading the buffer.  Return False if more input is needed."""
        if self.phase == RECOVERY:
            return self._recover(final)
        if self.phase == TAIL:
            if self.frame is None:
                return self._read_tail(final)
            return self._read_framed_tail(self.frame, final)
        codec = self._codec
        assert codec is not None  # noqa: S101 - a call without a codec starts in the phase TAIL
        ledger = self._ledger
        end = ledger.position
        if end == len(ledger.buffer) or codec.error:
            # There is no new input, or `_handle_error` needs more input before it can repair an error.
            codec.text = ""
        else:
            # If generation was stopped, the end of the input does not end a value: `12` may be the beginning
            # of `123`.  The codec therefore waits, and the call is truncated.
            end = codec.step(ledger.buffer, end, final and not ledger.cut_short)
        return self._take_step(codec, end, final)

    # -- arguments

    def resume(self, end: int) -> bool:
        """Process the last step of ``source``, which has read up to index ``end`` of the buffer."""
        codec = self._codec
        assert codec is not None  # noqa: S101 - only a codec has a source
        if self.source is not codec:
            end = codec.resume(self._ledger.buffer, end)
        return self._take_step(codec, end, final=False)

    def _take_step(self, codec: Codec, end: int, final: bool) -> bool:
        """Emit the JSON text of a codec's step, and choose the next phase."""
        ledger = self._ledger
        self.source = None
        if codec.diagnostics:
            ledger.defer_diagnostics(codec.diagnostics)
        self._mark_arguments(codec, end)
        ledger.emit_arguments(codec.text, end - ledger.position)
        self._body_is_empty = self._body_is_empty and not codec.text
        if codec.error:
            return self._handle_error(codec, final)
        if codec.done:
            self.phase = TAIL
            return True
        if not final:
            # The machine may step the source directly if all input of a step becomes one `CallArgs`.
            if self._arguments_started and not (ledger.call_is_silent or self._body_is_empty):
                self.source = codec.source if ledger.in_output else None
            return False
        if codec.finish(ledger.cut_short) == "truncated":
            return self._truncate()
        ledger.emit_arguments(codec.text, 0)
        ledger.mark_arguments_end(ledger.position)
        self.phase = TAIL
        return True

    def _mark_arguments(self, codec: Codec, end: int) -> None:
        """Record where the arguments start and end, in the input that the codec has read up to ``end``.

        Whitespace before the arguments is not part of them.
        """
        ledger = self._ledger
        if isinstance(codec, NamedPayload):
            if codec.args_start >= 0:
                ledger.mark_arguments_start(codec.args_start)
            if codec.args_end >= 0:
                ledger.mark_arguments_end(codec.args_end)
            codec.args_start = codec.args_end = -1
            return
        if not self._arguments_started:
            first = skip_whitespace(ledger.buffer, ledger.position)
            if first < end:
                self._arguments_started = True
                ledger.mark_arguments_start(first)
        if codec.done:
            ledger.mark_arguments_end(end)

    def _truncate(self) -> bool:
        """End the call, because the input ended inside the arguments."""
        ledger = self._ledger
        ledger.emit_arguments("", len(ledger.buffer) - ledger.position)
        ledger.diagnose("truncated_call", "the input ended inside the arguments")
        self._end("truncated", 0)
        return True

    def _handle_error(self, codec: Codec, final: bool) -> bool:
        """Repair arguments that are not well-formed, or declare the call malformed."""
        ledger = self._ledger
        if self._body_is_empty and ledger.position < len(ledger.buffer):
            # The body of a message with a header may be empty; the call then has no arguments.
            if self._resync.literal_at(ledger.buffer, ledger.position):
                ledger.emit_arguments("{}", 0)
                self.phase = TAIL
                return True
            if self._resync.pending(ledger.buffer, ledger.position):
                return final and self._truncate()
        if self._repair:
            # Missing brackets are added only if a marker or the end of the input shows that the call ends
            # here.
            answer = follows(self._resync, ledger.buffer, ledger.position, final)
            if answer == NEED_MORE:
                return False
            if answer == MATCH and codec.close():
                ledger.emit_arguments(codec.text, 0)
                ledger.mark_arguments_end(ledger.position)
                ledger.defer_diagnostics(codec.diagnostics)
                self.phase = TAIL
                return True
        ledger.diagnose("malformed_call", f"expected {codec.error}")
        self.phase = RECOVERY
        return True

    def _recover(self, final: bool) -> bool:
        """Skip the rest of a malformed call, up to a marker at which calls end."""
        ledger = self._ledger
        buffer = ledger.buffer
        at, literal = self._resync.seek(buffer, ledger.position, final)
        end = len(buffer) if at < 0 else at
        # If the notation is JSON, the client receives the broken JSON exactly as the model wrote it.
        is_json = self._codec is not None and self._codec.verbatim
        ledger.emit_arguments(buffer[ledger.position : end] if is_json else "", end - ledger.position)
        if not literal:
            if at < 0 and final:
                self._end("malformed", 0)
            return at < 0 and final
        # If the call opened a section, its raw text includes the section's opening marker.  The raw text may
        # become content, so it must include the section's closing marker as well.
        of_section = self._section.closers if self._section is not None else ()
        closers = self.frame.ends if self.frame is not None else (*self.form.closers, *of_section)
        if literal not in closers:
            self._end("malformed", 0)
            return True
        end = match_closers(closers, buffer, at, final)
        if end < 0:
            return False
        self.closes_section = bool(of_section) and buffer.endswith(of_section[-1], at, end)
        self._end("malformed", end - at)
        return True

    # -- closing markers

    def _read_tail(self, final: bool) -> bool:
        """Read the closing markers, any of which a model may leave out."""
        ledger = self._ledger
        if self.form.payload == "envelope" and self.form.closers:
            answer = self._closed_early(final)
            if answer == NEED_MORE:
                return False
            if answer == MATCH:
                ledger.diagnose("malformed_call", "expected the end of the call after its object")
                self.phase = RECOVERY
                return True
        closers = self.form.closers
        if self.form.notation == "json" and self.form.payload in ("args", "envelope"):
            length = self._stray_bracket(closers, final)
            if length < 0:
                return False
            if length:
                ledger.emit_arguments("", length)
                return True
        end = match_closers(closers, ledger.buffer, ledger.position, final)
        if end < 0:
            return False
        if closers and end == ledger.position:
            ledger.diagnose("missing_closer", closers[-1])
        self._end("complete", end - ledger.position)
        return True

    def _closed_early(self, final: bool) -> int:
        """Return ``MATCH`` if the call's object continues after its closing brace.

        In this case the model has closed the object too early, as in ``{...}, "id": 1}``.  The members after
        the brace would be lost, so the call is malformed.
        """
        codec = self._codec
        buffer, at = self._ledger.buffer, self._ledger.position
        after = skip_whitespace(buffer, at)
        if after < len(buffer) and buffer[after] == ",":
            at = after + 1
            after = skip_whitespace(buffer, at)
            if after < len(buffer):
                return MATCH if buffer[after] == '"' else FAIL
        elif after < len(buffer):
            return MATCH if buffer[after] == "}" and codec is not None and codec.dropped_member else FAIL
        return FAIL if final or after - at > BOUND else NEED_MORE

    def _stray_bracket(self, closers: tuple[str, ...], final: bool) -> int:
        """Return the length of a surplus closing bracket at the current position; -1 if more input is needed.

        If the call has no closing markers, only a ``}`` directly at the current position is surplus: a ``]``
        may close a list of calls, and whitespace may be content.
        """
        ledger = self._ledger
        buffer, at = ledger.buffer, ledger.position
        after = skip_whitespace(buffer, at) if closers else at
        if after - at > BOUND:
            return 0
        if after == len(buffer):
            return 0 if final else -1
        bracket = buffer[after]
        if bracket not in ("}]" if closers else "}") or (closers and closers[0][0] == bracket):
            return 0
        ledger.defer_diagnostic("stray_closer", bracket, after)
        return after + 1 - at

    def _read_framed_tail(self, frame: FrameForm, final: bool) -> bool:
        """Skip everything between the arguments and the end of the message that contains this call."""
        ledger = self._ledger
        buffer = ledger.buffer
        at, literal = frame.boundaries.seek(buffer, ledger.position, final)
        if at < 0:
            at = len(buffer)
        gap = buffer[ledger.position : at].strip()
        if gap and not self._trailing_data_reported:
            self._trailing_data_reported = True
            ledger.defer_diagnostic(
                "trailing_data",
                "text between the arguments and the end of the message",
                buffer.index(gap, ledger.position),
            )
        ledger.emit_arguments("", at - ledger.position)
        if not literal:
            if final:
                self._end("complete", 0)
            return final
        self._end("complete", len(literal) if literal in frame.ends else 0)
        return True

    def _end(self, status: Status, length: int) -> None:
        self._ledger.end_call(status, length)
        self.has_ended = True


def match_closers(closers: tuple[str, ...], buffer: str, at: int, final: bool) -> int:
    """Return the index just past the closing markers that start at ``at``; -1 if more input is needed.

    The markers are in the order of ``closers``.  Each marker may be missing, and may follow whitespace.
    """
    end = at
    matched = ""
    for closer in closers:
        if matched.startswith(closer):  # the marker that was just read begins with this one
            continue
        start = skip_whitespace(buffer, at)
        if start - at > BOUND:
            break
        closer_end = match_literal(closer, buffer, start)
        if closer_end >= 0:
            at = end = closer_end
            matched = closer
        elif closer_end == MORE:
            if not final:
                return -1
            if start < len(buffer):
                return len(buffer)  # the input ended inside the closing marker
    return end

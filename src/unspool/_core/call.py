"""A call, from its commit point to its end.

========  ====================================================================
PAYLOAD   a codec reads its arguments
TAIL      the arguments are complete; its closing markers may follow
JUNK      it turned out to be broken; looks for its end
========  ====================================================================

What is read here is accounted for as arguments, but for what closes the call;
nothing is taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .compiler.codec import NamedPayload
from .compiler.matcher import FAIL, MATCH, NEED, follows
from .scan.runs import BOUND, MORE, behind_literal, behind_space

if TYPE_CHECKING:
    from ..events import Status
    from .compiler.codec import Codec
    from .compiler.forms import CallForm, FrameForm, SectionForm
    from .ledger import Ledger
    from .scan.markers import MarkerSet

PAYLOAD: Final = 0
TAIL: Final = 1
JUNK: Final = 2
PHASE_NAMES: Final = ("payload", "tail", "junk")


class OpenCall:
    """The call that is being read."""

    __slots__ = (
        "_begun",
        "_codec",
        "_empty",
        "_gap_noted",
        "_ledger",
        "_repair",
        "_resync",
        "_section",
        "closes_section",
        "form",
        "frame",
        "over",
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
        """Begin behind the head.

        :param codec: None: there are no arguments.
        :param section: the one that the call has opened, so that their ends belong together.
        :param frame: the message of which the call is the body.
        :param resync: where it ends if it is malformed.
        """
        self._ledger: Final = ledger
        self._codec: Final = codec
        self._resync: Final = resync
        self._repair: Final = repair
        self.form: Final = form
        self.frame: Final = frame
        self._section: Final = section
        self._empty = frame is not None  # nothing of the body has come
        self._begun = isinstance(codec, NamedPayload)  # its arguments have, or it knows where they do
        self._gap_noted = False  # text behind the arguments of a framed call has been noted
        self.phase = PAYLOAD
        self.over = False
        """It has ended."""
        self.closes_section = False
        """It was broken, and the section that it opened has ended with it."""
        self.source: Codec | None = None
        """The codec to step next, if arguments go on and are shown as they come."""
        if codec is None:
            ledger.args("{}", 0)
            self.phase = TAIL

    @property
    def needs_no_closer(self) -> bool:
        """Whether its arguments are complete, and nothing has to follow them."""
        closers = self.form.closers if self.frame is None else self.frame.ends
        return self.phase == TAIL and not closers

    def close(self) -> None:
        """End where its arguments do."""
        self._end("complete", 0)

    def read(self, final: bool) -> bool:
        """Go on.  False: more input is needed."""
        if self.phase == PAYLOAD:
            return self._read_payload(final)
        if self.phase == JUNK:
            return self._read_junk(final)
        return self._read_tail(final) if self.frame is None else self._read_framed_tail(self.frame, final)

    # -- arguments

    def _read_payload(self, final: bool) -> bool:
        codec = self._codec
        assert codec is not None  # noqa: S101 - the phase says so
        ledger = self._ledger
        end = ledger.pos
        if end == len(ledger.buf) or codec.error:  # it has failed, and what ends it is awaited
            codec.text = ""
        else:
            # Where generation was stopped, the end of the input says nothing about what it had begun.
            end = codec.step(ledger.buf, end, final and not ledger.cut_short)
        return self._stepped(codec, end, final)

    def resume(self, end: int) -> bool:
        """A step of ``source`` has read up to ``end``, and something is to be done about it."""
        codec = self._codec
        assert codec is not None  # noqa: S101 - it has a source
        if self.source is not codec:
            end = codec.resume(self._ledger.buf, end)
        return self._stepped(codec, end, final=False)

    def _stepped(self, codec: Codec, end: int, final: bool) -> bool:
        """The codec has read up to ``end``."""
        ledger = self._ledger
        self.source = None
        if codec.notes:
            ledger.take_notes(codec)
        self._place_arguments(codec, end)
        ledger.args(codec.text, end - ledger.pos)
        self._empty = self._empty and not codec.text
        if codec.error:
            return self._broken(codec, final)
        if codec.done:
            self.phase = TAIL
            return True
        if not final:
            # What the source reads is shown as it comes, as arguments of the output.
            if self._begun and not (ledger.silent or self._empty) and ledger.in_output:
                self.source = codec.source
            return False
        if codec.finish(ledger.cut_short) == "truncated":
            return self._cut_off()
        ledger.args(codec.text, 0)
        ledger.end_arguments(ledger.pos)
        self.phase = TAIL
        return True

    def _place_arguments(self, codec: Codec, end: int) -> None:
        """Where they stand in what the codec has read up to ``end``; blanks before them are not theirs."""
        ledger = self._ledger
        if isinstance(codec, NamedPayload):
            if codec.args_from >= 0:
                ledger.begin_arguments(codec.args_from)
            if codec.args_to >= 0:
                ledger.end_arguments(codec.args_to)
            codec.args_from = codec.args_to = -1
            return
        if not self._begun:
            first = behind_space(ledger.buf, ledger.pos)
            if first < end:
                self._begun = True
                ledger.begin_arguments(first)
        if codec.done:
            ledger.end_arguments(end)

    def _cut_off(self) -> bool:
        """The input is over: what the codec held cannot become anything any more."""
        ledger = self._ledger
        ledger.args("", len(ledger.buf) - ledger.pos)
        ledger.note("truncated_call", "the input ended inside the arguments")
        self._end("truncated", 0)
        return True

    def _broken(self, codec: Codec, final: bool) -> bool:
        """The payload is not well-formed."""
        ledger = self._ledger
        if self._empty and ledger.pos < len(ledger.buf):
            if self._resync.literal_at(ledger.buf, ledger.pos):
                ledger.args("{}", 0)
                self.phase = TAIL
                return True
            if self._resync.pending(ledger.buf, ledger.pos):
                return final and self._cut_off()
        if self._repair:
            answer = follows(self._resync, ledger.buf, ledger.pos, final)
            if answer == NEED:
                return False
            if answer == MATCH and codec.close():
                ledger.args(codec.text, 0)
                ledger.end_arguments(ledger.pos)
                ledger.take_notes(codec)
                self.phase = TAIL
                return True
        ledger.note("malformed_call", f"expected {codec.error}")
        self.phase = JUNK
        return True

    def _read_junk(self, final: bool) -> bool:
        ledger = self._ledger
        buf = ledger.buf
        at, literal = self._resync.seek(buf, ledger.pos, final)
        end = len(buf) if at < 0 else at
        # What is wrong with JSON is told best by the JSON itself.
        written = self._codec is not None and self._codec.verbatim
        ledger.args(buf[ledger.pos : end] if written else "", end - ledger.pos)
        if not literal:
            if at < 0 and final:
                self._end("malformed", 0)
            return at < 0 and final
        # The text of a broken call has the section's opener, so it gets its closer as well.
        of_section = self._section.closers if self._section is not None else ()
        closers = self.frame.ends if self.frame is not None else (*self.form.closers, *of_section)
        if literal not in closers:
            self._end("malformed", 0)
            return True
        end = behind_closers(closers, buf, at, final)
        if end < 0:
            return False
        self.closes_section = bool(of_section) and buf.endswith(of_section[-1], at, end)
        self._end("malformed", end - at)
        return True

    # -- what closes it

    def _read_tail(self, final: bool) -> bool:
        """Closing markers come in parts; those that are there are consumed."""
        ledger = self._ledger
        if self.form.payload == "envelope" and self.form.closers:
            answer = self._closed_early(final)
            if answer == NEED:
                return False
            if answer == MATCH:
                ledger.note("malformed_call", "expected the end of the call behind its object")
                self.phase = JUNK
                return True
        closers = self.form.closers
        if self.form.notation == "json" and self.form.payload in ("args", "envelope"):
            length = self._stray_bracket(closers, final)
            if length < 0:
                return False
            if length:
                ledger.args("", length)
                return True
        end = behind_closers(closers, ledger.buf, ledger.pos, final)
        if end < 0:
            return False
        if closers and end == ledger.pos:
            ledger.note("missing_closer", closers[-1])
        self._end("complete", end - ledger.pos)
        return True

    def _closed_early(self, final: bool) -> int:
        """Whether the object goes on behind its end: a brace stands too early, and something is lost."""
        codec = self._codec
        buf, at = self._ledger.buf, self._ledger.pos
        after = behind_space(buf, at)
        if after < len(buf) and buf[after] == ",":
            at = after + 1
            after = behind_space(buf, at)
            if after < len(buf):
                return MATCH if buf[after] == '"' else FAIL
        elif after < len(buf):
            return MATCH if buf[after] == "}" and codec is not None and codec.passed_over else FAIL
        return FAIL if final or after - at > BOUND else NEED

    def _stray_bracket(self, closers: tuple[str, ...], final: bool) -> int:
        """The length of a closing bracket that closes nothing, if one stands here.  -1: need more.

        Where no marker closes the call, a ``]`` may be that of a list of calls, and white space is text.
        """
        ledger = self._ledger
        buf, at = ledger.buf, ledger.pos
        after = behind_space(buf, at) if closers else at
        if after - at > BOUND:
            return 0
        if after == len(buf):
            return 0 if final else -1
        bracket = buf[after]
        if bracket not in ("}]" if closers else "}") or (closers and closers[0][0] == bracket):
            return 0
        ledger.note_with_end("stray_closer", bracket, after)
        return after + 1 - at

    def _read_framed_tail(self, frame: FrameForm, final: bool) -> bool:
        """After the arguments of a framed call only the end of the message counts."""
        ledger = self._ledger
        buf = ledger.buf
        at, literal = frame.borders.seek(buf, ledger.pos, final)
        if at < 0:
            at = len(buf)
        gap = buf[ledger.pos : at].strip()
        if gap and not self._gap_noted:
            self._gap_noted = True
            where = buf.index(gap, ledger.pos)
            ledger.note_with_end(
                "trailing_data", "text between the arguments and the end of the message", where
            )
        ledger.args("", at - ledger.pos)
        if not literal:
            if final:
                self._end("complete", 0)
            return final
        self._end("complete", len(literal) if literal in frame.ends else 0)
        return True

    def _end(self, status: Status, length: int) -> None:
        self._ledger.end_call(status, length)
        self.over = True


def behind_closers(closers: tuple[str, ...], buf: str, at: int, final: bool) -> int:
    """Behind those of the closers that stand here, in order; -1: more input is needed."""
    end = at
    found = ""
    for closer in closers:
        if found.startswith(closer):  # the same one, spelt without its end
            continue
        after = behind_space(buf, at)
        if after - at > BOUND:
            break
        behind = behind_literal(closer, buf, after)
        if behind >= 0:
            at = end = behind
            found = closer
        elif behind == MORE:
            if not final:
                return -1
            if after < len(buf):
                return len(buf)  # the input ended inside it
    return end

"""Matcher: finds out whether a call or other markup begins at a marker.

Theory of operation
-------------------

Several kinds of markup may begin with the same marker, each described by a program.  The matcher tries these
programs in order.  ``run`` executes the steps of the current program on a window of the buffer, and returns
one of these answers:

=============  ======================================================================
``NEED_MORE``  more input is needed to decide whether the current program matches
``FAIL``       no program matches
``MATCH``      ``program`` has matched ``offset`` characters; ``fields`` contains the texts
               at its placeholders, such as ``{name}``
``CUT``        the input has ended inside the head of a call
``RESTART``    the next program needs input that was set aside (see below)
=============  ======================================================================

Results do not depend on chunking, because every answer except ``NEED_MORE`` is final: further input cannot
change the answer.  If a program needs more input, ``run`` therefore returns ``NEED_MORE``, even if a later
program already matches.  A matcher continues at the step where it stopped, and never reads the same input
twice.

A *head* is the text that a program matches.  It is at most ``BOUND`` characters long, including whitespace.
Only an *envelope*, which is an object that contains the function's name, may be longer, and only if its
arguments precede the name.  The machine then sets aside the input that the envelope has consumed, so that
the buffer stays short and feeding takes linear time.  If the envelope fails, the next program must start
again from the beginning, which is the rare case of ``RESTART``.
"""

from __future__ import annotations

import html
import re
from typing import Final

from ...dialects._control_token_pattern import is_control_token
from ..mypyc_types import i64
from ..scan.character_runs import BOUND, MORE, NO, Alphabet, match_literal, skip_whitespace
from ..scan.markers import MarkerSet, agreement
from .argument_codec_base import NamedPayload
from .match_program_types import (
    ATTRIBUTES,
    CALL,
    CAPTURE,
    DROP,
    EMPTY_SECTION,
    ENVELOPE,
    FOLLOWED,
    HEADER,
    LINE_FEED,
    LITERAL,
    PEEK,
    REPEAT,
    SPACE,
    STOP,
    UNLESS,
    Program,
    Step,
)

# Answers of a matcher.
NEED_MORE: Final = 0
FAIL: Final = 1
MATCH: Final = 2
CUT: Final = 3
RESTART: Final = 4


def _attribute(never: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns: for a complete attribute, and for an incomplete one at the end of the input.

    :param never: characters that cannot occur in a quoted value, written as in a regular expression's
        ``[^...]``.
    """
    key, equals = r"([\w:.-]{})", r"[ \t\r\n]*=[ \t\r\n]*"
    whole = rf"""(?:"([^"{never}]*)"|'([^'{never}]*)'|([^\s"'<>=/]+)(?=[\s<>/]))"""
    partial = rf"""(?:"([^"{never}]*)|'([^'{never}]*)|[^\s"'<>=/]*)?"""
    return (
        re.compile(key.format("+") + equals + whole),
        re.compile(key.format("*") + rf"(?:[ \t\r\n]*(?:=[ \t\r\n]*{partial})?)?\Z"),
    )


_ATTRIBUTE: Final = _attribute(r"\n<")
_ESCAPED_ATTRIBUTE: Final = _attribute(r"\ud800-\udfff")
"""Patterns for a dialect that escapes quotes.  A quoted value may then contain ``<`` and newlines."""


_NO_LETTER: Final = Alphabet(r"[\W\d]*")
"""Set of all characters except letters.  Text without any letter is not a name."""


_MAX_TEXT_BEFORE_CALL: Final = 80
"""Maximum characters between the opening marker of a section and a call, if the model writes text there."""


class Matcher:
    """Executor of programs, which finds the program that matches at a position of the input."""

    # Most matchers never change these attributes, so their defaults are class attributes, to save time.
    envelope: NamedPayload | None = None
    """Codec of the envelope that is being read, if there is one."""
    set_aside: int = 0
    """Number of characters at the start of the window that were set aside."""
    cut_in_head: bool = False
    """True if the input ended inside the beginning of a call, before the commit point."""
    cut_needs_declared: bool = False
    """True if only a declared tool could confirm the incomplete beginning of a call."""
    cut_short: bool = False
    """True if generation was stopped.  A name at the end of the input may then be incomplete."""
    confirmed_by_end: bool = False
    """True if the program matches only because the input has ended."""
    overlong: bool = False
    """True if a program has failed because the text before the commit point of a call was too long."""
    name: str = ""
    """Name of the function.  The machine sets it when it accepts a call."""
    native_id: str = ""
    """Id that the model wrote as part of the name, as in ``functions.now:0``.

    The machine sets it when it accepts a call.
    """
    cut_name: str = ""
    """Part of the function's name that was read, if the input ended inside the beginning of a call."""
    # Offsets from the start of the window, counting input that was set aside; -1 if unknown.
    name_start: i64 = -1
    """Start of the name."""
    name_end: i64 = -1
    """End of the name."""
    args_start: i64 = -1
    """Start of the arguments, if they precede the name in an envelope."""
    args_end: i64 = -1
    """End of the arguments, if they precede the name in an envelope."""
    # The next two attributes are set if a parameter's key has matched, but a later step has failed.
    failed_at: int = 0
    """Offset in the window at which the failed step started."""
    reach: int = 0
    """Offset in the window of the first character that the failed step does not match."""
    _ambiguous: bool = False  # true if markup other than a call could also have followed
    _has_begun: bool = False  # true if the input ended inside text that can only begin a call
    _searched: int = 0  # number of characters already searched for the end of a header

    def __init__(self, programs: list[Program], unescape: bool) -> None:
        """Start with the first program.

        :param unescape: true if attribute values are escaped as in XML.
        """
        self.programs: Final = programs
        self._unescape: Final = unescape
        self.offset = 0
        """Number of characters that the current program has matched, except those that were set aside."""
        self.fields: dict[str, str] = {}
        """Texts at the placeholders, keyed by the name of the placeholder."""
        self.program = programs[0]
        """Program that has matched, or that is being tried."""
        self._program_index = 0
        self._step_index = 0

    def reject(self) -> None:
        """Reject the current program and switch to the next one."""
        self._program_index += 1
        if self._program_index < len(self.programs):
            self.program = self.programs[self._program_index]
        self._step_index = 0
        self.offset = 0
        if self.fields:
            self.fields = {}
        if self._searched:
            self._searched = 0
        if self.envelope is not None:
            self.envelope = None
        if self.confirmed_by_end:
            self.confirmed_by_end = False
        if self.name_start >= 0:
            self.name_start = self.name_end = -1
        if self.args_start >= 0:
            self.args_start = self.args_end = -1

    def skip(self, length: int) -> None:
        """Remove the first characters from a match."""
        self.offset -= length
        self.name_start, self.name_end = max(self.name_start - length, -1), max(self.name_end - length, -1)
        self.args_start, self.args_end = max(self.args_start - length, -1), max(self.args_end - length, -1)

    def run(self, buf: str, pos: int, final: bool) -> int:
        """Continue in a window of the buffer that starts at ``pos``, and return an answer such as ``MATCH``.

        After ``RESTART``, the caller must restore the input that was set aside, and call ``run`` again.
        """
        while self._program_index < len(self.programs):
            if self.set_aside and self.envelope is None:
                return RESTART
            answer = self._run_steps(buf, pos, final)
            if answer == MATCH:
                # A marker to drop may be a prefix of a call's opening marker.  If the input ends inside such
                # an opening marker, the incomplete call takes precedence over the marker to drop.
                cut = self._has_begun or (self.cut_in_head and not self._ambiguous)
                return CUT if cut and self.program.action in (DROP, STOP) else MATCH
            if answer == NEED_MORE:
                if not final:
                    return NEED_MORE
                self._remember_cut(buf, pos)
            elif "key" in self.fields:
                self._remember_key(buf, pos)
            self.reject()
        return CUT if final and self.cut_in_head else FAIL

    def cut_off(self, buf: str, pos: int) -> int:
        """Record the incomplete beginning of a call after generation was stopped, and return ``CUT``."""
        self._remember_cut(buf, pos)
        self.cut_in_head = self.cut_in_head or self.program.action == CALL
        return CUT

    def _remember_cut(self, buf: str, pos: int) -> None:
        """Record the incomplete beginning of a call, which might have matched if the input had continued."""
        if self.program.action != CALL:
            self._ambiguous = self._ambiguous or self.program.action != EMPTY_SECTION
            return
        if self.program.has_text or (
            self._step_index == 0 and not (self.envelope and self.envelope.partial_name)
        ):
            return
        step = self.program.steps[self._step_index]
        if self.envelope is not None:
            self.cut_name = self.envelope.partial_name
        elif step.kind == CAPTURE and step.text == "name" and not step.stop:
            self.cut_name = buf[pos + self.offset :]
        else:
            self.cut_name = self.fields.get("name") or self.fields.get("?name", "")
        self.cut_needs_declared = self.program.declared and (self.cut_needs_declared or not self.cut_in_head)
        self.cut_in_head = True
        in_literal = step.kind == LITERAL and pos + self.offset < len(buf)
        self._has_begun = self._has_begun or in_literal or bool(self.cut_name) or self.envelope is not None

    def _remember_key(self, buf: str, pos: int) -> None:
        """Record where a parameter has failed to match after its key."""
        step = self.program.steps[self._step_index]
        fits = agreement(step.text, buf, pos + self.offset) if step.kind == LITERAL else 0
        if self.offset + fits > self.reach:
            self.failed_at, self.reach = self.offset, self.offset + fits

    def _run_steps(self, buf: str, pos: int, final: bool) -> int:  # noqa: C901 - one branch for each kind of step
        """Execute the steps of the current program, from the step at which it stopped."""
        steps = self.program.steps
        n = len(buf)
        while self._step_index < len(steps):
            step = steps[self._step_index]
            kind = step.kind
            at = pos + self.offset
            if kind == LITERAL:
                end = match_literal(step.text, buf, at)
            elif kind == SPACE:
                end = skip_whitespace(buf, at)
                if step.text:
                    end = self._match_escaped_newlines(step.text, buf, end)
                if end == n and not final:
                    end = MORE
            elif kind == ENVELOPE:
                answer = self._step_envelope(step, buf, pos, final)
                if answer != MATCH:
                    return answer
                self._step_index += 1
                continue
            elif kind == CAPTURE:
                end = self._match_placeholder(step, buf, pos, final)
            elif kind == PEEK:
                end = at if at < n and buf[at] in step.text else (MORE if at >= n else NO)
            elif kind == LINE_FEED:
                end = at + buf.startswith("\n", at) if at < n or final else MORE
            elif kind == ATTRIBUTES:
                end = self._match_attributes(step, buf, pos, final)
            elif kind == REPEAT:
                end = match_literal(self.fields.get(step.text, ""), buf, at)
            elif kind == HEADER:
                end = self._match_header(step, buf, at, final)
            elif kind == FOLLOWED:
                end = self._check_followed(step, buf[: pos + BOUND], at, final and n - pos <= BOUND)
            elif kind == UNLESS:
                end = _check_not_followed(step.markers, buf, at)
            else:  # END: match only at the end of the input
                end = at if at == n and final else (MORE if at == n else NO)
            if end < 0:
                return NEED_MORE if end == MORE and n - pos <= BOUND else FAIL
            self.offset = end - pos
            if self.offset > BOUND:
                return FAIL
            self._step_index += 1
        return MATCH

    def _match_escaped_newlines(self, newline: str, buf: str, at: int) -> int:
        """Skip whitespace and escaped newlines; return ``MORE`` in the middle of an escaped newline."""
        end = match_literal(newline, buf, at)
        while end >= 0:
            self.fields["newline"] = newline
            at = skip_whitespace(buf, end)
            end = match_literal(newline, buf, at)
        return MORE if end == MORE and at < len(buf) else at

    def _match_placeholder(self, step: Step, buf: str, pos: int, final: bool) -> int:
        """Read the text at a placeholder, up to the step's ``stop`` or a character not in its alphabet."""
        at = pos + self.offset
        end = step.alphabet.run(buf, at)
        if self.program.has_text and step.text == "_":
            limit = at + _MAX_TEXT_BEFORE_CALL
            if end > limit and buf.find(step.stop, at, limit + len(step.stop)) < 0:
                return NO
        if step.stop:
            stop = buf.find(step.stop, at, end + len(step.stop))
            if stop < 0 and not final and (end == len(buf) or _ends_inside(step.stop, buf, at, end)):
                return MORE
            end = stop if stop >= 0 else end
        elif end == len(buf) and not final:
            return MORE
        caught = buf[at:end].strip()
        if not caught and step.text in ("name", "id", "key"):
            return MORE if at == len(buf) else NO
        if step.text == "name":
            if _NO_LETTER.run(caught, 0) == len(caught):
                return NO
            self.name_start, self.name_end = at - pos, end - pos
        self.fields[step.text] = caught
        return end

    def _match_attributes(self, step: Step, buf: str, pos: int, final: bool) -> int:
        """Read attributes one by one; advance ``offset`` after each one, so that none is read twice."""
        n = len(buf)
        at = pos + self.offset
        whole, started = _ESCAPED_ATTRIBUTE if self._unescape else _ATTRIBUTE
        while True:
            after = skip_whitespace(buf, at)
            if after == n and not final:
                return MORE
            match = whole.match(buf, after) if after > at else None
            if match is None:
                partial = started.match(buf, after) if after > at else None
                if partial is not None:
                    if step.fields.get(partial[1]) == "name":
                        self.fields["?name"] = partial[2] or partial[3] or ""
                    return MORE
                break
            field = step.fields.get(match[1], "")
            if field and field not in self.fields:
                value = match[2] or match[3] or match[4] or ""
                if field == "name":
                    group = 2 if match[2] else 3 if match[3] else 4
                    self.name_start, self.name_end = match.start(group) - pos, match.end(group) - pos
                self.fields[field] = html.unescape(value) if self._unescape else value
            at = match.end()
            self.offset = at - pos
            if self.offset > BOUND:
                return NO
        for field in ("name", "key"):
            if field in step.fields.values() and not self.fields.get(field, "").strip():
                return NO
        return after

    def _match_header(self, step: Step, buf: str, at: int, final: bool) -> int:
        """Match a message's header, up to its separator or to text that cannot be part of a header.

        If a control token (``step.text``) opens the header, an unfinished header is markup.  If ordinary
        words open the header, an unfinished header is text.  If ordinary words end the header, the machine
        uses the character after the header (``fields["next"]``) to distinguish the header from text.
        """
        if step.text and not self._searched:  # if the opening token follows again, this header is empty
            again = match_literal(step.text, buf, at)
            if again >= 0:
                self.fields["header"] = self.fields["ended"] = ""
                return at
            if again == MORE and not final:
                return MORE
        limit = at + BOUND // 2
        found = at + self._searched
        ahead = buf[found:limit]
        fits = (_LINE_HEADER if step.stop == "\n" else _HEADER).run(ahead, 0)
        broken = fits < len(ahead)
        end = found + fits
        window = buf[found : end + step.markers.longest]
        place, literal = step.markers.seek(window, 0, final)
        found += place
        if place >= 0 and found < end:
            if not literal:
                self._searched = found - at
                return MORE
            after_literal = found + len(literal)
            if after_literal == len(buf) and not (final or step.text or is_control_token(literal)):
                self._searched = found - at
                return MORE
            self.fields["header"] = buf[at:found]
            self.fields["ended"] = literal
            self.fields["next"] = buf[after_literal : after_literal + 1]
            return found if step.text or literal == step.stop else NO
        if not broken and end < limit and not final:
            self._searched = end - at
            return MORE
        if not step.text and (broken or end == limit):
            return NO
        self.fields["header"] = buf[at:end]
        self.fields["ended"] = ""
        self.confirmed_by_end = final and not broken and end < limit
        return end

    def _check_followed(self, step: Step, buf: str, at: int, final: bool) -> int:
        """Check that a marker or the end of the input follows, after optional whitespace."""
        after = skip_whitespace(buf, at)
        if after == len(buf):
            self.confirmed_by_end = final
            return at if final and not self.cut_short else MORE
        if step.markers.literal_at(buf, after):
            return at
        return MORE if not final and step.markers.pending(buf, after) else NO

    def _step_envelope(self, step: Step, buf: str, pos: int, final: bool) -> int:
        """Step the codec of an envelope until it has reached its commit point or failed."""
        envelope = self.envelope
        if envelope is None:
            assert step.make_envelope is not None  # noqa: S101 - every ENVELOPE step has it
            envelope = self.envelope = step.make_envelope(step.text, step.unmarked)
        end = envelope.step(buf, pos + self.offset, final)
        self.offset = end - pos
        self._take_places(envelope, self.set_aside - pos)
        if envelope.error:
            self.overlong = self.overlong or envelope.overlong
            return FAIL
        if not envelope.committed:
            return NEED_MORE
        # All diagnostics so far are reported at the commit point.
        if envelope.diagnostics:
            envelope.diagnostics = [(kind, detail, 0) for kind, detail, _ in envelope.diagnostics]
        return MATCH

    def _take_places(self, envelope: NamedPayload, shift: int) -> None:
        """Move the offsets of the name and the arguments from the envelope's codec to this matcher."""
        if envelope.name_start >= 0:
            self.name_start = envelope.name_start + shift
        if envelope.name_end >= 0:
            self.name_end = envelope.name_end + shift
        if envelope.args_start >= 0:
            self.args_start = envelope.args_start + shift
        if envelope.args_end >= 0:
            self.args_end = envelope.args_end + shift
        envelope.name_start = envelope.name_end = envelope.args_start = envelope.args_end = -1


def _check_not_followed(markers: MarkerSet, buf: str, at: int) -> int:
    """Check that none of these literals follows, after optional whitespace."""
    after = skip_whitespace(buf, at)
    if after == len(buf) or markers.pending(buf, after):
        return MORE
    return NO if markers.literal_at(buf, after) else at


def _ends_inside(literal: str, buf: str, at: int, end: int) -> bool:
    """Return whether the buffer ends inside a literal that starts between ``at`` and ``end``."""
    first = max(at, len(buf) - len(literal) + 1)
    return any(literal.startswith(buf[begin:]) for begin in range(first, min(end + 1, len(buf))))


def follows(what: MarkerSet, buf: str, at: int, final: bool) -> int:
    """Check whether one of these literals or the end of the input follows, after optional whitespace.

    The answer is ``MATCH``, ``FAIL`` or ``NEED_MORE``.
    """
    after = skip_whitespace(buf, at)
    if after - at > BOUND:
        return FAIL
    if after == len(buf):
        return MATCH if final else NEED_MORE
    if what.literal_at(buf, after):
        return MATCH
    if what.pending(buf, after):
        return MATCH if final else NEED_MORE  # the input may end inside the literal
    return FAIL


_HEADER: Final = Alphabet(r"[^\n{}\"'!?,]*")
_LINE_HEADER: Final = Alphabet(r"[^<>{}\"'!?,]*")
"""Set of the characters that are allowed in a header if a newline ends the header."""

"""Matcher: decides whether something begins at a marker, and what.

Theory of operation
-------------------

Where a marker stands, the programs that may begin there are tried in order.  ``run`` executes the
steps of the current program on a window of the buffer.  Its answers:

===========  ========================================================================
``NEED_MORE``     the input ends before the current program has matched or failed
``FAIL``     no program matches
``MATCH``    ``program`` has matched ``offset`` characters; ``fields`` has its holes
``CUT``      the end of the input cut off the head of a call
``RESTART``  the next program needs the input that was set aside; see below
===========  ========================================================================

All results are independent of chunking because of the *monotone law*: what a matcher decides on a
prefix, it decides on every extension of it; until then it asks for more.  So the first program that
needs more input stops the loop, although a later one may match already.  A matcher is resumed at the
step where it stopped.  It never reads the same input twice.

A head is at most ``BOUND`` characters long, including whitespace.  Only an envelope may be longer, if
its arguments come before its name.  The machine then sets aside what the envelope has consumed, so
that the buffer stays short and feeding takes linear time.  If the envelope fails, the next program has
to start from the beginning; that is the rare case of ``RESTART``.
"""

from __future__ import annotations

import html
import re
from typing import Final

from ...dialects._control_tokens import is_control_token
from ..mypyc_types import i64
from ..scan.character_runs import BOUND, MORE, NO, Alphabet, match_literal, skip_whitespace
from ..scan.markers import MarkerSet, agreement
from .argument_codec import NamedPayload
from .match_programs import (
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
    """Return patterns for a whole attribute and for the beginning of one.

    :param never: characters that do not occur in a quoted value.
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
"""Patterns for a dialect that escapes quotes, so that a value may contain any other character."""


_NO_LETTER: Final = Alphabet(r"[\W\d]*")
"""Characters of a number or a counter, which is not a name."""


class Matcher:
    """Execution of programs at one place of the input."""

    # Most of these keep their default in most matchers, so they are set only when they change.
    envelope: NamedPayload | None = None
    """Codec of the envelope that is being read, if the program has one."""
    set_aside: int = 0
    """Number of characters of the window that were set aside."""
    cut_in_head: bool = False
    """True if the input ended inside the head of a call."""
    cut_needs_declared: bool = False
    """True if that head could only have become a call to a declared tool."""
    cut_short: bool = False
    """True if generation was stopped, so that a name at the end of the input may be incomplete."""
    confirmed_by_end: bool = False
    """True if only the end of the input confirmed the match."""
    overlong: bool = False
    """True if a program has failed because the head of its call was too long."""
    name: str = ""
    """Name of the function; set by the machine when it accepts a head."""
    native_id: str = ""
    """Id that came with the name; set by the machine as well."""
    cut_name: str = ""
    """Beginning of the name, if the input ended inside a head."""
    # Places, counted from the start of the window including what was set aside; -1: not known.
    name_start: i64 = -1
    """Start of the name."""
    name_end: i64 = -1
    """End of the name."""
    args_start: i64 = -1
    """Start of arguments that an envelope has in front of its name."""
    args_end: i64 = -1
    """End of these arguments."""
    # For a parameter whose key has matched and whose rest has not.
    failed_at: int = 0
    """Start of the step that failed, in the window."""
    reach: int = 0
    """End of what fits of that step."""
    _ambiguous: bool = False  # at the end of the input, something other than a call was possible, too
    _has_begun: bool = False  # at the end of the input, the head was unmistakable
    _searched: int = 0  # number of characters of a header that contain nothing that ends it

    def __init__(self, programs: list[Program], unescape: bool) -> None:
        """Start with the first program.

        :param unescape: attributes are escaped as in XML.
        """
        self.programs: Final = programs
        self._unescape: Final = unescape
        self.offset = 0
        """Number of characters that the current program has matched, without what was set aside."""
        self.fields: dict[str, str] = {}
        """Text of the holes, by field."""
        self.program = programs[0]
        """The program that matched or is being tried."""
        self._program_index = 0
        self._step_index = 0

    def reject(self) -> None:
        """Give up the current program and turn to the next one."""
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

    def run(self, buf: str, pos: int, final: bool) -> int:
        """Continue in a window of the buffer that starts at ``pos``, and return an answer.

        After ``RESTART`` the caller puts what was set aside in front of the buffer, and calls again.
        """
        while self._program_index < len(self.programs):
            if self.set_aside and self.envelope is None:
                return RESTART
            answer = self._run_steps(buf, pos, final)
            if answer == MATCH:
                # A marker to drop may be a prefix of a call's opener.  A call that was cut off takes
                # precedence over it.
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
        """Answer for a program that needs more input when generation was stopped."""
        self._remember_cut(buf, pos)
        self.cut_in_head = self.cut_in_head or self.program.action == CALL
        return CUT

    def _remember_cut(self, buf: str, pos: int) -> None:
        """Remember the head of a call that only the end of the input keeps from matching."""
        if self.program.action != CALL:
            self._ambiguous = self._ambiguous or self.program.action != EMPTY_SECTION
            return
        if self._step_index == 0 and not (self.envelope and self.envelope.partial_name):
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
        """Remember a parameter whose key is followed by something other than its value."""
        step = self.program.steps[self._step_index]
        fits = agreement(step.text, buf, pos + self.offset) if step.kind == LITERAL else 0
        if self.offset + fits > self.reach:
            self.failed_at, self.reach = self.offset, self.offset + fits

    def _run_steps(self, buf: str, pos: int, final: bool) -> int:  # noqa: C901 - one branch for each kind of step
        """Execute the steps of the current program from where it stopped."""
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
                end = self._match_hole(step, buf, pos, final)
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
            else:  # END: only the end of the input may follow
                end = at if at == n and final else (MORE if at == n else NO)
            if end < 0:
                return NEED_MORE if end == MORE and n - pos <= BOUND else FAIL
            self.offset = end - pos
            if self.offset > BOUND:
                return FAIL
            self._step_index += 1
        return MATCH

    def _match_escaped_newlines(self, newline: str, buf: str, at: int) -> int:
        """Return the index past whitespace with escaped newlines in it; ``MORE`` inside one of these."""
        end = match_literal(newline, buf, at)
        while end >= 0:
            self.fields["newline"] = newline
            at = skip_whitespace(buf, end)
            end = match_literal(newline, buf, at)
        return MORE if end == MORE and at < len(buf) else at

    def _match_hole(self, step: Step, buf: str, pos: int, final: bool) -> int:
        """Read a hole: as many characters of its alphabet as there are, up to its stop."""
        at = pos + self.offset
        end = step.alphabet.run(buf, at)
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
        """Read attributes one by one; ``offset`` moves with each, so none is read twice."""
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
        """Match the header of a framed message, up to its separator or as far as it may be a header.

        If a control token opens the header (``step.text``), an unfinished header is still markup.  If
        ordinary words open it, an unfinished header is text.  If ordinary words end it, the character
        after it (``next``) helps to tell the two apart.
        """
        if step.text and not self._searched:  # the opener again, so this header is empty
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
        """Check that a marker or the end of the input comes next, after any whitespace."""
        after = skip_whitespace(buf, at)
        if after == len(buf):
            self.confirmed_by_end = final
            return at if final and not self.cut_short else MORE
        if step.markers.literal_at(buf, after):
            return at
        return MORE if not final and step.markers.pending(buf, after) else NO

    def _step_envelope(self, step: Step, buf: str, pos: int, final: bool) -> int:
        """Step the codec of an envelope until it has committed to a call or failed."""
        envelope = self.envelope
        if envelope is None:
            assert step.make_envelope is not None  # noqa: S101 - steps of this kind have it
            envelope = self.envelope = step.make_envelope(step.text, step.unmarked)
        end = envelope.step(buf, pos + self.offset, final)
        self.offset = end - pos
        self._take_places(envelope, self.set_aside - pos)
        if envelope.error:
            self.overlong = self.overlong or envelope.overlong
            return FAIL
        if not envelope.committed:
            return NEED_MORE
        # A diagnostic from in front of the commit point is reported at the commit point.
        if envelope.notes:
            envelope.notes = [(kind, detail, 0) for kind, detail, _ in envelope.notes]
        return MATCH

    def _take_places(self, envelope: NamedPayload, shift: int) -> None:
        """Take over where the envelope has found name and arguments."""
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
    """Check that something other than these literals comes next, after any whitespace."""
    after = skip_whitespace(buf, at)
    if after == len(buf) or markers.pending(buf, after):
        return MORE
    return NO if markers.literal_at(buf, after) else at


def _ends_inside(literal: str, buf: str, at: int, end: int) -> bool:
    """Return whether the text ends inside a literal that starts between ``at`` and ``end``."""
    first = max(at, len(buf) - len(literal) + 1)
    return any(literal.startswith(buf[begin:]) for begin in range(first, min(end + 1, len(buf))))


def follows(what: MarkerSet, buf: str, at: int, final: bool) -> int:
    """Return ``MATCH`` if one of these literals or the end of the input comes next, after any whitespace.

    ``NEED_MORE`` and ``FAIL`` mean the same as for a matcher.
    """
    after = skip_whitespace(buf, at)
    if after - at > BOUND:
        return FAIL
    if after == len(buf):
        return MATCH if final else NEED_MORE
    if what.literal_at(buf, after):
        return MATCH
    if what.pending(buf, after):
        return MATCH if final else NEED_MORE  # the input may end inside it
    return FAIL


_HEADER: Final = Alphabet(r"[^\n{}\"'!?,]*")
_LINE_HEADER: Final = Alphabet(r"[^<>{}\"'!?,]*")
"""Characters of a header that ends with a newline."""

"""Trials decide whether something begins at a marker, and what.

Where a marker is found, the programs that may begin there are tried in order.
The law that chunking invariance follows from, the *monotone law*: what a trial
decides on a prefix it decides on every extension of it; until then it asks for
more.  So the first program that needs more input stops the loop, and a trial is
resumed where it stopped, never run again over what it has read.

A head reaches at most ``BOUND`` characters, white space included; only an
envelope whose arguments come before its name may be longer, by those, and the
text it has consumed is laid aside, so that feeding stays linear.
"""

from __future__ import annotations

import html
import re
from typing import Final

from ...dialects._control_tokens import is_control_token
from ..mypyc_types import i64
from ..scan.markers import MarkerSet, agreement
from ..scan.runs import BOUND, MORE, NO, Alphabet, behind_literal, behind_space
from .codec import NamedPayload
from .programs import (
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

# What a trial answers.
NEED: Final = 0
FAIL: Final = 1
MATCH: Final = 2
CUT: Final = 3
RESTART: Final = 4


def _attribute(never: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns for an attribute, and for one that has begun; ``never``: what no value in quotes holds."""
    key, equals = r"([\w:.-]{})", r"[ \t\r\n]*=[ \t\r\n]*"
    whole = rf"""(?:"([^"{never}]*)"|'([^'{never}]*)'|([^\s"'<>=/]+)(?=[\s<>/]))"""
    begun = rf"""(?:"([^"{never}]*)|'([^'{never}]*)|[^\s"'<>=/]*)?"""
    return (
        re.compile(key.format("+") + equals + whole),
        re.compile(key.format("*") + rf"(?:[ \t\r\n]*(?:=[ \t\r\n]*{begun})?)?\Z"),
    )


_ATTRIBUTE: Final = _attribute(r"\n<")
_ESCAPED_ATTRIBUTE: Final = _attribute(r"\ud800-\udfff")
"""Where quotes are escaped, a value holds anything but a quote."""


_NO_LETTER: Final = Alphabet(r"[\W\d]*")
"""What is no name: a number, a counter."""


class Matcher:
    """Programs being tried at one place of the input."""

    # Most of this stays as it is in most trials, so it is set when it changes.
    envelope: NamedPayload | None = None
    """The envelope being read, if the program has one."""
    aside: int = 0
    """How much of the window, which an envelope has consumed, was laid aside."""
    can_cut: bool = False
    """The input ended inside the head of a call."""
    only_declared: bool = False
    """What it ended in could only have been a call to a declared tool."""
    cut_short: bool = False
    """Generation hit its limit, so a name that the input ends with may be incomplete."""
    at_end: bool = False
    """Only the end of the input confirmed what matched."""
    overlong: bool = False
    """A program has failed because the head of its call went on for too long."""
    name: str = ""
    """The function that a head which counts is for, ..."""
    native_id: str = ""
    """... the id that came with its name, ..."""
    name_from: i64 = -1
    """... where the name begins, from the start of the window with what was laid aside; ..."""
    name_to: i64 = -1
    """... where it ends, ..."""
    args_from: i64 = -1
    """... and where arguments begin that an envelope has before it, ..."""
    args_to: i64 = -1
    """... and end."""
    failed_at: int = 0
    """Behind the key of a parameter, in the window: the step that has failed, and ..."""
    reach: int = 0
    """... how far even that one fits."""
    _ambiguous: bool = False  # it could have become something else than a call, too
    _begun: bool = False
    _cut_name: str = ""
    _searched: int = 0  # how much of a header is known to hold nothing that ends it

    def __init__(self, programs: list[Program], unescape: bool) -> None:
        """``unescape``: attributes are escaped as in XML."""
        self.programs: Final = programs
        self._unescape: Final = unescape
        self.offset = 0
        """How far the current program has matched, from the start of the window in the buffer."""
        self.fields: dict[str, str] = {}
        """What the holes caught."""
        self.program = programs[0]
        """The one that matched, or is being tried."""
        self._which = 0
        self._step = 0

    @property
    def cut_name(self) -> str:
        """What there is of the name where the input ended inside a head."""
        return self._cut_name

    def reject(self) -> None:
        """What matched does not count here: try the next program."""
        self._which += 1
        if self._which < len(self.programs):
            self.program = self.programs[self._which]
        self._step = 0
        self.offset = 0
        if self.fields:
            self.fields = {}
        if self._searched:
            self._searched = 0
        if self.envelope is not None:
            self.envelope = None
        if self.at_end:
            self.at_end = False
        if self.name_from >= 0:
            self.name_from = self.name_to = -1
        if self.args_from >= 0:
            self.args_from = self.args_to = -1

    def run(self, buf: str, pos: int, final: bool) -> int:
        """Go on; the window starts at ``pos``.

        ``RESTART`` asks for what was laid aside to be put back in front of the buffer.
        """
        while self._which < len(self.programs):
            if self.aside and self.envelope is None:
                return RESTART
            answer = self._run_steps(buf, pos, final)
            if answer == MATCH:
                # A call that was cut off is more than the furniture that it begins like.
                cut = self._begun or (self.can_cut and not self._ambiguous)
                return CUT if cut and self.program.action in (DROP, STOP) else MATCH
            if answer == NEED:
                if not final:
                    return NEED
                self._remember_cut(buf, pos)
            elif "key" in self.fields:
                self._remember_key(buf, pos)
            self.reject()
        return CUT if final and self.can_cut else FAIL

    def cut_off(self, buf: str, pos: int) -> int:
        """Generation was stopped where more was needed."""
        self._remember_cut(buf, pos)
        self.can_cut = self.can_cut or self.program.action == CALL
        return CUT

    def _remember_cut(self, buf: str, pos: int) -> None:
        """A head that only the end of the input keeps from matching."""
        if self.program.action != CALL:
            self._ambiguous = self._ambiguous or self.program.action != EMPTY_SECTION
            return
        if self._step == 0 and not (self.envelope and self.envelope.partial_name):
            return
        step = self.program.steps[self._step]
        if self.envelope is not None:
            self._cut_name = self.envelope.partial_name
        elif step.kind == CAPTURE and step.text == "name" and not step.stop:
            self._cut_name = buf[pos + self.offset :]
        else:
            self._cut_name = self.fields.get("name") or self.fields.get("?name", "")
        self.only_declared = self.program.declared and (self.only_declared or not self.can_cut)
        self.can_cut = True
        in_literal = step.kind == LITERAL and pos + self.offset < len(buf)
        self._begun = self._begun or in_literal or bool(self._cut_name) or self.envelope is not None

    def _remember_key(self, buf: str, pos: int) -> None:
        """A parameter that has a key, and something else than its value behind it."""
        step = self.program.steps[self._step]
        fits = agreement(step.text, buf, pos + self.offset) if step.kind == LITERAL else 0
        if self.offset + fits > self.reach:
            self.failed_at, self.reach = self.offset, self.offset + fits

    def _run_steps(self, buf: str, pos: int, final: bool) -> int:  # noqa: C901 - a branch for each kind
        steps = self.program.steps
        n = len(buf)
        while self._step < len(steps):
            step = steps[self._step]
            kind = step.kind
            at = pos + self.offset
            if kind == LITERAL:
                end = behind_literal(step.text, buf, at)
            elif kind == SPACE:
                end = behind_space(buf, at)
                if step.text:
                    end = self._spelt_space(step.text, buf, end)
                if end == n and not final:
                    end = MORE
            elif kind == ENVELOPE:
                answer = self._envelope(step, buf, pos, final)
                if answer != MATCH:
                    return answer
                self._step += 1
                continue
            elif kind == CAPTURE:
                end = self._capture(step, buf, pos, final)
            elif kind == PEEK:
                end = at if at < n and buf[at] in step.text else (MORE if at >= n else NO)
            elif kind == LINE_FEED:
                end = at + buf.startswith("\n", at) if at < n or final else MORE
            elif kind == ATTRIBUTES:
                end = self._attributes(step, buf, pos, final)
            elif kind == REPEAT:
                end = behind_literal(self.fields.get(step.text, ""), buf, at)
            elif kind == HEADER:
                end = self._header(step, buf, at, final)
            elif kind == FOLLOWED:
                end = self._followed(step, buf[: pos + BOUND], at, final and n - pos <= BOUND)
            elif kind == UNLESS:
                end = _unless(step.watch, buf, at)
            else:  # END: only the end of the input may follow
                end = at if at == n and final else (MORE if at == n else NO)
            if end < 0:
                return NEED if end == MORE and n - pos <= BOUND else FAIL
            self.offset = end - pos
            if self.offset > BOUND:
                return FAIL
            self._step += 1
        return MATCH

    def _spelt_space(self, spelt: str, buf: str, at: int) -> int:
        """Behind white space in which line breaks are spelt out; ``MORE`` inside such a spelling."""
        end = behind_literal(spelt, buf, at)
        while end >= 0:
            self.fields["spelt"] = spelt
            at = behind_space(buf, end)
            end = behind_literal(spelt, buf, at)
        return MORE if end == MORE and at < len(buf) else at

    def _capture(self, step: Step, buf: str, pos: int, final: bool) -> int:
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
            self.name_from, self.name_to = at - pos, end - pos
        self.fields[step.text] = caught
        return end

    def _attributes(self, step: Step, buf: str, pos: int, final: bool) -> int:
        """Attributes one by one; each is read once, however the input is cut."""
        n = len(buf)
        at = pos + self.offset
        whole, started = _ESCAPED_ATTRIBUTE if self._unescape else _ATTRIBUTE
        while True:
            after = behind_space(buf, at)
            if after == n and not final:
                return MORE
            match = whole.match(buf, after) if after > at else None
            if match is None:
                begun = started.match(buf, after) if after > at else None
                if begun is not None:
                    if step.fields.get(begun[1]) == "name":
                        self.fields["?name"] = begun[2] or begun[3] or ""
                    return MORE
                break
            field = step.fields.get(match[1], "")
            if field and field not in self.fields:
                value = match[2] or match[3] or match[4] or ""
                if field == "name":
                    group = 2 if match[2] else 3 if match[3] else 4
                    self.name_from, self.name_to = match.start(group) - pos, match.end(group) - pos
                self.fields[field] = html.unescape(value) if self._unescape else value
            at = match.end()
            self.offset = at - pos
            if self.offset > BOUND:
                return NO
        for field in ("name", "key"):
            if field in step.fields.values() and not self.fields.get(field, "").strip():
                return NO
        return after

    def _header(self, step: Step, buf: str, at: int, final: bool) -> int:
        """The header of a framed message: up to its separator, or as far as it may be one.

        What a control token opens (``step.text``) is framing even if it is not
        finished; what ordinary words open is text then.  Where words end it as well,
        the character behind it (``next``) helps to tell.
        """
        if step.text and not self._searched:  # the same opener again: this one has no header
            again = behind_literal(step.text, buf, at)
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
        window = buf[found : end + step.watch.longest]
        place, literal = step.watch.seek(window, 0, final)
        found += place
        if place >= 0 and found < end:
            if not literal:
                self._searched = found - at
                return MORE
            behind = found + len(literal)
            if behind == len(buf) and not (final or step.text or is_control_token(literal)):
                self._searched = found - at
                return MORE
            self.fields["header"] = buf[at:found]
            self.fields["ended"] = literal
            self.fields["next"] = buf[behind : behind + 1]
            return found if step.text or literal == step.stop else NO
        if not broken and end < limit and not final:
            self._searched = end - at
            return MORE
        if not step.text and (broken or end == limit):
            return NO
        self.fields["header"] = buf[at:end]
        self.fields["ended"] = ""
        self.at_end = final and not broken and end < limit
        return end

    def _followed(self, step: Step, buf: str, at: int, final: bool) -> int:
        """What stands next, white space aside, must be a marker or the end of the input."""
        after = behind_space(buf, at)
        if after == len(buf):
            self.at_end = final
            return at if final and not self.cut_short else MORE
        if step.watch.literal_at(buf, after):
            return at
        return MORE if not final and step.watch.pending(buf, after) else NO

    def _envelope(self, step: Step, buf: str, pos: int, final: bool) -> int:
        envelope = self.envelope
        if envelope is None:
            assert step.embed is not None  # noqa: S101 - the kind says so
            envelope = self.envelope = step.embed(step.text, step.unmarked)
        end = envelope.step(buf, pos + self.offset, final)
        self.offset = end - pos
        self._place(envelope, self.aside - pos)
        if envelope.error:
            self.overlong = self.overlong or envelope.overlong
            return FAIL
        if not envelope.committed:
            return NEED
        # Before the commit point a note has no place of its own.
        if envelope.notes:
            envelope.notes = [(kind, detail, 0) for kind, detail, _ in envelope.notes]
        return MATCH

    def _place(self, envelope: NamedPayload, shift: int) -> None:
        """Take where the envelope has come upon name and arguments."""
        if envelope.name_from >= 0:
            self.name_from = envelope.name_from + shift
        if envelope.name_to >= 0:
            self.name_to = envelope.name_to + shift
        if envelope.args_from >= 0:
            self.args_from = envelope.args_from + shift
        if envelope.args_to >= 0:
            self.args_to = envelope.args_to + shift
        envelope.name_from = envelope.name_to = envelope.args_from = envelope.args_to = -1


def _unless(watch: MarkerSet, buf: str, at: int) -> int:
    """What stands next, white space aside, must be something, and none of these literals."""
    after = behind_space(buf, at)
    if after == len(buf) or watch.pending(buf, after):
        return MORE
    return NO if watch.literal_at(buf, after) else at


def _ends_inside(literal: str, buf: str, at: int, end: int) -> bool:
    """Whether the text ends inside a literal that begins between these places."""
    first = max(at, len(buf) - len(literal) + 1)
    return any(literal.startswith(buf[begin:]) for begin in range(first, min(end + 1, len(buf))))


def follows(what: MarkerSet, buf: str, at: int, final: bool) -> int:
    """Whether one of these literals, or the end of the input, comes next, white space aside."""
    after = behind_space(buf, at)
    if after - at > BOUND:
        return FAIL
    if after == len(buf):
        return MATCH if final else NEED
    if what.literal_at(buf, after):
        return MATCH
    if what.pending(buf, after):
        return MATCH if final else NEED  # the input may end inside it
    return FAIL


_HEADER: Final = Alphabet(r"[^\n{}\"'!?,]*")
_LINE_HEADER: Final = Alphabet(r"[^<>{}\"'!?,]*")
"""What a header that a line break ends is spelt in."""

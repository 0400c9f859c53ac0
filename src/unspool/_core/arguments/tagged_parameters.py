"""Codec for tagged parameters: ``<parameter=city>Paris</parameter>`` becomes ``{"city": "Paris"}``.

Theory of operation:

* ``_SEEK`` is the state between parameters.  A ``Matcher`` for the dialect's templates reads the
  next opening tag with its key and attributes.  Any other marker ends the arguments.
* ``_VALUE`` is the state inside a value.  One search finds the next literal that may end the value
  (``ParamForm.value_markers``), and ``_ends_value`` decides whether it does.
* ``_WRAPPER`` is the state inside a parameter that may hold all arguments as one JSON object.
  Some models write such a parameter under names such as ``arguments``.

Values are not escaped, so a value may contain the text of its own closing tag, or quote a whole
call.  Four rules determine where a value ends:

1. A closing tag ends the value only if another parameter or the end of the call follows
   (*confirmed close*).  The policy ``close_in_value`` turns this check off.
2. A value without a closing tag ends at a marker that certainly ends the call.  Such a value also ends at the
   opening tag of a parameter that the function declares and the call does not have yet.
3. If a value quotes a whole call, all tags of this call are data.  ``_level`` tracks such calls.  A quoted
   call that is never closed ends with the section of the call around it.
4. A closing tag that is repeated directly after itself is noise, and the value ends at the first one.  But if
   the value holds opening tags of parameters (``_unpaired``), each of them takes one of the closing tags.

The schema determines how the text of a parameter is converted (``Slot``).  A string is escaped and
output as it arrives; any other value is held back until its end.  A literal that may end a value is
held back, too, until more input shows whether it does.  Later input never changes the output so
far, so a prefix of the input yields a prefix of the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..compiler.matcher import FAIL, MATCH, NEED_MORE, Matcher, follows
from ..scan.character_runs import BOUND, MORE, escaped, match_literal, skip_whitespace
from ..schema.text_to_value import Slot, quote
from ..schema.tools import UNKNOWN
from .json_value import JsonValue
from .tagged_parameters_base import Parameters

if TYPE_CHECKING:
    from ...events import Status
    from ...policies import Policies
    from ..compiler.compiled_dialect import CompiledDialect
    from ..compiler.split_templates import ParamForm
    from ..schema.tools import Tools

# States.  They are plain integers, because compiled code keeps integers in registers.
_SEEK: Final = 0
_VALUE: Final = 1
_WRAPPER: Final = 2
_MOST_DOUBLED: Final = 2
"""Number of superfluous closing tags after that of a value.  More of them are text about tags."""


class TaggedParameters(Parameters):
    """Codec for the tagged parameters of one call, up to the call's closing marker."""

    __slots__ = (
        "_all_arguments",
        "_at_start",
        "_attributes",
        "_closer",
        "_discards",
        "_escaped_newline",
        "_form",
        "_is_doubled",
        "_key",
        "_level",
        "_may_be_compact",
        "_quotes_section",
        "_raw",
        "_repair",
        "_seen",
        "_slot",
        "_state",
        "_streams",
        "_unpaired",
    )

    def __init__(self, compiled: CompiledDialect, tools: Tools, function: str, policies: Policies) -> None:
        super().__init__(compiled, tools, function, policies, compiled.params.head_programs)
        self._state = _SEEK
        # True until the first parameter, unless a newline precedes it.
        self._may_be_compact = bool(compiled.params.compact_programs)
        self._seen: set[str] = set()
        self._form: ParamForm = compiled.params.forms[0]
        self._slot = Slot(UNKNOWN, "", untyped_is_string=True, python_values=False)
        self._streams = True
        self._discards = False  # the parameter repeats an earlier one, so its value is not output
        self._at_start = True
        # The literal at which the last step stopped because it may end the value, or an empty string.
        self._closer = ""
        self._raw: list[str] = []
        # Nesting depth of tags within calls that the value quotes.  Between the parameters of a quoted call
        # the depth is odd; inside the value of such a parameter it is even.
        self._level = 0
        self._quotes_section = False  # the value holds the opening marker of a section of calls
        self._is_doubled = False  # the closing tag of the value is doubled
        # Number of opening tags of parameters in the value that are data and have no closing tag yet.
        self._unpaired = 0
        # Escaped newline, such as a backslash and an n, that the model has written between tags instead of a
        # newline; empty if it has written none.  While this is empty, an escaped newline in a value is data.
        self._escaped_newline = ""
        # Key and attributes of a parameter that may hold all arguments.  If the parameter does hold all
        # arguments, the codec `_all_arguments` reads them.
        self._key = ""
        self._attributes: dict[str, str] = {}
        self._repair: Final = policies.malformed_call == "repair"
        self._all_arguments: JsonValue | None = None

    def step(self, buf: str, pos: int, final: bool) -> int:
        if self._state == _VALUE and self._streams and not (final or pos or self._closer):
            taken = self._read_string_piece(buf, self._form.value_markers)
            if taken >= 0:
                self._at_start = self._at_start and not taken
                return taken
        out: list[str] = []
        self._held = False
        while pos < len(buf) and not (self._held or self.done or self.error):
            if self._state == _SEEK:
                pos = self._read_gap(buf, pos, final, out)
            elif self._state == _VALUE:
                pos = self._read_value(buf, pos, final, out)
            else:
                pos = self._read_wrapper(buf, pos, final, out)
        self.text = out[0] if len(out) == 1 else "".join(out)
        return pos

    def finish(self, cut: bool) -> Status:
        self.text = ""
        if not (self.done or cut or self._cut) and self._state == _SEEK and not self._lacks_required():
            self.text = self._completion()
            self.done = True
        return "complete" if self.done else "truncated"

    # -- between parameters

    def _read_gap(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        start, pos = pos, self._after_gap(buf, pos)
        compiled = self._compiled
        if self._may_be_compact:
            self._may_be_compact = "\n" not in buf[start:pos]
            if self._may_be_compact and pos < len(buf):
                self._programs = compiled.params.compact_programs
                self._may_be_compact = False
        if pos == len(buf):
            return pos
        matcher = self._matcher
        if matcher is None:
            follow = compiled.follow
            in_spelled_break = self._in_spelled_break(buf, pos)
            # The buffer may end inside a marker, which cannot be identified before the rest has arrived.
            if not final and (in_spelled_break or follow.after_value.pending(buf, pos)):
                self._held = True
                return pos
            if in_spelled_break:
                return self._stop_at_cut(pos)
            if not follow.heads.literal_at(buf, pos):
                return self._end_params(buf, pos, final, out)
            matcher = self._new_matcher()
        answer = matcher.run(buf, pos, final)
        if answer == NEED_MORE:
            self._matcher = matcher
            self._held = True
            return pos
        self._matcher = None
        if answer == MATCH and self._all_arguments is not None:
            self.error = "the end of the call after the parameter with all arguments"
            return pos
        if answer == MATCH:
            fields = matcher.fields
            if not self._escaped_newline and "newline" in fields:
                self._escaped_newline = fields["newline"]
                self.diagnostics.append(("slip", f"{self._escaped_newline} spelled out between tags", pos))
            self._begin_param(
                compiled.params.form_of[matcher.program], fields.get("key", ""), fields, pos, out
            )
            return pos + matcher.offset
        if final and self._ends_in_tag(buf, pos):
            return self._stop_at_cut(pos)
        return self._skip_head(buf, pos, matcher, final)

    def _end_params(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        """Process the text between parameters if it is not the beginning of a parameter.

        The text either ends the arguments, or is an error, or is a marker that is incomplete at the end of
        the input.
        """
        follow = self._compiled.follow
        closing = final and follow.call_closers.pending(buf, pos)
        if final and follow.heads.pending(buf, pos) and not closing:
            return self._stop_at_cut(pos)
        end = follow.after_params.literal_at(buf, pos)
        if end in self._compiled.dialect.stop and self._lacks_required():
            self._wait_for_turn_end(buf, pos + len(end), final)
        elif end:
            out.append(self._completion())
            self.done = True
        elif closing:
            return len(buf)
        elif final and follow.after_params.pending(buf, pos):
            return self._stop_at_cut(pos)
        else:
            self.error = "a parameter or the end of the call"
        return pos

    def _completion(self) -> str:
        """Return the JSON text that completes the arguments: closing brackets, or an empty string."""
        if self._all_arguments is not None:
            return ""
        return "}" if self._seen else "{}"

    def _lacks_required(self) -> bool:
        """Return whether a required parameter is missing."""
        return self._all_arguments is None and self._lacks(self._seen)

    def _stop_at_cut(self, pos: int) -> int:
        """Mark the call as cut off, because the input ends inside a marker at ``pos``; return ``pos``."""
        self._cut = True
        self._held = True
        return pos

    def _skip_head(self, buf: str, pos: int, matcher: Matcher, final: bool) -> int:
        """Skip the opening tag of a parameter without a value, and record a diagnostic.

        If text other than markup follows the tag, set an error instead, because the call would run without
        that text.
        """
        at = -1
        if matcher.failed_at:
            at, literal = self._compiled.follow.after_value.seek(buf, pos + matcher.failed_at, False)
            end = len(buf) if at < 0 else at
            if end - pos > BOUND or self._after_gap(buf, pos + matcher.reach) < end:
                at = -1
            elif not literal and not final:
                self._held = True
                return pos
        if at < 0:
            self.error = "a parameter's value"
            return pos
        self.diagnostics.append(("trailing_data", buf[pos:at][:80], pos))
        return at

    def _after_gap(self, buf: str, pos: int) -> int:
        """Return the position after any whitespace and escaped newlines."""
        pos = skip_whitespace(buf, pos)
        while self._escaped_newline and buf.startswith(self._escaped_newline, pos):
            pos = skip_whitespace(buf, pos + len(self._escaped_newline))
        return pos

    def _in_spelled_break(self, buf: str, pos: int) -> bool:
        """Return whether the buffer ends inside an escaped newline."""
        return (
            bool(self._escaped_newline)
            and pos < len(buf)
            and match_literal(self._escaped_newline, buf, pos) == MORE
        )

    def _begin_param(
        self, form: ParamForm, key: str, attributes: dict[str, str], at: int, out: list[str]
    ) -> None:
        """Begin a parameter; the first parameter of a call may hold all arguments."""
        self._form = form
        if form.forgotten:
            self.diagnostics.append(("slip", f"{form.forgotten} is missing", at))
        if not self._seen and self._may_wrap(key):
            self._state = _WRAPPER
            self._key = key
            self._attributes = attributes
        else:
            self._begin_value(key, attributes, at, out)

    def _begin_value(self, key: str, attributes: dict[str, str], at: int, out: list[str]) -> None:
        self._discards = key in self._seen
        self._state = _VALUE
        self._at_start = True
        self._level = 0
        self._unpaired = 0
        self._quotes_section = False
        self._is_doubled = False
        self._raw.clear()
        if self._discards:
            self.diagnostics.append(("duplicate_argument", key, at))
            self._streams = False
            return
        self._slot = self._slot_for(self._tools.value_type(self._function, key), attributes)
        self._streams = self._slot.streams
        out.append(("{" if not self._seen else ", ") + quote(key) + (': "' if self._streams else ": "))
        self._seen.add(key)

    # -- all arguments in one parameter

    def _may_wrap(self, key: str) -> bool:
        """Return whether the parameter ``key`` may hold all arguments.

        A parameter that the tool declares is an ordinary parameter.
        """
        if key not in self._compiled.dialect.values.wrappers:
            return False
        keys = self._tools.keys(self._function)
        return keys is not None and key not in keys and not self._tools.value_type(self._function, key).types

    def _read_wrapper(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        """Read a parameter that may hold all arguments; it does if its value begins with a brace."""
        inner = self._all_arguments
        after = skip_whitespace(buf, pos)
        if inner is None:
            if after == len(buf) and after - pos <= BOUND:
                self._held = True
                return pos
            if after == len(buf) or buf[after] != "{":
                self._begin_value(self._key, self._attributes, pos, out)
                return pos
            self.diagnostics.append(("slip", f"{self._key} holds all arguments", after))
            self._seen.add(self._key)
            self._all_arguments = JsonValue(self._repair)
            return after
        if not inner.done:
            pos = inner.step(buf, pos, final)
            out.append(inner.text)
            self.diagnostics += inner.diagnostics
            inner.diagnostics.clear()
            self.error = inner.error
            self._held = not inner.done
            return pos
        if after == len(buf):
            return after
        end = match_literal(self._form.closers[-1], buf, after)
        if end >= 0:
            self._state = _SEEK
            return end
        if end == MORE:
            self._held = True
        else:
            self.error = "the end of the parameter that holds all arguments"
        return after

    # -- inside a value

    def _read_value(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        """Read a value up to the literal that ends it, or to a literal whose meaning is still undecided."""
        ends = self._form.value_markers
        at, literal = (pos, self._closer) if self._closer else ends.seek(buf, pos, final)
        self._closer = ""
        answer = NEED_MORE
        while literal:
            answer = self._ends_value(literal, buf, at, at == pos and self._at_start, final)
            if answer != FAIL:
                break
            at, literal = ends.seek(buf, at + _skip_length(literal), final)
        if at < 0:
            self._write(buf[pos:], out)
            return len(buf)
        self._write(buf[pos:at], out)
        if self.error:
            return at
        if answer == MATCH:
            return self._end_value(literal, buf, at, out)
        self._closer = literal
        self._held = True
        return at

    def _ends_value(self, literal: str, buf: str, at: int, at_start: bool, final: bool) -> int:
        """Return MATCH if the literal at ``at`` ends the value, FAIL if not, NEED_MORE if undecided.

        :param at_start: whether the literal is at the beginning of the value.
        """
        compiled = self._compiled
        end = at + len(literal)
        if self._confirms and (self._level or literal in compiled.follow.openers):
            answer = self._section_changes(literal, buf, at, final)
            if answer != FAIL:
                return answer
            answer = self._in_quoted_call(literal, buf, end, final)
            if answer != MATCH:
                return answer
        if literal in self._form.closers:
            if not self._confirms:
                return MATCH
            answer = self._confirmed(buf, end, final)
            if answer == FAIL and self._unpaired:
                self._unpaired -= 1
            return answer
        if literal == self._form.forgotten:
            self.error = f"{literal} directly after the key"
            return MATCH
        if literal in compiled.follow.section_openers:
            self._quotes_section = True
            return FAIL
        if literal in compiled.dialect.stop:
            # A marker that ends the turn is markup at the end of the input.  Elsewhere such a marker is data.
            after = skip_whitespace(buf, end)
            return FAIL if after < len(buf) or after - end > BOUND else MATCH if final else NEED_MORE
        # The literal can end the value only if the closing tag is missing, and if the literal is at the
        # beginning of a line or of the value.
        marker = literal.lstrip("\n")
        is_head = marker in compiled.follow.heads.literals
        if marker == literal and not self._form.inline and not at_start:
            self._unpaired += is_head
            return FAIL
        if is_head:
            return self._next_begins(buf, end - len(marker), final)
        return follows(compiled.follow.after_call, buf, end, final)

    def _next_begins(self, buf: str, at: int, final: bool) -> int:
        """Return MATCH if the parameter at ``at`` is declared and not there yet, else FAIL."""
        matcher = self._new_matcher()
        answer = matcher.run(buf, at, final)
        if answer == NEED_MORE:
            return NEED_MORE
        key = matcher.fields.get("key", "") if answer == MATCH else ""
        declared = self._tools.keys(self._function)
        if declared is not None and key in declared and key not in self._seen:
            return MATCH
        self._unpaired += 1
        return FAIL

    def _section_changes(self, literal: str, buf: str, at: int, final: bool) -> int:
        """Return MATCH if the section ends and the next call begins after a closing tag, else FAIL.

        Inside a call that the value quotes, closing tags are data.  But if the value quotes no section, a
        section that ends shows that the quoted call was never closed.
        """
        change = self._compiled.follow.section_change
        if not self._level or self._quotes_section or literal not in self._form.closers:
            return FAIL
        start, at = at, at + len(literal)
        for markers in change:
            after = skip_whitespace(buf, at)
            if after - at > BOUND:
                return FAIL
            if not final and (after == len(buf) or markers.pending(buf, after)):
                return NEED_MORE
            literal = markers.literal_at(buf, after)
            if literal:
                at = after + len(literal)
            elif markers is not self._compiled.follow.more_closers:
                return FAIL
        if not change:
            return FAIL
        self.diagnostics.append(("slip", "a call in a value is not closed", start))
        return MATCH

    def _in_quoted_call(self, literal: str, buf: str, end: int, final: bool) -> int:
        """Return FAIL for a literal in a quoted call, MATCH for other literals, NEED_MORE if undecided.

        ``_level`` is incremented at the opening marker of a quoted call or parameter, and decremented at the
        closing tag of a parameter.  The closing marker of a quoted call resets ``_level`` to its value before
        this call.
        """
        compiled = self._compiled
        marker = literal.lstrip("\n")
        inside = self._level % 2 == 0  # inside a value, not between the parameters of a quoted call
        answer = MATCH
        if literal in self._form.closers:
            if not inside:
                return MATCH
            answer = self._confirmed(buf, end, final)
            step = -1
        elif marker in compiled.follow.call_closers.literals:
            self._level = (self._level - 1) // 2 * 2
            return FAIL
        elif marker in compiled.follow.openers:
            if not inside:
                return FAIL
            matcher = Matcher(compiled.params.call_programs, compiled.unescape)
            answer = matcher.run(buf, end - len(marker), final)
            step = 1
        elif marker in compiled.follow.heads.literals:
            if inside:
                return FAIL
            answer = self._new_matcher().run(buf, end - len(marker), final)
            step = 1
        else:
            return FAIL if literal == self._form.forgotten else MATCH
        if answer == MATCH:
            self._level += step
        return NEED_MORE if answer == NEED_MORE else FAIL

    def _confirmed(self, buf: str, end: int, final: bool) -> int:
        """Return MATCH if another parameter or the end of the call follows a closing tag, else FAIL.

        Return NEED_MORE if the answer depends on input that has not arrived.
        """
        after = self._after_gap(buf, end)
        markers = self._compiled.follow.after_value
        literal = markers.literal_at(buf, after) if after - end <= BOUND else ""
        if literal:
            return self._confirmed_by(literal, markers, buf, after, final)
        if not self._level and after < len(buf) and not markers.pending(buf, after):
            doubled = self._after_doubled(buf, after)
            if doubled == MORE and not final:
                return NEED_MORE
            if doubled == MORE or (doubled > after and self._unpaired):
                return FAIL
            self._is_doubled = doubled > after
            after = doubled
        if after - end > BOUND:
            return FAIL
        if self._in_spelled_break(buf, after):
            return FAIL if final else NEED_MORE
        answer = follows(markers, buf, after, final)
        literal = markers.literal_at(buf, after) if answer == MATCH else ""
        return self._confirmed_by(literal, markers, buf, after, final) if literal else answer

    def _after_doubled(self, buf: str, pos: int) -> int:
        """Return the position after the closing tags at ``pos``; ``MORE`` if the buffer ends inside one."""
        closer = self._form.closers[-1]
        for _ in range(_MOST_DOUBLED):
            if pos == len(buf) or buf[pos] != closer[0]:
                break
            end = match_literal(closer, buf, pos)
            if end < 0:
                if end == MORE and not self._compiled.follow.after_value.pending(buf, pos):
                    return MORE
                break
            pos = self._after_gap(buf, end)
        return pos

    def _write(self, text: str, out: list[str]) -> None:
        if not text:
            return
        self._at_start = False
        if self._streams:
            out.append(escaped(text))
        else:
            self._collect(text)

    def _collect(self, text: str) -> None:
        """Collect text of a value that is not a string; the text of a repeated parameter is discarded."""
        if not self._discards:
            self._raw.append(text)

    def _end_value(self, literal: str, buf: str, at: int, out: list[str]) -> int:
        if literal in self._form.closers:
            end = at + len(literal)
            if literal == self._form.unended:
                self.diagnostics.append(("slip", f"{literal} is not ended", at))
            if self._is_doubled:
                after = self._after_gap(buf, end)
                self.diagnostics.append(("stray_closer", self._form.closers[-1], after))
                end = self._after_doubled(buf, after)
        elif literal in self._compiled.dialect.stop:
            # The turn ended inside the value.  The value stays open, so the call is reported as truncated.
            return at + len(literal)
        else:
            end = at + len(literal) - len(literal.lstrip("\n"))
        self._state = _SEEK
        if self._streams:
            out.append('"')
        elif not self._discards:
            out.append(self._value_of(self._slot, "".join(self._raw), at))
        self._raw.clear()
        return end


def _skip_length(literal: str) -> int:
    """Return the number of characters to skip after a literal that does not end the value.

    If the literal begins with a newline, the next character is skipped as well, so that the search does
    not find the same marker again without its newline.
    """
    return 2 if literal[0] == "\n" else 1

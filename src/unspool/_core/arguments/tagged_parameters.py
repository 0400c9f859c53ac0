"""Tagged: arguments as a run of marked-up parameters.

Values are not escaped, so a value may contain the text of its own closing tag.
A closer therefore counts only if what may legally follow it does follow
(*confirmed close*); a value whose closer was forgotten ends where the next
parameter, if it is one this function declares, or the end of the call
undoubtedly begins.

Strings stream as they arrive, escaped character by character.  A value that
its schema may turn into something else waits until it is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..compiler.matcher import FAIL, MATCH, NEED_MORE, Matcher, follows
from ..scan.runs import BOUND, MORE, escaped, match_literal, skip_whitespace
from ..schema.tools import UNKNOWN
from ..schema.typed_values import Slot, quote
from .json_value import JsonValue
from .parameters import Parameters

if TYPE_CHECKING:
    from ...events import Status
    from ...policies import Policies
    from ..compiler.compiled_dialect import CompiledDialect
    from ..compiler.forms import ParamForm
    from ..schema.tools import Tools

_SEEK: Final = 0
_VALUE: Final = 1
_WRAPPER: Final = 2


class Tagged(Parameters):
    """Parameters up to the call's closer."""

    __slots__ = (
        "_at_start",
        "_attributes",
        "_closer",
        "_form",
        "_key",
        "_level",
        "_raw",
        "_repair",
        "_seen",
        "_skip",
        "_slot",
        "_spelt",
        "_state",
        "_streams",
        "_whole",
    )

    def __init__(self, syntax: CompiledDialect, tools: Tools, function: str, policies: Policies) -> None:
        super().__init__(syntax, tools, function, policies, syntax.params.head_programs)
        self._state = _SEEK
        self._seen: set[str] = set()
        self._form: ParamForm = syntax.params.forms[0]
        self._slot = Slot(UNKNOWN, "", untyped_is_string=True, python_values=False)
        self._streams = True
        self._skip = False  # the parameter was given before
        self._at_start = True
        self._closer = ""  # what the last step has stopped at: whether it ends the value is not known yet
        self._raw: list[str] = []
        self._level = 0  # in the calls that a value holds: even in a value, odd between parameters
        # How line breaks are spelt out in this call; inside a value such a spelling is data until it has
        # stood between a key and a value.
        self._spelt = ""
        # A parameter that may hold all arguments, and those, once it is certain that it does.
        self._key = ""
        self._attributes: dict[str, str] = {}
        self._repair: Final = policies.malformed_call == "repair"
        self._whole: JsonValue | None = None

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
                pos = self._seek(buf, pos, final, out)
            elif self._state == _VALUE:
                pos = self._value(buf, pos, final, out)
            else:
                pos = self._wrapper(buf, pos, final, out)
        self.text = out[0] if len(out) == 1 else "".join(out)
        return pos

    def finish(self, cut: bool) -> Status:
        self.text = ""
        if not (self.done or cut or self._cut) and self._state == _SEEK and not self._lacking():
            self.text = self._closing()
            self.done = True
        return "complete" if self.done else "truncated"

    # -- between parameters

    def _seek(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        pos = self._behind_gap(buf, pos)
        if pos == len(buf):
            return pos
        syntax = self._syntax
        trial = self._trial
        if trial is None:
            follow = syntax.follow
            spelling = self._spelling(buf, pos)
            if not final and (spelling or follow.after_value.pending(buf, pos)):
                self._held = True
                return pos
            if spelling:
                return self._cut_head(pos)
            if not follow.heads.literal_at(buf, pos):
                return self._params_end(buf, pos, final, out)
            trial = self._new_trial()
        answer = trial.run(buf, pos, final)
        if answer == NEED_MORE:
            self._trial = trial
            self._held = True
            return pos
        self._trial = None
        if answer == MATCH and self._whole is not None:
            self.error = "the end of the call behind all of its arguments"
            return pos
        if answer == MATCH:
            fields = trial.fields
            if not self._spelt and "newline" in fields:
                self._spelt = fields["newline"]
                self.notes.append(("slip", f"{self._spelt} spelt out between tags", pos))
            self._begin(syntax.params.form_of[trial.program], fields.get("key", ""), fields, pos, out)
            return pos + trial.offset
        if final and self._ends_in_tag(buf, pos):
            return self._cut_head(pos)
        return self._leave_out(buf, pos, trial, final)

    def _params_end(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        """Here is no parameter, so the call ends; the input may, too, and cut off what stands here."""
        follow = self._syntax.follow
        closing = final and follow.call_closers.pending(buf, pos)
        if final and follow.heads.pending(buf, pos) and not closing:
            return self._cut_head(pos)
        end = follow.after_params.literal_at(buf, pos)
        if end in self._syntax.dialect.stop and self._lacking():
            self._wait_for_turn_end(buf, pos + len(end), final)
        elif end:
            out.append(self._closing())
            self.done = True
        elif closing:
            return len(buf)
        elif final and follow.after_params.pending(buf, pos):
            return self._cut_head(pos)
        else:
            self.error = "a parameter or the end of the call"
        return pos

    def _closing(self) -> str:
        """What ends the arguments."""
        if self._whole is not None:
            return ""
        return "}" if self._seen else "{}"

    def _lacking(self) -> bool:
        """Whether there is something that the arguments must have and do not."""
        return self._whole is None and self._lacks(self._seen)

    def _cut_head(self, pos: int) -> int:
        """Too little is left to tell what it was going to be."""
        self._cut = True
        self._held = True
        return pos

    def _leave_out(self, buf: str, pos: int, trial: Matcher, final: bool) -> int:
        """A parameter was begun and has no value: a key that nothing belongs to says nothing.

        What carries text is not left out: the call would go out without it.
        """
        at = -1
        if trial.failed_at:
            at, literal = self._syntax.follow.after_value.seek(buf, pos + trial.failed_at, False)
            end = len(buf) if at < 0 else at
            if end - pos > BOUND or self._behind_gap(buf, pos + trial.reach) < end:
                at = -1
            elif not literal and not final:
                self._held = True
                return pos
        if at < 0:
            self.error = "a parameter's value"
            return pos
        self.notes.append(("trailing_data", buf[pos:at][:80], pos))
        return at

    def _behind_gap(self, buf: str, pos: int) -> int:
        """Behind the white space at ``pos``, line breaks that are spelt out included."""
        pos = skip_whitespace(buf, pos)
        while self._spelt and buf.startswith(self._spelt, pos):
            pos = skip_whitespace(buf, pos + len(self._spelt))
        return pos

    def _spelling(self, buf: str, pos: int) -> bool:
        """Whether the text ends inside a line break that is being spelt out."""
        return bool(self._spelt) and pos < len(buf) and match_literal(self._spelt, buf, pos) == MORE

    def _begin(self, form: ParamForm, key: str, attributes: dict[str, str], at: int, out: list[str]) -> None:
        self._form = form
        if form.forgotten:
            self.notes.append(("slip", f"{form.forgotten} is missing", at))
        if not self._seen and self._may_wrap(key):
            self._state = _WRAPPER
            self._key = key
            self._attributes = attributes
        else:
            self._begin_value(key, attributes, at, out)

    def _begin_value(self, key: str, attributes: dict[str, str], at: int, out: list[str]) -> None:
        self._skip = key in self._seen
        self._state = _VALUE
        self._at_start = True
        self._level = 0
        self._raw.clear()
        if self._skip:
            self.notes.append(("duplicate_argument", key, at))
            self._streams = False
            return
        self._slot = self._slot_for(self._tools.value_type(self._function, key), attributes)
        self._streams = self._slot.streams
        out.append(("{" if not self._seen else ", ") + quote(key) + (': "' if self._streams else ": "))
        self._seen.add(key)

    # -- all arguments in one parameter

    def _may_wrap(self, key: str) -> bool:
        """Whether a parameter of this name may hold all arguments: the tool has none of that name."""
        if key not in self._syntax.dialect.values.wrappers:
            return False
        keys = self._tools.keys(self._function)
        return keys is not None and key not in keys and not self._tools.value_type(self._function, key).types

    def _wrapper(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        """A parameter that holds all arguments if it begins as an object does."""
        whole = self._whole
        after = skip_whitespace(buf, pos)
        if whole is None:
            if after == len(buf) and after - pos <= BOUND:
                self._held = True
                return pos
            if after == len(buf) or buf[after] != "{":
                self._begin_value(self._key, self._attributes, pos, out)
                return pos
            self.notes.append(("slip", f"{self._key} holds all arguments", after))
            self._seen.add(self._key)
            self._whole = JsonValue(self._repair)
            return after
        if not whole.done:
            pos = whole.step(buf, pos, final)
            out.append(whole.text)
            self.notes += whole.notes
            whole.notes.clear()
            self.error = whole.error
            self._held = not whole.done
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

    def _value(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        watch = self._form.value_markers
        at, literal = (pos, self._closer) if self._closer else watch.seek(buf, pos, final)
        self._closer = ""
        answer = NEED_MORE
        while literal:
            answer = self._closes(literal, buf, at, at == pos and self._at_start, final)
            if answer != FAIL:
                break
            at, literal = watch.seek(buf, at + _behind(literal), final)
        if at < 0:
            self._data(buf[pos:], out)
            return len(buf)
        self._data(buf[pos:at], out)
        if self.error:
            return at
        if answer == MATCH:
            return self._value_ends(literal, at, out)
        self._closer = literal
        self._held = True
        return at

    def _closes(self, literal: str, buf: str, at: int, at_start: bool, final: bool) -> int:
        """Whether the literal at ``at`` ends the value."""
        syntax = self._syntax
        end = at + len(literal)
        if self._confirms and (self._level or literal in syntax.follow.openers):
            answer = self._held_call(literal, buf, end, final)
            if answer != MATCH:
                return answer
        if literal in self._form.closers:
            return self._confirmed(buf, end, final) if self._confirms else MATCH
        if literal == self._form.forgotten:
            self.error = f"{literal} directly behind the key"
            return MATCH
        if literal in syntax.dialect.stop:
            after = skip_whitespace(buf, end)
            return FAIL if after < len(buf) or after - end > BOUND else MATCH if final else NEED_MORE
        marker = literal.lstrip("\n")
        if marker == literal and not self._form.inline and not at_start:
            return FAIL
        if marker in syntax.follow.heads.literals:
            trial = self._new_trial()
            answer = trial.run(buf, end - len(marker), final)
            if answer != MATCH:
                return answer if answer == NEED_MORE else FAIL
            key = trial.fields.get("key", "")
            declared = self._tools.keys(self._function)
            return MATCH if declared is not None and key in declared and key not in self._seen else FAIL
        return follows(syntax.follow.after_call, buf, end, final)

    def _held_call(self, literal: str, buf: str, end: int, final: bool) -> int:
        """Whether a literal is markup of a call that the value holds, so that it is data.

        FAIL: it is; MATCH: it is not, and means what it means in any value.
        """
        syntax = self._syntax
        marker = literal.lstrip("\n")
        inside = self._level % 2 == 0  # a value
        answer = MATCH
        if literal in self._form.closers:
            if not inside:
                return MATCH
            answer = self._confirmed(buf, end, final)
            step = -1
        elif marker in syntax.follow.call_closers.literals:
            self._level = (self._level - 1) // 2 * 2
            return FAIL
        elif marker in syntax.follow.openers:
            if not inside:
                return FAIL
            trial = Matcher(syntax.params.call_programs, syntax.unescape)
            answer = trial.run(buf, end - len(marker), final)
            step = 1
        elif marker in syntax.follow.heads.literals:
            if inside:
                return FAIL
            answer = self._new_trial().run(buf, end - len(marker), final)
            step = 1
        else:
            return FAIL if literal == self._form.forgotten else MATCH
        if answer == MATCH:
            self._level += step
        return NEED_MORE if answer == NEED_MORE else FAIL

    def _confirmed(self, buf: str, end: int, final: bool) -> int:
        """Whether what may follow a closing tag stands behind it."""
        after = self._behind_gap(buf, end)
        if after - end > BOUND:
            return FAIL
        if self._spelling(buf, after):
            return FAIL if final else NEED_MORE
        return follows(self._syntax.follow.after_value, buf, after, final)

    def _data(self, text: str, out: list[str]) -> None:
        if not text:
            return
        self._at_start = False
        if self._streams:
            out.append(escaped(text))
        else:
            self._keep(text)

    def _keep(self, text: str) -> None:
        """What is no string waits for the end of the value, if it counts."""
        if not self._skip:
            self._raw.append(text)

    def _value_ends(self, literal: str, at: int, out: list[str]) -> int:
        if literal in self._form.closers:
            end = at + len(literal)
            if literal == self._form.unended:
                self.notes.append(("slip", f"{literal} is not ended", at))
        elif literal in self._syntax.dialect.stop:
            # The turn ended inside the value: it stays open.
            return at + len(literal)
        else:
            end = at + len(literal) - len(literal.lstrip("\n"))
        self._state = _SEEK
        if self._streams:
            out.append('"')
        elif not self._skip:
            out.append(self._value_of(self._slot, "".join(self._raw), at))
        self._raw.clear()
        return end


def _behind(literal: str) -> int:
    """Where to look on if a literal does not end the value: without its line feed it doesn't, either."""
    return 2 if literal[0] == "\n" else 1

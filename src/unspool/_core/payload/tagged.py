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

from ..schema.schema import UNKNOWN
from ..schema.values import Slot, quote
from ..search.scan import BOUND, behind_space, escaped
from ..syntax.trial import FAIL, MATCH, NEED, follows
from .params import Parameters

if TYPE_CHECKING:
    from ..schema.schema import Tools
    from ..syntax.forms import ParamForm
    from ..syntax.syntax import Syntax
    from ..values.events import Status
    from ..values.policies import Policies

_SEEK: Final = 0
_VALUE: Final = 1


class Tagged(Parameters):
    """Parameters up to the call's closer."""

    __slots__ = (
        "_at_start",
        "_form",
        "_raw",
        "_seen",
        "_skip",
        "_slot",
        "_state",
        "_streams",
    )

    def __init__(self, syntax: Syntax, tools: Tools, function: str, policies: Policies) -> None:
        super().__init__(syntax, tools, function, policies, syntax.param_programs)
        self._state = _SEEK
        self._seen: set[str] = set()
        self._form: ParamForm = syntax.params[0]
        self._slot = Slot(UNKNOWN, "", untyped_is_string=True, python_values=False)
        self._streams = True
        self._skip = False  # the parameter was given before
        self._at_start = True
        self._raw: list[str] = []

    def step(self, buf: str, pos: int, final: bool) -> int:
        if self._state == _VALUE and self._streams and not final and not pos:
            taken = self._read_on(buf, self._form.watch)
            if taken >= 0:
                self._at_start = self._at_start and not taken
                return taken
        out: list[str] = []
        self._held = False
        while pos < len(buf) and not (self._held or self.done or self.error):
            if self._state == _SEEK:
                pos = self._seek(buf, pos, final, out)
            else:
                pos = self._value(buf, pos, final, out)
        self.text = out[0] if len(out) == 1 else "".join(out)
        return pos

    def finish(self) -> Status:
        self.text = ""
        if not self.done and self._state == _SEEK and not self._cut:
            self.text = "}" if self._seen else "{}"
            self.done = True
        return "complete" if self.done else "truncated"

    # -- between parameters

    def _seek(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        pos = behind_space(buf, pos)
        if pos == len(buf):
            return pos
        syntax = self._syntax
        trial = self._trial
        if trial is None:
            follow = syntax.follow
            if not final and follow.after_value.pending(buf, pos):
                self._held = True
                return pos
            if not follow.heads.literal_at(buf, pos):
                return self._params_end(buf, pos, final, out)
            trial = self._new_trial()
        answer = trial.run(buf, pos, final)
        if answer == NEED:
            self._trial = trial
            self._held = True
            return pos
        self._trial = None
        if answer == MATCH:
            fields = trial.fields
            self._begin(syntax.param_of[trial.program], fields.get("key", ""), fields, pos, out)
            return pos + trial.offset
        if final and self._ends_in_tag(buf, pos):
            return self._cut_head(pos)
        return self._skip_head(buf, pos, pos + len(syntax.follow.heads.literal_at(buf, pos)), final)

    def _params_end(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        """Here is no parameter, so the call ends; the input may, too, and cut off what stands here."""
        follow = self._syntax.follow
        closing = final and follow.call_closers.pending(buf, pos)
        if final and follow.heads.pending(buf, pos) and not closing:
            return self._cut_head(pos)
        if follow.after_params.literal_at(buf, pos):
            out.append("}" if self._seen else "{}")
            self.done = True
        elif closing:
            return len(buf)
        elif final and follow.after_params.pending(buf, pos):
            return self._cut_head(pos)
        else:
            self.error = "a parameter or the end of the call"
        return pos

    def _cut_head(self, pos: int) -> int:
        """Too little is left to tell what it was going to be."""
        self._cut = True
        self._held = True
        return pos

    def _skip_head(self, buf: str, pos: int, at: int, final: bool) -> int:
        """A parameter was begun and has no value: go on behind it."""
        ends = self._syntax.follow.after_value
        at = ends.seek(buf, at, True)[0]
        if at < 0 or at - pos > BOUND:
            if final or len(buf) - pos > BOUND:
                self.error = "a parameter's value"
            else:
                self._held = True
            return pos
        self.notes.append(("trailing_data", buf[pos:at][:80], pos))
        return at

    def _begin(self, form: ParamForm, key: str, attributes: dict[str, str], at: int, out: list[str]) -> None:
        self._form = form
        self._skip = key in self._seen
        self._state = _VALUE
        self._at_start = True
        self._raw.clear()
        if self._skip:
            self.notes.append(("duplicate_argument", key, at))
            self._streams = False
            return
        self._slot = self._slot_for(self._tools.value_type(self._function, key), attributes)
        self._streams = self._slot.streams
        out.append(("{" if not self._seen else ", ") + quote(key) + (': "' if self._streams else ": "))
        self._seen.add(key)

    # -- inside a value

    def _value(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        watch = self._form.watch
        at, literal = watch.seek(buf, pos, final)
        answer = NEED
        while literal:
            answer = self._closes(literal, buf, at, at == pos and self._at_start, final)
            if answer != FAIL:
                break
            at, literal = watch.seek(buf, at + _behind(literal), final)
        if at < 0:
            self._data(buf[pos:], out)
            return len(buf)
        self._data(buf[pos:at], out)
        if answer == MATCH:
            return self._value_ends(literal, at, out)
        self._held = True
        return at

    def _closes(self, literal: str, buf: str, at: int, at_start: bool, final: bool) -> int:
        """Whether the literal at ``at`` ends the value."""
        syntax = self._syntax
        end = at + len(literal)
        if literal in self._form.closers:
            return follows(syntax.follow.after_value, buf, end, final) if self._confirms else MATCH
        if literal in syntax.dialect.stop:
            after = behind_space(buf, end)
            return FAIL if after < len(buf) or after - end > BOUND else MATCH if final else NEED
        marker = literal.lstrip("\n")
        if marker == literal and not self._form.inline and not at_start:
            return FAIL
        if marker in syntax.follow.heads.literals:
            trial = self._new_trial()
            answer = trial.run(buf, end - len(marker), final)
            if answer != MATCH:
                return answer if answer == NEED else FAIL
            key = trial.fields.get("key", "")
            declared = self._tools.keys(self._function)
            return MATCH if declared is not None and key in declared and key not in self._seen else FAIL
        return follows(syntax.follow.after_call, buf, end, final)

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

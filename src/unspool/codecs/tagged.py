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

from .._scan import escaped
from .._schema import coerce, quote
from .._trial import FAIL, MATCH, NEED, SPACE_RUN, Trial, follows
from .base import BOUND, Codec
from .json import json_kind

if TYPE_CHECKING:
    from .._events import Status
    from .._forms import ParamForm
    from .._grammar import Grammar
    from .._policies import Policies
    from .._schema import Tools, ValueType

_SEEK: Final = 0
_VALUE: Final = 1
_STRINGS: Final = ("true", "string", "str", "raw")


class Tagged(Codec):
    """Parameters up to the call's closer."""

    __slots__ = (
        "_at_start",
        "_declared",
        "_form",
        "_function",
        "_grammar",
        "_held",
        "_policies",
        "_raw",
        "_seen",
        "_skip",
        "_state",
        "_streams",
        "_tools",
        "_trial",
        "_type",
    )

    def __init__(self, grammar: Grammar, tools: Tools, function: str, policies: Policies) -> None:
        super().__init__()
        self._grammar: Final = grammar
        self._tools: Final = tools
        self._function: Final = function
        self._policies: Final = policies
        self._state = _SEEK
        self._seen: set[str] = set()
        self._form: ParamForm = grammar.params[0]
        self._trial: Trial | None = None
        self._type: ValueType | None = None
        self._streams = True
        self._skip = False
        self._declared = ""
        self._at_start = True
        self._raw: list[str] = []
        self._held = ""

    @property
    def waiting(self) -> bool:
        return self._state == _VALUE and not self._streams

    def step(self, buf: str, pos: int, final: bool) -> int:
        out: list[str] = []
        while not self.done and not self.error:
            before = pos
            pos = (
                self._seek(buf, pos, final, out)
                if self._state == _SEEK
                else self._value(buf, pos, final, out)
            )
            if self._held:
                break
            if pos == before and pos == len(buf):
                break
        self._held = ""
        self.text = out[0] if len(out) == 1 else "".join(out)
        return pos

    def passing(self, text: str) -> int:
        if self._state != _VALUE or not self._streams or self._skip or not self._form.watch.absent(text):
            return -1
        self._at_start = False
        self.text = escaped(text)
        return len(text)

    def finish(self) -> Status:
        self.text = ""
        if not self.done and self._state == _SEEK and self._trial is None:
            self.text = "}" if self._seen else "{}"
            self.done = True
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        return False

    # -- between parameters

    def _seek(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        pos = SPACE_RUN.match(buf, pos).end()  # type: ignore[union-attr]
        if pos == len(buf):
            return pos
        grammar = self._grammar
        trial = self._trial
        if trial is None:
            trial = Trial(grammar.param_programs, grammar.dialect, False)
        answer = trial.run(buf, pos, final)
        if answer == NEED:
            self._trial = trial
            self._held = "head"
            return pos
        self._trial = None
        if answer == MATCH:
            self._begin(trial, pos, out)
            return pos + trial.offset
        ends = grammar.after_params
        if final and self._cut(buf, pos):
            self._trial = trial
            self._held = "head"
            return pos
        head = grammar.heads.full.match(buf, pos)
        if head is not None:
            return self._skip_head(buf, pos, head.end(), final)
        if ends.full.match(buf, pos):
            out.append("}" if self._seen else "{}")
            self.done = True
        elif ends.pending(buf, pos):
            if final:
                # Too little is left to tell what it was going to be.
                self._trial = trial
                if grammar.call_closers.pending(buf, pos):
                    self._trial = None
                    return len(buf)
            self._held = "end"
        else:
            self.error = "a parameter or the end of the call"
        return pos

    def _cut(self, buf: str, pos: int) -> bool:
        """Whether the input ended inside the head of a parameter."""
        grammar = self._grammar
        if grammar.call_closers.pending(buf, pos):
            return False
        return Trial(grammar.param_programs, grammar.dialect, False).run(buf, pos, False) == NEED

    def _skip_head(self, buf: str, pos: int, at: int, final: bool) -> int:
        """A parameter was begun and has no value: go on behind it."""
        ends = self._grammar.after_value
        while True:
            at = ends.find(buf, at)
            if at < 0 or ends.full.match(buf, at):
                break
            at += 1
        if at < 0 or at - pos > BOUND:
            if final or len(buf) - pos > BOUND:
                self.error = "a parameter's value"
            else:
                self._held = "head"
            return pos
        self.notes.append(("trailing_data", buf[pos:at][:80], pos))
        return at

    def _begin(self, trial: Trial, at: int, out: list[str]) -> None:
        fields = trial.fields
        key = fields.get("key", "")
        self._form = self._grammar.param_of[trial.program]
        self._skip = key in self._seen
        self._state = _VALUE
        self._at_start = True
        self._raw.clear()
        if self._skip:
            self.notes.append(("duplicate_argument", key, at))
            self._streams = True
            return
        kind = self._tools.value_type(self._function, key)
        self._type = kind
        declared = fields.get("string", fields.get("type", ""))
        self._declared = declared
        if declared in _STRINGS:
            self._streams = True
        elif declared:
            self._streams = False
        elif kind.types:
            self._streams = kind.is_string
        else:
            # Nothing but the text itself, and perhaps an attribute, says what it is.
            self._streams = "string" not in fields and self._policies.schemaless_value == "string"
        out.append(("{" if not self._seen else ", ") + quote(key) + ": " + ('"' if self._streams else ""))
        self._seen.add(key)

    # -- inside a value

    def _value(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        n = len(buf)
        watch = self._form.watch
        at = pos
        while True:
            at = watch.find(buf, at)
            if at < 0:
                self._data(buf[pos:n], out)
                return n
            if not final and watch.pending(buf, at):
                answer = NEED
            else:
                match = watch.full.match(buf, at)
                if match is None:
                    at += 1
                    continue
                answer = self._closes(match.group(), buf, at, at == pos and self._at_start, final)
            if answer == FAIL:
                at += 1
                continue
            self._data(buf[pos:at], out)
            if answer == NEED:
                self._held = "closer"
                return at
            return self._value_ends(match.group(), at, out)  # type: ignore[union-attr]

    def _closes(self, literal: str, buf: str, at: int, at_start: bool, final: bool) -> int:
        """Whether the literal at ``at`` ends the value."""
        grammar = self._grammar
        end = at + len(literal)
        if literal in self._form.closers:
            if self._policies.close_in_value == "first":
                return MATCH
            return follows(grammar.after_value, buf, end, final)
        if literal in grammar.dialect.stop:
            after = SPACE_RUN.match(buf, end).end()  # type: ignore[union-attr]
            return FAIL if after < len(buf) or after - end > BOUND else MATCH if final else NEED
        marker = literal.lstrip("\n")
        if marker == literal and not self._form.inline and not at_start:
            return FAIL
        if grammar.heads.full.fullmatch(marker):
            trial = Trial(grammar.param_programs, grammar.dialect, False)
            answer = trial.run(buf, end - len(marker), final)
            if answer != MATCH:
                return answer if answer == NEED else FAIL
            key = trial.fields.get("key", "")
            declared = self._tools.keys(self._function)
            return MATCH if declared is not None and key in declared and key not in self._seen else FAIL
        return follows(grammar.after_call, buf, end, final)

    def _data(self, text: str, out: list[str]) -> None:
        if not text:
            return
        self._at_start = False
        if self._skip:
            return
        if self._streams:
            out.append(escaped(text))
        else:
            self._raw.append(text)

    def _value_ends(self, literal: str, at: int, out: list[str]) -> int:
        self._state = _SEEK
        if literal in self._grammar.dialect.stop:
            # The turn ended inside the value: it stays open.
            self._state = _VALUE
            return at + len(literal)
        if not self._skip:
            if self._streams:
                out.append('"')
            elif self._type is not None:
                out.append(self._typed("".join(self._raw), self._type, at))
        self._raw.clear()
        if literal in self._form.closers:
            return at + len(literal)
        return at + len(literal) - len(literal.lstrip("\n"))

    def _typed(self, raw: str, kind: ValueType, at: int) -> str:
        text = raw.strip(" \t\r\n")
        found = json_kind(text) if self._declared or not kind.types else ""
        if self._declared and found == '"':
            return text
        if not kind.types:
            return text if found and found != '"' else quote(raw)
        if self._declared and found and not kind.is_string:
            return text
        value, fits = coerce(raw, kind, self._grammar.dialect.python_values)
        if not fits:
            self.notes.append(("coerced_to_string", text[:80], at))
        return value

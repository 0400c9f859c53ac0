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

from .._scan import behind_space, escaped
from .._schema import coerce, quote
from .._trial import FAIL, MATCH, NEED, Trial, follows
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
        "_cut",
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
        "_unconfirmed",
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
        self._held = False  # what stands here may still become something else
        self._unconfirmed = 0  # the length of a closer that stands here, if more input must confirm it
        self._cut = False  # the input ended inside a parameter's head

    @property
    def waiting(self) -> bool:
        return self._state == _VALUE and not self._streams

    def step(self, buf: str, pos: int, final: bool) -> int:
        out: list[str] = []
        self._held = False
        while not self._held and not self.done and not self.error:
            before = pos
            if self._state == _SEEK:
                pos = self._seek(buf, pos, final, out)
            else:
                pos = self._value(buf, pos, final, out)
            if pos == before and pos == len(buf):
                break
        self.text = out[0] if len(out) == 1 else "".join(out)
        return pos

    def passing(self, text: str) -> int:
        if self._state == _SEEK:
            return 0 if self._waits(text) else -1
        if self._unconfirmed:
            at = behind_space(text, self._unconfirmed)
            waits = at == len(text) or text[at:] in self._grammar.after_value.prefixes
            return 0 if waits and at <= BOUND else -1
        watch = self._form.watch
        if not watch.absent(text):
            at, literal = watch.seek(text, 0, False)
            if literal or not at:
                return -1 if literal else 0
            text = text[:at]
        self._at_start = False
        if self._streams and not self._skip:
            self.text = escaped(text)
        else:
            self.text = ""
            self._keep(text)
        return len(text)

    def _waits(self, text: str) -> bool:
        """Whether this, between parameters, still decides nothing."""
        trial = self._trial
        if trial is None:
            return text in self._grammar.after_value.prefixes
        return trial.run(text, 0, False) == NEED

    def finish(self) -> Status:
        self.text = ""
        if not self.done and self._state == _SEEK and not self._cut:
            self.text = "}" if self._seen else "{}"
            self.done = True
        return "complete" if self.done else "truncated"

    def close(self) -> bool:
        return False

    # -- between parameters

    def _seek(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        pos = behind_space(buf, pos)
        if pos == len(buf):
            return pos
        grammar = self._grammar
        trial = self._trial
        if trial is None:
            if not final and grammar.after_value.pending(buf, pos):
                self._held = True
                return pos
            if not grammar.heads.literal_at(buf, pos):
                return self._params_end(buf, pos, out)
            trial = Trial(grammar.param_programs, grammar.dialect, False)
        answer = trial.run(buf, pos, final)
        if answer == NEED:
            self._trial = trial
            self._held = True
            return pos
        self._trial = None
        if answer == MATCH:
            self._begin(trial, pos, out)
            return pos + trial.offset
        if final and self._ends_in_head(buf, pos):
            return self._cut_head(pos)
        return self._skip_head(buf, pos, pos + len(grammar.heads.literal_at(buf, pos)), final)

    def _params_end(self, buf: str, pos: int, out: list[str]) -> int:
        """Here is no parameter, so the call ends; the input may, too, and cut off what stands here."""
        grammar = self._grammar
        closing = grammar.call_closers.pending(buf, pos)
        if grammar.heads.pending(buf, pos) and not closing:
            return self._cut_head(pos)
        if grammar.after_params.literal_at(buf, pos):
            out.append("}" if self._seen else "{}")
            self.done = True
        elif closing:
            return len(buf)
        elif grammar.after_params.pending(buf, pos):
            return self._cut_head(pos)
        else:
            self.error = "a parameter or the end of the call"
        return pos

    def _cut_head(self, pos: int) -> int:
        """Too little is left to tell what it was going to be."""
        self._cut = True
        self._held = True
        return pos

    def _ends_in_head(self, buf: str, pos: int) -> bool:
        grammar = self._grammar
        if grammar.call_closers.pending(buf, pos):
            return False
        return Trial(grammar.param_programs, grammar.dialect, False).run(buf, pos, False) == NEED

    def _skip_head(self, buf: str, pos: int, at: int, final: bool) -> int:
        """A parameter was begun and has no value: go on behind it."""
        ends = self._grammar.after_value
        at = ends.seek(buf, at, True)[0]
        if at < 0 or at - pos > BOUND:
            if final or len(buf) - pos > BOUND:
                self.error = "a parameter's value"
            else:
                self._held = True
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
        if declared:
            self._streams = declared in _STRINGS
        elif kind.types:
            self._streams = kind.is_string
        else:
            # Nothing but the text itself, and perhaps an attribute, says what it is.
            self._streams = "string" not in fields and self._policies.schemaless_value == "string"
        out.append(("{" if not self._seen else ", ") + quote(key) + (': "' if self._streams else ": "))
        self._seen.add(key)

    # -- inside a value

    def _value(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        watch = self._form.watch
        at = pos
        while True:
            at, literal = watch.seek(buf, at, final)
            if at < 0:
                self._data(buf[pos:], out)
                return len(buf)
            answer = NEED
            if literal:
                answer = self._closes(literal, buf, at, at == pos and self._at_start, final)
            if answer != FAIL:
                break
            # Without its line feed it is none, either.
            at += 2 if literal[0] == "\n" else 1
        self._data(buf[pos:at], out)
        if answer == MATCH:
            return self._value_ends(literal, at, out)
        self._held = True
        return at

    def _closes(self, literal: str, buf: str, at: int, at_start: bool, final: bool) -> int:
        """Whether the literal at ``at`` ends the value."""
        grammar = self._grammar
        end = at + len(literal)
        if literal in self._form.closers:
            if self._policies.close_in_value == "first":
                return MATCH
            answer = follows(grammar.after_value, buf, end, final)
            self._unconfirmed = len(literal) if answer == NEED else 0
            return answer
        if literal in grammar.dialect.stop:
            after = behind_space(buf, end)
            return FAIL if after < len(buf) or after - end > BOUND else MATCH if final else NEED
        marker = literal.lstrip("\n")
        if marker == literal and not self._form.inline and not at_start:
            return FAIL
        if marker in grammar.heads.literals:
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
        if self._streams and not self._skip:
            out.append(escaped(text))
        else:
            self._keep(text)

    def _keep(self, text: str) -> None:
        """What is no string waits for the end of the value."""
        if not self._skip:
            self._raw.append(text)

    def _value_ends(self, literal: str, at: int, out: list[str]) -> int:
        if literal in self._form.closers:
            end = at + len(literal)
        elif literal in self._grammar.dialect.stop:
            # The turn ended inside the value: it stays open.
            return at + len(literal)
        else:
            end = at + len(literal) - len(literal.lstrip("\n"))
        self._state = _SEEK
        if not self._skip:
            if self._streams:
                out.append('"')
            elif self._type is not None:
                out.append(self._typed("".join(self._raw), self._type, at))
        self._raw.clear()
        return end

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

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

from ..schema.schema import coerce, quote
from ..search.scan import COMPILED, behind_space, escaped
from ..syntax.trial import FAIL, MATCH, NEED, WHOLE_END, Trial, follows
from .base import BOUND, Codec
from .json import json_kind

if TYPE_CHECKING:
    from re import Match

    from ..schema.schema import Tools, ValueType
    from ..syntax.forms import ParamForm
    from ..syntax.syntax import Syntax
    from ..values.events import Status
    from ..values.policies import Policies

_SEEK: Final = 0
_VALUE: Final = 1
_STRINGS: Final = ("true", "string", "str", "raw")


class Tagged(Codec):
    """Parameters up to the call's closer."""

    __slots__ = (
        "_at_start",
        "_awaited",
        "_closer",
        "_confirmed",
        "_confirms",
        "_cut",
        "_declared",
        "_first",
        "_form",
        "_function",
        "_head",
        "_held",
        "_policies",
        "_raw",
        "_seen",
        "_skip",
        "_state",
        "_streams",
        "_syntax",
        "_tools",
        "_trial",
        "_type",
    )

    def __init__(self, syntax: Syntax, tools: Tools, function: str, policies: Policies) -> None:
        super().__init__()
        self._syntax: Final = syntax
        self._tools: Final = tools
        self._function: Final = function
        self._policies: Final = policies
        self._confirms: Final = policies.close_in_value == "confirmed"
        self._state = _SEEK
        self._seen: set[str] = set()
        self._first: Final = syntax.param_of[syntax.param_programs[0]]
        self._form: ParamForm = self._first
        self._trial: Trial | None = None
        self._type: ValueType | None = None
        self._streams = True
        self._skip = False
        self._declared = ""
        self._at_start = True
        self._raw: list[str] = []
        self._held = False  # what stands here may still become something else
        self._closer = ""  # stands here and ends the value, if what follows confirms it,
        self._awaited = 0  # ... and where that begins
        # What ``passing`` found out for the step behind it: the closer counts, a whole head stands here.
        self._confirmed = False
        self._head: Match[str] | None = None
        self._cut = False  # the input ended inside a parameter's head

    @property
    def waiting(self) -> bool:
        return self._state == _VALUE and not self._streams and not self._skip

    def step(self, buf: str, pos: int, final: bool) -> int:
        out: list[str] = []
        self._held = False
        while pos < len(buf) and not (self._held or self.done or self.error):
            if self._state == _SEEK:
                pos = self._seek(buf, pos, final, out)
            else:
                pos = self._value(buf, pos, final, out)
        self.text = out[0] if len(out) == 1 else "".join(out)
        return pos

    def passing(self, text: str) -> str | None:
        if self._state == _SEEK:
            return "" if self._held and self._waits(text) else None
        watch = self._form.watch
        if self._closer:
            awaited = text[self._awaited :]
            if awaited[:1] > " " and awaited in self._syntax.after_value.prefixes:
                return ""
        elif self._streams:
            # In the interpreter a call would cost as much as the look itself.
            if not self._held and (watch.verbatim(text) if COMPILED else not watch.special(text)):
                self._at_start = False
                self.text = text
                return text
            piece = watch.piece(text)
            if piece is not None:
                self._held = not piece.whole
                if piece.text:
                    self._at_start = False
                self.text = piece.json
                return piece.text
        if self._held or not watch.plain(text):
            reach = self._reach(text)
            if reach <= 0:
                return "" if not reach else None
            if reach < len(text):
                text = text[:reach]
        self._at_start = False
        if self._streams:
            self.text = escaped(text)
        else:
            self.text = ""
            self._keep(text)
        return text

    def _reach(self, text: str) -> int:
        """How far the value goes on for certain; -1: it takes a step to tell."""
        watch = self._form.watch
        at, literal = 0, self._closer
        if not literal:
            if text in watch.prefixes:
                self._held = True
                return 0
            at, literal = watch.seek(text, 0, False)
        if literal:
            if at or not self._confirms or literal not in self._form.closers:
                return -1
            answer = self._confirmation(literal, text)
            if answer != FAIL:
                self._held = True
                self._confirmed = answer == MATCH
                return 0 if answer == NEED else -1
            at, literal = watch.seek(text, _behind(literal), False)
            if literal:
                return -1
        self._held = at >= 0
        return at if self._held else len(text)

    def _waits(self, text: str) -> bool:
        """Whether this, which stands between parameters, still decides nothing."""
        if self._trial is not None:
            return self._trial.run(text, 0, False) == NEED
        head = self._plain_head(text, 0)
        if head is None:
            return text in self._syntax.after_value.prefixes
        if head.lastgroup == WHOLE_END:
            self._head = head
            return False
        return True

    def _confirmation(self, closer: str, text: str) -> int:
        """What ``follows`` says of the closer that the text begins with, without reading anything twice."""
        if not self._closer:
            self._closer = closer
            self._awaited = len(closer)
        at = self._awaited = behind_space(text, self._awaited)
        following = self._syntax.after_value
        if at - len(closer) <= BOUND:
            if at == len(text) or text[at:] in following.prefixes:
                return NEED
            if following.literal_at(text, at):
                return MATCH
        self._closer = ""
        return FAIL

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
        head = self._head
        if head is not None:
            self._head = None
            self._begin(self._first, head["key"].strip(), {}, pos, out)
            return pos + head.end()
        pos = behind_space(buf, pos)
        if pos == len(buf):
            return pos
        syntax = self._syntax
        trial = self._trial
        if trial is None:
            head = None if final else self._plain_head(buf, pos)
            if head is not None and head.lastgroup == WHOLE_END:
                self._begin(self._first, head["key"].strip(), {}, pos, out)
                return head.end()
            if head is not None or (not final and syntax.after_value.pending(buf, pos)):
                self._held = True
                return pos
            if not syntax.heads.literal_at(buf, pos):
                return self._params_end(buf, pos, final, out)
            trial = Trial(syntax.param_programs, syntax.dialect, False)
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
        if final and self._ends_in_head(buf, pos):
            return self._cut_head(pos)
        return self._skip_head(buf, pos, pos + len(syntax.heads.literal_at(buf, pos)), final)

    def _plain_head(self, buf: str, pos: int) -> Match[str] | None:
        """The head of a parameter that stands here, or what there is of it, if it needs no trial."""
        program = self._first.head
        head = (program.whole or program.as_pattern()).match(buf, pos)
        return head if head is not None and head.end() - pos <= BOUND else None

    def _params_end(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        """Here is no parameter, so the call ends; the input may, too, and cut off what stands here."""
        syntax = self._syntax
        closing = final and syntax.call_closers.pending(buf, pos)
        if final and syntax.heads.pending(buf, pos) and not closing:
            return self._cut_head(pos)
        if syntax.after_params.literal_at(buf, pos):
            out.append("}" if self._seen else "{}")
            self.done = True
        elif closing:
            return len(buf)
        elif final and syntax.after_params.pending(buf, pos):
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
        syntax = self._syntax
        if syntax.call_closers.pending(buf, pos):
            return False
        return Trial(syntax.param_programs, syntax.dialect, False).run(buf, pos, False) == NEED

    def _skip_head(self, buf: str, pos: int, at: int, final: bool) -> int:
        """A parameter was begun and has no value: go on behind it."""
        ends = self._syntax.after_value
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
        kind = self._tools.value_type(self._function, key)
        self._type = kind
        declared = attributes.get("string", attributes.get("type", ""))
        self._declared = declared
        if declared:
            self._streams = declared in _STRINGS
        elif kind.types:
            self._streams = kind.is_string
        else:
            # Nothing but the text itself, and perhaps an attribute, says what it is.
            self._streams = "string" not in attributes and self._policies.schemaless_value == "string"
        out.append(("{" if not self._seen else ", ") + quote(key) + (': "' if self._streams else ": "))
        self._seen.add(key)

    # -- inside a value

    def _value(self, buf: str, pos: int, final: bool, out: list[str]) -> int:
        watch = self._form.watch
        at, literal = pos, self._closer
        if literal:
            self._closer = ""
            if self._confirmed:
                self._confirmed = False
                return self._value_ends(literal, at, out)
        else:
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
            return follows(syntax.after_value, buf, end, final) if self._confirms else MATCH
        if literal in syntax.dialect.stop:
            after = behind_space(buf, end)
            return FAIL if after < len(buf) or after - end > BOUND else MATCH if final else NEED
        marker = literal.lstrip("\n")
        if marker == literal and not self._form.inline and not at_start:
            return FAIL
        if marker in syntax.heads.literals:
            trial = Trial(syntax.param_programs, syntax.dialect, False)
            answer = trial.run(buf, end - len(marker), final)
            if answer != MATCH:
                return answer if answer == NEED else FAIL
            key = trial.fields.get("key", "")
            declared = self._tools.keys(self._function)
            return MATCH if declared is not None and key in declared and key not in self._seen else FAIL
        return follows(syntax.after_call, buf, end, final)

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
        elif self._type is not None and not self._skip:
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
        value, fits = coerce(raw, kind, self._syntax.dialect.values.python)
        if not fits:
            self.notes.append(("coerced_to_string", text[:80], at))
        return value


def _behind(literal: str) -> int:
    """Where to look on if a literal does not end the value: without its line feed it doesn't, either."""
    return 2 if literal[0] == "\n" else 1

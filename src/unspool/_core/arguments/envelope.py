"""Envelope: a JSON object that holds a call's name and arguments.

``{"name": ..., "arguments": ...}`` with keys in any order and under the names
that the dialect gives them, also wrapped as ``{"function": {...}}``, or keyed
by the function: ``{"get_weather": {...}}``.  Only members of the envelope
itself are looked at: arguments may have a key ``name`` of their own.

The name is the commit point.  ``step`` stops there, whatever the chunking, so
that a big chunk cannot decide more than a small one.  Arguments that come
before the name wait inside; all else before it is at most ``BOUND`` characters.

Where no marker says that the object is a call, it may as well be an answer that
has a name: there it takes both name and arguments, or a declared name and nothing
else, which only the end of the object shows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ..compiler.codec import Codec, NamedPayload, Value
from ..scan.runs import BOUND, skip_whitespace
from .json_value import NO_ARGUMENTS, JsonValue, arguments_in
from .python_literal import PythonValue

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ...events import Status

_BLANKS: Final = " \t\r\n"
_OPEN: Final = 0
_FIRST_KEY: Final = 1
_KEY: Final = 2
_COLON: Final = 3
_VALUE: Final = 4
_NEXT: Final = 5
_EXPECTED: Final = ("'{'", "a string key or '}'", "a string key", "':'", "a JSON value", "',' or '}'")
_NO_ROLE: Final = 0
_NAME_ROLE: Final = 1
_ARGS_ROLE: Final = 2
_ID_ROLE: Final = 3
_KEY_ROLE: Final = 4


class EnvelopeForm:
    """How an envelope is written in a dialect."""

    __slots__ = ("args_keys", "id_keys", "keyed", "name_keys", "python", "repair", "unmarked")

    def __init__(self, dialect: Dialect, repair: bool, python: bool, unmarked: bool) -> None:
        """Work it out, once for many calls.

        :param python: the object is written as a Python dict.
        :param unmarked: nothing but its members says that it is a call.
        """
        keys = dialect.envelope
        self.keyed: Final = keys.keyed
        self.name_keys: Final = keys.name_keys
        self.args_keys: Final = keys.args_keys
        self.id_keys: Final = keys.id_keys
        self.repair: Final = repair
        self.python: Final = python
        self.unmarked: Final = unmarked


class EnvelopeCodec(NamedPayload):
    """The object, up to its closing brace."""

    __slots__ = (
        "_captured",
        "_depth",
        "_foreign",
        "_form",
        "_has_args",
        "_json",
        "_lenient",
        "_pending",
        "_python",
        "_repair",
        "_role",
        "_slack",
        "_state",
        "_unmarked",
        "_value",
        "_wraps",
    )

    def __init__(self, form: EnvelopeForm) -> None:
        """Begin at its opening brace, or at white space before it."""
        super().__init__()
        self._form: Final = form
        self._repair: Final = form.repair
        self._python: Final = form.python
        self._unmarked: Final = form.unmarked
        self._foreign = False  # it has a member that no call has
        self._lenient: Final = form.repair or form.python
        self._state = _OPEN
        self._depth = 0
        self._role = _NO_ROLE
        self._value: Value | None = None
        self._json: Final = JsonValue(form.repair)  # every value, one after the other
        self._captured: list[str] = []
        self._pending: list[str] = []
        self._has_args = False
        self._slack = 0
        self._wraps = False  # the last key was one that another object may stand under

    @property
    def partial_name(self) -> str:
        """What is there of the name, if its value has begun."""
        if self.committed or self._role != _NAME_ROLE:
            return self.name
        return "".join(self._captured)[1:]

    @property
    def verbatim(self) -> bool:
        return not self._python and self._json.verbatim

    @property
    def source(self) -> Codec | None:
        value = self._value
        if value is None or self._role != _ARGS_ROLE or not self.committed or value.kind != "{":
            return None
        return value

    def resume(self, buf: str, pos: int) -> int:
        value = self._value
        assert value is not None  # noqa: S101 - it was the source
        self.text = ""
        if not self._stepped(value, pos):
            return pos
        text = self.text
        end = self.step(buf, pos, False)
        self.text = text + self.text
        return end

    def step(self, buf: str, pos: int, final: bool) -> int:
        self.text = ""
        n = len(buf)
        was_committed = self.committed
        while pos < n and not self.done and not self.error and self.committed == was_committed:
            value = self._value
            if value is None:
                pos = self._structure(buf, pos)
                continue
            start = pos
            pos = value.step(buf, pos, final)
            if not was_committed and self._role != _ARGS_ROLE and self._exceeds(pos - start):
                break
            if not self._stepped(value, pos):
                break
        if self.committed:
            if self.done and not self._has_args:
                self._has_args = True
                self.text += "{}"
            if self._pending:
                self.text = "".join(self._pending) + self.text
                self._pending.clear()
        elif final and self._unmarked and self._foreign:
            self.error = "a call's arguments"  # rather an answer that was cut
        return pos

    def _exceeds(self, length: int) -> bool:
        """Whether this much more is too much before the name: a model that goes on there shows nothing."""
        self._slack += length
        if self._slack <= BOUND:
            return False
        self.error = "a call's name"
        self.overlong = not self._unmarked  # else it is an answer, as most objects are
        return True

    def _stepped(self, value: Value, pos: int) -> bool:
        """A value has read up to ``pos``.  False: it needs more, or has failed."""
        if value.notes:
            self.notes.extend(value.notes)
            value.notes.clear()
        if value.text:
            self._take(value)
        if value.error or not value.done:
            self.error = value.error
            if self.error and self._role == _ARGS_ROLE and self.committed:
                self.text += "".join(self._captured)
            return False
        self._value_ends(pos)
        return True

    def finish(self, cut: bool) -> Status:
        self.text = ""
        if self.done:
            return "complete"
        value = self._value
        if value is not None and self._role == _ARGS_ROLE and value.finish(cut) == "complete":
            if value.text:
                self._take(value)
            self._value_ends(-1)
            if self.error:
                self.error = self.text = ""
                return "truncated"
        if self.committed and self._has_args and self._value is None:
            self.done = True
            return "complete"
        return "truncated"

    def close(self) -> bool:
        self.text = ""
        if self.error == NO_ARGUMENTS:
            return False
        value = self._value
        if value is not None:
            if self._role != _ARGS_ROLE or not value.close():
                return False
            self.notes.extend(value.notes)
            self._take(value)
            self._value_ends(-1)
            if self.error == NO_ARGUMENTS:
                self.text = ""
                return False
        elif self._state not in (_NEXT, _KEY) or not self.committed:
            return False
        if not self._has_args:
            self.text += "{}"
        self.notes.append(("repaired", "missing } added", 0))
        self.error = ""
        self.done = True
        return True

    def _structure(self, buf: str, pos: int) -> int:  # noqa: C901 - a branch for each state
        """Read what is between the values, up to the next one or to what does not belong here."""
        n = len(buf)
        while True:
            if pos < n and buf[pos] in _BLANKS:
                after = skip_whitespace(buf, pos)
                if not self.committed and self._exceeds(after - pos):
                    return after
                pos = after
            if pos == n:
                return pos
            char = buf[pos]
            state = self._state
            if state == _COLON and char == ":":
                self._state = _VALUE
            elif state == _VALUE:
                if char != "{" or not self._wraps:
                    self._begin(self._role, pos)
                    return pos
                self._depth += 1
                self._state = _FIRST_KEY
            elif state == _NEXT and char == ",":
                self._state = _KEY
            elif state in (_FIRST_KEY, _KEY) and (char == '"' or (char == "'" and self._lenient)):
                self._begin(_KEY_ROLE, pos)
                return pos
            elif char == "}" and (state in (_NEXT, _FIRST_KEY) or (state == _KEY and self._lenient)):
                if state == _KEY and not self._python:
                    self.notes.append(("repaired", "trailing comma removed", pos))
                self._object_ends()
                if self.error:
                    return pos
                if self.done:
                    return pos + 1
            elif char == "{" and state == _OPEN:
                self._state = _FIRST_KEY
            elif char == "{" and state == _FIRST_KEY and self._repair and self._depth == 0:
                self.notes.append(("repaired", "doubled braces", pos))
                self._depth = 1
            else:
                self.error = _EXPECTED[state]
                return pos
            pos += 1
            if not self.committed and self._exceeds(1):
                return pos

    def _begin(self, role: int, at: int) -> None:
        """A key or value begins here."""
        self._role = role
        if role == _ARGS_ROLE:
            self.args_start = at
            self.awaits_name = not self.committed
        elif role == _NAME_ROLE or (role == _KEY_ROLE and not self.committed and self._form.keyed):
            self.name_start = at + 1
        self._value = PythonValue() if self._python else self._json.again()

    def _object_ends(self) -> None:
        self._state = _NEXT
        if self._depth:
            self._depth -= 1
        elif not self.name:
            self.error = "a call's name"
        elif self.committed or not self._foreign:
            self.only_named = not self.committed
            self.committed = self.done = True
        else:
            self.error = "a call's arguments"

    def _take(self, value: Value) -> None:
        """Put what a value gave where its role says."""
        text = value.text
        role = self._role
        if role == _ARGS_ROLE:
            # Only an object is certain to be arguments: all else waits until it is complete.
            if value.kind != "{":
                self._captured.append(text)
            elif self.committed:
                self.text += text
            else:
                self._pending.append(text)
        elif role != _NO_ROLE:
            self._captured.append(text)

    def _value_ends(self, at: int) -> None:
        """A key or value is complete, and ends before ``at``; -1: where the input does."""
        role, self._value = self._role, None
        self._state = _NEXT
        text = "".join(self._captured)
        if role == _KEY_ROLE:
            self._key_ends(_unquoted(text), at)
            return
        if role == _ARGS_ROLE:
            self._has_args = True
            self.args_end = at
            if text:
                arguments = arguments_in(text, self.notes, at)
                if not arguments:
                    self.error = NO_ARGUMENTS
                if self.committed:
                    self.text += arguments or text
                else:
                    self._pending.append(arguments or text)
        elif role == _NAME_ROLE:
            if text[:1] != '"' or len(text) < 3:
                self.error = "the function's name as a string"
                return
            self.name = _unquoted(text)
            self.name_end = at - 1
            self.committed = not self._unmarked or self._has_args
        elif role == _ID_ROLE and text[:1] == '"':
            native = _unquoted(text)
            if self.committed:
                self.notes.append(("late_id", native, at))
            else:
                self.id = native
        self._role = _NO_ROLE
        self._captured.clear()

    def _key_ends(self, key: str, at: int) -> None:
        keys = self._form
        self._state = _COLON
        self._role = _NO_ROLE
        self._captured.clear()
        if keys.keyed:
            if self.committed:
                self.error = "'}': one function to an object"
                return
            self.name = key
            self.name_end = at - 1
            self.committed = bool(key)
            self._role = _ARGS_ROLE
        elif key in keys.name_keys and not self.name:
            self._role = _NAME_ROLE
        elif key in keys.args_keys and not self._has_args and not self._pending:
            self._role = _ARGS_ROLE
            self.committed = bool(self.name)
        elif key in keys.id_keys:
            self._role = _ID_ROLE
        elif key == "function":
            self._wraps = True
        elif key != "type":
            self._foreign = True
            self.dropped_member = self.dropped_member or self._has_args
            self.notes.append(("extra_member", key[:80], at))


class UnnamedArguments(NamedPayload):
    """An object of arguments whose keys tell the function.  They are known when it is complete."""

    __slots__ = ("_json", "_pending")

    def __init__(self, repair: bool) -> None:
        super().__init__()
        self.awaits_name = True
        self._json: Final = JsonValue(repair)
        self._pending: list[str] = []

    @property
    def partial_name(self) -> str:
        return ""

    def step(self, buf: str, pos: int, final: bool) -> int:
        self.text = ""
        value = self._json
        if self.done:
            return pos
        if not self._pending:
            self.args_start = skip_whitespace(buf, pos)
        end = value.step(buf, pos, final)
        self.notes.extend(value.notes)
        value.notes.clear()
        self._pending.append(value.text)
        self.error = value.error or ("'{'" if value.kind not in ("", "{") else "")
        if value.done and not self.error:
            self.text = "".join(self._pending)
            self.args_end = end
            self.keys = _keys(self.text)
            self.committed = self.done = True
        return end


def _keys(arguments: str) -> tuple[str, ...]:
    """The keys of a JSON object; none of one that is nested too deep to be read at once."""
    try:
        return tuple(json.loads(arguments))
    except RecursionError:
        return ()


def _unquoted(text: str) -> str:
    """What a JSON string says."""
    return json.loads(text) if "\\" in text else text[1:-1]

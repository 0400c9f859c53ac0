"""Envelope: a JSON object that holds a call's name and arguments.

``{"name": ..., "arguments": ...}`` with keys in any order and under the names
that the dialect gives them, also wrapped as ``{"function": {...}}``, or keyed
by the function: ``{"get_weather": {...}}``.  Only members of the envelope
itself are looked at: arguments may have a key ``name`` of their own.

The name is the commit point.  ``step`` stops there, whatever the chunking, so
that a big chunk cannot decide more than a small one.  Arguments that come
before the name wait inside.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from .base import BOUND, Codec, Value
from .json import JsonValue, json_kind
from .python import PythonValue

if TYPE_CHECKING:
    from .._dialect import Dialect
    from .._events import Status

_SPACE: Final = re.compile(r"[ \t\r\n]*")
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


class Envelope(Codec):
    """The object, up to its closing brace."""

    __slots__ = (
        "_at",
        "_captured",
        "_comma",
        "_depth",
        "_dialect",
        "_has_args",
        "_pending",
        "_python",
        "_repair",
        "_role",
        "_slack",
        "_state",
        "_value",
        "committed",
        "id",
        "name",
    )

    def __init__(self, dialect: Dialect, repair: bool = False, python: bool = False) -> None:
        """``python``: the object is written as a Python dict."""
        super().__init__()
        self.name: str = ""
        """The function's name, once known."""
        self.id: str = ""
        """The call's id, if it came before the name."""
        self.committed: bool = False
        """Whether the name is known."""
        self._dialect = dialect
        self._repair = repair
        self._python = python
        self._state = _OPEN
        self._depth = 0
        self._role = _NO_ROLE
        self._value: Value | None = None
        self._captured: list[str] = []
        self._pending: list[str] = []
        self._has_args = False
        self._comma = False
        self._slack = 0
        self._at = 0

    @property
    def waiting(self) -> bool:
        return not self.committed or (self._role == _ARGS_ROLE and bool(self._captured))

    @property
    def partial_name(self) -> str:
        """What is there of the name, if its value has begun but not ended."""
        if self.committed or self._role != _NAME_ROLE:
            return ""
        return "".join(self._captured)[1:]

    def step(self, buf: str, pos: int, final: bool) -> int:
        n = len(buf)
        out: list[str] = []
        while pos < n and not self.done:
            value = self._value
            if value is not None:
                pos = value.step(buf, pos, final)
                if value.notes:
                    self.notes.extend(value.notes)
                    value.notes.clear()
                self._take(value, out)
                if value.error:
                    self.error = value.error
                    break
                if not value.done:
                    break
                self._at = pos
                was_committed = self.committed
                if not self._value_ends(out):
                    break
                if self.committed and not was_committed:
                    break
                continue
            after = _SPACE.match(buf, pos).end()  # type: ignore[union-attr]
            if not self.committed:
                self._slack += after - pos
                if self._slack > BOUND:
                    self.error = "a call's name"
                    break
            pos = after
            if pos == n:
                break
            self._at = pos
            step = self._structure(buf[pos])
            if step < 0:
                break
            pos += step
        if self.done and not self._has_args and self.committed:
            self._has_args = True
            out.append("{}")
        if self.committed and self._pending:
            out[:0] = self._pending
            self._pending.clear()
        self.text = out[0] if len(out) == 1 else "".join(out)
        return pos

    @property
    def inner(self) -> Codec:
        value = self._value
        if value is None or self._role != _ARGS_ROLE or not self.committed or value.kind != "{":
            return self
        return value

    def finish(self) -> Status:
        self.text = ""
        if self.done:
            return "complete"
        value = self._value
        if value is not None and self._role == _ARGS_ROLE and value.finish() == "complete":
            out: list[str] = []
            self._take(value, out)
            self._value_ends(out)
            self.text = "".join(out)
        if self.committed and self._has_args and self._value is None:
            self.done = True
            return "complete"
        return "truncated"

    def close(self) -> bool:
        self.text = ""
        self._at = 0
        value = self._value
        out: list[str] = []
        if value is not None:
            if self._role != _ARGS_ROLE or not value.close():
                return False
            self.notes.extend(value.notes)
            out.append(value.text)
            self._value_ends(out)
        elif self._state not in (_NEXT, _KEY) or not self.committed:
            return False
        if not self._has_args:
            out.append("{}")
        self.notes.append(("repaired", "missing } added", self._at))
        self.text = "".join(out)
        self.error = ""
        self.done = True
        return True

    def _structure(self, char: str) -> int:
        """Read one structural character; -1: it does not belong here."""
        state = self._state
        if state == _OPEN:
            if char == "{":
                self._state = _FIRST_KEY
                return 1
        elif state in (_FIRST_KEY, _KEY):
            if char == '"' or (char == "'" and (self._repair or self._python)):
                self._begin(_KEY_ROLE)
                return 0
            if char == "}" and (state == _FIRST_KEY or (self._comma and (self._repair or self._python))):
                if self._comma and not self._python:
                    self.notes.append(("repaired", "trailing comma removed", self._at))
                return self._object_ends()
            if char == "{" and state == _FIRST_KEY and self._repair and self._depth == 0:
                self.notes.append(("repaired", "doubled braces", self._at))
                self._depth = 1
                return 1
        elif state == _COLON:
            if char == ":":
                self._state = _VALUE
                return 1
        elif state == _VALUE:
            if char == "{" and self._role == _NO_ROLE and self._captured == ["function"]:
                self._captured.clear()
                self._depth += 1
                self._state = _FIRST_KEY
                return 1
            self._begin(self._role)
            return 0
        elif char == ",":
            self._comma = True
            self._state = _KEY
            return 1
        elif char == "}":
            return self._object_ends()
        self.error = _EXPECTED[state]
        return -1

    def _begin(self, role: int) -> None:
        self._role = role
        self._captured.clear()
        self._value = PythonValue() if self._python else JsonValue(self._repair)

    def _object_ends(self) -> int:
        self._state = _NEXT
        if self._depth:
            self._depth -= 1
        elif self.committed:
            self.done = True
        else:
            self.error = "a call's name"
            return -1
        return 1

    def _take(self, value: Value, out: list[str]) -> None:
        """Put what a value gave where its role says."""
        text = value.text
        if not text:
            return
        role = self._role
        if role == _ARGS_ROLE:
            # A string may hold encoded arguments, and null means none: both wait.
            if value.kind in ('"', "n"):
                self._captured.append(text)
            elif self.committed:
                out.append(text)
            else:
                self._pending.append(text)
        elif role != _NO_ROLE:
            self._captured.append(text)

    def _value_ends(self, out: list[str]) -> bool:
        """A key or value is complete.  False: it is not what it must be."""
        role, self._value = self._role, None
        self._state = _NEXT
        text = "".join(self._captured)
        if role == _KEY_ROLE:
            self._key_ends(json.loads(text))
            return not self.error
        if role == _ARGS_ROLE:
            self._has_args = True
            if text:
                (out if self.committed else self._pending).append(_decoded(text))
        elif role == _NAME_ROLE:
            if text[:1] != '"' or len(text) < 3 or len(text) > BOUND:
                self.error = "the function's name as a string"
                return False
            self.name = json.loads(text)
            self.committed = True
        elif role == _ID_ROLE and text[:1] == '"':
            native = json.loads(text)
            if self.committed:
                self.notes.append(("late_id", native, self._at))
            else:
                self.id = native
        self._role = _NO_ROLE
        self._captured.clear()
        return True

    def _key_ends(self, key: str) -> None:
        dialect = self._dialect
        self._comma = False
        self._slack += len(key)
        self._state = _COLON
        self._role = _NO_ROLE
        self._captured.clear()
        if dialect.keyed:
            if self.committed:
                self.error = "'}': one function to an object"
                return
            self.name = key
            self.committed = bool(key)
            self._role = _ARGS_ROLE
        elif key in dialect.name_keys and not self.committed:
            self._role = _NAME_ROLE
        elif key in dialect.args_keys and not self._has_args and not self._pending:
            self._role = _ARGS_ROLE
        elif key in dialect.id_keys:
            self._role = _ID_ROLE
        elif key == "function":
            self._captured.append(key)


def _decoded(text: str) -> str:
    """Arguments that were given as ``null`` or as a string: what they amount to."""
    if text == "null":
        return "{}"
    inner: str = json.loads(text)
    if not inner.strip():
        return "{}"
    return inner.strip() if json_kind(inner) == "{" else text

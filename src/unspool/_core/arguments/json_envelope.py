"""Codec for envelopes: JSON objects that hold the name and the arguments of a call.

The codec reads three forms: ``{"name": ..., "arguments": ...}``, with the members in any order and
with the keys that the dialect declares; this object nested in another (``{"function": {...}}``);
and an object whose key is the function name (``{"get_weather": {...}}``).  A key such as ``name``
inside the arguments is an ordinary argument.  The codec outputs the JSON text of the arguments.

Theory of operation:

* ``_read_structure`` reads braces, colons and commas.  An inner codec reads the keys and values.
  ``_role`` is the meaning of the current key or value: a key, the function name, the arguments, an id, or a
  value to ignore.
* The codec commits to the call when the name is complete, and stops the step at this point.  So the
  result does not depend on how the input is split into chunks.
* Arguments before the name are held back until the commit, however long they are.  All other text
  before the name is limited to ``BOUND`` characters, because users see nothing until the commit.
* After the commit, an arguments object is output as it arrives.  Other values (a string that
  contains an object, or null) are held back until they are complete.
* An object without a call marker before it may be an ordinary answer that happens to have a member
  ``name``.  Such an object is a call only if it has both a name and arguments, or if its only member is the
  name of a declared tool.  Only the closing brace shows that there is no other member, so in the second case
  the codec waits for this brace.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ..compiler.argument_codec_base import Codec, NamedPayload, Value
from ..scan.character_runs import BOUND, skip_whitespace
from .json_value import NO_ARGUMENTS, JsonValue, arguments_in
from .python_literal import PythonValue

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ...events import Status

_WHITESPACE: Final = " \t\r\n"
# The first group contains the states, the second group the roles of values.  They are plain integers, because
# compiled code keeps integers in registers.
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
    """Keys and options of a dialect's envelopes.  One instance is used for all calls."""

    __slots__ = ("args_keys", "bare", "id_keys", "keyed", "name_keys", "python", "repair", "unmarked")

    def __init__(
        self, dialect: Dialect, repair: bool, python: bool, unmarked: bool, *, bare: bool = False
    ) -> None:
        """Read the keys of envelopes from a dialect.

        :param python: whether the model writes the object as a Python dict.
        :param unmarked: whether no marker precedes the object, so that only its members show that it is a
            call.
        :param bare: whether the object must contain an object with arguments to be a call.
        """
        keys = dialect.envelope
        self.keyed: Final = keys.keyed
        self.name_keys: Final = keys.name_keys
        self.args_keys: Final = keys.args_keys
        self.id_keys: Final = keys.id_keys
        self.repair: Final = repair
        self.python: Final = python
        self.unmarked: Final = unmarked
        self.bare: Final = bare


class EnvelopeCodec(NamedPayload):
    """Codec for one envelope: a JSON object with the name and the arguments of a call."""

    __slots__ = (
        "_captured",
        "_depth",
        "_form",
        "_has_args",
        "_has_other_member",
        "_has_unread_object",
        "_held",
        "_json",
        "_lenient",
        "_may_nest",
        "_python",
        "_repair",
        "_role",
        "_skipped",
        "_state",
        "_unmarked",
        "_value",
    )

    def __init__(self, form: EnvelopeForm) -> None:
        """Create a codec for input that begins with the opening brace or with whitespace before it."""
        super().__init__()
        self._form: Final = form
        self._repair: Final = form.repair
        self._python: Final = form.python
        self._unmarked: Final = form.unmarked
        self._has_other_member = False  # the object has a member that is not part of a call
        self._has_unread_object = False  # such a member is an object, which may hold the arguments
        self._lenient: Final = form.repair or form.python
        self._state = _OPEN
        self._depth = 0
        self._role = _NO_ROLE
        self._value: Value | None = None
        self._json: Final = JsonValue(form.repair)  # reads all keys and values, one after another
        self._captured: list[str] = []
        self._held: list[str] = []
        self._has_args = False
        self._skipped = 0
        self._may_nest = False  # the value of the last key may be another envelope

    @property
    def partial_name(self) -> str:
        """Part of the function's name that has arrived so far."""
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
        assert value is not None  # noqa: S101 - only a codec with a source is resumed
        self.text = ""
        if not self._take_step(value, pos):
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
                pos = self._read_structure(buf, pos)
                continue
            start = pos
            pos = value.step(buf, pos, final)
            if not was_committed and self._role != _ARGS_ROLE and self._exceeds(pos - start):
                break
            if not self._take_step(value, pos):
                break
        if self.committed:
            if self.done and not self._has_args:
                self._has_args = True
                self.text += "{}"
            if self._held:
                self.text = "".join(self._held) + self.text
                self._held.clear()
        elif final and self._unmarked and self._has_other_member:
            # The output ended inside an object with a member that calls do not have.  It is probably not a
            # call, but an answer that the token limit truncated.
            self.error = "a call's arguments"
        return pos

    def _exceeds(self, length: int) -> bool:
        """Add ``length`` to the amount of text before the name; return whether this amount is too large."""
        self._skipped += length
        if self._skipped <= BOUND or self._form.bare:  # the matcher limits the head of a bare call
            return False
        self.error = "a call's name"
        self.overlong = not self._unmarked  # a long object without a call marker is an ordinary answer
        return True

    def _take_step(self, value: Value, pos: int) -> bool:
        """Process the inner codec's output; return False if that codec failed or needs more input."""
        if value.diagnostics:
            self.diagnostics.extend(value.diagnostics)
            value.diagnostics.clear()
        if value.text:
            self._take_text(value)
        if value.error or not value.done:
            self.error = value.error
            if self.error and self._role == _ARGS_ROLE and self.committed:
                self.text += "".join(self._captured)
            return False
        self._end_value(pos)
        return True

    def finish(self, cut: bool) -> Status:
        self.text = ""
        if self.done:
            return "complete"
        value = self._value
        if value is not None and self._role == _ARGS_ROLE and value.finish(cut) == "complete":
            if value.text:
                self._take_text(value)
            self._end_value(-1)
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
            self.diagnostics.extend(value.diagnostics)
            self._take_text(value)
            self._end_value(-1)
            if self.error == NO_ARGUMENTS:
                self.text = ""
                return False
        elif self._state not in (_NEXT, _KEY) or not self.committed:
            return False
        if not self._has_args:
            if self._has_unread_object:
                return False
            self.text += "{}"
        self.diagnostics.append(("repaired", "missing } added", 0))
        self.error = ""
        self.done = True
        return True

    def _read_structure(self, buf: str, pos: int) -> int:  # noqa: C901 - one branch for each state
        """Read braces, colons and commas up to the next key or value, or to an error."""
        n = len(buf)
        while True:
            if pos < n and buf[pos] in _WHITESPACE:
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
                if char != "{" or not self._may_nest:
                    if self._form.bare and self._role == _ARGS_ROLE and not self._take_bare_brace(char):
                        return pos
                    self._begin_value(self._role, pos)
                    return pos
                self._depth += 1
                self._state = _FIRST_KEY
            elif state == _NEXT and char == ",":
                self._state = _KEY
            elif state in (_FIRST_KEY, _KEY) and (char == '"' or (char == "'" and self._lenient)):
                self._begin_value(_KEY_ROLE, pos)
                return pos
            elif char == "}" and (state in (_NEXT, _FIRST_KEY) or (state == _KEY and self._lenient)):
                if state == _KEY and not self._python:
                    self.diagnostics.append(("repaired", "trailing comma removed", pos))
                self._end_object()
                if self.error:
                    return pos
                if self.done:
                    return pos + 1
            elif char == "{" and state == _OPEN:
                self._state = _FIRST_KEY
            elif char == "{" and state == _FIRST_KEY and self._repair and self._depth == 0:
                self.diagnostics.append(("repaired", "doubled braces", pos))
                self._depth = 1
            else:
                self.error = _EXPECTED[state]
                return pos
            pos += 1
            if not self.committed and self._exceeds(1):
                return pos

    def _take_bare_brace(self, char: str) -> bool:
        """Commit to a bare call at the first character of its arguments; return False if this is no brace."""
        if char != "{":
            self.error = "an object with arguments"
            return False
        self.committed = bool(self.name)
        return True

    def _begin_value(self, role: int, at: int) -> None:
        """Start the codec for a key or value that begins at ``at``."""
        self._role = role
        if role == _ARGS_ROLE:
            self.args_start = at
            self.awaits_name = not self.committed and not self._form.bare
        elif role == _NAME_ROLE or (role == _KEY_ROLE and not self.committed and self._form.keyed):
            self.name_start = at + 1
        self._value = PythonValue() if self._python else self._json.restart()

    def _end_object(self) -> None:
        """Process the closing brace of the envelope, or of an object around the envelope."""
        self._state = _NEXT
        if self._depth:
            self._depth -= 1
        elif not self.name:
            self.error = "a call's name"
        elif self._has_unread_object and not self._has_args:
            # Some unknown member holds an object, most likely the arguments.  The function must not be called
            # without them.
            self.error = "a call's arguments"
        elif self.committed or not (self._has_other_member or self._form.bare):
            self.only_named = not self.committed
            self.committed = self.done = True
        else:
            self.error = "a call's arguments"

    def _take_text(self, value: Value) -> None:
        """Collect or output the inner codec's text, depending on the role of the value."""
        text = value.text
        role = self._role
        if role == _ARGS_ROLE:
            # Arguments must be an object.  Any other value may have to be converted to an object, so it is
            # held back until it is complete.
            if value.kind != "{":
                self._captured.append(text)
            elif self.committed:
                self.text += text
            else:
                self._held.append(text)
        elif role != _NO_ROLE:
            self._captured.append(text)
        elif value.kind == "{" and text.strip("{} \t\r\n"):
            self._has_unread_object = True

    def _end_value(self, at: int) -> None:
        """Process a complete key or value.

        :param at: position after the key or value; -1 at the end of the input.
        """
        role, self._value = self._role, None
        self._state = _NEXT
        text = "".join(self._captured)
        if role == _KEY_ROLE:
            self._end_key(_decode_string(text), at)
            return
        if role == _ARGS_ROLE:
            self._has_args = True
            self.args_end = at
            if text:
                arguments = arguments_in(text, self.diagnostics, at)
                if not arguments:
                    self.error = NO_ARGUMENTS
                if self.committed:
                    self.text += arguments or text
                else:
                    self._held.append(arguments or text)
        elif role == _NAME_ROLE:
            if text[:1] != '"' or len(text) < 3:
                self.error = "the function's name as a string"
                return
            self.name = _decode_string(text)
            self.name_end = at - 1
            self.is_like_tool = self._unmarked and self._depth > 0
            self.committed = not self._unmarked or self._has_args
        elif role == _ID_ROLE and text[:1] == '"':
            native = _decode_string(text)
            if self.committed:
                self.diagnostics.append(("late_id", native, at))
            else:
                self.id = native
        self._role = _NO_ROLE
        self._captured.clear()

    def _end_key(self, key: str, at: int) -> None:
        """Select the role of the value that follows a key."""
        keys = self._form
        self._state = _COLON
        self._role = _NO_ROLE
        self._may_nest = key == "function" and not keys.keyed
        self._captured.clear()
        if keys.keyed:
            if self.committed:
                self.error = "'}': one function per object"
                return
            self.name = key
            self.name_end = at - 1
            self.committed = bool(key)
            self._role = _ARGS_ROLE
        elif key in keys.name_keys and not self.name:
            self._role = _NAME_ROLE
        elif key in keys.args_keys and not self._has_args and not self._held:
            self._role = _ARGS_ROLE
            self.committed = bool(self.name) and not keys.bare
        elif key in keys.id_keys:
            self._role = _ID_ROLE
        elif key not in ("function", "type"):
            self._has_other_member = True
            self.dropped_member = self.dropped_member or self._has_args
            self.diagnostics.append(("extra_member", key[:80], at))


class UnnamedArguments(NamedPayload):
    """Codec for a call that consists only of an arguments object, whose keys identify the function.

    All keys are needed to identify the function, so the arguments are held back until the object is complete.
    """

    __slots__ = ("_held", "_json")

    def __init__(self, repair: bool) -> None:
        super().__init__()
        self.awaits_name = True
        self._json: Final = JsonValue(repair)
        self._held: list[str] = []

    @property
    def partial_name(self) -> str:
        return ""

    def step(self, buf: str, pos: int, final: bool) -> int:
        self.text = ""
        value = self._json
        if self.done:
            return pos
        if not self._held:
            self.args_start = skip_whitespace(buf, pos)
        end = value.step(buf, pos, final)
        self.diagnostics.extend(value.diagnostics)
        value.diagnostics.clear()
        self._held.append(value.text)
        self.error = value.error or ("'{'" if value.kind not in ("", "{") else "")
        if value.done and not self.error:
            self.text = "".join(self._held)
            self.args_end = end
            self.keys = _keys(self.text)
            self.committed = self.done = True
        return end


def _keys(arguments: str) -> tuple[str, ...]:
    """Return the keys of a JSON object, or ``()`` if it is nested too deeply for the standard library."""
    try:
        return tuple(json.loads(arguments))
    except RecursionError:
        return ()


def _decode_string(text: str) -> str:
    """Return the value of a JSON string."""
    return json.loads(text) if "\\" in text else text[1:-1]

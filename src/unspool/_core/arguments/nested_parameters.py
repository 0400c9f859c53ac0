"""Codec for nested parameters: tagged parameters whose values may contain further tagged parameters.

``<value name="to"><value name="city">Paris</value></value>`` becomes ``{"to": {"city": "Paris"}}``.

Theory of operation:

* The open elements are stored in a list, not on the call stack.  Therefore only memory limits the nesting.
* The shape of an element is undecided (``_OPEN``) until its first content.  Text makes the element a scalar
  (``_TEXT``), and a child makes it an object or a list.  An attribute or the schema determines whether the
  element is an object or a list.  If neither does, the child's name decides: the dialect's ``list_key`` is
  the name of list items.
* Whitespace before the first content of an element is held back, because it belongs to the value only if the
  element turns out to be a scalar.
* As in ``tagged_parameters``, a closing tag ends a value only if the text after the tag can follow a
  value, and strings are output as they arrive.  A value without a closing tag ends at the opening tag of
  another parameter, if the schema declares this parameter and it is not there yet.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..compiler.matcher import FAIL, MATCH, NEED_MORE, Matcher, follows
from ..scan.character_runs import BOUND, escaped, skip_whitespace
from ..schema.text_to_value import Slot, is_text, quote
from ..schema.tools import UNKNOWN
from .tagged_parameters_base import Parameters

if TYPE_CHECKING:
    from ...events import Status
    from ...policies import Policies
    from ..compiler.compiled_dialect import CompiledDialect
    from ..schema.tools import Tools, ValueType

# Shapes of an element.  They are plain integers, because compiled code keeps integers in registers.
_OPEN: Final = 0
_TEXT: Final = 1
_OBJECT: Final = 2
_LIST: Final = 3
_NOT_WHITESPACE: Final = re.compile(r"\S")
_CONTAINERS: Final = {"dict": _OBJECT, "object": _OBJECT, "list": _LIST, "array": _LIST}


class _Element:
    """Parameter whose closing tag has not been read yet."""

    __slots__ = ("count", "declared", "discards", "key", "raw", "seen", "shape", "slot", "type")

    def __init__(self, key: str, kind: ValueType, declared: str, slot: Slot, discards: bool) -> None:
        self.key = key
        self.type = kind
        self.declared = declared
        """Type that an attribute of the tag declares, or an empty string."""
        self.slot = slot
        """Conversion of the element's text, if the element is a scalar."""
        self.discards = discards
        """True if the parameter repeats an earlier one, so that its value is read but not output."""
        self.shape = _OPEN
        self.count = 0
        self.seen: set[str] = set()
        self.raw: list[str] = []


class NestedParameters(Parameters):
    """Codec for one call's parameters, nested to any depth, up to the call's closing marker."""

    __slots__ = (
        "_last_closed",
        "_out",
        "_root",
        "_stack",
    )

    def __init__(self, compiled: CompiledDialect, tools: Tools, function: str, policies: Policies) -> None:
        super().__init__(compiled, tools, function, policies, compiled.params.nested_programs)
        self._root = _Element("", UNKNOWN, "", self._slot_for(UNKNOWN, {}), discards=False)
        self._root.shape = _OBJECT
        self._stack: list[_Element] = []
        self._out: list[str] = []
        self._last_closed = ""  # key of the element that was closed last, if nothing follows it yet

    def step(self, buf: str, pos: int, final: bool) -> int:
        element = self._stack[-1] if self._stack else self._root
        if element.shape == _TEXT and element.slot.streams and not element.discards and not final and not pos:
            taken = self._read_string_piece(buf, self._compiled.follow.nested_value_markers)
            if taken >= 0:
                return taken
        self._held = False
        while not self.done and not self.error and not self._held and pos < len(buf):
            element = self._stack[-1] if self._stack else self._root
            if element.shape in (_OPEN, _TEXT):
                pos = self._read_value(element, buf, pos, final)
            else:
                pos = self._read_children(element, buf, pos, final)
        self.text = "".join(self._out)
        self._out.clear()
        return pos

    def finish(self, cut: bool) -> Status:
        self.text = ""
        if not (self.done or cut or self._cut or self._stack) and not self._lacks(self._root.seen):
            self.text = "}" if self._root.count else "{}"
            self.done = True
        return "complete" if self.done else "truncated"

    def _lacks_required(self) -> bool:
        return self._lacks(self._root.seen)

    # -- between children

    def _read_children(self, element: _Element, buf: str, pos: int, final: bool) -> int:
        pos = skip_whitespace(buf, pos)
        if pos == len(buf):
            return pos
        compiled = self._compiled
        if self._matcher is None:
            ends = compiled.follow.after_params
            literal = ends.literal_at(buf, pos)
            if literal in compiled.dialect.stop and self._lacks(self._root.seen):
                self._wait_for_turn_end(buf, pos + len(literal), final)
                return pos
            if literal:
                return self._close_all(pos)
            if ends.pending(buf, pos):
                if final and compiled.follow.call_closers.pending(buf, pos):
                    return len(buf)
                self._cut = final
                self._held = True
                return pos
            self._matcher = self._new_matcher()
        matcher = self._matcher
        answer = matcher.run(buf, pos, final)
        if answer == NEED_MORE:
            self._held = True
            return pos
        self._matcher = None
        if answer != MATCH:
            if final and self._ends_in_tag(buf, pos):
                self._cut = True
                self._held = True
            else:
                self.error = "a parameter or the end of the call"
            return pos
        if matcher.program in compiled.params.form_of:
            self._last_closed = ""
            self._open_child(element, matcher, pos)
            return pos + matcher.offset
        key = matcher.fields.get("key", "")
        if not self._stack or (key and key == self._last_closed and key != element.key):
            # The closing tag of the last element is doubled; it must not close the element around it.
            self.diagnostics.append(("stray_closer", buf[pos : pos + matcher.offset], pos))
        else:
            self._last_closed = element.key
            self._close_container()
        return pos + matcher.offset

    def _open_child(self, parent: _Element, matcher: Matcher, at: int) -> None:
        """Open a child element, and output the bracket, comma and key before its value."""
        fields = matcher.fields
        key = fields.get("key", "")
        discards = parent.discards or (parent.shape == _OBJECT and key in parent.seen)
        kind = self._child_type(parent, key)
        element = _Element(key, kind, self._declared_type(fields), self._slot_for(kind, fields), discards)
        if discards:
            if not parent.discards:
                self.diagnostics.append(("duplicate_argument", key, at))
        else:
            if parent.shape == _OBJECT:
                self._out.append(("{" if not parent.count else ", ") + quote(key) + ": ")
            else:
                self._out.append("[" if not parent.count else ", ")
            parent.count += 1
            parent.seen.add(key)
        self._stack.append(element)

    def _child_type(self, parent: _Element, key: str) -> ValueType:
        if parent is self._root:
            return self._tools.value_type(self._function, key)
        return parent.type.items(parent.count) if parent.shape == _LIST else parent.type.member(key)

    # -- inside an element

    def _read_value(self, element: _Element, buf: str, pos: int, final: bool) -> int:
        """Read the text of an element up to its closing tag or its first child."""
        markers = self._compiled.follow.nested_value_markers
        at = pos
        first_content = _NOT_WHITESPACE.search(buf, pos) if element.shape == _OPEN else None
        text_from = pos if first_content is None else first_content.start()
        while True:
            at, literal = markers.seek(buf, at, final)
            if at < 0:
                return self._write(element, buf, pos, len(buf), final)
            answer = self._judge_marker(element, buf, at, at <= text_from, final) if literal else NEED_MORE
            if answer == NEED_MORE:
                self._held = True
                return self._write(element, buf, pos, at, final)
            if answer == MATCH:
                return self._end_scalar(element, buf, pos, at)
            if element.shape not in (_OPEN, _TEXT):
                return at
            at += 1

    def _judge_marker(self, element: _Element, buf: str, at: int, first: bool, final: bool) -> int:
        """Return MATCH if the marker at ``at`` closes the element, FAIL if not, NEED_MORE if undecided.

        If the marker opens the first child of the element, make the element a container, and return FAIL.

        :param first: whether only whitespace precedes the marker in the element.
        """
        compiled = self._compiled
        closer = compiled.follow.call_closers.literal_at(buf, at)
        if closer:
            return follows(compiled.follow.after_call, buf, at + len(closer), final)
        matcher = self._new_matcher()
        answer = matcher.run(buf, at, final)
        if answer != MATCH:
            return NEED_MORE if answer == NEED_MORE else FAIL
        if matcher.program not in compiled.params.form_of:
            if not self._confirms:
                return MATCH
            ends, end = compiled.follow.after_nested, at + matcher.offset
            answer = follows(ends, buf, end, final)
            after = skip_whitespace(buf, end)
            literal = ends.literal_at(buf, after) if answer == MATCH else ""
            return self._confirmed_by(literal, ends, buf, after, final) if literal else answer
        key = matcher.fields.get("key", "")
        if element.shape == _OPEN and first and not is_text(element.type, element.declared):
            self._make_container(element, key)
            return FAIL
        parent = self._stack[-2] if len(self._stack) > 1 else self._root
        declared = self._tools.keys(self._function) if parent is self._root else parent.type.keys()
        if declared is None:
            self.diagnostics.append(("slip", f"{buf[at : at + matcher.offset]} is part of a value", at))
        elif parent.shape == _OBJECT and key in declared and key not in parent.seen:
            return MATCH
        return FAIL

    def _make_container(self, element: _Element, key: str) -> None:
        element.shape = _CONTAINERS.get(element.declared, _OPEN)
        if element.shape != _OPEN:
            return
        types = element.type.types
        if "array" in types and "object" not in types:
            element.shape = _LIST
        elif "object" in types and "array" not in types:
            element.shape = _OBJECT
        else:
            element.shape = _LIST if key == self._compiled.dialect.habits.list_key else _OBJECT

    def _write(self, element: _Element, buf: str, pos: int, end: int, final: bool) -> int:
        """Output or collect the text of a value up to ``end``, and return the index that was reached.

        Whitespace is held back as long as a first child may follow.
        """
        text = buf[pos:end]
        if not text:
            return end
        if element.shape == _OPEN:
            if not text.strip() and len(text) <= BOUND and not final:
                self._held = True
                return pos
            self._make_text(element)
        if element.discards:
            return end
        if element.slot.streams:
            self._out.append(escaped(text))
        else:
            element.raw.append(text)
        return end

    def _make_text(self, element: _Element) -> None:
        element.shape = _TEXT
        if element.slot.streams and not element.discards:
            self._out.append('"')

    def _end_scalar(self, element: _Element, buf: str, pos: int, at: int) -> int:
        if element.shape == _OPEN:
            self._make_text(element)
        pos = self._write(element, buf, pos, at, True)
        if not element.discards:
            self._out.append(
                '"' if element.slot.streams else self._value_of(element.slot, "".join(element.raw), pos)
            )
        self._stack.pop()
        self._last_closed = element.key
        if self._compiled.follow.call_closers.literal_at(buf, at):
            return pos
        matcher = self._new_matcher()
        matcher.run(buf, at, True)
        if matcher.program in self._compiled.params.form_of:
            # The next parameter follows without a closing tag.
            self.diagnostics.append(("slip", f"the closing tag of {element.key} is missing", at))
            return pos
        return pos + matcher.offset

    # -- ends

    def _close_container(self) -> None:
        """Close the innermost container."""
        element = self._stack.pop()
        if not element.discards:
            self._out.append(_closing_bracket(element))

    def _close_all(self, pos: int) -> int:
        """Close all containers at the end of the call."""
        while self._stack:
            self._close_container()
        self._out.append("}" if self._root.count else "{}")
        self.done = True
        return pos


def _closing_bracket(element: _Element) -> str:
    opening, closing = ("{", "}") if element.shape == _OBJECT else ("[", "]")
    return closing if element.count else opening + closing

"""Tree: parameters whose values may be made of parameters.

What an element holds, if its schema or an attribute does not say so, shows at
its first child: children named by the dialect's ``list_key`` make a list,
others an object, and text is a value.  The elements that are open are a list,
not a call stack.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..compiler.matcher import FAIL, MATCH, NEED_MORE, Matcher, follows
from ..scan.runs import BOUND, escaped, skip_whitespace
from ..schema.tools import UNKNOWN
from ..schema.typed_values import Slot, is_text, quote
from .parameters import Parameters, declared_type

if TYPE_CHECKING:
    from ...events import Status
    from ...policies import Policies
    from ..compiler.compiled_dialect import CompiledDialect
    from ..schema.tools import Tools, ValueType

_OPEN: Final = 0
_TEXT: Final = 1
_OBJECT: Final = 2
_LIST: Final = 3
_INK: Final = re.compile(r"\S")
_CONTAINERS: Final = {"dict": _OBJECT, "object": _OBJECT, "list": _LIST, "array": _LIST}


class _Element:
    """A parameter that is open."""

    __slots__ = ("count", "declared", "raw", "seen", "shape", "skip", "slot", "type")

    def __init__(self, kind: ValueType, declared: str, slot: Slot, skip: bool) -> None:
        self.type = kind
        self.declared = declared
        """What an attribute says the value is."""
        self.slot = slot
        """What its text means, if it is no container."""
        self.skip = skip
        """Given before; only the first one counts."""
        self.shape = _OPEN
        self.count = 0
        self.seen: set[str] = set()
        self.raw: list[str] = []


class Tree(Parameters):
    """Parameters up to the call's closer, nested to any depth."""

    __slots__ = (
        "_out",
        "_root",
        "_stack",
    )

    def __init__(self, syntax: CompiledDialect, tools: Tools, function: str, policies: Policies) -> None:
        super().__init__(syntax, tools, function, policies, syntax.params.nested_programs)
        self._root = _Element(UNKNOWN, "", self._slot_for(UNKNOWN, {}), skip=False)
        self._root.shape = _OBJECT
        self._stack: list[_Element] = []
        self._out: list[str] = []

    def step(self, buf: str, pos: int, final: bool) -> int:
        element = self._stack[-1] if self._stack else self._root
        if element.shape == _TEXT and element.slot.streams and not element.skip and not final and not pos:
            taken = self._read_string_piece(buf, self._syntax.follow.nested_value_markers)
            if taken >= 0:
                return taken
        self._held = False
        while not self.done and not self.error and not self._held and pos < len(buf):
            element = self._stack[-1] if self._stack else self._root
            if element.shape in (_OPEN, _TEXT):
                pos = self._value(element, buf, pos, final)
            else:
                pos = self._children(element, buf, pos, final)
        self.text = "".join(self._out)
        self._out.clear()
        return pos

    def finish(self, cut: bool) -> Status:
        self.text = ""
        if not (self.done or cut or self._cut or self._stack) and not self._lacks(self._root.seen):
            self.text = "}" if self._root.count else "{}"
            self.done = True
        return "complete" if self.done else "truncated"

    # -- between children

    def _children(self, element: _Element, buf: str, pos: int, final: bool) -> int:
        pos = skip_whitespace(buf, pos)
        if pos == len(buf):
            return pos
        syntax = self._syntax
        if self._trial is None:
            ends = syntax.follow.after_params
            literal = ends.literal_at(buf, pos)
            if literal in syntax.dialect.stop and self._lacks(self._root.seen):
                self._wait_for_turn_end(buf, pos + len(literal), final)
                return pos
            if literal:
                return self._end_all(pos)
            if ends.pending(buf, pos):
                if final and syntax.follow.call_closers.pending(buf, pos):
                    return len(buf)
                self._cut = final
                self._held = True
                return pos
            self._trial = self._new_trial()
        trial = self._trial
        answer = trial.run(buf, pos, final)
        if answer == NEED_MORE:
            self._held = True
            return pos
        self._trial = None
        if answer != MATCH:
            if final and self._ends_in_tag(buf, pos):
                self._cut = True
                self._held = True
            else:
                self.error = "a parameter or the end of the call"
            return pos
        if trial.program in syntax.params.form_of:
            self._begin(element, trial, pos)
        elif self._stack:
            self._end()
        return pos + trial.offset

    def _begin(self, parent: _Element, trial: Matcher, at: int) -> None:
        fields = trial.fields
        key = fields.get("key", "")
        skip = parent.skip or (parent.shape == _OBJECT and key in parent.seen)
        kind = self._child_type(parent, key)
        element = _Element(kind, declared_type(fields), self._slot_for(kind, fields), skip)
        if skip:
            if not parent.skip:
                self.notes.append(("duplicate_argument", key, at))
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

    def _value(self, element: _Element, buf: str, pos: int, final: bool) -> int:
        watch = self._syntax.follow.nested_value_markers
        at = pos
        ink = _INK.search(buf, pos) if element.shape == _OPEN else None
        text_from = pos if ink is None else ink.start()
        while True:
            at, literal = watch.seek(buf, at, final)
            if at < 0:
                return self._data(element, buf, pos, len(buf), final)
            answer = self._closes(element, buf, at, at <= text_from, final) if literal else NEED_MORE
            if answer == NEED_MORE:
                self._held = True
                return self._data(element, buf, pos, at, final)
            if answer == MATCH:
                return self._leaf_ends(element, buf, pos, at)
            if element.shape not in (_OPEN, _TEXT):
                return at
            at += 1

    def _closes(self, element: _Element, buf: str, at: int, first: bool, final: bool) -> int:
        """What the marker at ``at`` is: a closer (MATCH), the first child, or data.

        :param first: nothing but white space stands before it.
        """
        syntax = self._syntax
        closer = syntax.follow.call_closers.literal_at(buf, at)
        if closer:
            return follows(syntax.follow.after_call, buf, at + len(closer), final)
        trial = self._new_trial()
        answer = trial.run(buf, at, final)
        if answer != MATCH:
            return NEED_MORE if answer == NEED_MORE else FAIL
        if trial.program not in syntax.params.form_of:
            if not self._confirms:
                return MATCH
            return follows(syntax.follow.after_nested, buf, at + trial.offset, final)
        if element.shape == _OPEN and first and not is_text(element.type, element.declared):
            self._becomes_container(element, trial.fields.get("key", ""))
        return FAIL

    def _becomes_container(self, element: _Element, key: str) -> None:
        element.shape = _CONTAINERS.get(element.declared, _OPEN)
        if element.shape != _OPEN:
            return
        types = element.type.types
        if "array" in types and "object" not in types:
            element.shape = _LIST
        elif "object" in types and "array" not in types:
            element.shape = _OBJECT
        else:
            element.shape = _LIST if key == self._syntax.dialect.values.list_key else _OBJECT

    def _data(self, element: _Element, buf: str, pos: int, end: int, final: bool) -> int:
        """Text of a value, unless it may still be white space before the first child."""
        text = buf[pos:end]
        if not text:
            return end
        if element.shape == _OPEN:
            if not text.strip() and len(text) <= BOUND and not final:
                self._held = True
                return pos
            self._becomes_text(element)
        if element.skip:
            return end
        if element.slot.streams:
            self._out.append(escaped(text))
        else:
            element.raw.append(text)
        return end

    def _becomes_text(self, element: _Element) -> None:
        element.shape = _TEXT
        if element.slot.streams and not element.skip:
            self._out.append('"')

    def _leaf_ends(self, element: _Element, buf: str, pos: int, at: int) -> int:
        if element.shape == _OPEN:
            self._becomes_text(element)
        pos = self._data(element, buf, pos, at, True)
        if not element.skip:
            self._out.append(
                '"' if element.slot.streams else self._value_of(element.slot, "".join(element.raw), pos)
            )
        self._stack.pop()
        if self._syntax.follow.call_closers.literal_at(buf, at):
            return pos
        trial = self._new_trial()
        trial.run(buf, at, True)
        return pos + trial.offset

    # -- ends

    def _end(self) -> None:
        """The container on top is closed."""
        element = self._stack.pop()
        if not element.skip:
            self._out.append(_closing(element))

    def _end_all(self, pos: int) -> int:
        while self._stack:
            self._end()
        self._out.append("}" if self._root.count else "{}")
        self.done = True
        return pos


def _closing(element: _Element) -> str:
    opening, closing = ("{", "}") if element.shape == _OBJECT else ("[", "]")
    return closing if element.count else opening + closing

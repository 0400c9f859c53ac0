"""Writer of GBNF, the grammar language of llama.cpp.

The first step expands the nodes that GBNF cannot express directly (schema values, text
up to a marker, ...) into rules.  The rules contain only fixed text, character sets,
sequences, choices, repetitions and references to other rules.  The second step
prints the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ._named_rules import Rules
from ._nodes import (
    AnyText,
    Chars,
    Dispatch,
    Exact,
    Named,
    Node,
    OneOf,
    Ranges,
    Ref,
    Repeat,
    SchemaValue,
    Separated,
    Seq,
    TextUpTo,
    choice,
    complement,
    seq,
    strip_prefix,
)
from ._schema_to_rules import add_value_rules
from ._text_excluding_markers import add_text_rules


def to_gbnf(root: Node) -> str:
    """Return the GBNF text of a grammar."""
    return format_rules(expand_rules(root))


def expand_rules(root: Node) -> dict[str, Node]:
    """Return the rules of a grammar by name; the start rule is ``root``."""
    rules = Rules()
    name = rules.reserve("root")
    rules.define(name, _Expansion(rules).node(root))
    return rules.bodies


class _Expansion:
    """Converter for nodes that GBNF cannot express directly; references to new rules replace these nodes."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._named: dict[int, tuple[Named, Ref]] = {}
        self._texts: dict[TextUpTo | AnyText, Node] = {}

    def node(self, node: Node) -> Node:
        """Return an equivalent node that GBNF can express, and add the rules that this node needs."""
        if isinstance(node, Seq):
            return seq(*(self.node(part) for part in node.parts))
        if isinstance(node, OneOf):
            return choice(self.node(option) for option in node.options)
        if isinstance(node, Repeat):
            return Repeat(self.node(node.item), node.least, node.most)
        if isinstance(node, Separated):
            item = self.node(node.item)
            return seq(item, Repeat(seq(node.separator, item)))
        if isinstance(node, SchemaValue):
            return add_value_rules(self.rules, node)
        if isinstance(node, TextUpTo):
            return self._text(node, node.end)
        if isinstance(node, AnyText):
            return self._text(node, "")
        if isinstance(node, Dispatch):
            others = tuple(other for other in node.without if node.trigger not in other)
            call = seq(TextUpTo(node.trigger, others), strip_prefix(node.then, node.trigger))
            return choice((self.node(AnyText((node.trigger, *others))), self.node(call)))
        if isinstance(node, Named):
            entry = self._named.get(id(node))
            if entry is None:
                # The cache entry keeps the node alive; otherwise Python could reuse its id for another node.
                entry = (node, self.rules.add(node.name, self.node(node.node)))
                self._named[id(node)] = entry
            return entry[1]
        return node

    def _text(self, node: TextUpTo | AnyText, end: str) -> Node:
        if node not in self._texts:
            self._texts[node] = add_text_rules(self.rules, end, node.without)
        return self._texts[node]


def format_rules(rules: Mapping[str, Node]) -> str:
    """Return the GBNF text of the start rule and of all rules that it uses, directly or indirectly."""
    used = _reachable(rules, "root")
    return "".join(f"{name} ::= {_alternatives(rules[name])}\n" for name in used)


def _reachable(rules: Mapping[str, Node], start: str) -> list[str]:
    seen: dict[str, None] = {start: None}
    todo = [start]
    for name in todo:
        for other in _references(rules[name]):
            if other not in seen:
                seen[other] = None
                todo.append(other)
    return list(seen)


def _references(node: Node) -> list[str]:
    if isinstance(node, Ref):
        return [node.name]
    if isinstance(node, Seq):
        return [name for part in node.parts for name in _references(part)]
    if isinstance(node, OneOf):
        return [name for option in node.options for name in _references(option)]
    return _references(node.item) if isinstance(node, Repeat) else []


def _alternatives(node: Node) -> str:
    return " | ".join(map(_sequence, node.options)) if isinstance(node, OneOf) else _sequence(node)


def _sequence(node: Node) -> str:
    if isinstance(node, Seq):
        return " ".join(map(_item, node.parts)) if node.parts else '""'
    return _item(node)


def _item(node: Node) -> str:
    if isinstance(node, Exact):
        return f'"{"".join(map(_literal_char, node.text))}"'
    if isinstance(node, Chars):
        return _set(node.ranges)
    if isinstance(node, Ref):
        return node.name
    if isinstance(node, Repeat):
        inner = f"({_alternatives(node.item)})" if _is_compound(node.item) else _item(node.item)
        return inner + _count(node.least, node.most)
    return f"({_alternatives(node)})"


def _is_compound(node: Node) -> bool:
    return isinstance(node, (Seq, OneOf, Repeat)) or (isinstance(node, Exact) and len(node.text) != 1)


def _count(least: int, most: int | None) -> str:
    if most is None:
        return ("*", "+")[least] if least < 2 else f"{{{least},}}"
    if (least, most) == (0, 1):
        return "?"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


_LITERAL_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SET_ESCAPES: Final = {"\\": "\\\\", "]": "\\]", "[": "\\[", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _literal_char(char: str) -> str:
    if char in _LITERAL_ESCAPES:
        return _LITERAL_ESCAPES[char]
    return char if char.isprintable() or char == " " else _escape_code_point(char)


def _set(ranges: Ranges) -> str:
    others = complement(ranges)
    # A set that reaches the last code point is shorter when written as a negated set.
    negated = bool(others) and others[-1][1] < ranges[-1][1]
    shown = others if negated else ranges
    return f"[{'^' if negated else ''}{''.join(_range(low, high) for low, high in shown)}]"


def _range(low: int, high: int) -> str:
    if high - low < 2:
        return "".join(_set_char(chr(code)) for code in range(low, high + 1))
    return f"{_set_char(chr(low))}-{_set_char(chr(high))}"


def _set_char(char: str) -> str:
    if char in _SET_ESCAPES:
        return _SET_ESCAPES[char]
    if char in "^-" or not (char.isprintable() or char == " "):
        return _escape_code_point(char)
    return char


def _escape_code_point(char: str) -> str:
    # The escape \\xHH is not used, because xgrammar would also consume hexadecimal digits after it.
    return f"\\u{ord(char):04X}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08X}"

"""Random texts that a grammar accepts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping

from unspool import Dialect
from unspool.dialects.list_templates_and_markers import dialect_literals
from unspool.grammar._named_rules import Rules
from unspool.grammar._nodes import (
    AnyText,
    Chars,
    Dispatch,
    Exact,
    Named,
    Node,
    OneOf,
    Ref,
    Repeat,
    SchemaValue,
    Separated,
    Seq,
    TextUpTo,
    strip_prefix,
)
from unspool.grammar._schema_to_rules import add_value_rules

HARMLESS = {"stray_opener", "stray_closer", "empty_section", "cut_head", "bad_id"}
"""Diagnostics that a grammar cannot prevent: markup in prose, and ids that the model must keep unique."""

LETTERS = "aZ09 _<>/|{}[]\"'\\\n:=,.-é｜東😀\t"
"""Preferred characters: those of markup."""


class Sampler:
    """Sampler of texts from a grammar.

    Free text consists of the dialect's own markup, as far as the grammar allows.  Values come from the
    rules of their schemas.  After a random length, the sampler takes only the shortest ways to the end.
    """

    def __init__(self, dialect: Dialect, root: Node, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.markup = markup(dialect)
        self.rules: dict[str, Node] = {}
        self.shortest: dict[str, float] = {}
        self._values: dict[int, tuple[SchemaValue, Node]] = {}
        self._context: SchemaValue | None = None
        self.length = 0
        self.budget = 0

    def text(self) -> str:
        self.out: list[str] = []
        self.called: list[str] = []
        self.length = 0
        self.budget = self.random.choice((0, 100, 300, 800))
        todo: list[Node] = [self.root]
        while todo:
            self._take(todo.pop(), todo)
        return "".join(self.out)

    def _take(self, node: Node, todo: list[Node]) -> None:
        spent = self.length > self.budget
        if isinstance(node, Exact):
            self._put(node.text)
        elif isinstance(node, Chars):
            self._put(self._char(node))
        elif isinstance(node, Ref):
            fixed = self._string(node.name)
            if fixed is None:
                todo.append(self.rules[node.name])
            else:
                self._put(fixed)
        elif isinstance(node, Seq):
            todo.extend(reversed(node.parts))
        elif isinstance(node, OneOf):
            options = list(node.options)
            if spent:
                least = min(map(self._length, options))
                options = [option for option in options if self._length(option) == least]
            todo.append(self.random.choice(options))
        elif isinstance(node, Repeat):
            most = node.least + 3 if node.most is None else node.most
            todo.extend([node.item] * (node.least if spent else self.random.randint(node.least, most)))
        elif isinstance(node, Separated):
            more = 0 if spent else self.random.randint(0, 2)
            todo.extend([Seq((node.item, Exact(node.separator)))] * more)
            todo.insert(len(todo) - more, node.item)
        elif isinstance(node, Named):
            self.called.append(node.name.removesuffix("-call"))
            todo.append(node.node)
        elif isinstance(node, SchemaValue):
            self._context = node
            todo.append(self._value(node))
        elif isinstance(node, TextUpTo):
            self._put(self._words(lambda text: _is_text_up_to(text + node.end, node)) + node.end)
        elif isinstance(node, AnyText):
            self._put(self._words(lambda text: not _occurs(text, node.without)))
        else:
            assert isinstance(node, Dispatch)
            others = (node.trigger, *node.without)
            rest = strip_prefix(node.then, node.trigger)
            todo.append(
                self.random.choice((AnyText(others), Seq((TextUpTo(node.trigger, node.without), rest))))
            )

    def _put(self, text: str) -> None:
        self.out.append(text)
        self.length += len(text)

    def _char(self, node: Chars) -> str:
        likely = [char for char in LETTERS if any(low <= ord(char) <= high for low, high in node.ranges)]
        if likely:
            return self.random.choice(likely)
        low, high = self.random.choice(node.ranges)
        return chr(self.random.randint(low, high))

    def _words(self, fits: Callable[[str], bool]) -> str:
        """Return text of markup, whole or in parts, and other characters."""
        text = ""
        for _ in range(self.random.randint(0, 12) if self.length <= self.budget else 0):
            word = self.random.choice((*LETTERS, *self.markup))
            if self.random.random() < 0.3:
                word = word[: self.random.randint(1, len(word))]
            if fits(text + word):
                text += word
        return text

    # -- values

    def _string(self, name: str) -> str | None:
        """Return a string with markup in it, for rules that allow any string."""
        value = self._context
        if value is None or not name.startswith("any-string"):
            return None
        quote = value.quote if value.notation == "bare" else '"'

        def spell(text: str) -> str:
            return quote + text + quote if value.notation == "bare" else json.dumps(text, ensure_ascii=False)

        def fits(text: str) -> bool:
            inner = spell(text)[len(quote) :]
            return not _occurs(inner, value.without) and (
                value.notation != "bare" or inner.find(quote) == len(text)
            )

        return spell(self._words(fits))

    def _value(self, value: SchemaValue) -> Node:
        if id(value) not in self._values:
            rules = Rules()
            node = add_value_rules(rules, value)
            names = {name: f"{name} {len(self._values)}" for name in rules.bodies}
            self.rules.update({names[name]: _renamed(body, names) for name, body in rules.bodies.items()})
            self._values[id(value)] = (value, _renamed(node, names))
            self._measure(names.values())
        return self._values[id(value)][1]

    def _measure(self, names: Iterable[str]) -> None:
        """Compute the length of the shortest text of each rule."""
        names = list(names)
        self.shortest.update(dict.fromkeys(names, float("inf")))
        changed = True
        while changed:
            changed = False
            for name in names:
                length = self._length(self.rules[name])
                if length < self.shortest[name]:
                    self.shortest[name] = length
                    changed = True

    def _length(self, node: Node) -> float:
        if isinstance(node, Exact):
            return len(node.text)
        if isinstance(node, Ref):
            return self.shortest[node.name]
        if isinstance(node, Seq):
            return sum(map(self._length, node.parts))
        if isinstance(node, OneOf):
            return min(map(self._length, node.options))
        if isinstance(node, Repeat):
            return self._length(node.item) * node.least if node.least else 0
        if isinstance(node, Separated):
            return self._length(node.item)
        if isinstance(node, Named):
            return self._length(node.node)
        if isinstance(node, SchemaValue):
            return self._length(self._value(node))
        return 1


def _is_text_up_to(text: str, node: TextUpTo) -> bool:
    """Return whether the end marker occurs only at the end, and no forbidden marker occurs."""
    before = text[: len(text) - len(node.end)]
    return text.find(node.end) == len(before) and not _occurs(text[:-1], node.without)


def _occurs(text: str, markers: Iterable[str]) -> bool:
    return any(marker in text for marker in markers)


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    if isinstance(node, Ref):
        return Ref(names[node.name])
    if isinstance(node, Seq):
        return Seq(tuple(_renamed(part, names) for part in node.parts))
    if isinstance(node, OneOf):
        return OneOf(tuple(_renamed(option, names) for option in node.options))
    if isinstance(node, Repeat):
        return Repeat(_renamed(node.item, names), node.least, node.most)
    return node


def markup(dialect: Dialect) -> list[str]:
    """Return all literals of a dialect, and some tool names."""
    words = ["query", "get_time", '"', "{}", "[]", "\n", "search_places", "<think>", "</think>"]
    words += dialect_literals(dialect)
    return sorted(set(words) - {""})

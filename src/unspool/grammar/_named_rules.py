"""Rules: named parts of a grammar that may refer to each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable

from ._intermediate import Node, Ref
from ._size_limit import Budget


class Rules:
    """The rules of one grammar, in the order in which they were defined."""

    def __init__(self) -> None:
        self.budget = Budget()
        self.bodies: dict[str, Node] = {}
        self._counts: dict[str, int] = {}
        self._known: dict[Hashable, str] = {}
        self._put_off: list[tuple[str, Callable[[], Node]]] = []

    def reserve(self, hint: str) -> str:
        """A name for a rule that is defined later."""
        base = re.sub(r"[^a-zA-Z0-9]+", "-", hint).strip("-").lower() or "rule"
        name = base
        while name in self._counts:
            self._counts[base] += 1
            name = f"{base}-{self._counts[base]}"
        self._counts[name] = 1
        return name

    def define(self, name: str, body: Node) -> None:
        """Give a reserved name its meaning."""
        self.bodies[name] = body

    def add(self, hint: str, body: Node) -> Ref:
        """A rule of its own."""
        name = self.reserve(hint)
        self.define(name, body)
        return Ref(name)

    def once(self, key: Hashable, hint: str, body: Callable[[], Node]) -> Ref:
        """The rule for ``key``; its body is made when it is asked for first, and may refer to it."""
        if key not in self._known:
            name = self._known[key] = self.reserve(hint)
            self.define(name, body())
        return Ref(self._known[key])

    def later(self, key: Hashable, hint: str, body: Callable[[], Node]) -> Ref:
        """The same, but its body is made by ``settle``: chains of rules may be longer than the stack is."""
        if key not in self._known:
            name = self._known[key] = self.reserve(hint)
            self._put_off.append((name, body))
        return Ref(self._known[key])

    def settle(self) -> None:
        """Make what was put off."""
        while self._put_off:
            name, body = self._put_off.pop()
            self.define(name, body())

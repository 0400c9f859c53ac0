"""Named grammar rules, which may refer to each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable

from ._nodes import Node, Ref
from ._size_limit import Budget


class Rules:
    """The rules of one grammar, in the order in which they were defined."""

    def __init__(self) -> None:
        self.budget = Budget()
        self.bodies: dict[str, Node] = {}
        self._counts: dict[str, int] = {}
        self._names: dict[Hashable, str] = {}
        self._deferred: list[tuple[str, Callable[[], Node]]] = []

    def reserve(self, hint: str) -> str:
        """Return a unique name for a new rule; :meth:`define` sets the body of the rule later."""
        base = re.sub(r"[^a-zA-Z0-9]+", "-", hint).strip("-").lower() or "rule"
        name = base
        while name in self._counts:
            self._counts[base] += 1
            name = f"{base}-{self._counts[base]}"
        self._counts[name] = 1
        return name

    def define(self, name: str, body: Node) -> None:
        """Set the body of the rule with a reserved name."""
        self.bodies[name] = body

    def add(self, hint: str, body: Node) -> Ref:
        """Define a new rule and return a reference to it."""
        name = self.reserve(hint)
        self.define(name, body)
        return Ref(name)

    def get_or_add(self, key: Hashable, hint: str, body: Callable[[], Node]) -> Ref:
        """Return a reference to the rule for ``key``; the first call with this key creates the rule.

        The rule may refer to itself, because its name is reserved before ``body`` is called.
        """
        if key not in self._names:
            name = self._names[key] = self.reserve(hint)
            self.define(name, body())
        return Ref(self._names[key])

    def get_or_defer(self, key: Hashable, hint: str, body: Callable[[], Node]) -> Ref:
        """Return a reference to the rule for ``key``; ``define_deferred`` creates the rule's body later.

        If each body were created at once, a long chain of rules could overflow the stack.
        """
        if key not in self._names:
            name = self._names[key] = self.reserve(hint)
            self._deferred.append((name, body))
        return Ref(self._names[key])

    def define_deferred(self) -> None:
        """Create the rule bodies that ``get_or_defer`` has postponed."""
        while self._deferred:
            name, body = self._deferred.pop()
            self.define(name, body())

"""Parsers of text from which a server has already removed the reasoning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..errors import UsageError
from ..parser import Parser
from ._plan import Plan


class ContentParsers:
    """Factory for parsers of text from which a server has already removed the reasoning.

    One request may need many such parsers: one for each choice, and a new one after each call that the
    server has parsed.  All of them are created from one plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._create: Callable[[], Parser] | None = None

    def __call__(self) -> Parser:
        """Return a new parser."""
        if self._create is None:
            try:
                self._create = self._plan.with_prompt("").parser
            except UsageError:  # the server has removed headers that the dialect needs
                self._create = partial(Parser, "passthrough", tools=())
        return self._create()

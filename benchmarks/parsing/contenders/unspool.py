"""unspool: pure Python or compiled, whichever build this process imports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain

from unspool import Event, Message, Parser, __version__, parse
from unspool._core.scan.character_runs import COMPILED

from ..workloads import TOOLS, Answer
from . import Reader

VERSION = __version__ + (" compiled" if COMPILED else " pure")


def _start(dialect: str) -> tuple[Callable[[str], list[Event]], Callable[[], list[Event]]]:
    parser = Parser(dialect, tools=TOOLS)
    return parser.feed, partial(parser.finish, "stop")


def _answer(message: Message) -> Answer:
    calls = tuple((call.name, call.arguments) for call in message.tool_calls)
    return Answer(message.content or "", message.reasoning or "", calls)


def reader(dialect: str, scenario: str) -> Reader | None:  # noqa: ARG001
    """Return a reader for every workload."""
    name = "hermes" if dialect == "reasoning" else dialect
    return Reader(
        start=partial(_start, name),
        answer=lambda results: _answer(
            results[0]
            if isinstance(results[0], Message)
            else Parser(name).message(chain.from_iterable(results))
        ),
        whole=partial(parse, dialect=name, tools=TOOLS),
    )

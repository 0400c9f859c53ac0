"""Adapters: the interface between the suite and a parser.

An adapter opens a *session* for every output; a session takes chunks and returns
deltas. A parser in Python only needs to provide this::

    class MySession:
        def feed(self, chunk: str) -> Iterable[DeltaMessage | dict]: ...
        def finish(self, reason: str) -> Iterable[DeltaMessage | dict]: ...

    def factory(request: Request) -> MySession: ...

If the session has an attribute ``finish_reason``, the suite checks the attribute's value after ``finish``. A
factory may have a name and a version (see :func:`from_factory`). A session raises :class:`Unsupported` if its
parser does not claim to support a feature.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from .._version import __version__
from ..dialects import get_dialect, list_dialects
from ..errors import UnspoolError, UsageError
from ..events import Event
from ..parser import Parser
from ..planning import plan
from ..wire import ChatStream, Chunk
from .case_format import DeltaMessage, Json, StartState, TestCase

Deltas: TypeAlias = Iterable[DeltaMessage | Mapping[str, Any] | None]


class Unsupported(UnspoolError):
    """Error for a feature that the parser does not claim to support; the message names the feature."""


class ParserFailed(UnspoolError):
    """Error for a parser that raised an exception, exited or exceeded the time limit."""


@dataclass(frozen=True, slots=True)
class Request:
    """Information that a parser receives before the first chunk."""

    dialect: str
    """unspool's name of the dialect."""
    tools: tuple[Json, ...]
    tool_choice: str | Json
    start: StartState
    prompt: str | None
    streaming: bool
    """False if the complete output arrives as one chunk. In this case, a non-streaming parser may be used."""

    @classmethod
    def of(cls, case: TestCase, *, streaming: bool = True) -> Request:
        """Create the request for a test case."""
        return cls(case.dialect, case.tools, case.tool_choice, case.start, case.prompt, streaming)


class Session(Protocol):
    """Interface of a parser that processes one output."""

    def feed(self, chunk: str) -> Deltas:
        """Parse the next chunk, and return new deltas."""
        ...

    def finish(self, reason: Any) -> Deltas:
        """End the output, and return the remaining deltas; ``reason`` is the finish reason."""
        ...


Factory: TypeAlias = Callable[[Request], Session]


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer of a parser for one output."""

    deltas: tuple[DeltaMessage | None, ...]
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """Name, version and dialects of a parser."""

    name: str
    version: str = ""
    dialects: Mapping[str, Any] = field(default_factory=dict)
    """Dialects that the parser claims to support, each with details that the report shows."""

    def to_json(self) -> Json:
        return {"name": self.name, "version": self.version, "dialects": dict(self.dialects)}


@runtime_checkable
class Adapter(Protocol):
    """Interface of a parser under test."""

    def identity(self) -> Identity:
        """Return the identity of the parser; start the parser if necessary."""
        ...

    def answer(self, case: TestCase, choices: Sequence[Sequence[str]], *, streaming: bool) -> list[Reply]:
        """Parse the outputs (choices) of one request, with interleaved chunks.

        :raises Unsupported: if the parser does not support a feature of the case.
        :raises ParserFailed: if the parser fails.
        """
        ...

    def close(self) -> None:
        """Release the parser's resources."""
        ...


# -- parsers in this process


class InProcess:
    """Adapter for a parser in this process, which a factory creates."""

    def __init__(self, factory: Factory, name: str, version: str = "", dialects: Iterable[str] = ()) -> None:
        self._factory = factory
        names = [get_dialect(one).name for one in dialects] or [one.name for one in list_dialects()]
        self._identity = Identity(name, version, {key: {} for key in names})

    def identity(self) -> Identity:
        return self._identity

    def answer(self, case: TestCase, choices: Sequence[Sequence[str]], *, streaming: bool) -> list[Reply]:
        try:
            return self._answer(case, choices, streaming=streaming)
        except (Unsupported, UsageError):
            raise
        except Exception as error:  # any exception is a failure of the parser under test
            raise ParserFailed(f"{type(error).__name__}: {error}") from error

    def _answer(self, case: TestCase, choices: Sequence[Sequence[str]], *, streaming: bool) -> list[Reply]:
        request = Request.of(case, streaming=streaming)
        sessions = [self._factory(request) for _ in choices]
        found: list[list[DeltaMessage | None]] = [[] for _ in choices]
        for turn in range(max(map(len, choices))):
            for session, chunks, deltas in zip(sessions, choices, found, strict=True):
                if turn < len(chunks):
                    deltas.extend(map(as_delta, session.feed(chunks[turn])))
        for session, deltas in zip(sessions, found, strict=True):
            deltas.extend(map(as_delta, session.finish(case.finish_reason)))
        return [
            Reply(tuple(deltas), getattr(session, "finish_reason", None))
            for session, deltas in zip(sessions, found, strict=True)
        ]

    def close(self) -> None:
        """Do nothing, because a parser in this process has no resources to release."""


def as_delta(value: DeltaMessage | Mapping[str, Any] | None) -> DeltaMessage | None:
    """Convert a session's return value to a delta."""
    return value if value is None or isinstance(value, DeltaMessage) else DeltaMessage.from_json(value)


def load_factory(path: str) -> Factory:
    """Import the factory at ``package.module:name``."""
    module, _, name = path.partition(":")
    if not name:
        raise UsageError(f"{path!r} is not a factory path; write package.module:name")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"cannot load {path!r}: {error}") from error
    if not callable(found):
        raise UsageError(f"{path!r} is not callable; a factory takes a Request and returns a session")
    return found


def from_factory(path: str) -> InProcess:
    """Create an adapter for the factory at ``package.module:name``.

    The factory may have the attributes ``name``, ``version`` and ``dialects`` (the names of the dialects that
    it supports). Without ``dialects``, the factory is tested with all dialects.
    """
    factory = load_factory(path)
    return InProcess(
        factory,
        str(getattr(factory, "name", path)),
        str(getattr(factory, "version", "")),
        getattr(factory, "dialects", ()),
    )


# -- unspool itself


class UnspoolSession:
    """Session that uses unspool in the same way as a server does."""

    def __init__(self, request: Request) -> None:
        self.finish_reason: str | None = None
        forced = request.tool_choice not in ("auto", "none")
        self._parser = _planned_parser(request) if forced else _plain_parser(request)
        self._wire = ChatStream(self._parser)
        self._builder = None if request.streaming else self._parser.fold()

    def feed(self, chunk: str) -> list[DeltaMessage]:
        return self._deltas(self._parser.feed(chunk))

    def finish(self, reason: Any) -> list[DeltaMessage]:
        deltas = self._deltas(self._parser.finish(reason))
        if self._builder is None:
            return deltas
        message = self._builder.message
        self.finish_reason = message.finish_reason
        payload = message.to_chat(broken="poison")
        calls = payload.get("tool_calls") or []
        assert isinstance(calls, list)  # noqa: S101 - the encoder always returns a list
        return [
            DeltaMessage.from_json(
                {**payload, "tool_calls": [{"index": i, **c} for i, c in enumerate(calls)]}
            )
        ]

    def _deltas(self, events: list[Event]) -> list[DeltaMessage]:
        if self._builder is not None:
            self._builder.feed(events)
            return []
        return [self._delta(chunk) for chunk in self._wire.feed(events)]

    def _delta(self, chunk: Chunk) -> DeltaMessage:
        choices = chunk["choices"]
        assert isinstance(choices, list)  # noqa: S101 - the encoder always returns a list
        self.finish_reason = choices[0]["finish_reason"] or self.finish_reason
        return DeltaMessage.from_json(choices[0]["delta"])


def _plain_parser(request: Request) -> Parser:
    tools = () if request.tool_choice == "none" else request.tools
    return Parser(request.dialect, tools=tools, prompt=request.prompt)


def _planned_parser(request: Request) -> Parser:
    """Create a parser for a request that forces a call; the call may be guided JSON."""
    body: Json = {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": list(request.tools),
        "tool_choice": request.tool_choice,
    }
    prompt = "" if request.prompt is None else request.prompt
    return plan(request.dialect, body, prompt=prompt, constraints=("json",)).parser()


def unspool_adapter() -> InProcess:
    """Create an adapter for unspool in this process."""
    return InProcess(UnspoolSession, "unspool", __version__)

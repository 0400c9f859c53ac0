"""Adapters: what makes a parser one that the suite can drive.

An adapter opens a *session* for every output; a session takes chunks and
returns deltas.  For a parser in Python that is all there is to write::

    class MySession:
        def feed(self, chunk: str) -> Iterable[DeltaMessage | dict]: ...
        def finish(self, reason: str) -> Iterable[DeltaMessage | dict]: ...

    def factory(request: Request) -> MySession: ...

``finish_reason`` of the session, if it has one, is compared after ``finish``; a factory
may say what it is, see :func:`from_factory`.
A session raises :class:`Unsupported` for what its parser does not claim to do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from .._version import __version__
from ..dialects._registry import get_dialect, list_dialects
from ..errors import UnspoolError, UsageError
from ..events import Event
from ..parser import Parser
from ..planning import plan
from ..wire._chat import ChatStream, Chunk
from ._cases import DeltaMessage, Json, Start, TestCase

Deltas: TypeAlias = Iterable[DeltaMessage | Mapping[str, Any] | None]


class Unsupported(UnspoolError):
    """A parser does not claim to do this; the message says what."""


class ParserFailed(UnspoolError):
    """A parser raised, died or took too long; the message says which."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a parser may know before the first chunk."""

    dialect: str
    """Our name for it."""
    tools: tuple[Json, ...]
    tool_choice: str | Json
    start: Start
    prompt: str | None
    streaming: bool
    """False: the whole output will come as one chunk, and the parser for that may be used."""

    @classmethod
    def of(cls, case: TestCase, *, streaming: bool = True) -> Request:
        """The request of a case."""
        return cls(case.dialect, case.tools, case.tool_choice, case.start, case.prompt, streaming)


class Session(Protocol):
    """One output being read."""

    def feed(self, chunk: str) -> Deltas:
        """Take the next chunk."""
        ...

    def finish(self, reason: Any) -> Deltas:
        """No more follows; why generation stopped."""
        ...


Factory: TypeAlias = Callable[[Request], Session]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a parser made of one output."""

    deltas: tuple[DeltaMessage | None, ...]
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """Which parser it is."""

    name: str
    version: str = ""
    dialects: Mapping[str, Any] = field(default_factory=dict)
    """The dialects that it claims to read; what they are read by, for people."""

    def to_json(self) -> Json:
        return {"name": self.name, "version": self.version, "dialects": dict(self.dialects)}


@runtime_checkable
class Adapter(Protocol):
    """A parser under test."""

    def identity(self) -> Identity:
        """Which parser it is; starts it, if need be."""
        ...

    def answer(self, case: TestCase, choices: Sequence[Sequence[str]], *, streaming: bool) -> list[Reply]:
        """Read the outputs of one request, their chunks in turns.

        Raises ``Unsupported`` or ``ParserFailed``.
        """
        ...

    def close(self) -> None:
        """Nothing more will be asked."""
        ...


# -- in this process


class InProcess:
    """A parser that a factory makes, in this process."""

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
        except Exception as error:  # a parser may raise anything
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
        """Nothing to do."""


def as_delta(value: DeltaMessage | Mapping[str, Any] | None) -> DeltaMessage | None:
    """A delta, out of whatever a session returned."""
    return value if value is None or isinstance(value, DeltaMessage) else DeltaMessage.from_json(value)


def load_factory(path: str) -> Factory:
    """The factory that ``package.module:name`` names."""
    module, _, name = path.partition(":")
    if not name:
        raise UsageError(f"{path!r}: name a factory as package.module:name")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"cannot load {path!r}: {error}") from error
    if not callable(found):
        raise UsageError(f"{path!r} is not callable: a factory takes a Request and returns a session")
    return found


def from_factory(path: str) -> InProcess:
    """The parser that ``package.module:name`` makes.

    The factory may have attributes: ``name``, ``version`` and ``dialects``, the names
    of the dialects that it reads (all of them, if it does not say).
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
    """unspool, as a server would use it."""

    def __init__(self, request: Request) -> None:
        self.finish_reason: str | None = None
        forced = request.tool_choice not in ("auto", "none")
        self._parser = _planned(request) if forced else _plain(request)
        self._wire = ChatStream(self._parser)
        self._fold = None if request.streaming else self._parser.fold()

    def feed(self, chunk: str) -> list[DeltaMessage]:
        return self._deltas(self._parser.feed(chunk))

    def finish(self, reason: Any) -> list[DeltaMessage]:
        deltas = self._deltas(self._parser.finish(reason))
        if self._fold is None:
            return deltas
        message = self._fold.message()
        self.finish_reason = message.finish_reason
        whole = self._wire.message(message)
        calls = whole.get("tool_calls") or []
        assert isinstance(calls, list)  # noqa: S101 - so the wire has it
        return [
            DeltaMessage.from_json({**whole, "tool_calls": [{"index": i, **c} for i, c in enumerate(calls)]})
        ]

    def _deltas(self, events: list[Event]) -> list[DeltaMessage]:
        if self._fold is not None:
            self._fold.push(events)
            return []
        return [self._delta(chunk) for chunk in self._wire.encode(events)]

    def _delta(self, chunk: Chunk) -> DeltaMessage:
        choices = chunk["choices"]
        assert isinstance(choices, list)  # noqa: S101 - so the wire has it
        self.finish_reason = choices[0]["finish_reason"] or self.finish_reason
        return DeltaMessage.from_json(choices[0]["delta"])


def _plain(request: Request) -> Parser:
    tools = () if request.tool_choice == "none" else request.tools
    return Parser(request.dialect, tools=tools, prompt=request.prompt)


def _planned(request: Request) -> Parser:
    """A forced call is held to a JSON schema, where the family's engines do so."""
    body: Json = {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": list(request.tools),
        "tool_choice": request.tool_choice,
    }
    prompt = "" if request.prompt is None else request.prompt
    return plan(request.dialect, body, prompt=prompt, constraints=("json",)).parser()


def unspool_adapter() -> InProcess:
    """unspool, in this process."""
    return InProcess(UnspoolSession, "unspool", __version__)

"""Iterators that parse an output which arrives in chunks, and yield its events.

The parser itself does no input or output: ``Parser.feed`` takes text and returns events.  ``stream`` and
``astream`` feed the parser every chunk of an iterable.  This module is not compiled, because mypyc does not
support asynchronous generators.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from types import TracebackType
from typing import Final, Self, TypeAlias

from ._core.token_ids.tokenizer_adapters import AnyTokenizer
from .dialects import Dialect, is_dialect
from .errors import UsageError
from .events import Channel, Event, FinishReason
from .message import Message
from .parser import Parser, ToolList
from .policies import PolicyChoice

__all__ = [
    "AsyncEventStream",
    "Chunk",
    "EventStream",
    "Reason",
    "astream",
    "stream",
]

Chunk: TypeAlias = str | Iterable[int]
"""Chunk of an output: text, or token ids if there is a tokenizer."""
Reason: TypeAlias = FinishReason | Callable[[], FinishReason | None] | None
"""Reason why generation stopped, or a function that returns it after the last chunk."""


_MAX_NAME: Final = 100
"""Maximum length of a text that may be the name of a dialect."""


class _EventSource:
    """Base class of both iterators, with their parser and message."""

    def __init__(self, parser: Parser, finish_reason: Reason) -> None:
        self.parser = parser
        """Parser that the chunks are fed to."""
        self._finish_reason = finish_reason
        self._builder = parser.fold()

    @property
    def message(self) -> Message:
        """Message of the events so far.

        Before ``Finish``, its ``finish_reason`` is None.  A call that has not ended is not among its
        ``tool_calls``, but is a truncated ``BrokenCall`` among its ``parts``.
        """
        return self._builder.message

    def _feed(self, chunk: Chunk) -> list[Event]:
        if isinstance(chunk, str):
            return self.parser.feed(chunk)
        if isinstance(chunk, bytes):
            raise UsageError("chunks must be text or lists of token ids: decode bytes first")
        return self.parser.feed_tokens(chunk)

    def _finish(self) -> list[Event]:
        reason = self._finish_reason
        return self.parser.finish(reason() if callable(reason) else reason)


class EventStream(_EventSource):
    """Iterator over the events of an output; create one with ``stream``."""

    def __init__(self, chunks: Iterable[Chunk], parser: Parser, finish_reason: Reason) -> None:
        super().__init__(parser, finish_reason)
        self._events = self._generate(chunks)

    def _generate(self, chunks: Iterable[Chunk]) -> Generator[Event]:
        source = iter([chunks] if isinstance(chunks, str) else chunks)
        try:
            for chunk in source:
                for event in self._feed(chunk):
                    self._builder.feed((event,))
                    yield event
            for event in self._finish():
                self._builder.feed((event,))
                yield event
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """Close the source of the chunks without finishing the output."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncEventStream(_EventSource):
    """Asynchronous iterator over the events of an output; create one with ``astream``."""

    def __init__(self, chunks: AsyncIterable[Chunk], parser: Parser, finish_reason: Reason) -> None:
        super().__init__(parser, finish_reason)
        self._events = self._generate(chunks)

    async def _generate(self, chunks: AsyncIterable[Chunk]) -> AsyncGenerator[Event]:
        source = aiter(chunks)
        try:
            async for chunk in source:
                for event in self._feed(chunk):
                    self._builder.feed((event,))
                    yield event
            for event in self._finish():
                self._builder.feed((event,))
                yield event
        finally:
            aclose = getattr(source, "aclose", None)
            if aclose is not None:
                await aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Close the source of the chunks without finishing the output."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.aclose()


def stream(
    chunks: Iterable[Chunk],
    dialect: str | Dialect | Parser,
    *,
    tools: ToolList | None = None,
    prompt: str | Iterable[int] | None = None,
    continues: bool = False,
    start_channel: Channel | None = None,
    tokenizer: AnyTokenizer | None = None,
    policies: PolicyChoice | None = None,
    finish_reason: Reason = None,
    new_id: Callable[[str, int], str] | None = None,
) -> EventStream:
    """Return an iterator over the events of an output that arrives in chunks.

    Each event is returned as soon as it is certain.  The attribute ``message`` of the iterator is the message
    so far, with only the calls that have ended.  Leaving the loop early closes the source of the chunks, and
    does not finish the output.  All other options are those of ``Parser``.

    :param chunks: pieces of text; or lists of token ids, if ``tokenizer`` is passed.
    :param dialect: name or alias of a dialect, a ``Dialect``, or a new ``Parser`` with all options.
    :param finish_reason: the reason why generation stopped, or a function to call after the last chunk.

    >>> events = stream(["Hel", "lo."], "hermes")
    >>> [event.text for event in events if isinstance(event, Text)], events.message.content
    (['Hel', 'lo.'], 'Hello.')
    """
    _check_order(chunks, dialect, "stream")
    if hasattr(chunks, "__aiter__"):
        raise UsageError("these chunks are asynchronous: use `async for event in unspool.astream(...)`")
    parser = _parser(dialect, tools, prompt, continues, start_channel, tokenizer, policies, new_id)
    return EventStream(chunks, parser, finish_reason)


def astream(
    chunks: AsyncIterable[Chunk],
    dialect: str | Dialect | Parser,
    *,
    tools: ToolList | None = None,
    prompt: str | Iterable[int] | None = None,
    continues: bool = False,
    start_channel: Channel | None = None,
    tokenizer: AnyTokenizer | None = None,
    policies: PolicyChoice | None = None,
    finish_reason: Reason = None,
    new_id: Callable[[str, int], str] | None = None,
) -> AsyncEventStream:
    """Return an asynchronous iterator over the events of an output that arrives in chunks.

    ``astream`` has the parameters and the behaviour of ``stream``.
    """
    _check_order(chunks, dialect, "astream")
    if not hasattr(chunks, "__aiter__"):
        raise UsageError("these chunks are not asynchronous: use `for event in unspool.stream(...)`")
    parser = _parser(dialect, tools, prompt, continues, start_channel, tokenizer, policies, new_id)
    return AsyncEventStream(chunks, parser, finish_reason)


def _check_order(chunks: object, dialect: object, function: str) -> None:
    """Raise an error if the dialect was passed as the chunks, and the chunks as the dialect."""
    if not isinstance(chunks, str) or len(chunks) > _MAX_NAME or isinstance(dialect, (Dialect, Parser)):
        return
    if not (isinstance(dialect, str) and is_dialect(dialect)) and is_dialect(chunks):
        raise UsageError(f"the arguments are swapped: call {function}(chunks, {chunks!r})")


def _parser(
    dialect: str | Dialect | Parser,
    tools: ToolList | None,
    prompt: str | Iterable[int] | None,
    continues: bool,
    start_channel: Channel | None,
    tokenizer: AnyTokenizer | None,
    policies: PolicyChoice | None,
    new_id: Callable[[str, int], str] | None,
) -> Parser:
    if isinstance(dialect, Parser):
        if continues or any(
            option is not None for option in (tools, prompt, start_channel, tokenizer, policies, new_id)
        ):
            raise UsageError("a Parser keeps the options it was created with: pass these options to Parser()")
        return dialect
    return Parser(
        dialect,
        tools=tools,
        prompt=prompt,
        continues=continues,
        start_channel=start_channel,
        tokenizer=tokenizer,
        policies=policies,
        new_id=new_id,
    )

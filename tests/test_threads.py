"""Objects that threads may share: dialects, the registry, tokenizers, and their caches."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from unspool import (
    Dialect,
    Event,
    Message,
    Parser,
    ToolCall,
    UsageError,
    get_dialect,
    list_dialects,
    register,
    render,
)
from unspool.dialects import _registry as registry
from unspool.events import normalise

THREADS = 8
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            },
        },
    }
]


@pytest.fixture(autouse=True)
def _hasty() -> Iterator[None]:
    """Let threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def render_texts() -> dict[str, str]:
    """Return an output of every eighth dialect that can write one."""
    message = Message(
        content="It is <so>.", tool_calls=(ToolCall(id="", name="f", arguments='{"a": "x\\n<y>", "b": 3}'),)
    )
    rendered: dict[str, str] = {}
    for name in (dialect.name for dialect in list_dialects()[::8]):
        try:
            rendered[name] = render(message, name)
        except UsageError:
            continue
    return rendered


def events_of(name: str, text: str) -> str:
    parser = Parser(name, tools=TOOLS)
    out = [event for at in range(0, len(text), 7) for event in parser.feed(text[at : at + 7])]
    return describe(out + parser.finish("stop"))


def describe(events: list[Event]) -> str:
    """Return events without generated ids."""
    return repr([(type(event), event.start, event.end) for event in normalise(events)])


def run_at_once(work: Callable[[int], object]) -> list[object]:
    """Start all threads at the same moment."""
    begin = threading.Barrier(THREADS)

    def start_together(number: int) -> object:
        begin.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start_together, range(THREADS)))


def test_parsers_share_dialect_caches_safely() -> None:
    inputs = render_texts()
    assert len(inputs) > 5

    def work(number: int) -> dict[str, str]:
        # Each thread uses another order, so that threads fill the caches for each other.
        names = sorted(inputs, key=lambda name: hash((name, number)))
        return {name: events_of(name, inputs[name]) for name in names}

    results = run_at_once(work)
    expected = {name: events_of(name, text) for name, text in inputs.items()}
    assert all(one == expected for one in results)


def test_registry_is_filled_once_by_any_thread() -> None:
    """All threads look up unused dialects at once while others are registered."""
    names = [dialect.name for dialect in list_dialects()]
    registry._found.cache_clear()

    def work(number: int) -> list[object]:
        mine = register(Dialect(f"mine_{number}", call=("<c>{name} {args}</c>",), request="hermes"))
        return [mine is get_dialect(f"mine_{number}"), *(get_dialect(name) for name in names)]

    first, *others = run_at_once(work)
    assert first == [True, *(get_dialect(name) for name in names)]
    assert all(one == first for one in others)


class Vocabulary:
    """The two methods that a tokenizer needs."""

    def token_bytes(self, id: int) -> bytes:
        return bytes([id])

    def special_tokens(self) -> dict[int, str]:
        return {256: "<tool_call>", 257: "</tool_call>"}


def test_tokenizer_is_analysed_by_all_threads_at_once() -> None:
    vocabulary = Vocabulary()
    ids = [256, *b'{"name": "f", "arguments": {"a": "<tool_call>"}}', 257]

    def work(number: int) -> str:
        parser = Parser("hermes", tokenizer=vocabulary)
        out = parser.feed_tokens(ids[: number + 3]) + parser.feed_tokens(ids[number + 3 :])
        return describe(out + parser.finish("stop"))

    assert len(set(run_at_once(work))) == 1

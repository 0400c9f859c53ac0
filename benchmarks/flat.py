"""Growth of the cost per delta: every dialect, in every state, from 1k to 100k characters.

The text that leads into a state is parsed beforehand; only the text inside it is measured.
Growth is the cost at the largest size relative to the cost at 1k. Growth by more than a fifth
is measured again, up to three times, because noise rarely repeats.

    python benchmarks/flat.py [DIALECT ...] [--state STATE] [--large] [--all]

``--large`` measures texts of up to 1M characters, ``--all`` also prints costs that do not grow. The
exit status is 1 if a cost grows.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Final

from parsing.workloads import CODE, PROSE, TOOLS, filled, nested, pieces
from unspool import Message, Parser, ToolCall, UnspoolError, list_dialects, render

SIZES: Final = (1_000, 10_000, 100_000)
LARGE: Final = 1_000_000
TOLERANCE: Final = 0.2
BEGIN, END = "qqBEGINqq", "qqENDqq"
"""Unique words around the measured text."""

Text = tuple[str, str]
"""Text that leads into a state, and the measured text."""


def _call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("call00000", name, json.dumps(arguments, ensure_ascii=False))


def _within(text: str) -> Text:
    """Split a rendered text at the words around the measured part."""
    begin = text.index(BEGIN)
    return text[:begin], text[begin : text.rindex(END)]


def _prose(dialect: str, size: int) -> Text:
    return _within(render(Message(content=BEGIN + filled(PROSE, size) + END), dialect, check=False))


def _reasoning(dialect: str, size: int) -> Text:
    message = Message(reasoning=BEGIN + filled(PROSE, size) + END, content="Done.")
    return _within(render(message, dialect))


def _string(dialect: str, size: int) -> Text:
    call = _call("write_file", path="a.py", content=BEGIN + filled(CODE, size) + END)
    return _within(render(Message(tool_calls=(call,)), dialect))


def _nested(dialect: str, size: int) -> Text:
    call = _call("insert_rows", table="stock", rows=[BEGIN, *nested(size), END])
    return _within(render(Message(tool_calls=(call,)), dialect))


def _calls(dialect: str, size: int) -> Text:
    """Return calls in a row: heads, tails and separators."""
    first = _call("search_web", query=BEGIN, limit=1, safe=True)
    call = _call("search_web", query="ferry", limit=10, safe=True)

    def written(*calls: ToolCall) -> str:
        return render(Message(tool_calls=calls), dialect, check=False)  # the calls share one id

    length = len(written(first, call, call)) - len(written(first, call))
    last = _call("search_web", query=END, limit=1, safe=True)
    many = [call] * (size // length + 1)
    return _within(written(first, *many, last))


def _after(dialect: str, size: int) -> Text:
    """Return prose after a call."""
    call = _call("search_web", query="ferry", limit=10, safe=True)
    return render(Message(tool_calls=(call,)), dialect), " " + filled(PROSE, size)


STATES: Final[dict[str, Callable[[str, int], Text]]] = {
    "prose": _prose,
    "reasoning": _reasoning,
    "string": _string,
    "nested": _nested,
    "calls": _calls,
    "after": _after,
}


def cost(dialect: str, text: Text, runs: int) -> float:
    """Return nanoseconds per delta."""
    head, body = text
    deltas = pieces(body)
    found = []
    for _ in range(runs):
        feed = Parser(dialect, tools=TOOLS).feed
        feed(head)
        began = thread_time()
        for delta in deltas:
            feed(delta)
        found.append(thread_time() - began)
    return min(found) / len(deltas) * 1e9


def texts(dialect: str, state: str, sizes: tuple[int, ...]) -> list[Text] | None:
    """Return a text of each size, or None if the dialect has no such state."""
    try:
        return [STATES[state](dialect, size) for size in sizes]
    except (UnspoolError, ValueError):  # the dialect cannot express the text, or the words were lost
        return None


def measure_costs(dialect: str, samples: list[Text]) -> list[float]:
    """Return the cost of each text."""
    gc.collect()
    return [cost(dialect, text, max(3, min(40, 200_000 // len(text[1])))) for text in samples]


def growth(costs: list[float]) -> float:
    """Return the relative growth from the first cost to the last."""
    return costs[-1] / costs[0] - 1


def rows(
    dialects: list[str], states: list[str], sizes: tuple[int, ...]
) -> Iterator[tuple[str, str, list[float]]]:
    """Yield dialect, state and costs; apparent growth is measured up to three times."""
    for dialect in dialects:
        for state in states:
            samples = texts(dialect, state, sizes)
            if samples is None:
                continue
            found = measure_costs(dialect, samples)
            for _ in range(2):
                if growth(found) > TOLERANCE:
                    found = min(found, measure_costs(dialect, samples), key=growth)
            yield dialect, state, found


def main() -> int:
    """Print growing costs and a summary of each state."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("dialects", nargs="*")
    parser.add_argument("--state", choices=STATES)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    sizes = (*SIZES, LARGE) if options.large else SIZES
    dialects = options.dialects or [dialect.name for dialect in list_dialects()]
    states = [options.state] if options.state else list(STATES)
    seen: dict[str, list[float]] = {state: [] for state in states}
    print(f"{'ns per delta':32}" + "".join(f"{size:>11,}" for size in sizes) + f"{'growth':>9}")
    for dialect, state, costs in rows(dialects, states, sizes):
        grown = growth(costs)
        seen[state].append(grown)
        if options.all or grown > TOLERANCE:
            figures = "".join(f"{value:11,.0f}" for value in costs)
            print(f"{dialect + ', ' + state:32}{figures}{grown:+9.0%}", flush=True)
    for state, found in seen.items():
        grow = sum(value > TOLERANCE for value in found)
        if found:
            print(f"{state}: {len(found)} dialects, {grow} grow; most {max(found):+.0%}")
    return int(any(value > TOLERANCE for found in seen.values() for value in found))


if __name__ == "__main__":
    raise SystemExit(main())

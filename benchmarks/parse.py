"""What a delta costs: nanoseconds for each 4-character piece, beside the floor.

The floor is what any reader must do: append the pieces to a list and join them
at the end.  Each line grows one kind of text from 1k to 1M characters; a cost
that stays flat is the claim.

    python benchmarks/parse.py
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence

from unspool import Parser

SIZES = (1_000, 10_000, 100_000, 1_000_000)
PIECE = 4
PROSE = "The quick brown fox jumps over the lazy dog, twice. "
CODE = 'def f(a, b):\\n    return \\"a\\" if a else b  # São\\n'
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        },
    }
]

Make = Callable[[int], tuple[str, str]]


def _fill(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def prose(size: int) -> tuple[str, str]:
    """Plain content."""
    return "", _fill(PROSE, size)


def reasoning(size: int) -> tuple[str, str]:
    """Reasoning."""
    return "<think>", _fill(PROSE, size)


def json_argument(size: int) -> tuple[str, str]:
    """A long string in JSON arguments."""
    text = json.loads(f'"{CODE}"')
    return '<tool_call>{"name": "write", "arguments": {"text": "', json.dumps(
        _fill(text, size), ensure_ascii=False
    )[1:-1]


def tagged_argument(size: int) -> tuple[str, str]:
    """A long tagged value."""
    text = json.loads(f'"{CODE}"')
    return "<tool_call>\n<function=write>\n<parameter=text>\n", _fill(text, size)


WORKLOADS: Sequence[tuple[str, str, Make]] = (
    ("prose", "hermes", prose),
    ("reasoning", "hermes", reasoning),
    ("JSON argument", "hermes", json_argument),
    ("tagged value", "qwen3_coder", tagged_argument),
)


def pieces(text: str) -> list[str]:
    """The text in small pieces."""
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def floor(chunks: list[str]) -> float:
    """Seconds to append the chunks and join them."""
    start = time.perf_counter()
    out: list[str] = []
    append = out.append
    for chunk in chunks:
        append(chunk)
    "".join(out)
    return time.perf_counter() - start


def parsing(dialect: str, head: str, chunks: list[str]) -> float:
    """Seconds to feed the chunks to a parser that has read the head."""
    parser = Parser(dialect, tools=TOOLS)
    parser.feed(head)
    feed = parser.feed
    start = time.perf_counter()
    for chunk in chunks:
        feed(chunk)
    return time.perf_counter() - start


def best(measure: Callable[[], float], size: int) -> float:
    """The fastest of some runs: the one the machine disturbed least."""
    return min(measure() for _ in range(max(3, min(200, 600_000 // size))))


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    sizes = arguments.parse_args().sizes
    print(
        f"{'ns per delta of 4 characters':32}" + "".join(f"{size:>12,}" for size in sizes) + f"{'growth':>9}"
    )
    for name, dialect, make in WORKLOADS:
        costs = []
        floors = []
        for size in sizes:
            head, text = make(size)
            chunks = pieces(text)
            costs.append(best(lambda: parsing(dialect, head, chunks), size) / len(chunks) * 1e9)  # noqa: B023
            floors.append(best(lambda: floor(chunks), size) / len(chunks) * 1e9)  # noqa: B023
        growth = f"{max(costs) / min(costs) - 1:+.0%}"
        print(
            f"{name + ' (' + dialect + ')':32}" + "".join(f"{cost:12.0f}" for cost in costs) + f"{growth:>9}"
        )
        print(f"{'  floor':32}" + "".join(f"{cost:12.0f}" for cost in floors))


if __name__ == "__main__":
    main()

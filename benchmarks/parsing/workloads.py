"""Workloads: model outputs, generated once and given to every contender.

unspool renders the texts with the templates that it also parses with. Contenders get them
as a file, so that they do not need unspool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

PIECE: Final = 4
"""Characters per delta, about the length of a token."""

Json = dict[str, Any]

MARKERS: Final[dict[str, tuple[str, ...]]] = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "mistral": ("[TOOL_CALLS]", "[ARGS]"),
    "qwen3_coder": ("<tool_call>", "</tool_call>"),
    "deepseek_v3": (
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
    ),
    "kimi_k2": (
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ),
    "llama3_json": (),
    "pythonic": (),
    "glm45": ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    "harmony": ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>"),
    "reasoning": ("<think>", "</think>"),
}
"""Markers that are one token and therefore one delta, by row of the table.

``reasoning`` is hermes with reasoning instead of calls.
"""

_ONLY_CALLS: Final = ("llama3_json", "pythonic")
"""Formats without an opener, whose parsers look for calls only at the beginning of an answer."""

PROSE: Final = (
    "The ferry leaves at seven, so we should be at the pier a little earlier than that. "
    "Rain is likely in the afternoon, and the wind turns north in the evening; take a coat. "
    "Most people walk up to the old fort first, because the light is better there before noon. "
    "After lunch the museum is quiet, and the guide will tell you about the harbour (1842-1911). "
    "If you have an hour left, the bakery behind the church is worth it: ask for rye bread. "
)
CODE: Final = (
    "def total(rows):\n"
    '    """Sum of the prices, in euros."""\n'
    '    return sum(row["price"] * row.get("count", 1) for row in rows)  # cafés\n'
    "\n\n"
    'if __name__ == "__main__":\n'
    "    print(f\"total: {total(load('orders.csv')):.2f} \\u20ac\")\n"
)
"""Text of odd length, plain and as JSON, so that deltas start at all positions in it."""


def _tool(name: str, **types: str) -> Json:
    properties = {key: {"type": kind} for key, kind in types.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TOOLS: Final[list[Json]] = [
    _tool("get_weather", location="string", unit="string", days="integer"),
    _tool("search_web", query="string", limit="integer", safe="boolean"),
    _tool("write_file", path="string", content="string"),
    _tool("insert_rows", table="string", rows="array"),
]
"""Tools of the request in every workload."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Expected contents of an output."""

    content: str = ""
    reasoning: str = ""
    calls: Sequence[Sequence[str]] = ()
    """Names and arguments, the latter as JSON."""

    def differs(self, right: Answer) -> str:
        """Describe the difference to the right answer; whitespace around texts does not count."""
        if len(self.calls) != len(right.calls):
            return f"{len(self.calls)} of {len(right.calls)} calls"
        for (name, arguments), (right_name, right_arguments) in zip(self.calls, right.calls, strict=True):
            try:
                same = name == right_name and json.loads(arguments) == json.loads(right_arguments)
            except ValueError:
                return "arguments are not JSON"
            if not same:
                return "wrong arguments"
        for channel in ("content", "reasoning"):
            if getattr(self, channel).strip() != getattr(right, channel).strip():
                return f"wrong {channel}"
        return ""


@dataclass(frozen=True, slots=True)
class Workload:
    """One text to parse."""

    dialect: str
    scenario: str
    text: str
    expected: Answer | None
    """Expected answer; None for broken texts, which have several right answers."""
    whole: bool = False
    """True if the text comes in one piece instead of deltas."""
    markers: tuple[str, ...] = ()
    """Texts that are one delta each."""

    def __str__(self) -> str:
        return f"{self.dialect}, {self.scenario}"

    def deltas(self) -> list[str]:
        """Split the text into deltas."""
        return [self.text] if self.whole else pieces(self.text, self.markers)


def filled(unit: str, size: int) -> str:
    """Return ``size`` characters of a repeated text."""
    return (unit * (size // len(unit) + 1))[:size]


def pieces(text: str, markers: Sequence[str] = ()) -> list[str]:
    """Split the text into deltas: markers stay whole, the rest is cut into small pieces.

    Equal pieces are the same object, so that even in a long text every piece is in the processor's cache,
    as a newly created piece would be.
    """
    parts = re.split("(" + "|".join(map(re.escape, markers)) + ")", text) if markers else [text]
    unique_pieces: dict[str, str] = {}
    found: list[str] = []
    for part in parts:
        if part in markers:
            found.append(unique_pieces.setdefault(part, part))
        else:
            cut = [part[at : at + PIECE] for at in range(0, len(part), PIECE)]
            found += [unique_pieces.setdefault(piece, piece) for piece in cut]
    return found


def _call(name: str, **arguments: object) -> tuple[str, str]:
    return name, json.dumps(arguments, ensure_ascii=False)


def nested(size: int) -> list[object]:
    """Return a JSON value of about ``size`` characters, with tables and trees."""
    row = {"id": 4711, "price": 12.5, "sale": True, "tags": ["new"], "stock": {"Oslo": 3, "Bergen": None}}
    return [row] * (size // len(json.dumps([row])) + 1)


def _written(dialect: str, answer: Answer) -> str:
    from unspool import Message, ToolCall, render

    calls = tuple(ToolCall(f"call{at:05}", name, text) for at, (name, text) in enumerate(answer.calls))
    message = Message(reasoning=answer.reasoning or None, content=answer.content or None, tool_calls=calls)
    # No check, because the tests check correctness, and checking a megabyte takes longer than measuring.
    return render(message, "hermes" if dialect == "reasoning" else dialect, check=False)


def _typical(dialect: str) -> Answer:
    """Return 200 tokens of prose and two calls."""
    prose = filled(PROSE, 800)
    if dialect == "reasoning":
        return Answer(reasoning=prose, content=filled(PROSE, 400))
    calls = (
        _call("get_weather", location="Longyearbyen, Svalbard and Jan Mayen", unit="celsius", days=5),
        _call("search_web", query=PROSE[:160], limit=10, safe=True),
    )
    if dialect in _ONLY_CALLS:
        return Answer(calls=calls)
    # In harmony, text before a call is reasoning.
    return Answer(reasoning=prose, calls=calls) if dialect == "harmony" else Answer(prose, calls=calls)


def _long(dialect: str, size: int) -> Answer:
    if dialect == "reasoning":
        return Answer(reasoning=filled(PROSE, size), content="Done.")
    return Answer(calls=(_call("write_file", path="total.py", content=filled(CODE, size)),))


SIZES: Final = {"1k": 1_000, "10k": 10_000, "100k": 100_000, "1M": 1_000_000}
"""Length of the long argument, or of the reasoning, in characters."""


def streamed() -> Iterator[Workload]:
    """Yield the workloads in deltas."""
    for dialect, markers in MARKERS.items():
        answers = {"typical": _typical(dialect)}
        answers |= {name: _long(dialect, size) for name, size in SIZES.items()}
        if dialect != "reasoning":
            answers["prose"] = Answer(filled(PROSE, 100_000))
            calls = [_call("search_web", query=f"ferry {at}", limit=at, safe=True) for at in range(64)]
            answers["64 calls"] = Answer(calls=tuple(calls))
        for scenario, answer in answers.items():
            yield Workload(dialect, scenario, _written(dialect, answer), answer, markers=markers)


def whole() -> Iterator[Workload]:
    """Yield the workloads in one piece, of a million characters."""
    size = 1_000_000
    answers = {
        "prose": Answer(filled(PROSE, size)),
        "string argument": _long("", size),
        "nested argument": Answer(calls=(_call("insert_rows", table="stock", rows=nested(size)),)),
    }
    for dialect in ("hermes", "qwen3_coder", "harmony"):
        for scenario, answer in answers.items():
            yield Workload(dialect, scenario, _written(dialect, answer), answer, whole=True)


_JSON_STRING: Final = '<tool_call>\n{"name": "write_file", "arguments": {"content": "'
_JSON_ROWS: Final = '<tool_call>\n{"name": "insert_rows", "arguments": {"rows": '
_TAGGED: Final = "<tool_call>\n<function=write_file>\n<parameter=content>\n"
_CHANNEL: Final = "<|channel|>final<|message|>"

HOSTILE: Final[dict[str, dict[str, tuple[str, str, int]]]] = {
    "hermes": {
        "openers": ("", "<tool_call>", 50_000),
        "heads": ("", '<tool_call>{"name": "', 20_000),
        "near-markers": ("", "<tool_call", 20_000),
        "angle brackets": ("", "<", 200_000),
        "reasoning tags": ("", "<think></think>", 20_000),
        "blank head": ("<tool_call>", " ", 200_000),
        "deep brackets": (_JSON_ROWS, "[", 50_000),
        "deep objects": (_JSON_ROWS, '{"a":', 50_000),
        "long number": (_JSON_ROWS + "[", "7", 200_000),
        "escaped quotes": (_JSON_STRING, '\\"', 100_000),
        "backslashes": (_JSON_STRING, "\\\\", 100_000),
        "unicode escapes": (_JSON_STRING, "\\u00e9", 40_000),
        "closers in a string": (_JSON_STRING, "</tool_call>", 20_000),
        "junk": (_JSON_STRING + '"}, oops ', "</tool_call", 20_000),
    },
    "qwen3_coder": {
        "near-closers": (_TAGGED, "\n</parameter", 20_000),
        "unconfirmed closers": (_TAGGED, "\n</parameter>\n", 20_000),
        "closers and heads": (_TAGGED, "\n</parameter>\n<parameter", 20_000),
        "blank lines": (_TAGGED, "\n", 200_000),
        "function heads": ("", "<tool_call>\n<function=", 20_000),
    },
    "pythonic": {
        "brackets": ("", "[", 50_000),
        "heads": ("", "[get_weather(", 20_000),
        "deep lists": ("[insert_rows(rows=", "[", 50_000),
        "quotes": ("[write_file(content='", '\\"', 100_000),
    },
    "harmony": {
        "starts": (_CHANNEL, "<|start|>", 50_000),
        "channels": (_CHANNEL, "<|channel|>", 50_000),
        "near-markers": (_CHANNEL, "<|end|", 50_000),
    },
}
"""Texts that are hard to parse: a beginning, the repeated text, and the number of repetitions."""


def hostile() -> Iterator[Workload]:
    """Yield the hostile texts, in deltas that may split markers; prose comes first for comparison."""
    for dialect, texts in HOSTILE.items():
        head = _CHANNEL if dialect == "harmony" else ""
        yield Workload(dialect, "hostile: prose", head + filled(PROSE, 200_000), None)
        for name, (start, unit, times) in texts.items():
            yield Workload(dialect, f"hostile: {name}", start + unit * times, None)


def write(file: Path, workloads: Iterable[Workload]) -> None:
    """Write workloads to a file for other processes."""
    lines = (json.dumps(asdict(workload), ensure_ascii=False) for workload in workloads)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(file: Path) -> Iterator[Workload]:
    """Read workloads from a file."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            row["markers"] = tuple(row["markers"])
            row["expected"] = row["expected"] and Answer(**row["expected"])
            yield Workload(**row)

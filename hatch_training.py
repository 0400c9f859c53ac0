"""What the compiler watches the core do: answers as models write them, in small pieces."""

import json

from unspool import Message, Parser, ToolCall, render
from unspool._core.search.scan import COMPILED

# Wide characters are here so that the compiler knows them to be rare: of what it never saw it knows nothing.
PROSE = "The ferry leaves at seven, so be at the pier a little earlier; if a < b, take [the next one](x) 🙂. "
CODE = "def total(rows):\n    \"Sum, in euros.\"\n    return sum(row['price'] for row in rows)  # café 🙂\n\n"
TOOLS = [
    {
        "name": name,
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
        },
    }
    for name in ("read", "write")
]
DIALECTS = (
    "hermes",
    "qwen3_coder",
    "glm45",
    "mistral",
    "deepseek_v3",
    "kimi_k2",
    "llama3_json",
    "pythonic",
    "harmony",
)


def answers() -> list[Message]:
    """Text and calls, and a call with much in it."""
    short = '{"path": "a b.txt", "n": 12}'
    long = json.dumps({"path": CODE * 40, "n": [1, {"a": None}]}, ensure_ascii=False)
    calls = tuple(ToolCall(f"call{number:05}", "read", short) for number in range(8))
    return [
        Message(content=PROSE * 40),
        Message(content=PROSE, tool_calls=calls),
        Message(tool_calls=(ToolCall("call00000", "write", long),)),
    ]


def read_answers() -> None:
    """Read them, in pieces of the size of tokens."""
    for dialect in DIALECTS:
        for answer in answers():
            text = render(dialect, answer, check=False)  # what it is read as does not matter here
            for size in (3, 4, 5):
                parser = Parser(dialect, tools=TOOLS)
                for at in range(0, len(text), size):
                    parser.feed(text[at : at + size])
                parser.finish("stop")


if __name__ == "__main__":
    if not COMPILED:
        raise SystemExit("this is not the compiled build")
    read_answers()

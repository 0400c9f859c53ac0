"""Training workload for the profile of the compiled build.

The workload parses outputs as models write them: in small pieces, as a whole, and as token ids.  GCC
optimises code that does not run here for size instead of speed.
"""

import json
import re
from collections.abc import Mapping

from unspool import Message, Parser, ToolCall, get_dialect, parse, render
from unspool._core.scan.character_runs import COMPILED
from unspool._core.stages.message_columns import MessageColumns
from unspool.tokens import label_tokens

# A few wide characters are included, so that the profile shows how rare they are.
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
    """Return messages with text, with several calls, and with one long call."""
    short = '{"path": "a b.txt", "n": 12}'
    long = json.dumps({"path": CODE * 40, "n": [1, {"a": None}]}, ensure_ascii=False)
    calls = tuple(ToolCall(f"call{number:05}", "read", short) for number in range(8))
    return [
        Message(content=PROSE * 40),
        Message(content=PROSE, tool_calls=calls),
        Message(tool_calls=(ToolCall("call00000", "write", long),)),
    ]


class Vocabulary:
    """Tokenizer with tokens of four bytes, and one token for each marker."""

    def __init__(self, text: str) -> None:
        self._pieces: list[bytes] = []
        self._special: dict[int, str] = {}
        for piece in re.split(r"(<[^<>\s]+>|\[[A-Z_]+\])", text):
            if piece[:1] in ("<", "[") and piece[-1:] in (">", "]"):
                self._special[len(self._pieces)] = piece
                self._pieces.append(b"")
            else:
                data = piece.encode()
                self._pieces += [data[at : at + 4] for at in range(0, len(data), 4)]
        self.ids = list(range(len(self._pieces)))

    def token_bytes(self, id: int) -> bytes:
        return self._pieces[id]

    def special_tokens(self) -> Mapping[int, str]:
        return self._special


def read_in_pieces(text: str, dialect: str) -> None:
    """Parse a text as a stream, in pieces of a few characters."""
    for size in (3, 4, 5):
        parser = Parser(dialect, tools=TOOLS)
        for at in range(0, len(text), size):
            parser.feed(text[at : at + size])
        parser.finish("stop")


def read_whole(text: str, dialect: str) -> None:
    """Parse a text as a message, as a row of a table, and as token ids."""
    vocabulary = Vocabulary(text)
    seeded = get_dialect(dialect).id_format.seeded
    columns = MessageColumns()
    for number in range(10):
        parse(text, dialect, tools=TOOLS)
        columns.read(text, get_dialect(dialect), TOOLS, None, "stop", seeded(number))
        label_tokens(vocabulary.ids, dialect, tokenizer=vocabulary, tools=TOOLS)


def read_answers() -> None:
    """Parse every answer in every dialect."""
    for dialect in DIALECTS:
        for answer in answers():
            text = render(answer, dialect, check=False)  # the result does not matter here
            read_in_pieces(text, dialect)
            read_whole(text, dialect)


if __name__ == "__main__":
    if not COMPILED:
        raise SystemExit("this is not the compiled build")
    read_answers()

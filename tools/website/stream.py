"""A stream as it is held back and released, drawn from a real run: ``docs/stream.svg``.

A row is a chunk as it arrives; on the right is what a client has been told by then and
was not told before.  Hatched is what no event accounts for yet.  ``python -m website.stream``,
in ``tools``, draws it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from unspool import CallArgs, CallEnd, CallStart, Event, Parser, Text

PICTURE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "stream.svg"
DIALECT: Final = "hermes"
CHUNKS: Final = (
    "<think>Oslo, th",
    "ree days.</thi",
    "nk>If a <",
    " b, I look.\n<tool",
    '_call>\n{"name": "get_',
    'weather", "arguments": {"ci',
    'ty": "Oslo", "days": 3',
    "}}\n</tool_call>",
)
"""With a closing tag in two pieces, a false alarm, and a call whose name is long in coming."""

CHARACTER, ROW, TOP, LEFT, RIGHT, WIDTH = 7.8, 44, 62, 20, 330, 800
STYLE: Final = """
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1b2430; }
  .head, .says { font-family: ui-sans-serif, system-ui, sans-serif; fill: #5a6675; }
  .head { font-weight: 600; }
  .says { font-size: 12px; }
  .reasoning { fill: #e7dafa; } .content { fill: #d6e5fd; }
  .call { fill: #cdeedc; } .markup { fill: #e8ebef; }
  .hatch { fill: url(#hatch); } .line { stroke: #b45309; stroke-width: 2; } .rule { stroke: #dfe3e8; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .head, .says { fill: #9aa7b8; }
    .reasoning { fill: #46306e; } .content { fill: #1f3f70; }
    .call { fill: #1a5138; } .markup { fill: #2d3540; }
    .line { stroke: #f0a63c; } .rule { stroke: #2d3540; }
  }
"""


@dataclass(frozen=True, slots=True)
class Row:
    """The effect of one chunk."""

    chunk: str
    kinds: tuple[str, ...]
    """The final kind of each character."""
    pending: tuple[bool, ...]
    """Flags of the characters that are still held back after the chunk."""
    sent: tuple[tuple[str, str], ...]
    """Kinds and texts that the client receives for this chunk."""
    held: int


def rows() -> Iterator[Row]:
    """Parse the example chunk by chunk, and yield a row for each chunk."""
    whole = "".join(CHUNKS)
    parser = Parser(DIALECT)
    kinds: list[str] = []
    for event in parser.feed(whole) + parser.finish("stop"):
        kinds += [_kind(event)] * (event.end - event.start)
    parser = Parser(DIALECT)
    at = 0
    for chunk in CHUNKS:
        events = parser.feed(chunk)
        end = at + len(chunk)
        decided = end - parser.pending
        yield Row(
            chunk,
            tuple(kinds[at:end]),
            tuple(place >= decided for place in range(at, end)),
            tuple((_kind(event), text) for event in events if (text := _client_text(event))),
            parser.pending,
        )
        at = end


def _kind(event: Event) -> str:
    if isinstance(event, Text):
        return event.channel
    return "call" if isinstance(event, CallStart | CallArgs | CallEnd) else "markup"


def _client_text(event: Event) -> str:
    """Return the text that a client receives for an event."""
    match event:
        case Text(_, text):
            return text
        case CallStart(_, name):
            return f"call: {name}"
        case CallArgs(_, json):
            return json
        case CallEnd(_, status):
            return f"call is {status}"
        case _:
            return ""


_HATCH: Final = (
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path class="line" d="M0 0V6"/></pattern>'
)


def picture(found: Sequence[Row]) -> str:
    """Return the rows as SVG."""
    height = TOP + ROW * len(found) + 34
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">',
            "<title>What a model writes, chunk by chunk, and what a client is told</title>",
            f"<style>{STYLE}</style>",
            f"<defs>{_HATCH}</defs>",
            f'<text class="head" x="{LEFT}" y="30">the model writes</text>',
            f'<text class="head" x="{RIGHT}" y="30">the client is told, at once</text>',
            *(line for number, row in enumerate(found) for line in _row(row, TOP + ROW * number)),
            *_legend(height - 14),
            "</svg>\n",
        ]
    )


def _row(row: Row, y: int) -> Iterator[str]:
    yield f'<path class="rule" d="M{LEFT} {y - 16}H{WIDTH - LEFT}"/>'
    yield from _runs(row.chunk, row.kinds, LEFT, y)
    waiting = sum(row.pending)
    if waiting:
        x, width = LEFT + (len(row.chunk) - waiting) * CHARACTER, waiting * CHARACTER
        yield f'<rect class="hatch" x="{x:g}" y="{y + 16}" width="{width:g}" height="6"/>'
    x = float(RIGHT)
    for kind, text in row.sent:
        yield from _runs(text, (kind,) * len(text), x, y)
        x += len(text) * CHARACTER + 14
    if row.held:
        says = f"{row.held} characters held back" if row.held > 1 else "1 character held back"
        yield f'<text class="says" x="{x:g}" y="{y + 11}">{"+ " if row.sent else ""}{says}</text>'


def _runs(text: str, kinds: Sequence[str], x: float, y: int) -> Iterator[str]:
    """Yield the text with a background in the colour of its kind."""
    begin = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or kinds[end] != kinds[begin]:
            left, width = x + begin * CHARACTER, (end - begin) * CHARACTER
            shown = escape(_shown(text[begin:end]))
            yield f'<rect class="{kinds[begin]}" x="{left:g}" y="{y - 6}" width="{width:g}" height="22"/>'
            yield (
                f'<text x="{left:g}" y="{y + 10}" textLength="{width:g}" lengthAdjust="spacingAndGlyphs" '
                f'xml:space="preserve">{shown}</text>'
            )
            begin = end


def _legend(y: int) -> Iterator[str]:
    x = float(LEFT)
    for kind, says in (
        ("reasoning", "reasoning"),
        ("content", "answer"),
        ("call", "call"),
        ("markup", "markup, which nobody sees"),
        ("hatch", "not decided yet"),
    ):
        height, top = (6, y - 6) if kind == "hatch" else (12, y - 10)
        yield f'<rect class="{kind}" x="{x:g}" y="{top}" width="16" height="{height}"/>'
        yield f'<text class="says" x="{x + 22:g}" y="{y}">{says}</text>'
        x += 44 + len(says) * 6.6


def _shown(text: str) -> str:
    return text.replace("\n", "⏎")


def main() -> None:
    """Draw it."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--write", action="store_true", help="into docs")
    drawn = picture(list(rows()))
    if options.parse_args().write:
        PICTURE.write_text(drawn, encoding="utf-8")
    else:
        print(drawn, end="")


if __name__ == "__main__":
    main()

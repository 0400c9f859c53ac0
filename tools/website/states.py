"""The states of a dialect, as a picture: what ``unspool explain`` lists, drawn.

A box is a state and lists what leads out of it.  All boxes stand in two columns:
texts on the left, calls on the right.  A line between columns goes through the gap,
one inside a column along its outer side, so that no line crosses a box.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

Edges = Mapping[str, Mapping[str, Sequence[str]]]
"""For each state the states that can follow it, and by what."""

COLUMNS: Final = (
    ("content", "reasoning", "answer", "message", "calls", "dropped"),
    ("header", "call", "arguments", "broken", "after_call"),
)
KINDS: Final = {
    "content": "content",
    "answer": "content",
    "message": "content",
    "reasoning": "reasoning",
    "header": "other",
    "dropped": "other",
    "broken": "broken",
}
"""How a state is coloured; all others are calls."""
WIDTH, LINE, HEAD, GAP, MARGIN = 290, 19, 30, 26, 76
CHARACTERS: Final = 33
"""As many fit into a line of a box."""

STYLE: Final = """
  text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1b2430; }
  .label { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
  .state { font-weight: 600; }
  .inside { fill: #ffffff; } .border { fill: none; stroke: #c5ccd6; }
  .edge { fill: none; stroke: #7b8794; stroke-width: 1.2; }
  .point { fill: #7b8794; }
  .content { fill: #dbe8fd; } .reasoning { fill: #eadffb; } .call { fill: #d5f0e1; }
  .broken { fill: #fbdcd9; } .other { fill: #f6e8c8; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .inside { fill: #161b22; } .border { stroke: #414b58; }
    .edge { stroke: #8b98ab; } .point { fill: #8b98ab; }
    .content { fill: #1d3a66; } .reasoning { fill: #412c66; } .call { fill: #174a33; }
    .broken { fill: #642622; } .other { fill: #57430f; }
  }
"""
"""Of this picture and of others; legible on white and on black."""


def edges(diagram: str) -> dict[str, dict[str, list[str]]]:
    """Return the labels of each edge in a diagram of ``state_diagram``, without the start edge."""
    found: dict[str, dict[str, list[str]]] = {"content": {}}
    for source, target, label in re.findall(r"^ +(\S+) --> (\S+?)(?:: (.*))?$", diagram, re.MULTILINE):
        if source != "[*]":
            found.setdefault(source, {}).setdefault(target, []).append(label or "then")
            found.setdefault(target, {})
    return found


@dataclass(frozen=True, slots=True)
class Box:
    """A state, where it is drawn."""

    state: str
    column: int
    top: float
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """Targets, and the lines that lead to each."""

    @property
    def left(self) -> float:
        """The left side."""
        return MARGIN + self.column * (WIDTH + 2 * MARGIN)

    @property
    def height(self) -> float:
        """From top to bottom."""
        return HEAD + sum(LINE * len(lines) for _, lines in self.rows) + (8 if self.rows else 0)

    def row(self, target: str) -> float:
        """Return the y coordinate at which the line to a target starts."""
        at = self.top + HEAD + 4
        for other, lines in self.rows:
            if other == target:
                return at + LINE * len(lines) / 2
            at += LINE * len(lines)
        raise KeyError(target)


def boxes(known: Edges) -> dict[str, Box]:
    """Every state in its place."""
    found: dict[str, Box] = {}
    for column, states in enumerate(COLUMNS):
        top: float = GAP + 14
        for state in (*states, *(known.keys() - {*COLUMNS[0], *COLUMNS[1]} if column else ())):
            if state in known:
                rows = tuple((target, _lines(labels)) for target, labels in known[state].items())
                found[state] = box = Box(state, column, top, rows)
                top += box.height + GAP
    return found


def _lines(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels side by side as far as they fit."""
    lines: list[str] = []
    for label in labels:
        short = label if len(label) <= CHARACTERS else label[: CHARACTERS - 1] + "…"
        if lines and len(lines[-1]) + 3 + len(short) <= CHARACTERS:
            lines[-1] += f"   {short}"
        else:
            lines.append(short)
    return tuple(lines)


_POINT: Final = (
    '<marker id="point" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path class="point" d="M0 0 8 4 0 8z"/></marker>'
)
"""Of an arrow."""


def picture(name: str, diagram: str) -> str:
    """Return a dialect's diagram as SVG."""
    found = boxes(edges(diagram))
    right = max(box.left for box in found.values()) + WIDTH + MARGIN
    bottom = max(box.top + box.height for box in found.values()) + GAP / 2
    drawn = [_drawn(box) for box in found.values()]
    lanes = [0, 0]
    for box in found.values():
        for target, _ in box.rows:
            drawn.append(_line(box, found[target], lanes))
    start = found["content"]
    x = start.left + WIDTH / 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:g} {bottom:g}" width="{right:g}">',
            f"<title>The states of {escape(name)}</title>",
            f"<style>{STYLE}</style>",
            f"<defs>{_POINT}</defs>",
            f'<circle class="point" cx="{x:g}" cy="10" r="5"/>',
            f'<path class="edge" d="M{x:g} 15V{start.top:g}" marker-end="url(#point)"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _drawn(box: Box) -> str:
    at = f'x="{box.left:g}" y="{box.top:g}" width="{WIDTH}" height="{box.height:g}" rx="6"'
    body, x = box.height - HEAD - 6, box.left + 12
    lines = [f'<rect class="{KINDS.get(box.state, "call")}" {at}/>']
    if box.rows:
        start = f"M{box.left:g} {box.top + HEAD:g}h{WIDTH}"
        lines.append(f'<path class="inside" d="{start}v{body:g}q0 6-6 6h{12 - WIDTH}q-6 0-6-6z"/>')
    name = box.state.replace("_", " ")
    lines += [
        f'<rect class="border" {at}/>',
        f'<text class="state" x="{x:g}" y="{box.top + 20:g}">{name}</text>',
    ]
    y = box.top + HEAD + 18
    for label in (label for _, labels in box.rows for label in labels):
        kind = "label" if re.search(r"[<|\[{=`]", label) else "says"
        shown = escape(label)
        lines.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" xml:space="preserve">{shown}</text>')
        y += LINE
    return "\n".join(lines)


def _line(box: Box, target: Box, lanes: list[int]) -> str:
    y, to_y = box.row(target.state), target.top + HEAD / 2
    if box.column != target.column:
        ahead = box.column < target.column
        x = box.left + (WIDTH if ahead else 0)
        to_x = target.left + (0 if ahead else WIDTH)
        middle = (x + to_x) / 2
        path = f"M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"
    else:
        side = 1 if box.column else -1
        x = box.left + (WIDTH if box.column else 0)
        lanes[box.column] += 1
        out = x + side * (14 + 9 * ((lanes[box.column] - 1) % 6))
        bend = 8 if to_y > y else -8
        path = (
            f"M{x:g} {y:g}H{out - side * 8:g}Q{out:g} {y:g} {out:g} {y + bend:g}"
            f"V{to_y - bend:g}Q{out:g} {to_y:g} {out - side * 8:g} {to_y:g}H{x:g}"
        )
    return f'<path class="edge" d="{path}" marker-end="url(#point)"/>'

"""The rooms of the house: who imports whom, held to an order, and drawn.

``python tools/rooms.py`` says what breaks the order and whether the picture is
out of date; ``--write`` draws it anew: ``docs/rooms.svg``, and the table between
two markers in ``docs/architecture.md``.  Nothing of it is written by hand.
Imports are read off the sources, what a room is off the first line of its
docstring; only the order is said here.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

LAYERS: Final[tuple[tuple[str, ...], ...]] = (
    ("_core/values",),
    ("_core/search", "_core/schema", "_core/words"),
    ("_core/syntax", "_core/tokens"),
    ("_core/payload", "dialects"),
    ("_core/machine",),
    ("_core/ends",),
    ("wire", "grammar", "template", "recordings"),
    ("tokens",),
    ("testing",),
    ("_request",),
    ("_models",),
    ("conformance", "integrations", "batch"),
    ("playground", "ray"),
    ("gateway",),
    ("cli",),
    ("unspool",),
)
"""From the ground up.  A module imports from its own room and from layers below, from no other."""

LEVEL: Final = {room: number for number, layer in enumerate(LAYERS) for room in layer}

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "unspool"
PAGE: Final = ROOT / "docs" / "architecture.md"
PICTURE: Final = ROOT / "docs" / "rooms.svg"
BEGIN: Final = "<!-- rooms: written by tools/rooms.py -->"
END: Final = "<!-- /rooms -->"

When: TypeAlias = Literal["always", "late", "types"]
"""With the module; when a function is called; for type checkers only."""


class Import(NamedTuple):
    """One module imports another; both as paths below the package, without a suffix."""

    importer: str
    imported: str
    when: When


@dataclass(frozen=True, slots=True)
class Room:
    """A package, or a module that stands alone."""

    name: str
    what: str
    """The first line of its docstring."""
    lines: int


# -- what there is


def modules(source: Path) -> Iterator[str]:
    """Every module of the package; the package itself is ``__init__``."""
    for path in sorted(source.rglob("*.py")):
        yield path.relative_to(source).with_suffix("").as_posix()


def room_of(module: str) -> str:
    """The room that a module is in; empty for what everybody may import."""
    if module in ("_version", "_core/__init__"):
        return ""
    for layer in LAYERS:
        for room in layer:
            if module == room or module.startswith(f"{room}/"):
                return room
    if "/" in module or module not in ("__init__", "__main__"):
        raise SystemExit(f"{module} is in no room: name its room in LAYERS, tools/rooms.py")
    return "unspool"


def imports(source: Path) -> Iterator[Import]:
    """Every import inside the package."""
    known = set(modules(source))
    for module in sorted(known):
        tree = ast.parse((source / f"{module}.py").read_text(encoding="utf-8"))
        for node, when in _statements(tree, "always"):
            for imported in _targets(node, module, known):
                yield Import(module, imported, when)


def _statements(node: ast.AST, when: When) -> Iterator[tuple[ast.Import | ast.ImportFrom, When]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, when
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _statements(ast.Module(child.body, []), "types")
            yield from _statements(ast.Module(child.orelse, []), when)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(child, "late" if when == "always" else when)
        else:
            yield from _statements(child, when)


def _targets(node: ast.Import | ast.ImportFrom, module: str, known: set[str]) -> Iterator[str]:
    """The modules of the package that a statement imports."""
    if isinstance(node, ast.Import):
        named = [alias.name.split(".") for alias in node.names]
    else:
        base = node.module.split(".") if node.module else []
        if node.level:
            package = ["unspool", *module.split("/")[:-1]]
            base = [*package[: len(package) - node.level + 1], *base]
        named = [[*base, alias.name] for alias in node.names]
    for parts in named:
        if parts[0] == "unspool":
            yield _module("/".join(parts[1:]), known)


def _module(path: str, known: set[str]) -> str:
    """The module that a dotted name is, or is in."""
    while path:
        for found in (path, f"{path}/__init__"):
            if found in known:
                return found
        path = path.rpartition("/")[0]
    return "__init__"


def rooms(source: Path) -> list[Room]:
    """The rooms in their order, the lowest first."""
    lines: dict[str, int] = {}
    for module in modules(source):
        text = (source / f"{module}.py").read_text(encoding="utf-8")
        lines[room_of(module)] = lines.get(room_of(module), 0) + text.count("\n")
    return [Room(name, _what(source, name), lines[name]) for layer in LAYERS for name in layer]


def _what(source: Path, room: str) -> str:
    path = source if room == "unspool" else source / room
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("``", "`")


# -- the order


def violations(found: Iterable[Import]) -> Iterator[str]:
    """What breaks the order."""
    for importer, imported, when in found:
        mine, other = room_of(importer), room_of(imported)
        if mine and other and mine != other and LEVEL[other] >= LEVEL[mine]:
            where = "beside" if LEVEL[other] == LEVEL[mine] else "above"
            kind = {"always": "", "late": " in a function", "types": " for its types"}[when]
            yield f"{importer} imports {imported}{kind}, but {other} is {where} {mine}"


# -- the picture

Edge: TypeAlias = tuple[str, str]


def edges(found: Iterable[Import]) -> dict[Edge, bool]:
    """Which room imports which; true: as soon as it is imported itself.

    Left out is what follows from others: who imports the machine may import
    what the machine imports.  An import for types lets nobody import anything.
    """
    everything: dict[Edge, bool] = {}
    for importer, imported, when in found:
        edge = mine, other = room_of(importer), room_of(imported)
        if mine and other and LEVEL[other] < LEVEL[mine]:  # the rest is said to be wrong
            everything[edge] = everything.get(edge, False) or when == "always"
    at_once = {edge for edge, now in everything.items() if now}
    implied = {True: _implied(at_once), False: _implied(everything)}
    return {edge: now for edge, now in everything.items() if edge not in implied[now]}


def _implied(known: Collection[Edge]) -> set[Edge]:
    """What follows from other edges."""
    below: dict[str, set[str]] = {}
    for room in LEVEL:
        direct = {other for mine, other in known if mine == room}
        below[room] = direct.union(*(below[other] for other in direct))
    return {(mine, far) for mine, other in known for far in below[other]}


COLUMNS: Final = {
    "wire": 0,
    **dict.fromkeys(("conformance", "_core/ends", "_core/machine", "_core/payload"), 1),
    **dict.fromkeys(("_core/syntax", "_core/search"), 1),
    **dict.fromkeys(("unspool", "cli", "testing", "_core/schema", "_core/values"), 2),
    **dict.fromkeys(("gateway", "_request", "template", "dialects", "_core/words"), 3),
    **dict.fromkeys(("_models", "grammar", "_core/tokens"), 4),
}
"""Where in its layer a room is drawn, so that lines find a way between."""
WIDTH, HEIGHT, GAP, ROW = 128, 40, 28, 78
_STYLE: Final = """
  text { font: 13px ui-sans-serif, system-ui, sans-serif; }
  .lines { font-size: 10px; }
  @media (prefers-color-scheme: dark) {
    .room { fill: #1f2733; stroke: #8b98ab; }
    .core { fill: #24344d; }
    .name { fill: #e6edf3; }
    .lines { fill: #9aa7b8; }
    .edge { stroke: #8b98ab; }
    .head { fill: #8b98ab; }
  }
"""


_HEAD: Final = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="head" d="M0 0 8 4 0 8z" fill="#5a6675"/></marker>'
)
"""Of an arrow."""


def _left(room: str) -> float:
    return GAP + COLUMNS.get(room, 0) * (WIDTH + GAP)


def _row(room: str) -> int:
    return len(LAYERS) - 1 - LEVEL[room]


def _top(row: int) -> float:
    return GAP / 2 + row * ROW


def picture(found: Iterable[Room], links: Mapping[Edge, bool]) -> str:
    """The rooms as an SVG, the ground at the bottom."""
    width = max(map(_left, LEVEL)) + WIDTH + GAP
    height = _top(len(LAYERS) - 1) + HEIGHT + GAP / 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">',
            "<title>The rooms of unspool: each imports from those below</title>",
            f"<style>{_STYLE}</style>",
            f"<defs>{_HEAD}</defs>",
            *(_line(mine, other, links) for mine, other in sorted(links)),
            *(_box(room) for room in found),
            "</svg>\n",
        ]
    )


def _box(room: Room) -> str:
    kind, fill = ("room core", "#e3ecfa") if room.name.startswith("_core/") else ("room", "#f4f5f7")
    x, y = _left(room.name), _top(_row(room.name))
    middle = f'x="{x + WIDTH / 2:g}" text-anchor="middle"'
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="#5a6675"/>\n'
        f'<text class="name" {middle} y="{y + 18:g}" fill="#1b2430">{room.name}</text>\n'
        f'<text class="lines" {middle} y="{y + 32:g}" fill="#5a6675">{_rounded(room.lines)}</text>'
    )


def _line(mine: str, other: str, links: Mapping[Edge, bool]) -> str:
    """Down from one box to another, aside between two layers: where no box is in the way."""
    x = _left(mine) + _share(other, [below for above, below in links if above == mine])
    to_x = _left(other) + _share(mine, [above for above, below in links if below == other])
    first, last = _row(mine), _row(other)
    ways = (row for row in range(first, last) if _free(first, row, x) and _free(row, last - 1, to_x))
    aside = next(ways, first)
    bend, after = _top(aside) + HEIGHT, _top(aside + 1) - 9  # the head of the arrow looks down
    middle = (bend + after) / 2
    dashes = "" if links[mine, other] else ' stroke-dasharray="4 3"'
    return (
        f'<path class="edge" d="M{x:g} {_top(first) + HEIGHT:g}V{bend:g}'
        f'C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {after:g}V{_top(last):g}" '
        f'fill="none" stroke="#5a6675"{dashes} marker-end="url(#head)"/>'
    )


def _share(room: str, ends: Iterable[str]) -> float:
    """How far along a box the line to a room is, among all lines on that side."""
    order = sorted(ends, key=lambda end: (_left(end), end))
    return WIDTH * (order.index(room) + 1) / (len(order) + 1)


def _free(above: int, below: int, x: float) -> bool:
    """Whether a line may go down there, past the rows after the one and up to the other."""
    crossed = (room for room in LEVEL if above < _row(room) <= below)
    return not any(0 <= x - _left(room) <= WIDTH for room in crossed)


def _rounded(lines: int) -> str:
    return f"{max(round(lines, -2), 100):,} lines" if lines > 50 else f"{lines} lines"


def table(found: Iterable[Room]) -> str:
    """What is written between the markers."""
    rows = [f"| `{room.name}` | {room.what} | {_rounded(room.lines)} |" for room in found]
    return "\n".join(
        [
            "",
            "![The rooms: each imports from those below, and from no other](rooms.svg)",
            "",
            "| room | what it is | |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


# -- the files


def drawn(source: Path = SOURCE, page: Path = PAGE) -> dict[Path, str]:
    """What the files should hold."""
    found, links = rooms(source), edges(imports(source))
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{page} has no place for the rooms: put {BEGIN} and {END} there")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return {
        page: f"{before}{BEGIN}\n{table(found)}\n{END}{after}",
        PICTURE: picture(found, links),
    }


def outdated() -> Iterator[Path]:
    """Files that show another house; how long the rooms are does not count, for that changes daily."""
    for path, text in drawn().items():
        now = path.read_text(encoding="utf-8") if path.exists() else ""
        if _uncounted(now) != _uncounted(text):
            yield path


def _uncounted(text: str) -> str:
    return re.sub(r"[\d,]+ lines", "lines", text)


def main() -> int:
    """Say what is wrong, or draw."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--write", action="store_true", help="draw the picture anew")
    wrong = list(violations(imports(SOURCE)))
    if options.parse_args().write:
        for path, text in drawn().items():
            path.write_text(text, encoding="utf-8")
    else:
        wrong += [f"{path.relative_to(ROOT)} is out of date: make rooms" for path in outdated()]
    print(*wrong, sep="\n", end="\n" * bool(wrong), file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())

"""Tables of results, for the terminal and for ``docs/speed.md``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from unspool import get_dialect

from .workloads import MARKERS, PIECE, SIZES

Json = dict[str, Any]

PURE: Final = "unspool"
COMPILED: Final = "unspool compiled"
FLOORS: Final = ("floor", "floor, a method")
PEERS: Final = ("vLLM", "SGLang", "transformers", "openai-harmony")
BLOCKS: Final = ("jiter", "ijson", "partial-json-parser")
NATURAL: Final = (
    "openers",
    "brackets",
    "near-markers",
    "near-closers",
    "angle brackets",
    "deep brackets",
    "deep lists",
)
"""Hostile texts that also occur naturally and in which no call starts."""
STREAMS: Final = {
    "typical": "A typical answer: 200 tokens of prose and two calls",
    "100k": "A call with an argument of 100,000 characters; in the last row the reasoning is as long",
    "1M": "The same with 1,000,000 characters",
    "prose": "100,000 characters of prose",
    "64 calls": "64 calls",
}


def find(results: Json, contender: str, dialect: str, scenario: str, *, whole: bool = False) -> Json:
    """Return a cell, empty if the contender does not support the dialect."""
    for cell in results["cells"]:
        key = cell["contender"], cell["dialect"], cell["scenario"], cell["whole"]
        if key == (contender, dialect, scenario, whole):
            return dict(cell)
    return {}


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, aligned for the terminal."""
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = ([head[0].ljust(widths[0]), *map(str.rjust, head[1:], widths[1:])], rule)
    body = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in [*lines, *body])


def _cell(cell: Json) -> str:
    """Format nanoseconds per delta, with remarks."""
    if not cell:
        return ""
    if "skipped" in cell:
        return f"not run: stopped in {cell['skipped']}"
    if "ns" not in cell:
        return (
            f"stopped: {cell['stopped']:.0f} s in one delta"
            if "stopped" in cell
            else "✗ " + cell["verdict"].partition(":")[0]
        )
    cell_text = f"{cell['ns']:,.0f}"
    if cell["done"] < cell["deltas"]:
        cell_text += f" (stopped at {cell['done'] / cell['deltas']:.0%}, there {cell['last']:,.0f})"
    return cell_text + (f" ✗ {cell['verdict']}" if cell.get("verdict") else "")


def streams(results: Json, scenario: str) -> str:
    """Return nanoseconds per delta, with a row per dialect and a column per contender."""
    shown = [*FLOORS, COMPILED, PURE, *PEERS]
    rows = [
        [dialect, *(_cell(find(results, name, dialect, scenario)) for name in shown)]
        for dialect in MARKERS
        if find(results, PURE, dialect, scenario) or find(results, COMPILED, dialect, scenario)
    ]
    return table(["ns per delta", *shown], rows)


def growth(results: Json) -> str:
    """Return the cost at the end of the longest run relative to the cost between 1k and 4k."""

    def grown(name: str, dialect: str) -> str:
        longest = [cell for size in SIZES if (cell := find(results, name, dialect, size)).get("curve")][-1:]
        for cell in longest:
            # Earlier values include the head of the call.
            early = [cost for at, cost in cell["curve"] if 1_000 <= at * PIECE < 4_000]
            if early:
                reached = cell["characters"] * cell["done"] / cell["deltas"]
                return f"{cell['last'] / median(early):.2g} at {_short(reached)}"
        return ""

    shown = [FLOORS[1], COMPILED, PURE, *PEERS]
    rows = [[dialect, *(grown(name, dialect) for name in shown)] for dialect in MARKERS]
    return table(["times the cost at 1k", *shown], rows)


def _short(count: float) -> str:
    return f"{count / 1e6:.1f}M" if count >= 950_000 else f"{count / 1e3:.0f}k"


def blocks(results: Json) -> str:
    """Return the table of JSON parsers on the JSON of one call."""
    rows = [
        [name, *(_cell(find(results, name, "hermes", size)) for size in SIZES)]
        for name in (*BLOCKS, PURE, COMPILED)
    ]
    return table(["ns per delta", *SIZES], rows)


def whole(results: Json) -> str:
    """Return the table of texts of one million characters, parsed in one piece."""

    def speed(cell: Json) -> str:
        if not cell:
            return ""
        if "ns" not in cell:
            return f"stopped after {cell['stopped']:.1f} s" if "stopped" in cell else "✗ " + cell["verdict"]
        cell_text = f"{cell['characters'] / cell['ns'] * 1e3:,.0f} MB/s"
        if "loads" in cell:
            cell_text = f"{cell['ns'] / cell['loads']:.3g} times json.loads, {cell_text}"
        return cell_text + (f" ✗ {cell['verdict']}" if cell.get("verdict") else "")

    shown = [COMPILED, PURE, *PEERS]
    keys = dict.fromkeys((cell["dialect"], cell["scenario"]) for cell in results["cells"] if cell["whole"])
    rows = [
        [", ".join(key), *(speed(find(results, name, *key, whole=True)) for name in shown)] for key in keys
    ]
    return table(["1 MB at once", *shown], rows)


def hostile(results: Json) -> str:
    """Return the cost per character of hostile texts, relative to prose in the same dialect."""

    def ratio(name: str, dialect: str, scenario: str) -> str:
        cell = find(results, name, dialect, scenario)
        return f"{relative(results, name, cell):.1f}" if cell else ""

    keys = dict.fromkeys(
        (cell["dialect"], cell["scenario"])
        for cell in results["cells"]
        if cell["scenario"].startswith("hostile") and not cell["scenario"].endswith("prose")
    )
    rows = [
        [f"{key[0]}: {key[1].removeprefix('hostile: ')}", *(ratio(name, *key) for name in (COMPILED, PURE))]
        for key in keys
    ]
    return table(["times the cost of prose", COMPILED, PURE], rows)


def relative(results: Json, name: str, cell: Json) -> float:
    """Return the cost per character of a hostile text relative to prose."""
    prose = find(results, name, cell["dialect"], "hostile: prose")
    return float(cell["ns"] / prose["ns"])


def resources(results: Json) -> str:
    """Return the table of creation, ids, folding and memory."""
    units: dict[str, tuple[str, Callable[[float], str]]] = {
        "creation": ("creation", lambda value: f"{value:.1f} µs"),
        "tokens": ("a token of Qwen3", lambda value: f"{value:,.0f} ns"),
        "folding": ("folding the events of a delta", lambda value: f"{value:,.0f} ns"),
        "retaining": ("a delta of an argument", lambda value: f"{value:,.0f} ns"),
        "idle": ("an idle parser, hermes", lambda value: f"{value:,.0f} bytes"),
        "peak": ("10 MB argument", lambda value: f"{value / 1e6:.1f} MB"),
    }
    found: dict[str, dict[str, dict[str, float]]] = results["resources"]
    rows = [
        [f"{title}: {key}", *(cell_text(measured[kind][key]) for measured in found.values())]
        for kind, (title, cell_text) in units.items()
        for key in dict.fromkeys(key for measured in found.values() for key in measured[kind])
    ]
    return table(["", *found], rows)


Values: TypeAlias = list[tuple[float, str]]
"""Measured values, each with its dialect and scenario."""


def _faster(results: Json, name: str, scenario: str) -> Values:
    """Return the peers' times relative to unspool's, where their answers are correct."""
    pairs = [
        (find(results, name, dialect, scenario), find(results, peer, dialect, scenario))
        for dialect in MARKERS
        for peer in PEERS
    ]
    return [
        (theirs["ns"] / ours["ns"], f"{theirs['contender']}, {theirs['dialect']}")
        for ours, theirs in pairs
        if ours and theirs.get("ns") and not theirs.get("verdict")
    ]


def _over_floor(results: Json, scenario: str) -> Values:
    cells = [find(results, COMPILED, dialect, scenario) for dialect in MARKERS]
    return [(cell["ns"] / cell["floor"], cell["dialect"]) for cell in cells if cell]


def _goals(results: Json) -> Iterator[tuple[str, Values, float, bool]]:
    """Yield each goal, the values, the bound, and whether the bound is a minimum."""
    for name, times in ((PURE, 2.5), (COMPILED, 10)):
        ratios = _faster(results, name, "typical")
        yield f"{name}: {times} times as fast as any peer, typical answer", ratios, times, True
    for scenario in ("prose", "100k"):
        yield f"{COMPILED}: under 4 times the floor, {scenario}", _over_floor(results, scenario), 4, False
    for name, found in results["resources"].items():
        made = [(value, key) for key, value in found["creation"].items()]
        yield f"{name}: creation under 5 µs", made, 5, False
    for name in (PURE, COMPILED):
        cells = [cell for cell in results["cells"] if cell["contender"] == name]
        speeds: Values = []
        loads: Values = []
        costs: Values = []
        for cell in cells:
            place = f"{cell['dialect']}, {cell['scenario'].removeprefix('hostile: ')}"
            if "loads" in cell:
                if not get_dialect(cell["dialect"]).param:  # arguments in tags are not JSON
                    loads.append((cell["ns"] / cell["loads"], place))
            elif cell["whole"]:
                speeds.append((cell["characters"] / cell["ns"] * 1e3, place))
            elif cell["scenario"].startswith("hostile") and not cell["scenario"].endswith(": prose"):
                costs.append((relative(results, name, cell), place))
        yield f"{name}: 1 MB of prose at 100 MB/s", speeds, 100, True
        yield f"{name}: 1 MB of JSON arguments within 3 times json.loads", loads, 3, False
        named = [(cost, place) for cost, place in costs if place.partition(", ")[2] in NATURAL]
        yield f"{name}: openers, deep brackets, near-markers within 3 times prose", named, 3, False
        yield f"{name}: all hostile texts within 3 times prose", costs, 3, False


def goals(results: Json) -> str:
    """Return the table of the project's goals and the results of this run."""
    rows = []
    for goal, values, bound, at_least in _goals(results):
        if values:
            worst, place = min(values) if at_least else max(values)
            short = sum(value < bound if at_least else value > bound for value, _ in values)
            figure = f"{worst:,.0f}" if worst > 100 else f"{worst:.3g}"
            rows.append([goal, f"{figure}, {place}", f"no: {short} of {len(values)}" if short else "yes"])
    return table(["goal", "the worst", "met"], rows)


def conditions(results: Json) -> str:
    """Describe the time, the machine and the versions."""
    environment = results["conditions"]
    versions = dict.fromkeys(f"{cell['contender']} {cell['version']}" for cell in results["cells"])
    load = " before and ".join(f"{value:.1f}" for value in environment["load"])
    busy = (
        " **The machine was busy: differences below one half mean nothing.**"
        if max(environment["load"]) > 1.5
        else ""
    )
    return (
        f"{environment['date']} UTC, revision {environment['revision']}, {environment['machine']}, "
        f"Python {environment['python']}; "
        f"{', '.join(versions)}. Load {load} after.{busy}"
    ) + "".join(f"\n\n{name}: {why}." for name, why in results["missing"].items())


def sections(results: Json) -> dict[str, str]:
    """Return all tables by the name of their marker in the page."""
    found = {"conditions": conditions(results), "goals": goals(results)}
    found |= {name: streams(results, name) for name in STREAMS}
    found |= {"growth": growth(results), "blocks": blocks(results), "whole": whole(results)}
    return found | {"hostile": hostile(results), "resources": resources(results)}


def text(results: Json) -> str:
    """Return all tables for a terminal."""
    return "\n\n".join(f"{STREAMS.get(name, name)}\n\n{body}" for name, body in sections(results).items())


def rewrite(page: Path, results: Json) -> None:
    """Insert the tables between their markers."""
    put(page, sections(results))


def put(page: Path, tables: Mapping[str, str]) -> None:
    """Insert tables between the markers with their names."""
    content = page.read_text(encoding="utf-8")
    for name, body in tables.items():
        mark = re.compile(rf"(<!-- bench: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        head, *places = mark.split(content)
        if len(places) != 3:
            raise ValueError(
                f"{page.name} needs exactly one place for {name!r}: <!-- bench: {name} --> <!-- end -->"
            )
        opening, closing, rest = places
        content = f"{head}{opening}\n{body}\n\n{closing}{rest}"
    page.write_text(content, encoding="utf-8")

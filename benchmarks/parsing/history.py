"""The record of runs: ratios only, since a figure in nanoseconds says as much about the machine.

Each ratio is the cost of unspool beside something measured in the same process: the
floor on the same deltas, ``json.loads`` of the same arguments, or prose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from .report import COMPILED, PURE, relative

Json = dict[str, Any]

LEAST: Final = 0.1
"""A ratio that moved by less did not move."""


def ratios(results: Json) -> dict[str, list[float]]:
    """Each with its noise: how far apart the two halves of its runs are."""
    found: dict[str, list[float]] = {}
    for cell in results["cells"]:
        name, scenario = cell["contender"], cell["scenario"]
        if name not in (PURE, COMPILED) or "ns" not in cell:
            continue
        if scenario == "hostile: prose":
            continue
        if scenario.startswith("hostile"):
            value = relative(results, name, cell)
        elif cell["whole"]:
            value = cell["ns"] / cell["loads"] if "loads" in cell else 0.0
        else:
            value = cell["ns"] / cell["floor"]
        if value:
            key = f"{name}: {cell['dialect']}, {scenario}{' at once' if cell['whole'] else ''}"
            found[key] = [round(value, 2), round(cell["noise"], 3)]
    return found


def append(file: Path, results: Json) -> None:
    """Add a run."""
    seen = results["conditions"]
    own = [cell for cell in results["cells"] if cell["contender"] in (PURE, COMPILED)]
    line = {
        "date": seen["date"],
        "version": ", ".join(sorted({cell["version"].split()[0] for cell in own})),
        "revision": seen["revision"],
        "machine": f"{seen['machine']}, Python {seen['python']}",
        "load": [round(value, 1) for value in seen["load"]],
        "ratios": ratios(results),
    }
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def compared(before: Json, after: Json) -> list[str]:
    """What moved by more than noise, the worst first."""
    moved: list[tuple[float, str]] = []
    for key in before["ratios"].keys() & after["ratios"].keys():
        (old, old_noise), (new, new_noise) = before["ratios"][key], after["ratios"][key]
        change = new / old - 1
        if abs(change) > max(LEAST, 2 * (old_noise + new_noise)):
            moved.append((change, f"{change:+6.0%}  {key}: {old:g} to {new:g}"))
    fields = "date", "version", "revision", "load"
    lines = ["  ".join(str(run[field]) for field in fields) for run in (before, after)]
    if before["machine"] != after["machine"]:
        lines.append(f"different machines: {before['machine']}; {after['machine']}")
    if max(*before["load"], *after["load"]) > 1.5:
        lines.append("measured on a busy machine: run it again on an idle one before you believe it")
    lines += [f"gone: {key}" for key in sorted(before["ratios"].keys() - after["ratios"])]
    lines += [f"new: {key}" for key in sorted(after["ratios"].keys() - before["ratios"])]
    lines += [line for _, line in sorted(moved, reverse=True)] or ["nothing moved by more than noise"]
    return lines

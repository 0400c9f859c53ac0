"""History of runs as ratios, because absolute times depend on the machine.

Each ratio is unspool's cost divided by another cost of the same process: the floor on the
same deltas, ``json.loads`` of the same arguments, or prose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from .report import COMPILED, PURE, relative

Json = dict[str, Any]

MIN_CHANGE: Final = 0.1
"""Smallest relative change that counts."""


def ratios(results: Json) -> dict[str, list[float]]:
    """Return each ratio with its noise, the difference between the two halves of its runs."""
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
    """Append a run."""
    conditions = results["conditions"]
    own = [cell for cell in results["cells"] if cell["contender"] in (PURE, COMPILED)]
    line = {
        "date": conditions["date"],
        "version": ", ".join(sorted({cell["version"].split()[0] for cell in own})),
        "revision": conditions["revision"],
        "machine": f"{conditions['machine']}, Python {conditions['python']}",
        "load": [round(value, 1) for value in conditions["load"]],
        "ratios": ratios(results),
    }
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def changes(before: Json, after: Json) -> list[str]:
    """Return the ratios that changed by more than the noise, the worst first."""
    moved: list[tuple[float, str]] = []
    for key in before["ratios"].keys() & after["ratios"].keys():
        (old, old_noise), (new, new_noise) = before["ratios"][key], after["ratios"][key]
        change = new / old - 1
        if abs(change) > max(MIN_CHANGE, 2 * (old_noise + new_noise)):
            moved.append((change, f"{change:+6.0%}  {key}: {old:g} to {new:g}"))
    fields = "date", "version", "revision", "load"
    lines = ["  ".join(str(run[field]) for field in fields) for run in (before, after)]
    if before["machine"] != after["machine"]:
        lines.append(f"different machines: {before['machine']}; {after['machine']}")
    if max(*before["load"], *after["load"]) > 1.5:
        lines.append("measured on a busy machine; repeat the run on an idle one")
    lines += [f"gone: {key}" for key in sorted(before["ratios"].keys() - after["ratios"])]
    lines += [f"new: {key}" for key in sorted(after["ratios"].keys() - before["ratios"])]
    lines += [line for _, line in sorted(moved, reverse=True)] or ["nothing changed by more than the noise"]
    return lines

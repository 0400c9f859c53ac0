"""Plots of results: cost per delta against the position in the output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from .report import BLOCKS, COMPILED, PEERS, PURE, find
from .workloads import MARKERS, PIECE, SIZES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Json = dict[str, Any]

_COLOURS: Final = {
    COMPILED: "#D55E00",
    PURE: "#E69F00",
    "vLLM": "#0072B2",
    "SGLang": "#56B4E9",
    "transformers": "#009E73",
    "openai-harmony": "#CC79A7",
    "jiter": "#56B4E9",
    "ijson": "#009E73",
    "partial-json-parser": "#0072B2",
}
"""Colours from the palette by Okabe and Ito, which suits colour-blind readers."""
_OURS: Final = (COMPILED, PURE)
_THEMES: Final = {
    "light": {"ink": "#1f2328", "paper": "#ffffff", "faint": "#d0d7de"},
    "dark": {"ink": "#e6edf3", "paper": "#0d1117", "faint": "#30363d"},
}


def draw(results: Json, folder: Path) -> None:
    """Write every plot, for light and dark pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for theme, colours in _THEMES.items():
        ink, paper, faint = colours["ink"], colours["paper"], colours["faint"]
        look: Any = {
            "figure.facecolor": paper,
            "axes.facecolor": paper,
            "savefig.facecolor": paper,
            "text.color": ink,
            "axes.labelcolor": ink,
            "axes.edgecolor": faint,
            "xtick.color": ink,
            "ytick.color": ink,
            "grid.color": faint,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.linewidth": 0.6,
            "font.size": 10,
            "svg.hashsalt": "unspool",
            "svg.fonttype": "none",
        }
        with mpl.rc_context(look):
            for name, figure in (("dialects", _dialects(results, ink)), ("json", _blocks(results, ink))):
                for kind in ("png", "svg"):
                    # Without a date, the same results give the same file.
                    metadata = {"Date": None} if kind == "svg" else {}
                    figure.savefig(folder / f"{name}-{theme}.{kind}", dpi=150, metadata=metadata)
                plt.close(figure)


def _points(results: Json, contender: str, dialect: str) -> tuple[list[float], list[float], bool]:
    """Return positions and microseconds per delta of the longest run, and whether it was stopped."""
    cells = [find(results, contender, dialect, size) for size in SIZES]
    cells = [cell for cell in cells if cell.get("curve")]
    if not cells:
        return [], [], False
    longest = cells[-1]
    places = [(at * PIECE, cost / 1e3) for at, cost in longest["curve"] if at * PIECE >= 1_000]
    return [at for at, _ in places], [cost for _, cost in places], longest["done"] < longest["deltas"]


def _line(axes: Axes, results: Json, contender: str, dialect: str) -> tuple[float, float] | None:
    """Draw a contender's line and return its end."""
    sizes, costs, stopped = _points(results, contender, dialect)
    if not sizes:
        return None
    width = 2.4 if contender in _OURS else 1.5
    # Where two lines coincide, the first one is visible in the gaps of the second.
    dashes = (0, (4, 2)) if contender == "SGLang" else "solid"
    axes.plot(sizes, costs, color=_COLOURS[contender], linewidth=width, linestyle=dashes, label=contender)
    if stopped:
        axes.plot(sizes[-1:], costs[-1:], marker="x", color=_COLOURS[contender], markersize=6)
    return sizes[-1], costs[-1]


def _floor(axes: Axes, results: Json, dialect: str, ink: str) -> None:
    """Draw the floor, which is one number per size, as a line."""
    cells = [find(results, PURE, dialect, size) for size in SIZES]
    sizes = [size for size, cell in zip(SIZES.values(), cells, strict=True) if cell.get("floor")]
    costs = [cell["floor"] / 1e3 for cell in cells if cell.get("floor")]
    axes.plot(sizes, costs, color=ink, linewidth=1.2, linestyle=(0, (1, 2)), label="floor")


def _scales(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1_000, 1_100_000)
    axes.set_ylim(0.01, 3_000)
    axes.set_xticks([1e3, 1e4, 1e5, 1e6], ["1k", "10k", "100k", "1M"])
    axes.set_yticks([0.01, 0.1, 1, 10, 100, 1_000], ["10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms"])
    axes.minorticks_off()
    axes.tick_params(length=0)


def _dialects(results: Json, ink: str) -> Figure:
    """Draw a panel for each dialect."""
    figure, panels = plt.subplots(2, 5, figsize=(13, 6.6), sharex=True, sharey=True)
    for axes, dialect in zip(panels.flat, MARKERS, strict=True):
        _scales(axes)
        axes.set_title(dialect, loc="left", fontsize=10, fontweight="bold")
        _floor(axes, results, dialect, ink)
        for contender in (*PEERS, PURE, COMPILED):
            _line(axes, results, contender, dialect)
    lines_by_label: dict[str, Any] = {}
    for axes in panels.flat:
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True):
            lines_by_label.setdefault(label, line)
    order = [label for label in (*PEERS, PURE, COMPILED, "floor") if label in lines_by_label]
    handles = [lines_by_label[label] for label in order]
    figure.legend(handles, order, loc="upper left", bbox_to_anchor=(0.005, 0.91), ncols=7, frameon=False)
    figure.text(0.012, 0.955, "Cost of the next four characters", fontsize=13, fontweight="bold")
    figure.text(0.012, 0.92, "CPU time per delta; a cross marks a run stopped at the time limit", fontsize=10)
    figure.supxlabel(
        "characters parsed so far, of the argument or (last panel) of the reasoning", fontsize=10
    )
    figure.tight_layout(rect=(0, 0, 1, 0.865))
    return figure


def _blocks(results: Json, ink: str) -> Figure:
    """Draw JSON parsers on the JSON of one call, with a label on each line."""
    figure, axes = plt.subplots(figsize=(8, 4.6))
    _scales(axes)
    _floor(axes, results, "hermes", ink)
    ends = {"floor": (1_000_000.0, 0.019)}
    for contender in (*BLOCKS, PURE, COMPILED):
        end = _line(axes, results, contender, "hermes")
        ends |= {contender: end} if end else {}
    for name, end in ends.items():
        weight = "bold" if name in _OURS else "normal"
        # Only the line of ijson has room to the left of its end.
        left = name == "ijson"
        axes.annotate(
            name,
            end,
            xytext=(-8 if left else 8, -3),
            textcoords="offset points",
            ha="right" if left else "left",
            fontweight=weight,
            annotation_clip=False,
        )
    axes.set_title("A long JSON string, four characters at a time", loc="left", fontweight="bold")
    axes.set_xlabel("characters of the argument parsed so far")
    axes.set_ylabel("CPU time per delta")
    figure.tight_layout()
    return figure

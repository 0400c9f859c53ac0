"""What each short cut of the core saves: the same build with it and without it, in turns.

    python benchmarks/shortcuts.py [--rounds N]

A short cut stands where this shows that it pays; below a tenth, simplicity wins.  Each is
taken out by replacing what makes it one, which only the interpreter allows; printed is how
many times as long a delta takes without it, by scenario.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from against import Build, mean, ratio
from parsing.workloads import hostile, streamed
from unspool._core.arguments import json_value as json_codec
from unspool._core.arguments.envelope import EnvelopeCodec
from unspool._core.compiler.codec import Codec
from unspool._core.compiler.compiled_dialect import CompiledDialect
from unspool._core.compiler.matcher import MATCH
from unspool._core.compiler.text_states import Entry
from unspool._core.ledger import Ledger
from unspool._core.scan import runs as scan
from unspool._core.scan.markers import MarkerSet, Piece, ValueMarkerSet

SOURCES = Path(__file__).resolve().parent.parent / "src"
SCENARIOS = ("prose", "typical", "10k", "64 calls")


def _put(owner: Any, name: str, value: object) -> None:
    setattr(owner, name, value)


def without_flow() -> None:
    """All text goes through the loop of modes."""
    let_flow = Ledger.let_flow
    _put(Ledger, "let_flow", lambda self, _state, source: let_flow(self, None, source))


def without_source() -> None:
    """All arguments go through the loop of modes."""
    let_flow = Ledger.let_flow
    _put(Ledger, "let_flow", lambda self, state, _source: let_flow(self, state, None))


def without_inner_source() -> None:
    """Arguments in an envelope go through the envelope."""
    _put(EnvelopeCodec, "source", Codec.source)


def without_glance() -> None:
    """Strings between markers are read as the steps of a codec read anything."""
    _put(Codec, "_read_on", lambda _self, _text, _ends: -1)


def without_reaches() -> None:
    """How far a text reaches is found out each time."""

    def reach(self: MarkerSet, text: str) -> int:
        at, literal = self.seek(text, 0, final=False)
        return -1 if literal else len(text) if at < 0 else at

    _put(MarkerSet, "reach", reach)


def without_pieces() -> None:
    """What a piece of a value is in JSON is found out each time."""

    def piece(self: ValueMarkerSet, text: str) -> Piece | None:
        at, literal = self.seek(text, 0, final=False)
        return None if literal else Piece(text if at < 0 else text[:at])

    _put(ValueMarkerSet, "piece", piece)


def without_string_reaches() -> None:
    """How far a JSON string reaches is found out each time."""
    _put(json_codec, "string_reach", lambda text: scan.string_run(text, 0))


def without_first_sight() -> None:
    """Every marker gets its trial, at once."""
    _put(Entry, "first_sight", lambda _self, _ahead, _unescape: MATCH)


def without_sign() -> None:
    """In long texts, too, markers that begin with one character are found by a pattern."""

    def signed(self: MarkerSet, text: str, at: int) -> int:
        match = (self._next or self._compile_next()).search(text, at)
        return -1 if match is None else match.start()

    _put(MarkerSet, "_signed", signed)


def without_refined() -> None:
    """Name and id are found out for each call."""
    _put(CompiledDialect, "refine", CompiledDialect._refine)  # noqa: SLF001 - what it is a short cut for


SHORT_CUTS: dict[str, Callable[[], None]] = {
    name.removeprefix("without_"): taken_out
    for name, taken_out in list(globals().items())
    if name.startswith("without_")
}


def main() -> None:
    """Print what each saves."""
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--rounds", type=int, default=2)
    given = options.parse_args()
    workloads = [workload for workload in streamed() if workload.scenario in SCENARIOS]
    openers = [
        replace(workload, scenario="openers")
        for workload in hostile()
        if workload.scenario.endswith("openers")
    ]
    at_once = [
        replace(workload, scenario="at once", whole=True)
        for workload in workloads
        if workload.scenario == "typical"
    ]
    titles = (*SCENARIOS, "at once", "openers", "worst")
    print(f"{'times as long without':28}" + "".join(f"{name:>10}" for name in titles))
    for name, taken_out in SHORT_CUTS.items():
        usual, without = Build(SOURCES), Build(SOURCES, name)
        seen: dict[str, list[float]] = {}
        for workload in (*workloads, *at_once, *openers):
            before, after = ratio(usual, without, workload, given.rounds)
            seen.setdefault(workload.scenario, []).append(after / before)
        means = [mean(seen[title]) for title in titles[:-1]]
        worst = max(max(ratios) for ratios in seen.values())
        print(f"{name:24}" + "".join(f"{value:12.2f}" for value in (*means, worst)))
        print(f"    {taken_out.__doc__}", flush=True)
        for build in (usual, without):
            build.stop()


if __name__ == "__main__":
    main()

"""Time saved by each short cut of the core: the same build with and without it, in turns.

    python benchmarks/shortcuts.py [--rounds N]

A short cut must save at least a tenth here; otherwise simplicity wins. Each is disabled by
replacing its implementation, which works only in the interpreter. The output is the relative
time per delta without it, by scenario.
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
from unspool._core.arguments.json_envelope import EnvelopeCodec
from unspool._core.compiler.argument_codec_base import Codec
from unspool._core.compiler.matcher import MATCH
from unspool._core.compiler.split_name_and_id import NameForms
from unspool._core.compiler.states_outside_calls import Entry
from unspool._core.machine import Machine
from unspool._core.scan import character_runs as scan
from unspool._core.scan.markers import MarkerSet, ValueMarkerSet, ValuePiece

SOURCES = Path(__file__).resolve().parent.parent / "src"
SCENARIOS = ("prose", "typical", "10k", "64 calls")


def _put(owner: Any, name: str, value: object) -> None:
    setattr(owner, name, value)


def without_flow() -> None:
    """Send all text through the general loop over modes."""
    choose = Machine._choose_fast_path  # noqa: SLF001 - the short cut

    def choose_only_codec(self: Machine) -> None:
        choose(self)
        self._fast_channel = None

    _put(Machine, "_choose_fast_path", choose_only_codec)


def without_source() -> None:
    """Send all arguments through the general loop over modes."""
    choose = Machine._choose_fast_path  # noqa: SLF001 - the short cut

    def choose_only_text(self: Machine) -> None:
        choose(self)
        self._fast_codec = None

    _put(Machine, "_choose_fast_path", choose_only_text)


def without_inner_source() -> None:
    """Send arguments in an envelope through the envelope's parser."""
    _put(EnvelopeCodec, "source", Codec.source)


def without_glance() -> None:
    """Parse strings between markers with the codec's general steps."""
    _put(Codec, "_read_string_piece", lambda _self, _text, _ends: -1)


def without_reaches() -> None:
    """Compute the end of each text run again instead of caching it."""

    def reach(self: MarkerSet, text: str) -> int:
        at, literal = self.seek(text, 0, final=False)
        return -1 if literal else len(text) if at < 0 else at

    _put(MarkerSet, "reach", reach)


def without_pieces() -> None:
    """Encode each piece of a value as JSON again instead of caching it."""

    def piece(self: ValueMarkerSet, text: str) -> ValuePiece | None:
        at, literal = self.seek(text, 0, final=False)
        return None if literal else ValuePiece(text if at < 0 else text[:at])

    _put(ValueMarkerSet, "piece", piece)


def without_string_reaches() -> None:
    """Compute the end of each JSON string again instead of caching it."""
    _put(json_codec, "string_reach", lambda text: scan.string_run(text, 0))


def without_quick_match() -> None:
    """Create a matcher for every marker, without the quick check."""
    _put(Entry, "quick_match", lambda _self, _ahead, _unescape: MATCH)


def without_sign() -> None:
    """Search long texts with a pattern even if all markers start with the same character."""

    def signed(self: MarkerSet, text: str, at: int) -> int:
        match = (self._next or self._compile_next()).search(text, at)
        return -1 if match is None else match.start()

    _put(MarkerSet, "_find_by_first_character", signed)


def without_refined() -> None:
    """Derive the name and id of each call again instead of caching them."""
    _put(NameForms, "refine", NameForms._refine)  # noqa: SLF001 - the uncached method


SHORT_CUTS: dict[str, Callable[[], None]] = {
    name.removeprefix("without_"): taken_out
    for name, taken_out in list(globals().items())
    if name.startswith("without_")
}


def main() -> None:
    """Measure and print the savings."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
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
    print(f"{'relative time without':28}" + "".join(f"{name:>10}" for name in titles))
    for name, taken_out in SHORT_CUTS.items():
        usual, without = Build(SOURCES), Build(SOURCES, name)
        seen: dict[str, list[float]] = {}
        for workload in (*workloads, *at_once, *openers):
            before, after = ratio(usual, without, workload, options.rounds)
            seen.setdefault(workload.scenario, []).append(after / before)
        means = [mean(seen[title]) for title in titles[:-1]]
        worst = max(max(ratios) for ratios in seen.values())
        print(f"{name:24}" + "".join(f"{value:12.2f}" for value in (*means, worst)))
        print(f"    {taken_out.__doc__}", flush=True)
        for build in (usual, without):
            build.stop()


if __name__ == "__main__":
    main()

"""The benchmarks measure what they claim; speed itself is not tested here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import flat
from parsing import history, measure, report, workloads
from parsing.contenders import Reader
from parsing.workloads import MARKERS, PIECE, Answer, Workload
from paths import ROOT
from unspool import Parser, list_dialects, parse

PAGE = ROOT / "docs" / "speed.md"
AT_ONCE = 1e-9
"""A time limit that has passed at the first look at the clock."""


@pytest.fixture(scope="module", autouse=True)
def _once() -> Iterator[None]:
    """Run once instead of taking the best of two, where no figure is used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "RUNS", 2)
        yield


@cache
def _streamed() -> list[Workload]:
    return [workload for workload in workloads.streamed() if workload.scenario not in ("100k", "1M")]


def _typical() -> list[Workload]:
    return [workload for workload in _streamed() if workload.scenario == "typical"]


def _cells(name: str, given_workloads: list[Workload], limit: float = 60.0) -> list[dict[str, Any]]:
    return [{"contender": name, **cell} for cell in measure.cells(name, iter(given_workloads), limit)]


@cache
@cache
def _results() -> dict[str, Any]:
    whole = [workload for workload in workloads.whole() if workload.dialect == "hermes"]
    texts = [workload for workload in workloads.hostile() if workload.dialect == "harmony"]
    hostile = [replace(workload, text=workload.text[:2_000]) for workload in texts]
    streamed = [workload for workload in _streamed() if workload.dialect == "hermes"]
    cells = [cell for name in ("floor", "unspool") for cell in _cells(name, [*streamed, *whole, *hostile])]
    conditions = {"date": "", "revision": "", "machine": "", "python": "", "load": [0.0, 0.0]}
    kinds = ("creation", "tokens", "folding", "retaining", "idle", "peak")
    resources = {kind: {"hermes": 1.0} for kind in kinds}
    return {
        "conditions": conditions,
        "cells": cells,
        "missing": {"vLLM": "not installed"},
        "resources": {report.PURE: resources},
    }


@pytest.mark.parametrize("workload", _streamed(), ids=str)
def test_workload_text_has_the_expected_message(workload: Workload) -> None:
    dialect = "hermes" if workload.dialect == "reasoning" else workload.dialect
    message = parse(workload.text, dialect, tools=workloads.TOOLS)
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    assert not message.diagnostics
    assert workload.expected is not None
    assert not Answer(message.content or "", message.reasoning or "", calls).differs(workload.expected)


@pytest.mark.parametrize("workload", _streamed(), ids=str)
def test_deltas_are_small_and_markers_whole(workload: Workload) -> None:
    deltas = workload.deltas()
    assert "".join(deltas) == workload.text
    assert all(delta in workload.markers or 0 < len(delta) <= PIECE for delta in deltas)
    for marker in workload.markers:
        assert deltas.count(marker) == workload.text.count(marker)


def test_long_texts_have_their_length() -> None:
    for workload in _streamed():
        if workload.scenario in workloads.SIZES:
            assert workload.expected is not None
            text = workload.expected.reasoning or json.loads(workload.expected.calls[0][1])["content"]
            assert len(text) == workloads.SIZES[workload.scenario]


def test_workloads_round_trip_through_a_file(tmp_path: Path) -> None:
    file = tmp_path / "workloads"
    hostile = next(workloads.hostile())
    workloads.write(file, [*_typical(), hostile])
    for stored, made in zip(workloads.read(file), [*_typical(), hostile], strict=True):
        assert (stored.text, stored.markers, stored.whole) == (made.text, made.markers, made.whole)
        assert (stored.expected is None) == (made.expected is None)
        assert stored.expected is None or not stored.expected.differs(made.expected or Answer())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Answer("Hi.", "Hm.", [("now", '{"a": 1}')]), ""),
        (Answer(" Hi.\n", "Hm.\n", [("now", '{"a":1}')]), ""),
        (Answer("Hi.", "Hm.", []), "0 of 1 calls"),
        (Answer("Hi.", "Hm.", [("now", '{"a": 2}')]), "wrong arguments"),
        (Answer("Hi.", "Hm.", [("then", '{"a": 1}')]), "wrong arguments"),
        (Answer("Hi.", "Hm.", [("now", '{"a": ')]), "arguments are not JSON"),
        (Answer("Hi", "Hm.", [("now", '{"a": 1}')]), "wrong content"),
        (Answer("Hi.", "", [("now", '{"a": 1}')]), "wrong reasoning"),
    ],
)
def test_wrong_result_is_detected(wrong: Answer, why: str) -> None:
    assert wrong.differs(Answer("Hi.", "Hm.", [("now", '{"a": 1}')])) == why


def test_unspool_reads_every_workload() -> None:
    cells = _cells("unspool", _typical())
    assert len(cells) == len(_typical())
    for cell in cells:
        assert cell["verdict"] == ""
        assert cell["done"] == cell["deltas"]
        assert cell["ns"] > 0 < cell["floor"]


def test_parser_that_loses_text_is_marked() -> None:
    workload = Workload("hermes", "typical", "some prose", Answer("some prose"))
    kept: list[str] = []
    reader = Reader(
        start=lambda: (kept.append, lambda: "".join(kept)[:-1]), answer=lambda results: Answer(results[-1])
    )
    assert measure.stream(reader, workload, 60.0)["verdict"] == "wrong content"


def test_slow_parser_is_stopped_and_larger_sizes_skipped() -> None:
    hermes = [workload for workload in _streamed() if workload.dialect == "hermes"]
    cells = {cell["scenario"]: cell for cell in _cells("unspool", hermes, AT_ONCE)}
    assert 0 < cells["1k"]["done"] < cells["1k"]["deltas"]
    assert "verdict" not in cells["1k"]
    assert cells["1k"]["ns"] > 0
    assert cells["10k"]["skipped"] == "1k"
    assert cells["64 calls"]["done"] > 0


def test_cost_curve_counts_every_delta_once() -> None:
    run = measure.Run([(64, 64e-9), (64, 128e-9), (128, 512e-9), (256, 256e-9)], 1.0)
    assert run.parsed == 512
    assert run.curve() == [(32, 1.0), (96, 2.0), (192, 4.0), (384, 1.0)]


def test_every_table_has_a_place_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    report.rewrite(page, _results())
    once = page.read_text(encoding="utf-8")
    for body in report.sections(_results()).values():
        assert body in once
    report.rewrite(page, _results())
    assert page.read_text(encoding="utf-8") == once


def test_page_without_the_place_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n", encoding="utf-8")
    with pytest.raises(ValueError, match="conditions"):
        report.rewrite(page, _results())


def test_tables_show_wrong_stopped_and_missing() -> None:
    results = _results()
    cell = report.find(results, "unspool", "hermes", "typical")
    stopped = cell | {"contender": "vLLM", "done": 10, "deltas": 100, "ns": 5_000.0, "last": 9_000.0}
    stopped.pop("verdict")
    wrong = cell | {"contender": "SGLang", "verdict": "0 of 2 calls"}
    shown = report.streams(results | {"cells": [*results["cells"], stopped, wrong]}, "typical")
    assert "5,000 (stopped at 10%, there 9,000)" in shown
    assert "✗ 0 of 2 calls" in shown
    assert "vLLM: not installed" in report.conditions(results)


def _run(**ratios: list[float]) -> dict[str, Any]:
    return {"date": "", "version": "", "revision": "", "machine": "", "load": [0, 0], "ratios": ratios}


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ([10.0, 0.0], [20.0, 0.0], "+100%"),
        ([10.0, 0.0], [5.0, 0.0], "-50%"),
        ([10.0, 0.0], [10.5, 0.0], ""),
        ([10.0, 0.2], [15.0, 0.2], ""),
    ],
)
def test_history_separates_change_from_noise(before: list[float], after: list[float], moved: str) -> None:
    line = history.changes(_run(a=before), _run(a=after))[-1]
    assert line.strip().startswith(moved or "nothing changed")


def test_history_keeps_our_own_ratios(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    history.append(file, _results())
    history.append(file, _results())
    first, second = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    assert first == second
    assert set(first["ratios"]) == {key for key in first["ratios"] if key.startswith("unspool: ")}
    ratio, _ = first["ratios"]["unspool: hermes, typical"]
    cell = report.find(_results(), "unspool", "hermes", "typical")
    assert ratio == round(cell["ns"] / cell["floor"], 2)


def test_plots_are_drawn_for_both_themes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from parsing import plots

    plots.draw(_results(), tmp_path)
    names = {f"{name}-{theme}.{kind}" for name in ("dialects", "json") for theme in ("light", "dark")
             for kind in ("png", "svg")}  # fmt: skip
    assert {file.name for file in tmp_path.iterdir()} == names
    for file in tmp_path.glob("*.svg"):
        assert "vLLM" not in file.read_text(encoding="utf-8")
        assert "unspool" in file.read_text(encoding="utf-8")


MODES = {"prose": "text", "reasoning": "text", "string": "payload", "nested": "payload", "calls": "payload"}


@pytest.mark.slow
@pytest.mark.parametrize("state", MODES)
@pytest.mark.parametrize("dialect", [dialect.name for dialect in list_dialects()])
def test_state_workload_is_in_that_state(dialect: str, state: str) -> None:
    """Growth is measured in the intended state."""
    if flat.texts(dialect, state, (300, 3_000)) is None:
        pytest.skip("the dialect does not have this state")
    head, body = flat.STATES[state](dialect, 3_000)
    parser = Parser(dialect, tools=workloads.TOOLS)
    parser.feed(head + flat.BEGIN)
    assert parser.mode == MODES[state]
    assert 2_000 < len(body) < 15_000


def test_every_dialect_has_the_common_states() -> None:
    for dialect in list_dialects():
        assert flat.texts(dialect.name, "prose", (300,)) is not None
    assert {*MARKERS} - {"reasoning"} <= {dialect.name for dialect in list_dialects()}


def test_deltas_start_anywhere_in_code_arguments() -> None:
    for text in (workloads.CODE, json.dumps(workloads.CODE, ensure_ascii=False)[1:-1]):
        assert {at % len(text) for at in range(0, len(text) * workloads.PIECE, workloads.PIECE)} == set(
            range(len(text))
        )

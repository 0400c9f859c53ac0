"""The conformance report: numbers match the results, every case is listed, text never becomes markup."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_suite import LosesCalls

from unspool.cli import main
from unspool.conformance import InProcess, Request, Unsupported
from unspool.conformance import report as report_module
from unspool.conformance._compare import CLASSES
from unspool.conformance.parser_interface import UnspoolSession, unspool_adapter
from unspool.conformance.report import EVERY, STATUSES, Tally, _cuts, html_report, status
from unspool.conformance.runner import ALL_CHUNKINGS, BATCH, DEFAULT_CHUNKINGS, run_suite, to_json

SCRIPT = Path(report_module.__file__).with_name("report.js")
NODE = shutil.which("node") or ""
BROWSER = shutil.which("chromium") or ""
NASTY = "</script><img src=x onerror=\"alert('no')\"><!--<script> \x00\u202e\udc80 &amp;"


class Moody(UnspoolSession):
    """A parser that raises, refuses, and returns text with HTML in it."""

    def __init__(self, request: Request) -> None:
        if request.tool_choice == "none":
            raise Unsupported(f"no {NASTY}")
        super().__init__(request)

    def feed(self, chunk: str) -> Any:
        if "Oslo" in chunk or "ping" in chunk:
            raise ValueError(NASTY)
        return [{"content": chunk + NASTY}]


@cache
def make_results() -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "dialects": ["hermes", "qwen3_coder", "xlam"],
        "scenarios": ["order", "unknown", "malformed", "truncation/after*"],
        "chunkings": (BATCH, "tokens"),
    }
    reports = [
        run_suite(unspool_adapter(), **chosen),
        run_suite(InProcess(LosesCalls, "lossy", "2", ["hermes", "xlam"]), **chosen),
        run_suite(InProcess(Moody, "moody", "3", ["hermes"]), **chosen, minimise=False),
    ]
    results: dict[str, Any] = json.loads(json.dumps(to_json(reports)))
    return results


@pytest.fixture
def results() -> dict[str, Any]:
    return deepcopy(make_results())


class Page(HTMLParser):
    """The page as a browser without scripts sees it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.blocks: dict[str, str] = {}
        self.scripts: list[str] = []
        self.cells: dict[str, tuple[str, str, str]] = {}
        self.rows: dict[tuple[str, str], str] = {}
        self._dialect: str | None = None
        self._row: tuple[str, str] | None = None
        self._link: dict[str, str | None] | None = None
        self._script: dict[str, str | None] | None = None
        self._summary = False
        self.summary: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "table":
            self._summary = attributes.get("class") == "summary"
        if tag == "tr" and self._summary:
            self.summary.append([])
        if tag in ("td", "th") and self._summary:
            self.summary[-1].append("")
        if tag == "tbody":
            self._dialect = attributes.get("data-dialect")
        if tag == "tr" and "data-parser" in attributes:
            self._row = (str(attributes["data-parser"]), str(self._dialect))
            self.rows[self._row] = ""
        self._link = attributes if tag == "a" and self._row else None
        self._script = attributes if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._link = self._link if tag != "a" else None
        if tag == "tr":
            self._row = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            if self._script.get("type") is None:
                self.scripts.append(data)
            else:
                self.blocks[str(self._script["id"])] = data
            self._script = None
            return
        self.texts.append(data)
        if self._summary and self.summary and self.summary[-1]:
            self.summary[-1][-1] += data.strip()
        if self._row:
            self.rows[self._row] += data
        if self._link:
            link = self._link
            self.cells[str(link["href"])] = (str(link["class"]), data, str(link["aria-label"]))

    def block(self, name: str) -> Any:
        return json.loads(gzip.decompress(base64.b64decode(self.blocks[name])))


def address(*steps: str) -> str:
    return "#/" + "/".join(quote(step, safe="!*'()") for step in steps)


def expected_counts(results: dict[str, Any]) -> Iterator[tuple[str, Counter[str]]]:
    """Compute the counts of every cell from the results alone."""
    names = [[item["name"] for item in results[key]] for key in ("parsers", "dialects", "groups")]
    for parser, dialect, group in product(names[0], [EVERY, *names[1]], [EVERY, *names[2]]):
        counts: Counter[str] = Counter()
        for cell in results["cells"]:
            if (
                cell["parser"] == parser
                and dialect in (EVERY, cell["dialect"])
                and group in (EVERY, cell["group"])
            ):
                counts["passed"] += cell["passed"]
        for entry in results["results"]:
            if (
                entry["parser"] == parser
                and dialect in (EVERY, entry["dialect"])
                and group in (EVERY, entry["group"])
                and entry["status"] != "passed"
            ):
                counts[status(entry)] += 1
        yield address(parser, dialect, group), counts


# -- numbers


def test_cells_agree_with_the_results(results: dict[str, Any]) -> None:
    page = Page(html_report(results))
    words = {"known": "known faults", "policy": "differ by policy", "unsupported": "not supported"}
    seen = set()
    for where, counts in expected_counts(results):
        if not counts.total():
            assert where not in page.cells
            continue
        kind, text, label = page.cells[where]
        seen.add(where)
        labelled_counts = {
            word: int(count) for count, word in re.findall(r"(\d+) ([a-z ]+)", label.rpartition(": ")[2])
        }
        assert labelled_counts == {words.get(name, name): count for name, count in counts.items() if count}
        faults = counts["failed"] + counts["known"]
        cases = counts.total() - counts["unsupported"]
        assert kind.split()[0] == (
            "fail" if faults else "policy" if counts["policy"] else "pass" if cases else "none"
        )
        assert text == (
            f"✗ {faults}/{cases}"
            if faults
            else f"≈ {counts['policy']}/{cases}"
            if counts["policy"]
            else f"✓ {cases}"
            if cases
            else "n/s"
        )
    assert seen == page.cells.keys()
    kinds = {kind.split()[0] for kind, _, _ in page.cells.values()}
    assert kinds >= {"fail", "policy", "pass"}  # otherwise the sample tests little


def test_summary_adds_up(results: dict[str, Any]) -> None:
    head, *rows = Page(html_report(results)).summary
    totals = dict(expected_counts(results))
    assert len(rows) == 3
    for parser, row in zip(results["parsers"], rows, strict=True):
        summary = dict(zip(head, row, strict=True))
        counts = totals[address(parser["name"], EVERY, EVERY)]
        assert summary["parser"] == parser["name"] + parser["version"]
        assert int(summary["cases"]) == counts.total() - counts["unsupported"]
        for column, name in (
            ("passed", "passed"),
            ("by policy", "policy"),
            ("failed", "failed"),
            ("known faults", "known"),
            ("not supported", "unsupported"),
        ):
            assert int(summary[column]) == counts[name]


def test_page_states_what_was_run(results: dict[str, Any]) -> None:
    text = " ".join(Page(html_report(results)).texts)
    for wanted in (results["unspool"], results["created"], "lossy 2", "batch, tokens"):
        assert wanted in text
    total = sum(cell["passed"] + cell["failed"] + cell["xfailed"] for cell in results["cells"])
    assert f"on {total:,} cases" in text
    assert "--unspool --command" in text


# -- details of every case


def test_every_entry_can_be_opened(results: dict[str, Any]) -> None:
    page = Page(html_report(results))
    index = page.block("index")
    entries = []
    for parser, dialect, group, scenario, difference, state in index["entries"]:
        name = index["parsers"][parser]["name"]
        of = index["dialects"][dialect]["name"]
        assert address(name, of, index["groups"][group]["name"]) in page.cells
        entries.append(
            (name, of, index["scenarios"][scenario], index["classes"][difference], STATUSES[state])
        )
    assert entries == [
        (entry["parser"], entry["dialect"], entry["scenario"], entry["class"], status(entry))
        for entry in results["results"]
    ]
    for entry in results["results"]:
        details = page.block(f"data-{entry['dialect']}")
        case = results["cases"][entry["case"]]
        shown = details["cases"][entry["scenario"]]
        assert details["tools"][shown.pop("tools")] == case["tools"]
        assert shown.items() <= case.items()
        assert all(not case[key] for key in case.keys() - shown.keys() - {"tools"})
        result = details["results"][f"{entry['parser']}/{entry['scenario']}"]
        for key in ("actual", "chunking", "chunkings", "error", "detail", "reason"):
            assert result[key] == entry[key]
        assert pieces(case["model_output"], result["chunks"]) == entry["chunks"]
        minimal = result.get("minimal")
        assert (minimal and minimal["output"]) == (entry["minimal"] and entry["minimal"]["output"])
        if minimal:
            assert pieces(minimal["output"], minimal["chunks"]) == entry["minimal"]["chunks"]
    assert {entry["class"] for entry in results["results"]} >= {"match", "error", "loss", "leak"}
    assert any(entry["minimal"] for entry in results["results"])


def pieces(text: str, chunks: list[Any]) -> list[str]:
    if any(isinstance(chunk, str) for chunk in chunks):
        return chunks
    ends = [sum(chunks[: number + 1]) for number in range(len(chunks))]
    return [text[end - length : end] for length, end in zip(chunks, ends, strict=True)]


@given(st.lists(st.text(max_size=4)), st.text(max_size=4))
def test_chunks_round_trip(chunks: list[str], other: str) -> None:
    text = "".join(chunks)
    assert pieces(text, _cuts(chunks, text)) == chunks
    assert pieces(other, _cuts(chunks, other)) == chunks


def test_inapplicable_scenarios_have_reasons(results: dict[str, Any]) -> None:
    page = Page(html_report(results))
    assert results["inapplicable"]
    for one in results["inapplicable"]:
        unable = page.block(f"data-{one['dialect']}")["inapplicable"]
        assert [one["group"], one["scenario"], one["reason"]] in unable


# -- fairness


def test_unsupported_dialect_is_not_a_failure(results: dict[str, Any]) -> None:
    results["parsers"][1]["dialects"]["qwen3_coder"] = {}
    page = Page(html_report(results))
    assert "not supported by this parser" in page.rows["moody", "xlam"]
    assert page.rows["lossy", "qwen3_coder"].endswith("not run")
    for cell in page.cells:
        assert not cell.startswith((address("moody", "xlam"), address("lossy", "qwen3_coder")))


def test_policy_difference_is_neither_fault_nor_known_fault(results: dict[str, Any]) -> None:
    entry = next(one for one in results["results"] if one["status"] == "failed")
    where = address(entry["parser"], entry["dialect"], entry["group"])
    cell = next(c for c in results["cells"] if all(c[k] == entry[k] for k in ("parser", "dialect", "group")))
    cell.update(passed=3, failed=0, xfailed=1, unsupported=0)
    results["results"] = [entry]
    entry.update(status="xfailed", reason="text next to calls is dropped", defect=False)
    assert Page(html_report(results)).cells[where][:2] == ("policy", "≈ 1/4")
    details = Page(html_report(results)).block(f"data-{entry['dialect']}")["results"]
    assert [one["reason"] for one in details.values()] == ["text next to calls is dropped"]
    entry.update(defect=True)
    kind, text, label = Page(html_report(results)).cells[where]
    assert (kind.split()[0], text) == ("fail", "✗ 1/4")
    assert "1 known faults" in label


def test_runner_separates_known_faults_from_policies() -> None:
    entries = [entry for entry in make_results()["results"] if entry["status"] == "xfailed"]
    assert entries
    assert {entry["parser"] for entry in entries if entry["defect"]} <= {"unspool"}


def test_every_class_is_explained() -> None:
    page = html_report(make_results())
    assert re.findall(r"<dt>(\w+)</dt>", page) == list(CLASSES[1:])


# -- escaping in the single file


def test_page_loads_nothing_external(results: dict[str, Any]) -> None:
    text = html_report(results)
    page = Page(text)
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(page.tags)
    for name, value in page.attributes:
        assert name not in ("src", "srcset", "action", "data")
        assert name != "href" or value.startswith("#/")
        assert not name.startswith("on")
    assert not re.search(r"url\(|@import|https?:|\bfetch\(|XMLHttpRequest|innerHTML|insertAdjacent", text)


def test_content_policy_allows_only_the_page_script(results: dict[str, Any]) -> None:
    page = Page(html_report(results))
    (script,) = page.scripts
    policy = next(value for name, value in page.attributes if value.startswith("default-src"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';")


def test_hostile_text_stays_text(results: dict[str, Any]) -> None:
    page = Page(html_report(results))
    assert "img" not in page.tags
    moody = page.block("data-hermes")["results"]
    assert any(NASTY in one["error"] for one in moody.values())
    assert any(NASTY in one["reason"] for one in moody.values())
    assert any(NASTY in str(one["actual"] and one["actual"]["content"]) for one in moody.values())


@given(st.text(st.sampled_from("<>&\"'/!-`= scriptimg\n\\{}$%#;]é"), max_size=40))
def test_page_structure_does_not_depend_on_texts(text: str) -> None:
    other = deepcopy(small_results())
    other["parsers"][0]["version"] = text
    other["dialects"][0]["models"] = text
    other["groups"][0]["title"] = text
    for entry in other["results"]:
        entry.update(error=text, detail=text, reason=text)
    for case in other["cases"].values():
        case.update(model_output=text, rule=text)
    first, second = plain_page(), Page(html_report(other))
    assert first.tags == second.tags
    assert [name for name, _ in first.attributes] == [name for name, _ in second.attributes]
    assert text in "".join(second.texts)
    assert first.blocks.keys() == second.blocks.keys()


@cache
def small_results() -> dict[str, Any]:
    """Return two results, so that rendering the page is fast."""
    results = make_results()
    entries = [entry for entry in results["results"] if entry["parser"] == "moody"][:2]
    return {
        **results,
        "parsers": [parser for parser in results["parsers"] if parser["name"] == "moody"],
        "cells": [cell for cell in results["cells"] if cell["parser"] == "moody"],
        "results": entries,
        "cases": {entry["case"]: results["cases"][entry["case"]] for entry in entries},
        "inapplicable": [],
    }


@cache
def plain_page() -> Page:
    return Page(html_report(small_results()))


def test_text_that_is_not_utf8_can_be_written(results: dict[str, Any]) -> None:
    assert any("\udc80" in json.dumps(entry, ensure_ascii=False) for entry in results["results"])
    assert html_report(results).encode("utf-8")


# -- the report command


def test_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, results_file = tmp_path / "report.html", tmp_path / "results.json"
    chosen = ["--dialect", "hermes", "--scenario", "duplicates", "--chunking", "whole"]
    assert main(["conformance", "run", *chosen, "--html", str(page), "--json", str(results_file)]) == 0
    first = page.read_text("utf-8")
    assert address("unspool", "hermes", "duplicates") in Page(first).cells
    assert main(["conformance", "report", str(results_file), "--html", str(page)]) == 0
    assert page.read_text("utf-8") == first


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], DEFAULT_CHUNKINGS),
        (["--chunking", "whole", "--chunking", "two"], ("whole", "two")),
        (["--chunking", "all"], ALL_CHUNKINGS),
    ],
)
def test_command_runs_the_chosen_chunkings(
    options: list[str], expected: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "results.json"
    chosen = ["--dialect", "hermes", "--scenario", "duplicates", *options]
    assert main(["conformance", "run", *chosen, "--json", str(file)]) == 0
    written = json.loads(file.read_text("utf-8"))
    assert written["chunkings"] == list(expected)
    assert {name for result in written["results"] for name in result["chunkings"]} == set(expected)


def test_command_refuses_unknown_chunkings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "run", "--dialect", "hermes", "--chunking", "halves"]) == 2
    assert "unknown chunking 'halves'; choose from batch, whole" in capsys.readouterr().err


# -- the page's script

HARNESS = """
const fs = require("fs");
const element = () => ({ setAttribute() {}, addEventListener() {}, append() {} });
const document = { getElementById() { return null; }, querySelector: element, createElement: element };
const source = fs.readFileSync(process.argv[1], "utf-8");
const page = new Function("document", `${source}; return { %s };`)(document);
const given = JSON.parse(fs.readFileSync(0, "utf-8"));
console.log(JSON.stringify((%s)(page, given)));
"""


def run_script(names: str, function: str, arguments: object) -> Any:
    """Call a function of the page's script with JSON arguments."""
    done = subprocess.run(
        [NODE, "-e", HARNESS % (names, function), str(SCRIPT)],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    return json.loads(done.stdout)


needs_node = pytest.mark.skipif(not NODE, reason="node is not installed")


@needs_node
def test_script_renders_cells_like_the_page() -> None:
    tallies = [Tally(*counts) for counts in product((0, 1, 7, 40), (0, 1, 5), (0, 2), (0, 1, 9), (0, 1))]
    arguments = [{"faults": t.faults, "policy": t.policy, "cases": t.cases} for t in tallies]
    painted = run_script("look", "(page, given) => given.map(page.look)", arguments)
    assert painted == [list(tally.appearance()) for tally in tallies]


@needs_node
def test_script_knows_every_status() -> None:
    for names in ("SIGNS", "LOOKS", "WORDS"):
        assert run_script(names, f"(page) => Object.keys(page.{names}).sort()", None) == sorted(STATUSES)


@needs_node
def test_script_cuts_like_the_runner() -> None:
    chunks = ["a", "", "é😀", "\n", "漢", "", "🏳️‍🌈x"]
    text = "".join(chunks)
    arguments = [[text, _cuts(chunks, text)], ["shortened", _cuts(chunks, "shortened")]]
    assert (
        run_script("chunksOf", "(page, g) => g.map((one) => page.chunksOf(...one))", arguments)
        == [chunks] * 2
    )


@needs_node
def test_script_shows_every_event_once_in_order(results: dict[str, Any]) -> None:
    arguments = [
        [
            {
                "order": case["expected_order"],
                "calls": case["expected_tool_calls"],
                "content": case["expected_content"],
                "reasoning": case["expected_reasoning"],
                "finish": case["expected_finish_reason"],
            },
            {
                "order": entry["actual"]["order"],
                "calls": entry["actual"]["tool_calls"],
                "content": entry["actual"]["content"],
                "reasoning": entry["actual"]["reasoning"],
                "finish": entry["actual"]["finish_reason"],
            },
            entry["chunking"] == BATCH,
        ]
        for entry in results["results"]
        if entry["actual"]
        for case in [results["cases"][entry["case"]]]
    ]
    function = """(page, given) => given.map(([want, got, whole]) => {
        const [left, right] = [page.eventsOf(want, whole), page.eventsOf(got, whole)];
        return [left, right, page.aligned(left, right)];
    })"""
    for (want, got, _), (left, right, rows) in zip(
        arguments, run_script("eventsOf, aligned", function, arguments), strict=True
    ):
        assert [row[0] for row in rows if row[0]] == left
        assert [row[1] for row in rows if row[1]] == right
        assert all(any(row) for row in rows)
        for side, shown in ((want, left), (got, right)):
            calls = [event["text"] for event in shown if event["kind"] == "call"]
            assert calls == [
                f"{call['function']['name']} {call['function']['arguments']}" for call in side["calls"]
            ]
            for channel in ("content", "reasoning"):
                text = "".join(event["text"] for event in shown if event["kind"] == channel)
                assert "".join(text.split()) == "".join((side[channel] or "").split())


@pytest.mark.slow
@pytest.mark.skipif(not BROWSER, reason="chromium is not installed")
def test_browser_opens_every_kind_of_case(results: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(html_report(results), "utf-8")
    kinds = {(entry["parser"], status(entry), entry["class"]): entry for entry in results["results"]}
    assert len(kinds) > 5
    for (parser, state, _), entry in kinds.items():
        where = address(parser, entry["dialect"], *entry["scenario"].split("/"))
        done = subprocess.run(
            [
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                f"--user-data-dir={tmp_path / 'browser'}",
                "--virtual-time-budget=5000",
                "--dump-dom",
                f"{file.as_uri()}{where}",
            ],
            capture_output=True,
            text=True,
            check=True,
            encoding="utf-8",
        )
        page = Page(done.stdout)
        assert "img" not in page.tags
        shown = "".join(page.texts)
        assert "cannot be opened" not in shown
        assert unquote(where).rpartition("/")[2] in shown
        assert "Command" in shown, (parser, state)

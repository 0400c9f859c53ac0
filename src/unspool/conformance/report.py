"""Report of the results as a single HTML file, whose main table is readable without scripts.

The page has four parts. ``report.html`` is the template of the page, and ``report.css`` is the style sheet.
This module writes the table of counts, in which every cell links to a URL fragment. The results are stored as
compressed blocks of JSON. When a fragment is opened, ``report.js`` unpacks the blocks and shows the
corresponding results.

Text from a model or a parser is inserted into the page in only two ways: through ``escape``, or in a data
block, from which the script creates only text nodes. The page's content security policy forbids all other
scripts and all connections.

A *known fault* of unspool is a ruling that is marked as a defect.  Like a failure of another parser, it
counts as a fault.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path
from string import Template
from typing import Any, Final, Self
from urllib.parse import quote

from ._compare import CLASSES

_HERE: Final = Path(__file__).parent

STATUSES: Final = ("failed", "known", "policy", "unsupported", "passed")
"""Statuses of a case on the page, from the worst to the best."""
EVERY: Final = "*"
"""Wildcard in the URL fragment of a cell, for all dialects or all groups."""


def html_report(results: Mapping[str, Any]) -> str:
    """Return the HTML page for results in the format that ``result_file_format.py`` documents."""
    board = _Board(results)
    script, style = (_HERE.joinpath(name).read_text("utf-8") for name in ("report.js", "report.css"))
    return Template(_HERE.joinpath("report.html").read_text("utf-8")).substitute(
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=escape(results["unspool"]),
        created=escape(results["created"]),
        day=escape(results["created"][:10]),
        cases=f"{sum(tally.cases for tally in board.tallies.values()):,}",
        versions=escape(", ".join(f"{p['name']} {p['version']}".strip() for p in results["parsers"])),
        chunkings=escape(", ".join(results["chunkings"])),
        command=escape(_command(results)),
        parsers="\n".join(board.parsers()),
        columns="".join(board.columns()),
        rows="\n".join(board.rows()),
        data="\n".join(_blocks(results)),
    )


# -- counts


@dataclass(slots=True)
class Tally:
    """Number of cases with each outcome."""

    passed: int = 0
    policy: int = 0
    """Number of cases in which an equally valid policy explains the difference from the expected result."""
    known: int = 0
    """Number of known faults of unspool; 0 for other parsers."""
    failed: int = 0
    unsupported: int = 0

    @property
    def cases(self) -> int:
        """Number of cases that the parser supports."""
        return self.passed + self.policy + self.known + self.failed

    @property
    def faults(self) -> int:
        """Number of faults: failures and known faults."""
        return self.known + self.failed

    def __iadd__(self, other: Tally) -> Self:
        self.passed += other.passed
        self.policy += other.policy
        self.known += other.known
        self.failed += other.failed
        self.unsupported += other.unsupported
        return self

    def description(self) -> str:
        """Return the counts as text for tooltips and screen readers."""
        words = {
            "passed": self.passed,
            "failed": self.failed,
            "known faults": self.known,
            "differ by policy": self.policy,
            "not supported": self.unsupported,
        }
        return ", ".join(f"{count} {word}" for word, count in words.items() if count) or "no cases"

    def appearance(self) -> tuple[str, str]:
        """Return a cell's CSS class (its worst outcome) and the cell's text (the counts)."""
        if self.faults:
            share = self.faults / self.cases
            level = 1 + (share >= 0.1) + (share >= 0.34) + (share >= 0.67)
            return f"fail f{level}", f"✗ {self.faults}/{self.cases}"
        if self.policy:
            return "policy", f"≈ {self.policy}/{self.cases}"
        return ("pass", f"✓ {self.passed}") if self.cases else ("none", "n/s")


def status(entry: Mapping[str, Any]) -> str:
    """Return the status of a result entry, which is one of ``STATUSES``."""
    if entry["status"] == "xfailed":
        return "known" if entry.get("defect") else "policy"
    return str(entry["status"])


class _Board:
    """Generator of the tables on the page."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._parsers: Sequence[Mapping[str, Any]] = results["parsers"]
        self._dialects: Sequence[Mapping[str, Any]] = results["dialects"]
        used = {cell["group"] for cell in results["cells"]}
        self._groups = [group for group in results["groups"] if group["name"] in used]
        self.tallies = {
            (cell["parser"], cell["dialect"], cell["group"]): Tally(
                cell["passed"], cell["xfailed"], 0, cell["failed"], cell["unsupported"]
            )
            for cell in results["cells"]
        }
        for entry in results["results"]:
            if status(entry) == "known":
                tally = self.tallies[entry["parser"], entry["dialect"], entry["group"]]
                tally.policy -= 1
                tally.known += 1
        self._sums: dict[tuple[str, ...], Tally] = {}
        for (name, dialect, group), tally in self.tallies.items():
            for key in product((name,), (dialect, EVERY), (group, EVERY)):
                self._sums.setdefault(key, Tally())
                self._sums[key] += tally

    def _sum(self, *key: str) -> Tally:
        """Return the tally for a parser, dialect and group; ``EVERY`` stands for all dialects or groups."""
        return self._sums.get(key, Tally())

    def parsers(self) -> Iterator[str]:
        """Yield the rows of the summary table."""
        for parser in self._parsers:
            total = self._sum(parser["name"], EVERY, EVERY)
            dialects = len({dialect for name, dialect, _ in self.tallies if name == parser["name"]})
            counts = (dialects, total.cases, total.passed, total.policy, total.failed, total.known)
            numbers = "".join(f"<td>{count:,}</td>" for count in (*counts, total.unsupported))
            bar = "".join(
                f'<i class="{kind}" style="flex-grow:{count}"></i>'
                for kind, count in (("pass", total.passed), ("policy", total.policy), ("fail", total.faults))
                if count
            )
            address = _address(parser["name"], EVERY, EVERY)
            yield (
                f'<tr><th scope="row"><a href="{address}">{escape(parser["name"])}</a> '
                f"<small>{escape(parser['version'])}</small></th>{numbers}"
                f'<td class="share"><span class="bar" aria-hidden="true">{bar}</span></td></tr>'
            )

    def columns(self) -> Iterator[str]:
        """Yield the column headers of the main table."""
        yield '<th scope="col" data-group="*">all</th>'
        for group in self._groups:
            name, title = escape(group["name"]), escape(group["title"])
            yield f'<th scope="col" data-group="{name}"><abbr title="{title}">{name}</abbr></th>'

    def rows(self) -> Iterator[str]:
        """Yield one table body for all dialects together and one per dialect; a body has a row per parser."""
        for dialect in ({"name": EVERY, "models": ""}, *self._dialects):
            name, models = escape(dialect["name"]), escape(dialect["models"])
            head = "<b>all dialects</b>" if name == EVERY else f"<b>{name}</b> <small>{models}</small>"
            yield f'<tbody data-dialect="{name}">'
            for number, parser in enumerate(self._parsers):
                yield (
                    f'<tr data-parser="{escape(parser["name"])}"{" class=first" if not number else ""}>'
                    f'<th scope="row" class="dialect" title="{models}">{head}</th>'
                    f'<th scope="row" class="parser">{escape(parser["name"])}</th>'
                    f"{''.join(self._cells(parser, dialect['name']))}</tr>"
                )
            yield "</tbody>"

    def _cells(self, parser: Mapping[str, Any], dialect: str) -> Iterator[str]:
        name = parser["name"]
        if self._sum(name, dialect, EVERY) == Tally():
            why = "not run" if dialect in parser["dialects"] else "not supported by this parser"
            yield f'<td class="out" colspan="{len(self._groups) + 1}">{why}</td>'
            return
        for group, title in ((EVERY, "all groups"), *((g["name"], g["title"]) for g in self._groups)):
            key = (name, dialect, group)
            tally = self._sum(*key)
            if tally == Tally():
                yield '<td class="out" title="the dialect cannot express these scenarios">·</td>'
                continue
            kind, text = tally.appearance()
            where = "all dialects" if dialect == EVERY else dialect
            label = escape(f"{name}, {where}, {title}: {tally.description()}")
            yield f'<td><a class="{kind}" href="{_address(*key)}" aria-label="{label}">{text}</a></td>'


def _address(*steps: str) -> str:
    """Return the URL fragment that opens a cell, escaped like JavaScript's ``encodeURIComponent``."""
    return escape("#/" + "/".join(quote(step, safe="!*'()") for step in steps))


def _command(results: Mapping[str, Any]) -> str:
    """Return the command that produces these results."""
    return " ".join(
        [
            "unspool conformance run",
            *(parser_option(parser["name"]) for parser in results["parsers"]),
            *(f"--chunking {way}" for way in results["chunkings"]),
            "--html report.html",
        ]
    )


def parser_option(parser: str) -> str:
    """Return the command-line option that selects a parser."""
    return "--unspool" if parser == "unspool" else f"--command '... the program of {parser} ...'"


# -- data


def _blocks(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the data blocks: an index of all entries, and one block per dialect with the details."""
    yield _block("index", _index(results))
    entries: dict[str, list[Mapping[str, Any]]] = {dialect["name"]: [] for dialect in results["dialects"]}
    for entry in results["results"]:
        entries[entry["dialect"]].append(entry)
    for dialect, of_dialect in entries.items():
        yield _block(f"data-{dialect}", _details(results, dialect, of_dialect))


def _block(name: str, data: Any) -> str:
    # Some parsers write lone surrogates, which UTF-8 cannot encode.  With JSON escapes, the data is plain
    # ASCII.
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode("ascii"), 6, mtime=0)
    text = base64.b64encode(packed).decode()
    return f'<script type="application/octet-stream" id="{escape(name)}">{text}</script>'


def _index(results: Mapping[str, Any]) -> dict[str, Any]:
    scenarios = _Numbering()
    tables = {
        "parser": _Numbering(parser["name"] for parser in results["parsers"]),
        "dialect": _Numbering(dialect["name"] for dialect in results["dialects"]),
        "group": _Numbering(group["name"] for group in results["groups"]),
        "scenario": scenarios,
        "class": _Numbering(CLASSES),
    }
    return {
        "parsers": [{**parser, "option": parser_option(parser["name"])} for parser in results["parsers"]],
        "dialects": results["dialects"],
        "groups": results["groups"],
        "classes": CLASSES,
        "statuses": STATUSES,
        "passed": [
            [*(tables[key][cell[key]] for key in ("parser", "dialect", "group")), cell["passed"]]
            for cell in results["cells"]
        ],
        "entries": [
            [*(table[entry[key]] for key, table in tables.items()), STATUSES.index(status(entry))]
            for entry in results["results"]
        ],
        "scenarios": list(scenarios),
    }


class _Numbering(dict[str, int]):
    """Dictionary that assigns a number to each name when the name is first looked up."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__((name, number) for number, name in enumerate(names))

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))


def _details(
    results: Mapping[str, Any], dialect: str, entries: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the data block of a dialect: all fields of results and cases that are not in the index."""
    tools = _Numbering()
    return {
        "results": {
            f"{entry['parser']}/{entry['scenario']}": _entry(entry, results["cases"][entry["case"]])
            for entry in entries
        },
        "cases": {entry["scenario"]: _case(results["cases"][entry["case"]], tools) for entry in entries},
        "tools": [json.loads(text) for text in tools],
        "inapplicable": [
            [one["group"], one["scenario"], one["reason"]]
            for one in results["inapplicable"]
            if one["dialect"] == dialect
        ],
    }


def _case(case: Mapping[str, Any], tools: _Numbering) -> dict[str, Any]:
    fields = {key: value for key, value in case.items() if value not in (None, "", [])}
    return fields | {"tools": tools[json.dumps(case["tools"])]}


def _entry(entry: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    packed = {key: entry[key] for key in ("chunking", "chunkings", "actual", "error", "detail", "reason")}
    packed["chunks"] = _cuts(entry["chunks"], case["model_output"])
    minimal = entry["minimal"]
    if minimal is not None:
        packed["minimal"] = {
            "output": minimal["output"],
            "chunks": _cuts(minimal["chunks"], minimal["output"]),
        }
    return packed


def _cuts(chunks: Sequence[str], text: str) -> list[int] | list[str]:
    """Return the lengths of the chunks, or the chunks themselves if they are abbreviated."""
    return [len(chunk) for chunk in chunks] if "".join(chunks) == text else list(chunks)

"""The scoreboard: one HTML file that shows results, for browsers and for people without scripts.

The page is made of four parts.  ``report.html`` is its frame.  The table of counts is
written here, so that it can be read without JavaScript; every cell is a link to a
fragment of the page.  The results themselves are one compressed block of JSON, which
``report.js`` unpacks to show what such a fragment names; ``report.css`` is how it looks.

What a model or a parser wrote enters the page in two ways only: through ``escape``, or
inside the block, from which the script makes text nodes and never markup.  The page's
own policy forbids every other script, and every connection.

A *known fault* of unspool (a ruling that is a defect) counts as a fault here, next to the
failures of others.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final
from urllib.parse import quote

from .compare import CLASSES
from .peers import PEERS
from .rulings import RULINGS

_HERE: Final = Path(__file__).parent
_DEFECTS: Final = frozenset(ruling.reason for ruling in RULINGS if ruling.defect)

EVERY: Final = "*"
"""Stands for every dialect, or every group, in the address of a cell."""


def html_report(results: Mapping[str, Any]) -> str:
    """The page for results in the format of ``results.py``."""
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
        versions=escape(" and ".join(f"{p['name']} {p['version']}".strip() for p in results["parsers"])),
        chunkings=escape(", ".join(results["chunkings"])),
        command=escape(_command(results)),
        parsers="\n".join(board.parsers()),
        columns="".join(board.columns()),
        rows="\n".join(board.rows()),
        data=_packed(_data(results)),
    )


# -- counts


@dataclass(slots=True)
class Tally:
    """How many cases came out how."""

    passed: int = 0
    policy: int = 0
    """They differ from what was expected, by a choice that the ledger finds as good."""
    known: int = 0
    """Known faults: of unspool only."""
    failed: int = 0
    unsupported: int = 0

    @property
    def cases(self) -> int:
        """Those that count."""
        return self.passed + self.policy + self.known + self.failed

    @property
    def faults(self) -> int:
        """Those that came out wrong."""
        return self.known + self.failed

    def __iadd__(self, other: Tally) -> Tally:
        self.passed += other.passed
        self.policy += other.policy
        self.known += other.known
        self.failed += other.failed
        self.unsupported += other.unsupported
        return self

    def spelt(self) -> str:
        """For people who hover, or listen."""
        words = {
            "passed": self.passed,
            "failed": self.failed,
            "known faults": self.known,
            "differ by policy": self.policy,
            "not supported": self.unsupported,
        }
        return ", ".join(f"{count} {word}" for word, count in words.items() if count) or "no cases"

    def look(self) -> tuple[str, str]:
        """The class of a cell, and its text: what is worst in it, of how many cases."""
        if self.faults:
            share = self.faults / self.cases
            level = 1 + (share >= 0.1) + (share >= 0.34) + (share >= 0.67)
            return f"fail f{level}", f"✗ {self.faults}/{self.cases}"
        if self.policy:
            return "policy", f"≈ {self.policy}/{self.cases}"
        return ("pass", f"✓ {self.passed}") if self.cases else ("none", "n/s")


def status(entry: Mapping[str, Any]) -> str:
    """How the page calls what became of a case."""
    if entry["status"] == "xfailed":
        return "known" if entry["excuse"] in _DEFECTS else "policy"
    return str(entry["status"])


class _Board:
    """The tables."""

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

    def _sum(self, parser: str, dialect: str = EVERY, group: str = EVERY) -> Tally:
        total = Tally()
        for (of_parser, of_dialect, of_group), tally in self.tallies.items():
            if of_parser == parser and dialect in (EVERY, of_dialect) and group in (EVERY, of_group):
                total += tally
        return total

    def parsers(self) -> Iterator[str]:
        """The rows of the summary."""
        for parser in self._parsers:
            total = self._sum(parser["name"])
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
        """The heads of the table's columns."""
        yield '<th scope="col" data-group="*">all</th>'
        for group in self._groups:
            name, title = escape(group["name"]), escape(group["title"])
            yield f'<th scope="col" data-group="{name}"><abbr title="{title}">{name}</abbr></th>'

    def rows(self) -> Iterator[str]:
        """A body for all dialects together, and one for each: a row for every parser."""
        for dialect in ({"name": EVERY, "models": ""}, *self._dialects):
            name, models = dialect["name"], dialect["models"]
            head = "all dialects" if name == EVERY else f"{escape(name)}<small>{escape(models)}</small>"
            yield f'<tbody data-dialect="{escape(name)}">'
            for number, parser in enumerate(self._parsers):
                yield (
                    f'<tr data-parser="{escape(parser["name"])}"{" class=first" if not number else ""}>'
                    f'<th scope="row" class="dialect">{head}</th>'
                    f'<th scope="row" class="parser">{escape(parser["name"])}</th>'
                    f"{''.join(self._cells(parser, name))}</tr>"
                )
            yield "</tbody>"

    def _cells(self, parser: Mapping[str, Any], dialect: str) -> Iterator[str]:
        name = parser["name"]
        ran = dialect == EVERY or any(
            (name, dialect, group["name"]) in self.tallies for group in self._groups
        )
        if not ran:
            why = "not run" if dialect in parser["dialects"] else "not supported by this parser"
            yield f'<td class="out" colspan="{len(self._groups) + 1}">{why}</td>'
            return
        for group, title in ((EVERY, "all groups"), *((g["name"], g["title"]) for g in self._groups)):
            key = (name, dialect, group)
            tally = self._sum(*key) if EVERY in key else self.tallies.get(key)
            if tally is None:
                yield '<td class="out" title="the dialect cannot express these scenarios">·</td>'
                continue
            kind, text = tally.look()
            where = "all dialects" if dialect == EVERY else dialect
            label = escape(f"{name}, {where}, {title}: {tally.spelt()}")
            yield f'<td><a class="{kind}" href="{_address(*key)}" aria-label="{label}">{text}</a></td>'


def _address(*steps: str) -> str:
    return escape("#/" + "/".join(quote(step, safe="*:") for step in steps))


def _command(results: Mapping[str, Any]) -> str:
    """What makes such a page."""
    return " ".join(
        [
            "unspool conformance run",
            *(chosen(parser["name"]) for parser in results["parsers"]),
            *(f"--chunking {way}" for way in results["chunkings"]),
            "--html report.html",
        ]
    )


def chosen(parser: str) -> str:
    """How the command line names a parser."""
    built_in = parser == "unspool" or parser in PEERS
    return f"--parser {parser}" if built_in else f"--command '... the program of {parser} ...'"


# -- data


def _data(results: Mapping[str, Any]) -> dict[str, Any]:
    """What the script needs: as in the results, without what can be told from the rest."""
    tools: dict[str, int] = {}
    cases = {key: _case(case, tools) for key, case in results["cases"].items()}
    return {
        "parsers": [
            {**parser, "chosen": chosen(parser["name"])} for parser in results["parsers"]
        ],
        "dialects": results["dialects"],
        "groups": results["groups"],
        "classes": CLASSES,
        "cells": [
            [cell["parser"], cell["dialect"], cell["group"], cell["passed"]] for cell in results["cells"]
        ],
        "inapplicable": [
            [one["dialect"], one["group"], one["scenario"], one["reason"]] for one in results["inapplicable"]
        ],
        "cases": cases,
        "tools": [json.loads(text) for text in tools],
        "results": [_entry(entry, results["cases"]) for entry in results["results"]],
    }


def _case(case: Mapping[str, Any], tools: dict[str, int]) -> dict[str, Any]:
    spelt = json.dumps(case["tools"], ensure_ascii=False)
    kept = {key: value for key, value in case.items() if value not in (None, "", [])}
    return kept | {"tools": tools.setdefault(spelt, len(tools))}


def _entry(entry: Mapping[str, Any], cases: Mapping[str, Any]) -> dict[str, Any]:
    minimal = entry["minimal"]
    packed = {
        **{key: entry[key] for key in ("parser", "case", "class", "chunking", "chunkings", "actual")},
        **{key: entry[key] for key in ("error", "detail", "excuse") if entry[key]},
        "status": status(entry),
        "chunks": _cuts(entry["chunks"], cases[entry["case"]]["model_output"]),
    }
    if minimal is not None:
        packed["minimal"] = {
            "output": minimal["output"],
            "chunks": _cuts(minimal["chunks"], minimal["output"]),
        }
    return packed


def _cuts(chunks: Sequence[str], text: str) -> list[int] | list[str]:
    """The lengths of the chunks; if they are not those of the text, which is abbreviated then, themselves."""
    return [len(chunk) for chunk in chunks] if "".join(chunks) == text else list(chunks)


def _packed(data: Mapping[str, Any]) -> str:
    # Lone surrogates, which parsers do write, have no UTF-8: escapes keep the JSON plain ASCII.
    text = json.dumps(data, separators=(",", ":"))
    return "\n".join(_wrapped(base64.b64encode(gzip.compress(text.encode("ascii"), mtime=0)).decode()))


def _wrapped(text: str, width: int = 100_000) -> Iterable[str]:
    """In lines, which editors prefer to one of megabytes."""
    return (text[at : at + width] for at in range(0, len(text), width))

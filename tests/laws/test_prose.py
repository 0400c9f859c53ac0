"""Texts about tool calling: no call appears in them because markers may be changed."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest

from paths import ROOT
from unspool import Dialect, Message, Parser, ToolCall, list_dialects, render
from unspool._core.compiler.drift import DRIFTS, LOST_OPENER, drifted_templates
from unspool.dialects.parse_templates import template_text
from unspool.events import CallStart, Diagnostic

NAMES = (
    *("search", "read", "write", "get", "list", "run", "open", "find", "edit", "update"),
    *("delete", "print", "test", "help", "add", "send", "call", "time", "weather", "calculate"),
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": "string"} for key in ("query", "path", "text", "name", "city")},
            },
        },
    }
    for name in NAMES
]
MAN_PAGES = Path("/usr/share/man")
MOST = 300_000
"""Number of characters of each kind of text."""
NOTES = (*(drift.note for drift in DRIFTS), LOST_OPENER, " in place of the end of the call", "text after ")
DIALECTS = [dialect for dialect in list_dialects() if dialect.call]


def _manual_pages() -> Iterator[str]:
    for path in sorted(MAN_PAGES.glob("man[17]/*.gz")):
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as page:
            yield page.read()


def _pages() -> Iterator[str]:
    for path in sorted(ROOT.glob("docs/*.md")):
        yield path.read_text("utf-8")


def _package_descriptions() -> Iterator[str]:
    for distribution in sorted(distributions(), key=lambda each: each.metadata["Name"]):
        yield distribution.read_text("METADATA") or ""


@cache
def texts() -> tuple[str, ...]:
    """Return pieces of documentation, as long as an answer may be."""
    found: list[str] = []
    for kind in (_pages, _manual_pages, _package_descriptions):
        size = 0
        for text in kind():
            found += [text[at : at + 8000] for at in range(0, len(text), 8000)]
            size += len(text)
            if size > MOST:
                break
    return tuple(found)


def tolerated(dialect: Dialect, text: str) -> list[str]:
    """Return what was tolerated for the sake of a call in the text."""
    parser = Parser(dialect, tools=TOOLS)
    events = parser.feed(text) + parser.finish("stop")
    return [
        event.detail
        for event in events
        if isinstance(event, Diagnostic)
        and event.kind == "slip"
        and any(note in event.detail for note in NOTES)
    ]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_documentation_has_no_calls_with_changed_markers(dialect: Dialect) -> None:
    for text in texts():
        assert tolerated(dialect, text) == [], text


def near_misses(dialect: Dialect) -> Iterator[str]:
    """Yield texts that look almost like calls with changed markers."""
    declared = ToolCall("abcdefghi", "search", '{"query": "x"}')
    unknown = replace(declared, name="research")
    for templates in drifted_templates(dialect):
        changed = replace(dialect, section=templates.sections, call=templates.calls, param=templates.params)
        yield f"Write this:\n{render(Message(tool_calls=(unknown,)), changed, check=False)}"
        written = render(Message(tool_calls=(declared,)), changed, check=False).strip()
        if any(call.partition("{")[0] in written for call in dialect.call):
            continue  # a call as declared is left of it
        for quote in "`\"'":
            yield f"The markup {quote}{written}{quote} is wrong."
        yield written.partition("search")[0] + "…"
        yield written.partition("search")[0] + "search, and so on."
    for opener in {template_text(dialect.section[0]).partition("{calls}")[0].strip()} - {""}:
        yield f"{opener} begins a section, and search is a tool.\n"
        yield f"{opener} Let me search.\n\nDone."
    yield "Use call:search {query} or search {query}, then close it with </function_invocation>.\n"
    yield "call: search {\n"
    yield "<tool_call>search the web</arg_value>"
    yield "commentary to=functions.other json{}"
    yield "final answer: search"
    yield '[{"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}]'


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_near_misses_are_text(dialect: Dialect) -> None:
    for text in near_misses(dialect):
        assert tolerated(dialect, text) == [], text
        parser = Parser(dialect, tools=TOOLS)
        events = parser.feed(text) + parser.finish("stop")
        # Markers as declared count even if no tool of this name is declared.
        assert [event.name for event in events if isinstance(event, CallStart)] in ([], ["research"]), text

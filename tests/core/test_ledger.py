"""The ledger: spans tile the input, and no other module moves the buffer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool import CallArgs, CallEnd, Diagnostic, Event, Finish, Markup, Text
from unspool import events as events_module
from unspool._core.ledger import BLOCK, Ledger

CORE = Path(events_module.__file__).parent / "_core"
LEDGER = CORE / "ledger.py"
ACCOUNTING = {"Text", "Markup", "CallStart", "CallArgs", "CallEnd"}
"""Events that account for input."""


def iter_trees() -> Iterator[tuple[Path, ast.Module]]:
    folders = (CORE, *(CORE / name for name in ("compiler", "arguments", "stages")))
    for folder in folders:
        for file in sorted(folder.glob("*.py")):
            yield file, ast.parse(file.read_text("utf-8"))


def assigned_attributes(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Return the attributes that a function assigns to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node


def is_ledger_attribute(node: ast.Attribute) -> bool:
    return ast.unparse(node.value).endswith("ledger")


def test_only_the_ledger_modifies_its_state() -> None:
    assignments = [
        f"{file.name}:{node.lineno} {ast.unparse(node)}"
        for file, tree in iter_trees()
        if file != LEDGER
        for node in assigned_attributes(tree)
        # The machine may set these two: they concern the call, not the buffer.
        if is_ledger_attribute(node) and node.attr not in ("silent_channel", "call_is_silent")
    ]
    assert assignments == []


def test_only_the_ledger_makes_span_events() -> None:
    made_by = {
        file.name
        for file, tree in iter_trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ACCOUNTING
    }
    # These stages derive events from the machine's events.
    assert made_by == {"ledger.py", "whole_call_buffer.py", "read_prompt_end.py", "whitespace_filter.py"}


def test_the_ledger_never_calls_the_machine() -> None:
    imported = {
        node.module or ""
        for node in ast.walk(ast.parse(LEDGER.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
    }
    helpers = {"functools", "mypyc_types", "scan.character_runs"}
    assert imported <= {"__future__", "typing", "events", *helpers}


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["text", "dropped", "markup", "begin", "args", "end", "note", "aside"]),
        st.integers(0, 5),
    ),
    max_size=20,
)


@given(st.lists(st.text("ab<\n", max_size=6), max_size=6), st.lists(OPERATIONS, min_size=6, max_size=6))
def test_spans_tile_the_input(pieces: list[str], operations: list[list[tuple[str, int]]]) -> None:
    ledger = Ledger(base=0, keep_raw=True)
    events: list[Event] = []
    for piece, todo in zip(pieces, operations, strict=False):
        ledger.begin_feed(ledger.buffer + piece)
        for operation, size in todo:
            length = min(size, len(ledger.buffer) - ledger.position)
            if operation == "aside":
                ledger.set_aside(length)
                ledger.restore()
            elif operation == "note":
                ledger.diagnose("stray_closer", "x")
            elif operation in ("text", "dropped"):
                if length:
                    ledger.emit_text("content" if operation == "text" else None, ledger.position + length)
            elif operation == "markup":
                ledger.emit_markup("message_boundary", length)
            elif operation == "begin":
                ledger.start_call("f", "id", length, 0, length)
            elif operation == "args":
                ledger.emit_arguments("{}", length)
            else:
                ledger.end_call("malformed", length)
        events += ledger.end_feed()
    end = ledger.accounted_to
    ledger.begin_feed(ledger.buffer)
    ledger.emit_finish("stop")
    events += ledger.end_feed()
    at = 0
    for event in events:
        if not isinstance(event, Diagnostic):
            assert event.start == at
        at = max(at, event.end)
    assert at == end
    text = "".join(pieces)
    for event in events:
        if isinstance(event, (Text, Markup)):
            assert text[event.start : event.end] == event.text


@pytest.mark.parametrize("status", ["malformed", "truncated"])
@pytest.mark.parametrize("size", [BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_raw_text_of_a_malformed_call_is_complete(status: str, size: int) -> None:
    ledger = Ledger(base=0, keep_raw=True)
    text = "".join(chr(ord("a") + at % 26) for at in range(size))
    events: list[Event] = []
    for at in range(0, size, 5):
        ledger.begin_feed(ledger.buffer + text[at : at + 5])
        if at:
            ledger.emit_arguments("", len(ledger.buffer))
        else:
            ledger.start_call("f", "id", 2, 0, 1)
        events += ledger.end_feed()
    ledger.begin_feed(ledger.buffer)
    ledger.end_call("malformed" if status == "malformed" else "truncated", 0)
    ledger.emit_finish(None)
    *_, end, finish = ledger.end_feed()
    assert isinstance(end, CallEnd)
    assert end.raw == text
    assert isinstance(finish, Finish)
    assert finish.start == size
    assert sum(event.end - event.start for event in events if isinstance(event, CallArgs)) == size - 2

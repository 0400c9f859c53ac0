"""``unspool parse``: one output, from a file or as it arrives."""

from __future__ import annotations

import argparse
import codecs
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from ..errors import UsageError
from ..events import Event, event_fields
from ..message import Message
from ..parser import Parser, seeded_ids
from ..policies import Policies
from .output import to_json

_PORTION = 1 << 16
"""How much to read at once; a pipe gives less, namely what there is."""


def add_arguments(parse: argparse.ArgumentParser) -> None:
    """The arguments of ``unspool parse``."""
    parse.add_argument("--dialect", required=True, metavar="DIALECT", help="the dialect, by any of its names")
    parse.add_argument("--tools", metavar="FILE", help="JSON: the request's list of tools, or the request")
    parse.add_argument("--prompt", metavar="TEXT", help="the end of the prompt, such as '<think>'")
    parse.add_argument("--strict", action="store_true", help="fail if a call is malformed or cut off")
    parse.add_argument(
        "--ids", metavar="SEED", help="ids of calls that follow from this text, not from chance"
    )
    parse.add_argument("--preset", metavar="ENGINE", help="policies that come closest to what an engine does")
    parse.add_argument("--events", action="store_true", help="print the events, one per line, as they come")
    parse.add_argument("file", nargs="?", default="-", metavar="FILE", help="the output (default: stdin)")


def run(options: argparse.Namespace) -> int:
    """Print the message that an output amounts to, as JSON; with --events, the events."""
    tools = None if options.tools is None else _read_tools(options.tools)
    parser = Parser(
        options.dialect,
        tools=tools,
        prompt=options.prompt,
        policies=None if options.preset is None else Policies.preset(options.preset),
        strict=options.strict,
        new_id=None if options.ids is None else seeded_ids(options.ids, options.dialect),
    )
    folding = parser.fold()
    for text in _read(options.file):
        events = parser.feed(text)
        folding.push(events)
        if options.events:
            _print_events(events)
    events = parser.finish()
    if options.events:
        _print_events(events)
    folding.push(events)
    message = folding.message()
    if not options.events:
        print(to_json(_flat(message), indent=2))
    return 0


def _read_tools(name: str) -> list[dict[str, object]]:
    """The tools in a JSON file; ``Parser`` checks what is in the list."""
    try:
        value = json.loads("".join(_read(name)))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error
    if isinstance(value, dict):
        value = value.get("tools")
    if not isinstance(value, list):
        raise UsageError(f"{name} holds neither a list of tools nor an object with 'tools'")
    return value


def _read(name: str) -> Iterator[str]:
    """The text of a file, or of standard input as it arrives; line breaks stay as they are."""
    try:
        if name == "-":
            if sys.stdin.isatty():
                sys.stderr.write("unspool: reading what you type; Ctrl-D ends it\n")
            yield from _decoded(sys.stdin.buffer)
        else:
            with Path(name).open("rb") as file:
                yield from _decoded(file)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UsageError(f"{name} is not UTF-8: {error.reason} 0x{byte:02x}") from error


def _decoded(file: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    read = getattr(file, "read1", file.read)
    while portion := read(_PORTION):
        yield decoder.decode(portion)
    yield decoder.decode(b"", final=True)


def _flat(message: Message) -> dict[str, object]:
    fields = asdict(message)
    fields["diagnostics"] = [diagnostic.to_dict() for diagnostic in message.diagnostics]
    del fields["parts"]  # the same again; the order is in the events
    return fields


def _print_events(events: Sequence[Event]) -> None:
    for event in events:
        print(to_json(event_fields(event)))
    sys.stdout.flush()

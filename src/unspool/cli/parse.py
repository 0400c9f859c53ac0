"""The command ``unspool parse``, which parses one output from a file or standard input."""

from __future__ import annotations

import argparse
import codecs
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from .._core.schema.tools import Tools, as_tools
from ..errors import UsageError
from ..events import Event
from ..message import Message
from ..parser import Parser, seeded_ids
from ..policies import policies_from_text
from .output import to_json

_CHUNK_BYTES = 1 << 16
"""Maximum number of bytes per read; reading from a pipe returns available bytes without waiting for more."""


def add_arguments(parse: argparse.ArgumentParser) -> None:
    """Add the arguments of ``unspool parse``."""
    parse.add_argument("--dialect", required=True, metavar="DIALECT", help="name or alias of the dialect")
    parse.add_argument("--tools", metavar="FILE", help="JSON file that contains a list of tools or a request")
    parse.add_argument("--prompt", metavar="TEXT", help="end of the prompt, such as '<think>'")
    parse.add_argument("--ids", metavar="SEED", help="derive call ids from this text (default: random ids)")
    parse.add_argument(
        "--policies",
        metavar="POLICIES",
        help="preset (strict, vllm, ...) or NAME=VALUE,... (see docs/policies.md)",
    )
    parse.add_argument("--events", action="store_true", help="print events as they arrive, one per line")
    parse.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="file that contains the output (default: stdin)"
    )


def run(options: argparse.Namespace) -> int:
    """Parse an output and print it as a JSON message. With --events, print each event as it arrives."""
    tools = None if options.tools is None else read_tools(options.tools)
    parser = Parser(
        options.dialect,
        tools=tools,
        prompt=options.prompt,
        policies=policies_from_text(options.policies or ""),
        new_id=None if options.ids is None else seeded_ids(options.ids, options.dialect),
    )
    builder = parser.fold()
    for text in _read(options.file):
        events = parser.feed(text)
        builder.feed(events)
        if options.events:
            _print_events(events)
    events = parser.finish()
    if options.events:
        _print_events(events)
    builder.feed(events)
    message = builder.message
    if not options.events:
        print(to_json(_flat(message), indent=2))
    return 0


def read_tools(name: str) -> Tools:
    """Read a list of tools from a JSON file."""
    text = "".join(_read(name))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error
    if isinstance(value, dict):
        value = value.get("tools")
    if not isinstance(value, list):
        raise UsageError(f"{name} must contain a list of tools, or an object with 'tools'")
    try:
        return as_tools(value)
    except UsageError as error:
        fault = str(error).partition(";")[0]
        raise UsageError(f"{name}: {fault}; expected the list of tools of a request") from error


def _read(name: str) -> Iterator[str]:
    """Yield the text of a file, or of standard input as it arrives, without newline translation."""
    try:
        if name == "-":
            if sys.stdin.isatty():
                sys.stderr.write("unspool: reading from the terminal; end with Ctrl-D\n")
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
    while chunk := read(_CHUNK_BYTES):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _flat(message: Message) -> dict[str, object]:
    fields = message.to_dict()
    del fields["parts"]  # redundant, because other fields contain the same data
    return fields


def _print_events(events: Sequence[Event]) -> None:
    for event in events:
        print(to_json(event.to_dict()))
    sys.stdout.flush()

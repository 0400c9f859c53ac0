"""The ``unspool`` command.

Only the standard library is imported here; rich makes the output of a terminal
prettier, where it is installed.  A mistake of the user's ends in one line on
stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import codecs
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import BinaryIO, NoReturn

from .._core.ends.explain import explain, hold_back, kind, markers
from .._core.ends.parser import Parser, seeded_ids
from .._core.search.scan import COMPILED
from .._core.values.errors import UnknownDialect, UnspoolError
from .._core.values.events import Event, event_fields
from .._core.values.message import Message
from .._core.values.policies import Policies
from .._core.words.dialect import Dialect
from .._version import __version__
from ..conformance import command as suite
from ..dialects._registry import list_dialects
from ..gateway import flags
from . import batch as table

_PORTION = 1 << 16
"""How much to read at once; a pipe gives less, namely what there is."""
_SOURCE = (
    "a model directory, a chat template, tokenizer_config.json, a GGUF file, a model's name, or - for stdin"
)


class _InputError(Exception):
    """The user gave something that cannot be used."""


class _ArgumentParser(argparse.ArgumentParser):
    """Reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the result is its exit code."""
    _never_fail_to_encode()
    options = _options().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except (_InputError, UnspoolError) as error:
        sys.stderr.write(f"unspool: {_first_line(error)}\n")
        return 2
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _options() -> argparse.ArgumentParser:
    parser = _ArgumentParser(prog="unspool", description="Take the raw output of language models apart.")
    build = "compiled" if COMPILED else "pure Python"
    parser.add_argument("--version", action="version", version=f"unspool {__version__} ({build})")
    parser.set_defaults(run=_help)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    demo = commands.add_parser("demo", help="watch example outputs being parsed", description=_demo.__doc__)
    demo.add_argument("dialects", nargs="*", metavar="DIALECT", help="which dialects (default: all)")
    demo.add_argument(
        "--speed",
        type=_speed,
        metavar="X",
        help="pieces per second (default: 60 in a terminal, else no limit)",
    )
    demo.add_argument("--plain", action="store_true", help="lines of text, no keys to press")
    demo.set_defaults(run=_demo)

    parse = commands.add_parser("parse", help="parse an output", description=_parse.__doc__)
    parse.add_argument("--dialect", required=True, metavar="NAME", help="the dialect, by any of its names")
    parse.add_argument("--tools", metavar="FILE", help="JSON: the request's list of tools, or the request")
    parse.add_argument("--prompt", metavar="TEXT", help="the end of the prompt, such as '<think>'")
    parse.add_argument("--strict", action="store_true", help="fail if a call is malformed or cut off")
    parse.add_argument(
        "--ids", metavar="SEED", help="ids of calls that follow from this text, not from chance"
    )
    parse.add_argument("--like", metavar="ENGINE", help="policies that come closest to what an engine does")
    parse.add_argument("--events", action="store_true", help="print the events, one per line, as they come")
    parse.add_argument("file", nargs="?", default="-", metavar="FILE", help="the output (default: stdin)")
    parse.set_defaults(run=_parse)

    explained = commands.add_parser("explain", help="explain a dialect", description=_explain.__doc__)
    explained.add_argument("dialect", metavar="DIALECT", help="by any of its names, or a model's name")
    explained.add_argument("--json", action="store_true", help="print JSON: which dialect, and why")
    explained.set_defaults(run=_explain)

    detected = commands.add_parser("detect", help="find the dialect of a model", description=_detect.__doc__)
    detected.add_argument("source", metavar="MODEL", help=_SOURCE)
    detected.add_argument("--json", action="store_true", help="print JSON")
    detected.set_defaults(run=_detect)

    doctor = commands.add_parser("doctor", help="examine a model", description=_doctor.__doc__)
    doctor.add_argument("source", metavar="MODEL", help=_SOURCE)
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=_doctor)

    dialects = commands.add_parser("dialects", help="list the dialects", description=_dialects.__doc__)
    dialects.add_argument("model", nargs="?", metavar="MODEL", help="only those of models of that name")
    dialects.add_argument("--json", action="store_true", help="print JSON")
    dialects.set_defaults(run=_dialects)

    batch = commands.add_parser("batch", help="parse or convert files of outputs")
    batch.description = _batch.__doc__
    table.add_arguments(batch)
    batch.set_defaults(run=_batch)

    _add_export(commands.add_parser("export", help="write declarations in other forms"))

    conformance = commands.add_parser("conformance", help="hold parsers of tool calls against one suite")
    conformance.description = _conformance.__doc__
    suite.add_arguments(conformance)
    conformance.set_defaults(run=_conformance)

    serve = commands.add_parser("serve", help="put tool calls and reasoning before a text generator")
    serve.description = _serve.__doc__
    flags.add_arguments(serve)
    serve.set_defaults(run=_serve)
    return parser


def _add_export(export: argparse.ArgumentParser) -> None:
    forms = export.add_subparsers(title="forms", metavar="FORM", required=True)

    template = forms.add_parser("response-template", help="a dialect, as a tokenizer carries it")
    template.description = _export_template.__doc__
    template.add_argument("dialect", metavar="DIALECT", help="by any of its names")
    template.add_argument(
        "--anchor", default="", metavar="TEXT", help="what a turn of the model begins with in a prompt"
    )
    template.add_argument("--into", metavar="PATH", help="a model directory whose tokenizer is to carry it")
    template.set_defaults(run=_export_template)

    dialects = forms.add_parser("dialects", help="all declarations, as JSON")
    dialects.description = _export_dialects.__doc__
    dialects.add_argument("--schema", action="store_true", help="the JSON Schema of that instead")
    dialects.set_defaults(run=_export_dialects)


# -- commands


def _help(_: argparse.Namespace) -> int:
    _options().print_help()
    return 0


def _demo(options: argparse.Namespace) -> int:
    """Stream an example output of each dialect through the parser, piece by piece."""
    from ..recordings import recordings
    from . import demo

    shown = recordings(options.dialects)
    interactive = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    speed = options.speed or (demo.TERMINAL_SPEED if interactive else math.inf)
    if interactive and not options.plain:
        demo.play_live(shown, speed)
    else:
        demo.play_plain(shown, sys.stdout, speed)
    return 0


def _parse(options: argparse.Namespace) -> int:
    """Print the message that an output amounts to, as JSON; with --events, the events."""
    tools = None if options.tools is None else _read_tools(options.tools)
    parser = Parser(
        options.dialect,
        tools=tools,
        prompt=options.prompt,
        policies=None if options.like is None else Policies.like(options.like),
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
        print(_json(_flat(message), indent=2))
    return 0


def _dialects(options: argparse.Namespace) -> int:
    """List every dialect, one to a line; separated by tabs where the output is piped.

    With a model's name, or the beginning of one: which dialect it speaks, and why.
    """
    if options.model is not None:
        return _like(options.model, as_json=options.json)
    found = list_dialects()
    if options.json:
        rows = (
            {"name": each.name, "models": each.family.models, "aliases": _aliases(each)} for each in found
        )
        print(_json(list(rows), indent=2))
        return 0
    if sys.stdout.isatty():
        try:
            _print_table(found)
        except ImportError:
            pass
        else:
            return 0
    for dialect in found:
        print(*_row(dialect), sep="\t")
    return 0


def _like(name: str, *, as_json: bool) -> int:
    from .._models.names import models_like

    found = models_like(name)
    if as_json:
        print(_json([known.to_dict() for known in found], indent=2))
    for known in () if as_json else found:
        print(known.model, known.dialect.name, known.why, sep="\t")
    if not found:
        sys.stderr.write(f"unspool: no dialect is known for {name}: {_ASK}\n")
    return int(not found)


_ASK = "`unspool detect` asks the model itself"
_COLUMNS = ("dialect", "models", "calls are", "also known as", "held back", "control tokens")


def _row(dialect: Dialect) -> tuple[str, ...]:
    return (
        dialect.name,
        dialect.family.models,
        kind(dialect),
        ", ".join(_aliases(dialect)),
        str(hold_back(dialect)),
        " ".join(markers(dialect)),
    )


def _explain(options: argparse.Namespace) -> int:
    """Say how a dialect is written and what the parser does with it; Markdown where the output is piped.

    For a model's name: which dialect it speaks, and why, in a line.
    """
    from .._models.names import dialect_of, known_model

    try:
        page = explain(options.dialect)
        known = dialect_of(options.dialect)
    except UnknownDialect:
        found = known_model(options.dialect)
        if found is None:
            raise
        known = found
        page = f"{known.asked}: {known.model}, dialect {known.dialect.name}, since {known.why}; {_ASK}"
    if options.json:
        print(_json(known.to_dict(), indent=2))
    else:
        _print_page(page)
    return 0


def _detect(options: argparse.Namespace) -> int:
    """Say which dialect a model speaks, and why; the exit code is 1 if none can be told."""
    from .._models.detect import examine
    from .._models.diagnosis import detection_page
    from .._models.sources import find_source
    from .._models.sources.vocabulary import load_vocabulary

    model = find_source(options.source)
    model = replace(model, vocabulary=load_vocabulary(model))
    found = examine(model)
    if options.json:
        print(_json({**found.to_dict(), "source": model.to_dict()}, indent=2))
    else:
        _print_page(detection_page(found, model))
    return int(found.dialect is None and (found.renders_calls or not found.tried))


def _doctor(options: argparse.Namespace) -> int:
    """Examine a model: its dialect, what does not fit, what would break, which flags a server needs.

    The exit code is 1 if something must be changed.
    """
    from .._models.doctor import diagnose
    from .._models.sources import find_source

    diagnosis = diagnose(find_source(options.source))
    if options.json:
        print(_json(diagnosis.to_dict(), indent=2))
    else:
        _print_page(diagnosis.markdown())
    return int(not diagnosis.healthy)


def _export_template(options: argparse.Namespace) -> int:
    """Print the response template of a dialect, or write it into a model's tokenizer_config.json.

    transformers, vLLM and SGLang read it.  What was there before is printed.
    """
    from .._models.to_template import install_template, to_response_template

    if options.into is None:
        print(_json(to_response_template(options.dialect, anchor=options.anchor), indent=2))
        return 0
    before = install_template(options.dialect, Path(options.into), anchor=options.anchor)
    if before is not None:
        print(_json(before, indent=2))
    return 0


def _export_dialects(options: argparse.Namespace) -> int:
    """Print every dialect as JSON, or the JSON Schema of that: for readers in other languages."""
    from .._models.dialect_json import dialect_schema, dialect_to_json

    found = dialect_schema() if options.schema else [dialect_to_json(each) for each in list_dialects()]
    print(_json(found, indent=2))
    return 0


def _batch(options: argparse.Namespace) -> int:
    """Parse or convert files of outputs, a row each; what was begun and killed goes on where it was."""
    return table.main(options)


def _conformance(options: argparse.Namespace) -> int:
    """Hold parsers of tool calls against one suite: every dialect, every chunking."""
    return suite.main(options)


def _serve(options: argparse.Namespace) -> int:
    """Serve the chat, responses and messages APIs before a text generator."""
    if options.list_settings:
        print(flags.listing())
        return 0
    settings = flags.settings_of(options)
    from ..gateway import serve

    return serve(settings, reload=lambda: flags.settings_of(options))


def _print_page(text: str) -> None:
    """Print Markdown, as a page where the output is a terminal."""
    if sys.stdout.isatty():
        try:
            _print_markdown(text)
        except ImportError:
            pass
        else:
            return
    print(text)


def _print_markdown(text: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def _print_table(dialects: Sequence[Dialect]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in _COLUMNS:
        table.add_column(
            column, style="bold cyan" if column == "dialect" else "", no_wrap=column == "dialect"
        )
    for dialect in dialects:
        table.add_row(*map(escape, _row(dialect)))
    Console().print(table)


def _aliases(dialect: Dialect) -> list[str]:
    return list(dict.fromkeys((*dialect.family.aliases, *dialect.family.reasoning_aliases)))


# -- input


def _speed(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


_speed.__name__ = "number"  # as argparse calls it in its errors


def _read_tools(name: str) -> list[dict[str, object]]:
    """The tools in a JSON file; ``Parser`` checks what is in the list."""
    try:
        value = json.loads("".join(_read(name)))
    except (ValueError, RecursionError) as error:
        raise _InputError(f"{name} is not JSON: {error}") from error
    if isinstance(value, dict):
        value = value.get("tools")
    if not isinstance(value, list):
        raise _InputError(f"{name} holds neither a list of tools nor an object with 'tools'")
    return value


def _read(name: str) -> Iterator[str]:
    """The text of a file, or of standard input as it arrives; line breaks stay as they are."""
    try:
        if name == "-":
            yield from _decoded(sys.stdin.buffer)
        else:
            with Path(name).open("rb") as file:
                yield from _decoded(file)
    except OSError as error:
        raise _InputError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise _InputError(f"{name} is not UTF-8: {error.reason} 0x{byte:02x}") from error


def _decoded(file: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    read = getattr(file, "read1", file.read)
    while portion := read(_PORTION):
        yield decoder.decode(portion)
    yield decoder.decode(b"", final=True)


# -- output


def _never_fail_to_encode() -> None:
    """What a model writes may have no place in the terminal's encoding."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _flat(message: Message) -> dict[str, object]:
    fields = asdict(message)
    del fields["parts"]  # the same again; the order is in the events
    return fields


def _print_events(events: Sequence[Event]) -> None:
    for event in events:
        print(_json(event_fields(event)))
    sys.stdout.flush()


def _json(value: object, indent: int | None = None) -> str:
    # In UTF-8 the only thing that gets replaced is a lone surrogate, by what is
    # its escape in JSON, too.
    utf_8 = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    return json.dumps(value, ensure_ascii=not utf_8, indent=indent)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())

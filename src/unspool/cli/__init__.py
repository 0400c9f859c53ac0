"""The ``unspool`` command.

The command needs only the standard library.  If rich is installed, output on a terminal is
formatted.  If the user makes a mistake, the command prints one line to stderr and exits with code 2.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence

from .._core.scan.character_runs import COMPILED
from .._version import __version__
from ..errors import UnspoolError
from ..gateway import command_line as serve_command
from . import batch as batch_command
from . import conformance as conformance_command
from . import models
from . import parse as parse_command
from .help_and_error_messages import CommandParser, describe, front_page
from .output import visible_output


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``unspool`` command, and return its exit code."""
    _never_fail_to_encode()
    # The help may contain argparse's colour codes, which must not be escaped.
    options = command_line().parse_args(arguments)
    with visible_output():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except UnspoolError as error:
        sys.stderr.write(f"unspool: {_first_line(error)}\n")
        return 2
    except BrokenPipeError:  # the program that reads the output, such as `head`, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def command_line() -> CommandParser:
    """Build the argument parser for all commands and options."""
    parser = CommandParser(prog="unspool")
    build = "compiled" if COMPILED else "pure Python"
    parser.add_argument("--version", action="version", version=f"unspool {__version__} ({build})")
    parser.set_defaults(run=_help)
    commands = parser.add_subparsers(metavar="COMMAND")

    demo = commands.add_parser("demo", description=_demo.__doc__)
    demo.add_argument("dialects", nargs="*", metavar="DIALECT", help="dialects to show (default: all)")
    demo.add_argument(
        "--speed",
        type=_speed,
        metavar="X",
        help="pieces of text per second (default: 60 on a terminal, otherwise no limit)",
    )
    demo.add_argument(
        "--plain", action="store_true", help="print plain lines instead of the interactive view"
    )
    demo.set_defaults(run=_demo)

    serve = commands.add_parser("serve", description=_serve.__doc__)
    serve_command.add_arguments(serve)
    serve.set_defaults(run=_serve)

    models.add_commands(commands)

    parse = commands.add_parser("parse", description=parse_command.run.__doc__)
    parse_command.add_arguments(parse)
    parse.set_defaults(run=parse_command.run)

    batch = commands.add_parser("batch", description=_batch.__doc__)
    batch_command.add_arguments(batch)
    batch.set_defaults(run=_batch)

    conformance = commands.add_parser("conformance", description=_conformance.__doc__)
    conformance_command.add_arguments(conformance)
    conformance.set_defaults(run=_conformance)

    describe(parser)
    return parser


def _help(_: argparse.Namespace) -> int:
    print(front_page(), end="")
    return 0


def _demo(options: argparse.Namespace) -> int:
    """Show how the parser works: stream an example output of each dialect in small pieces."""
    from ..sample_outputs import list_samples
    from . import demo

    shown = list_samples(options.dialects)
    interactive = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    speed = options.speed or (demo.TERMINAL_SPEED if interactive else math.inf)
    if interactive and not options.plain:
        demo.play_live(shown, speed)
    else:
        demo.play_plain(shown, sys.stdout, speed)
    return 0


def _batch(options: argparse.Namespace) -> int:
    """Parse or convert files that contain one output per row. Run again to resume an interrupted run."""
    return batch_command.main(options)


def _conformance(options: argparse.Namespace) -> int:
    """Test tool call parsers with all dialects, on outputs that are split into chunks in different ways."""
    return conformance_command.main(options)


def _serve(options: argparse.Namespace) -> int:
    """Serve OpenAI-, Anthropic- and Ollama-compatible APIs in front of a model."""
    if options.list_settings:
        print(serve_command.list_settings())
        return 0
    from ..gateway import serve  # imported first, so that a missing package is reported at once

    settings, notes = serve_command.read_settings_and_notes(options)
    return serve(
        settings,
        reload=lambda: serve_command.read_settings(options),
        on_listening=lambda url: serve_command.announce(settings, notes, url),
    )


def _speed(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


_speed.__name__ = "number"  # argparse uses this name in error messages


def _never_fail_to_encode() -> None:
    """Make standard output and standard error escape characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())

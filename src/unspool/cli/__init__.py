"""The ``unspool`` command.

Only the standard library is imported here; rich makes the output of a terminal
prettier, where it is installed.  A mistake of the user's ends in one line on
stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence

from .._core.scan.runs import COMPILED
from .._version import __version__
from ..errors import UnspoolError
from ..gateway import command_line as flags
from . import batch as table
from . import conformance as suite
from . import models
from . import parse as reading
from .help import CommandParser, describe, front_page
from .output import visible_output


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the result is its exit code."""
    _never_fail_to_encode()
    options = command_line().parse_args(arguments)  # argparse may colour its help
    with visible_output():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except UnspoolError as error:
        sys.stderr.write(f"unspool: {_first_line(error)}\n")
        return 2
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def command_line() -> CommandParser:
    """All commands and their options."""
    parser = CommandParser(prog="unspool")
    build = "compiled" if COMPILED else "pure Python"
    parser.add_argument("--version", action="version", version=f"unspool {__version__} ({build})")
    parser.set_defaults(run=_help)
    commands = parser.add_subparsers(metavar="COMMAND")

    demo = commands.add_parser("demo", description=_demo.__doc__)
    demo.add_argument("dialects", nargs="*", metavar="DIALECT", help="which dialects (default: all)")
    demo.add_argument(
        "--speed",
        type=_speed,
        metavar="X",
        help="pieces per second (default: 60 in a terminal, else no limit)",
    )
    demo.add_argument("--plain", action="store_true", help="lines of text, no keys to press")
    demo.set_defaults(run=_demo)

    serve = commands.add_parser("serve", description=_serve.__doc__)
    flags.add_arguments(serve)
    serve.set_defaults(run=_serve)

    models.add_commands(commands)

    parse = commands.add_parser("parse", description=reading.run.__doc__)
    reading.add_arguments(parse)
    parse.set_defaults(run=reading.run)

    batch = commands.add_parser("batch", description=_batch.__doc__)
    table.add_arguments(batch)
    batch.set_defaults(run=_batch)

    conformance = commands.add_parser("conformance", description=_conformance.__doc__)
    suite.add_arguments(conformance)
    conformance.set_defaults(run=_conformance)

    completion = commands.add_parser("completion", description=_completion.__doc__)
    completion.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="%(choices)s")
    completion.set_defaults(run=_completion)

    describe(parser)
    return parser


def _help(_: argparse.Namespace) -> int:
    print(front_page(), end="")
    return 0


def _demo(options: argparse.Namespace) -> int:
    """Stream an example output of each dialect through the parser, piece by piece."""
    from ..sample_outputs import recordings
    from . import demo

    shown = recordings(options.dialects)
    interactive = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    speed = options.speed or (demo.TERMINAL_SPEED if interactive else math.inf)
    if interactive and not options.plain:
        demo.play_live(shown, speed)
    else:
        demo.play_plain(shown, sys.stdout, speed)
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
        print(flags.list_settings())
        return 0
    settings = flags.read_settings(options)
    from ..gateway import serve

    return serve(settings, reload=lambda: flags.read_settings(options))


def _completion(options: argparse.Namespace) -> int:
    """Print a script that makes a shell complete commands, options and names of dialects."""
    from .completion import script

    print(script(options.shell, command_line()), end="")
    return 0


def _speed(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


_speed.__name__ = "number"  # as argparse calls it in its errors


def _never_fail_to_encode() -> None:
    """What a model writes may have no place in the terminal's encoding."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())

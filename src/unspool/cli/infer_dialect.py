"""The command ``unspool dialects infer``, which declares a new dialect from raw outputs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from .. import dialects
from ..errors import UsageError
from ..models import InferredDialect
from .help_and_error_messages import CommandParser
from .output import to_json
from .parse import read_tools


def add_command(commands: argparse._SubParsersAction[CommandParser]) -> None:
    """Add the command to the subcommands of ``unspool dialects``."""
    infer = commands.add_parser(
        "infer", help="declare a new dialect from raw outputs", description=run.__doc__
    )
    infer.add_argument(
        "outputs",
        metavar="FILE",
        help='JSON lines: {"text": "...", "tools": [...]}, and optionally "prompt"',
    )
    infer.add_argument("--template", metavar="FILE", help="the model's chat template, as further evidence")
    infer.add_argument(
        "--tools", metavar="FILE", help="JSON file that contains the tools of outputs that have none"
    )
    infer.add_argument("--name", default="inferred", help="name of the dialect (default: inferred)")
    infer.add_argument("--json", action="store_true", help="print JSON")
    infer.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Infer a dialect from a few dozen raw outputs, and print it as Python with the proof for each output.

    An output is explained if it can be parsed and rendered back to the same text.  The exit code is 1 if the
    dialect does not explain all outputs.
    """
    from ..models.inference.infer_from_outputs import infer_dialect
    from ..models.inference.outputs import outputs_from_json_lines

    rows = outputs_from_json_lines(_read(options.outputs), options.outputs)
    tools = None if options.tools is None else read_tools(options.tools)
    template = None if options.template is None else _read(options.template)
    found = infer_dialect(rows, tools=tools, template=template, name=options.name)
    if options.json:
        print(to_json(found.to_dict(), indent=2))
    else:
        print("\n".join(_page(found)))
    return int(bool(found.unexplained))


def _page(found: InferredDialect) -> Iterator[str]:
    """Yield the lines of a Python module with the declaration and the proofs."""
    source = found.declaration
    names = set(re.findall(r"(?<=[=(\s])([A-Z][A-Za-z]+)\(", source))
    others = sorted(names & set(dialects.__all__) - {"Dialect"})
    yield "from unspool import Dialect"
    if others:
        yield f"from unspool.dialects import {', '.join(others)}"
    yield ""
    yield source
    yield ""
    for sentence in found.evidence:
        yield f"# {sentence}"
    explained = len(found.proofs) - len(found.unexplained)
    yield f"# The dialect explains {explained} of {len(found.proofs)} outputs:"
    for proof in found.proofs:
        yield f"# line {proof.line}: {_in_one_line(str(proof))}"
    yield "# To register the dialect, add request=...: outputs do not show how the model takes requests."
    if found.same_as:
        names_of_same = ", ".join(found.same_as)
        yield f"# These registered dialects parse all outputs to the same messages: {names_of_same}"


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error.reason}") from error

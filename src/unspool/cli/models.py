"""The commands ``dialects``, ``explain``, ``detect``, ``doctor`` and ``export``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .._core.explain_dialect import explain, hold_back, kind, markers
from .._core.terminal_escaping import visible
from ..dialects import Dialect, list_dialects
from ..errors import UnknownDialect
from . import infer_dialect
from .help_and_error_messages import CommandParser
from .output import print_page, print_rows, terminal, to_json

_SOURCE = (
    "a model directory, a chat template, tokenizer_config.json, a GGUF file, a model's name, "
    "a running server's URL, or - for stdin"
)


def add_commands(commands: argparse._SubParsersAction[CommandParser]) -> None:
    """Add the commands of this module."""
    detected = commands.add_parser("detect", description=_detect.__doc__)
    detected.add_argument("source", metavar="MODEL", help=_SOURCE)
    detected.add_argument("--json", action="store_true", help="print JSON")
    detected.set_defaults(run=_detect)

    doctor = commands.add_parser("doctor", description=_doctor.__doc__)
    doctor.add_argument("source", metavar="MODEL", help=_SOURCE)
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=_doctor)

    dialects = commands.add_parser("dialects", description="List dialects, or infer a new one.")
    dialects.default_command = "list"
    actions = dialects.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listed = actions.add_parser("list", help="list dialects (default)", description=_dialects.__doc__)
    listed.add_argument(
        "model",
        nargs="?",
        metavar="NAME",
        help="model name or its beginning; show only the dialects of matching models",
    )
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(run=_dialects)
    infer_dialect.add_command(actions)

    explained = commands.add_parser("explain", description=_explain.__doc__)
    explained.add_argument("dialect", metavar="DIALECT", help="name or alias of a dialect, or a model's name")
    explained.add_argument("--json", action="store_true", help="print the dialect and the reason as JSON")
    explained.set_defaults(run=_explain)

    export = commands.add_parser("export", description="Export dialects in formats that other programs read.")
    forms = export.add_subparsers(title="forms", metavar="FORM", required=True)

    template = forms.add_parser("response-template", help="print the response template of a dialect")
    template.description = _export_template.__doc__
    template.add_argument("dialect", metavar="DIALECT", help="name or alias of the dialect")
    template.add_argument(
        "--anchor", default="", metavar="TEXT", help="text that starts the model's turn in the prompt"
    )
    template.add_argument("--into", metavar="DIR", help="model directory to write the template into")
    template.set_defaults(run=_export_template)

    all_of_them = forms.add_parser("dialects", help="print all dialects as JSON")
    all_of_them.description = _export_dialects.__doc__
    all_of_them.add_argument("--schema", action="store_true", help="print the JSON Schema of a dialect")
    all_of_them.set_defaults(run=_export_dialects)


def _dialects(options: argparse.Namespace) -> int:
    """List all dialects, one per line; in a pipe, columns are separated by tabs.

    With a model's name or its beginning, list only the dialects of matching models, and the reasons.
    """
    if options.model is not None:
        return _list_models(options.model, as_json=options.json)
    found = list_dialects()
    if options.json:
        rows = (
            {"name": each.name, "models": each.family.models, "aliases": _aliases(each)} for each in found
        )
        print(to_json(list(rows), indent=2))
        return 0
    if sys.stdout.isatty():
        try:
            _print_table(found)
        except ImportError:
            pass
        else:
            return 0
    print_rows(map(_row, found), _COLUMNS)
    return 0


def _list_models(name: str, *, as_json: bool) -> int:
    from ..dialects.model_names import models_like

    found = models_like(name)
    if as_json:
        print(to_json([known.to_dict() for known in found], indent=2))
    elif found:
        print_rows(
            [(known.model, known.dialect.name, known.why) for known in found], ("model", "dialect", "why")
        )
    if not found:
        sys.stderr.write(f"unspool: there is no dialect for {name}; {_HINT}\n")
    return int(not found)


_HINT = "`unspool detect` examines the model itself"
_COLUMNS = ("dialect", "models", "calls", "aliases", "held back", "control tokens")


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
    """Explain the format of a dialect and how it is parsed; in a pipe, print Markdown.

    With a model's name, also print why the model uses this dialect.
    """
    from ..dialects.model_names import dialect_of, known_model

    try:
        page = explain(options.dialect)
        known = dialect_of(options.dialect)
    except UnknownDialect:
        found = known_model(options.dialect)
        if found is None:
            raise
        known = found
        page = f"{known.asked}: {known.model}, dialect {known.dialect.name}, because {known.why}; {_HINT}"
    if options.json:
        print(to_json(known.to_dict(), indent=2))
    else:
        print_page(page)
    return 0


def _detect(options: argparse.Namespace) -> int:
    """Print the dialect of a model and the evidence; the exit code is 1 if the dialect is unknown."""
    from ..models.detection.detect_dialect import detect_dialect
    from ..models.doctor.report import detection_page
    from ..models.sources import find_source
    from ..models.sources.special_tokens import load_vocabulary

    model = find_source(options.source)
    model = replace(model, vocabulary=load_vocabulary(model))
    found = detect_dialect(model)
    if options.json:
        print(to_json({**found.to_dict(), "source": model.to_dict()}, indent=2))
    else:
        print_page(detection_page(found, model))
    return int(found.dialect is None)


def _doctor(options: argparse.Namespace) -> int:
    """Check a model's setup and print the right server flags.

    The exit code is 1 if the setup has problems.
    """
    from ..models.doctor.diagnose import diagnose
    from ..models.sources import find_source

    diagnosis = diagnose(find_source(options.source))
    if options.json:
        print(to_json(diagnosis.to_dict(), indent=2))
    else:
        print_page(diagnosis.markdown())
    return int(not diagnosis.healthy)


def _export_template(options: argparse.Namespace) -> int:
    """Print the response template of a dialect, or write it into a model's tokenizer_config.json.

    Transformers, vLLM and SGLang can use the template.  With --into, print the previous template, if any.
    """
    from ..models.convert.to_response_template import install_template, to_response_template

    if options.into is None:
        print(to_json(to_response_template(options.dialect, anchor=options.anchor), indent=2))
        return 0
    before = install_template(options.dialect, Path(options.into), anchor=options.anchor)
    if before is not None:
        print(to_json(before, indent=2))
    return 0


def _export_dialects(options: argparse.Namespace) -> int:
    """Print all dialects as JSON, or the JSON Schema of a dialect, for programs in other languages."""
    from ..dialects import dialect_schema, dialect_to_json

    found = dialect_schema() if options.schema else [dialect_to_json(each) for each in list_dialects()]
    print(to_json(found, indent=2))
    return 0


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
        table.add_row(*(escape(visible(cell)) for cell in _row(dialect)))
    Console(file=terminal(sys.stdout)).print(table)


def _aliases(dialect: Dialect) -> list[str]:
    return list(dict.fromkeys((*dialect.family.aliases, *dialect.family.reasoning_aliases)))

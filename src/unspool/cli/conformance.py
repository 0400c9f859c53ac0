"""The command ``unspool conformance``, which runs the conformance suite.

The suite is imported only when a command runs, so that ``unspool --help`` stays fast.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .._core.terminal_escaping import visible
from ..errors import UsageError

if TYPE_CHECKING:
    from ..conformance.case_format import TestCase
    from ..conformance.parser_interface import Adapter
    from ..conformance.runner import CaseResult, Report
    from ..conformance.scenarios import Inapplicable

_SHOWN = 10
"""Maximum number of failures in the printed summary."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``unspool conformance``."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="run the suite on one or more parsers", description=_run.__doc__)
    run.add_argument(
        "--unspool",
        action="store_true",
        help="test unspool's parser, too (the default if no other parser is given)",
    )
    run.add_argument(
        "--command",
        action="append",
        default=[],
        metavar="COMMAND",
        help="command line of a program that implements the JSON Lines protocol; may be repeated",
    )
    run.add_argument(
        "--factory",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="Python callable that takes a request and returns a parsing session",
    )
    _add_selection(run)
    run.add_argument(
        "--chunking",
        action="append",
        default=[],
        metavar="NAME",
        help="batch, whole, characters, tokens, random, burst, two, or all (default: all except 'two')",
    )
    run.add_argument("--no-shrink", action="store_true", help="do not shrink failing cases")
    _add_output(run)
    run.set_defaults(conformance=_run)

    report = commands.add_parser(
        "report", help="merge the results of several runs", description=_report.__doc__
    )
    report.add_argument("results", nargs="+", metavar="FILE", help="a result file written by run --json")
    _add_output(report)
    report.set_defaults(conformance=_report)

    listed = commands.add_parser("list", help="list the scenarios", description=_list.__doc__)
    _add_selection(listed)
    listed.set_defaults(conformance=_list)

    show = commands.add_parser("show", help="print cases in readable form", description=_show.__doc__)
    _add_selection(show)
    show.set_defaults(conformance=_show)

    export = commands.add_parser("export", help="write the cases as JSON Lines", description=_export.__doc__)
    _add_selection(export)
    export.add_argument(
        "--schema", action="store_true", help="write the JSON Schema of a case instead of the cases"
    )
    export.set_defaults(conformance=_export)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dialect",
        action="append",
        default=[],
        metavar="DIALECT",
        help="only this dialect (name or alias); may be repeated",
    )
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only scenarios with this name, group or pattern (such as 'order/*-call'); may be repeated",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", help="write a report to this HTML file")
    parser.add_argument("--json", metavar="FILE", help="write the results to this JSON file")


def main(options: argparse.Namespace) -> int:
    """Run the selected command and return its exit code."""
    code: int = options.conformance(options)
    return code


# -- commands


def _run(options: argparse.Namespace) -> int:
    """Run the suite against parsers. The exit code is 1 if a case fails."""
    from ..conformance.runner import Runner, to_json
    from ..conformance.scenarios import cases

    chunkings = _chunkings(options.chunking)
    chosen: list[TestCase | Inapplicable] = []
    reports = []
    for make in _adapters(options):
        adapter = make()
        try:
            runner = Runner(adapter, chunkings, minimise=not options.no_shrink)
            chosen = chosen or list(cases(options.dialect, options.scenario))
            with _progress(adapter.identity().name, len(chosen)) as tick:
                reports.append(runner.run(chosen, tick))
        finally:
            adapter.close()
        _print_summary(reports[-1])
    _write(to_json(reports), options)
    return int(any(report.failed for report in reports))


def _report(options: argparse.Namespace) -> int:
    """Merge the results of several runs into one report."""
    from ..conformance.result_file_format import merge_results

    if not (options.html or options.json):
        raise UsageError("no output was requested: pass --html or --json")
    found = []
    for name in options.results:
        try:
            found.append(json.loads(Path(name).read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {name}: {error}") from error
    _write(merge_results(found), options)
    return 0


def _list(options: argparse.Namespace) -> int:
    """List the scenarios. With --dialect, show why a scenario does not apply to the dialect."""
    from ..conformance.scenarios import GROUPS, capabilities_of, select

    group = ""
    for scenario in select(options.scenario):
        if scenario.group != group:
            group = scenario.group
            print(f"{group}: {GROUPS[group]}")
        print(f"  {scenario.full_name}")
        for dialect in options.dialect:
            case = scenario.case(capabilities_of(dialect))
            if isinstance(case, str):
                print(f"    {dialect}: {case}")
    return 0


def _show(options: argparse.Namespace) -> int:
    """Print cases in readable form: the output and the expected result."""
    from ..conformance.case_format import TestCase
    from ..conformance.scenarios import cases

    for case in cases(options.dialect, options.scenario):
        print(case.to_text() if isinstance(case, TestCase) else f"{case.scenario}: {case.reason}\n")
    return 0


def _export(options: argparse.Namespace) -> int:
    """Write the cases as JSON Lines, for test suites in other languages."""
    from ..conformance.case_format import TestCase, json_schema
    from ..conformance.scenarios import cases

    if options.schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    for case in cases(options.dialect, options.scenario):
        if isinstance(case, TestCase):
            sys.stdout.write(case.to_line())
    return 0


# -- selection


def _chunkings(names: list[str]) -> tuple[str, ...]:
    from ..conformance.runner import ALL_CHUNKINGS, DEFAULT_CHUNKINGS

    if not names:
        return DEFAULT_CHUNKINGS
    if "all" in names:
        return ALL_CHUNKINGS
    unknown = [name for name in names if name not in ALL_CHUNKINGS]
    if unknown:
        raise UsageError(f"unknown chunking {unknown[0]!r}; choose from {', '.join(ALL_CHUNKINGS)}, all")
    return tuple(names)


_AdapterFactory: TypeAlias = "Callable[[], Adapter]"


def _adapters(options: argparse.Namespace) -> Iterator[_AdapterFactory]:
    from ..conformance.external_program import Program
    from ..conformance.parser_interface import from_factory, unspool_adapter

    if options.unspool or not (options.command or options.factory):
        yield unspool_adapter
    for text in options.command:
        yield lambda text=text: Program(shlex.split(text))  # type: ignore[misc]
    if options.factory:
        sys.path.insert(0, str(Path.cwd()))  # to import modules in the working directory
    for path in options.factory:
        yield lambda path=path: from_factory(path)  # type: ignore[misc]


# -- output


@contextmanager
def _progress(name: str, total: int) -> Iterator[Callable[[CaseResult], None] | None]:
    """Show a progress bar if stderr is a terminal and rich is installed."""
    if not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(file=getattr(sys.stderr, "terminal", sys.stderr))
    name = visible(name)  # escaped, because the name of a case may come from another program
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=total)
        failed = 0

        def tick(result: CaseResult) -> None:
            nonlocal failed
            failed += result.status == "failed"
            note = f"{name} {result.case.dialect}" + (f", {failed} failed" if failed else "")
            bar.update(task, advance=1, description=note)

        yield tick


def _print_summary(report: Report) -> None:
    from ..conformance.runner import explain_failure
    from ..conformance.scenarios import GROUPS

    parser = report.parser
    counts = report.counts
    print(f"{parser['name']} {parser['version']}".strip(), "-", _format_counts(counts), sep=" ")
    for group in GROUPS:
        group_results = [result for result in report.results if result.case.group == group]
        if group_results:
            found: dict[str, int] = {}
            for result in group_results:
                found[result.status] = found.get(result.status, 0) + 1
            print(f"  {group:<11} {_format_counts(found)}")
    reasons = len({one.reason for one in report.inapplicable})
    if report.inapplicable:
        print(f"  {len(report.inapplicable)} scenarios not applicable to a dialect, for {reasons} reasons")
    failed = report.failed
    for result in failed[:_SHOWN]:
        print(f"\n{explain_failure(result)}")
    if len(failed) > _SHOWN:
        print(f"... and {len(failed) - _SHOWN} more; --json and --html list all of them")


def _format_counts(counts: dict[str, int]) -> str:
    words = ("passed", "failed", "xfailed", "unsupported")
    return ", ".join(f"{counts[word]} {word}" for word in words if counts.get(word)) or "no cases"


def _write(results: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        # ASCII, because a parser may return a lone surrogate, which UTF-8 cannot encode.
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", "ascii")
    if options.html:
        from ..conformance.report import html_report

        Path(options.html).write_text(html_report(results), "utf-8", errors="backslashreplace")

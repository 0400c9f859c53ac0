"""``unspool conformance``: the suite on the command line.

Only argparse is imported before a command runs, so that ``unspool --help`` stays quick.
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

from .._core.escape_controls import visible
from ..errors import UsageError

if TYPE_CHECKING:
    from ._adapters import Adapter
    from ._cases import TestCase
    from ._runner import CaseResult, Report
    from ._scenarios import Inapplicable

_SHOWN = 10
"""Failures that are printed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commands below ``unspool conformance``."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="hold parsers against the suite", description=_run.__doc__)
    run.add_argument(
        "--parser",
        action="append",
        default=[],
        metavar="NAME",
        help="unspool, or a peer: vllm, sglang, ...; several times for a comparison (default: unspool)",
    )
    run.add_argument(
        "--command",
        action="append",
        default=[],
        metavar="COMMAND",
        help="a program that speaks JSON lines, with its arguments",
    )
    run.add_argument(
        "--factory",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="a parser in Python: what makes a session of a request",
    )
    _add_selection(run)
    run.add_argument(
        "--chunking",
        action="append",
        default=[],
        metavar="NAME",
        help="batch, whole, characters, tokens, random, burst, two, or all (default: all but two)",
    )
    run.add_argument("--no-shrink", action="store_true", help="do not look for smaller cases that fail")
    _add_output(run)
    run.set_defaults(conformance=_run)

    report = commands.add_parser(
        "report", help="put results of several runs together", description=_report.__doc__
    )
    report.add_argument("results", nargs="+", metavar="FILE", help="what run --json wrote")
    _add_output(report)
    report.set_defaults(conformance=_report)

    listed = commands.add_parser("list", help="list the scenarios", description=_list.__doc__)
    _add_selection(listed)
    listed.set_defaults(conformance=_list)

    show = commands.add_parser("show", help="show cases, for people", description=_show.__doc__)
    _add_selection(show)
    show.set_defaults(conformance=_show)

    export = commands.add_parser("export", help="write the cases as JSON lines", description=_export.__doc__)
    _add_selection(export)
    export.add_argument("--schema", action="store_true", help="write the JSON schema of a line instead")
    export.set_defaults(conformance=_export)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dialect", action="append", default=[], metavar="DIALECT", help="by any of its names"
    )
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a group, a name, or a pattern such as 'order/*-call'",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", help="write a report to read in a browser")
    parser.add_argument("--json", metavar="FILE", help="write the results")


def main(options: argparse.Namespace) -> int:
    """Run the command that the options name; the result is its exit code."""
    code: int = options.conformance(options)
    return code


# -- commands


def _run(options: argparse.Namespace) -> int:
    """Hold parsers against the suite; the exit code is 1 if a case fails."""
    from ._runner import Runner, to_json
    from ._scenarios import cases

    ways = _ways(options.chunking)
    chosen: list[TestCase | Inapplicable] = []
    reports = []
    for make in _adapters(options):
        adapter = make()
        try:
            runner = Runner(adapter, ways, minimise=not options.no_shrink)
            chosen = chosen or list(cases(options.dialect, options.scenario))
            with _progress(adapter.identity().name, len(chosen)) as tick:
                reports.append(runner.run(chosen, tick))
        finally:
            adapter.close()
        _print_summary(reports[-1])
    _write(to_json(reports), options)
    return int(any(report.failed for report in reports))


def _report(options: argparse.Namespace) -> int:
    """Put the results of several runs together, into one report."""
    from ._results import merged

    if not (options.html or options.json):
        raise UsageError("nothing to write: give --html or --json")
    found = []
    for name in options.results:
        try:
            found.append(json.loads(Path(name).read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {name}: {error}") from error
    _write(merged(found), options)
    return 0


def _list(options: argparse.Namespace) -> int:
    """List the scenarios; with --dialect, whether that dialect can express each of them."""
    from ._scenarios import GROUPS, able, select

    group = ""
    for scenario in select(options.scenario):
        if scenario.group != group:
            group = scenario.group
            print(f"{group}: {GROUPS[group]}")
        print(f"  {scenario.full_name}")
        for dialect in options.dialect:
            case = scenario.case(able(dialect))
            if isinstance(case, str):
                print(f"    {dialect}: {case}")
    return 0


def _show(options: argparse.Namespace) -> int:
    """Show cases as people read them: the output, and what must come out."""
    from ._cases import TestCase
    from ._scenarios import cases

    for case in cases(options.dialect, options.scenario):
        print(case.to_text() if isinstance(case, TestCase) else f"{case.scenario}: {case.reason}\n")
    return 0


def _export(options: argparse.Namespace) -> int:
    """Write the cases as JSON lines, for suites in other languages."""
    from ._cases import TestCase, json_schema
    from ._scenarios import cases

    if options.schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    for case in cases(options.dialect, options.scenario):
        if isinstance(case, TestCase):
            sys.stdout.write(case.to_line())
    return 0


# -- what to run


def _ways(names: list[str]) -> tuple[str, ...]:
    from ._runner import DEFAULT_WAYS, WAYS

    if not names:
        return DEFAULT_WAYS
    if "all" in names:
        return WAYS
    wrong = [name for name in names if name not in WAYS]
    if wrong:
        raise UsageError(f"no chunking {wrong[0]!r}: choose from {', '.join(WAYS)}, all")
    return tuple(names)


_Make: TypeAlias = "Callable[[], Adapter]"


def _adapters(options: argparse.Namespace) -> Iterator[_Make]:
    from ._adapters import from_factory, unspool_adapter
    from .stdio import Program

    names = options.parser or ([] if options.command or options.factory else ["unspool"])
    for name in names:
        if name == "unspool":
            yield unspool_adapter
        else:
            from .peers import command

            yield lambda name=name: Program(command(name))  # type: ignore[misc]
    for text in options.command:
        yield lambda text=text: Program(shlex.split(text))  # type: ignore[misc]
    if options.factory:
        sys.path.insert(0, str(Path.cwd()))  # where a project's own modules are
    for path in options.factory:
        yield lambda path=path: from_factory(path)  # type: ignore[misc]


# -- what to tell


@contextmanager
def _progress(name: str, total: int) -> Iterator[Callable[[CaseResult], None] | None]:
    """A bar on a terminal, if rich is there; else nothing."""
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
    name = visible(name)  # another program's
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
    from ._runner import told
    from ._scenarios import GROUPS

    parser = report.parser
    counts = report.counts
    print(f"{parser['name']} {parser['version']}".strip(), "-", _spelt(counts), sep=" ")
    for group in GROUPS:
        mine = [result for result in report.results if result.case.group == group]
        if mine:
            found: dict[str, int] = {}
            for result in mine:
                found[result.status] = found.get(result.status, 0) + 1
            print(f"  {group:<11} {_spelt(found)}")
    reasons = len({one.reason for one in report.inapplicable})
    if report.inapplicable:
        print(f"  {len(report.inapplicable)} scenarios that a dialect cannot express, for {reasons} reasons")
    failed = report.failed
    for result in failed[:_SHOWN]:
        print(f"\n{told(result)}")
    if len(failed) > _SHOWN:
        print(f"... and {len(failed) - _SHOWN} more; --json and --html have them all")


def _spelt(counts: dict[str, int]) -> str:
    words = ("passed", "failed", "xfailed", "unsupported")
    return ", ".join(f"{counts[word]} {word}" for word in words if counts.get(word)) or "no cases"


def _write(results: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        # As ASCII: a parser may answer with half a surrogate pair, which UTF-8 has no bytes for.
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", "ascii")
    if options.html:
        from ._report import html_report

        Path(options.html).write_text(html_report(results), "utf-8", errors="backslashreplace")

"""Pytest plug-in, which runs the suite as part of another project's tests.

``pytest -p unspool.conformance.pytest_plugin --unspool-conformance mypackage.myparser:factory`` adds a test
for every case in the dialects that the factory supports. Factories are described in ``parser_interface.py``.
Instead of ``-p``, a ``conftest.py`` can say ``pytest_plugins = ["unspool.conformance.pytest_plugin"]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .case_format import TestCase
    from .runner import CaseResult, Runner


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plug-in's command-line options to pytest."""
    group = parser.getgroup("unspool", "conformance of tool-call parsers")
    group.addoption(
        "--unspool-conformance",
        metavar="MODULE:NAME",
        help="run unspool's conformance suite on the parsers that this factory creates",
    )
    for name, what in (
        ("dialect", "only this dialect"),
        ("scenario", "only this group, name or pattern"),
        ("chunking", "split the outputs like this: batch, whole, characters, tokens, two, random, burst"),
    ):
        group.addoption(
            f"--unspool-{name}", action="append", default=[], metavar="NAME", help=f"{what}; may be repeated"
        )


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add the tests of the suite to the collected tests."""
    if session.config.getoption("--unspool-conformance"):
        items.extend(Suite.from_parent(session, name="unspool-conformance", path=session.path).collect())


class Suite(pytest.Collector):
    """Collector of the selected test cases."""

    def __init__(self, *, path: Path, **options: Any) -> None:
        super().__init__(path=path, **options)

    def collect(self) -> Iterator[pytest.Item]:
        from ..errors import UsageError
        from .case_format import TestCase
        from .parser_interface import from_factory
        from .runner import DEFAULT_CHUNKINGS, Runner
        from .scenarios import cases

        option = self.config.getoption
        try:
            adapter = from_factory(option("--unspool-conformance"))
            dialects = adapter.identity().dialects
            runner = Runner(adapter, option("--unspool-chunking") or DEFAULT_CHUNKINGS)
            for case in cases(option("--unspool-dialect"), option("--unspool-scenario")):
                if isinstance(case, TestCase) and case.dialect in dialects:
                    name = f"{case.dialect}::{case.scenario_name}"
                    yield CaseItem.from_parent(self, name=name, case=case, runner=runner)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from error


class CaseItem(pytest.Item):
    """Test item for one case."""

    def __init__(self, *, case: TestCase, runner: Runner, **options: Any) -> None:
        super().__init__(**options)
        self.case = case
        self._runner = runner

    def runtest(self) -> None:
        result = self._runner.check(self.case)
        if result.status == "unsupported":
            pytest.skip(result.reason)
        elif result.status == "xfailed":
            pytest.xfail(result.reason)
        elif result.status == "failed":
            raise CaseFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class CaseFailed(AssertionError):
    """Error for a failed case, with an explanation of the failure."""

    def __init__(self, result: CaseResult) -> None:
        from .runner import explain_failure

        super().__init__(explain_failure(result))

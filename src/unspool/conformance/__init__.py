"""Conformance suite for tool call parsers.  It tests every dialect and many ways to split outputs.

``unspool conformance run`` tests a parser.  The plug-in ``unspool.conformance.pytest_plugin`` tests a parser
within another project's test suite.  Both are described in ``docs/conformance.md``.  In Python:

>>> from unspool.conformance import cases, run_suite, unspool_adapter
>>> next(cases(["hermes"], ["order/text-call"])).expected_content
'Let me see.'
>>> run_suite(unspool_adapter(), dialects=["hermes"], scenarios=["duplicates"]).failed
[]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .case_format import (
        CallReference,
        DeltaMessage,
        DeltaToolCall,
        ExtractedToolCallInformation,
        FunctionCall,
        Run,
        TestCase,
        TextSegment,
        ToolCall,
        Unfinished,
        json_schema,
    )
    from .external_program import Program
    from .parser_interface import (
        Adapter,
        Identity,
        InProcess,
        ParserFailed,
        Reply,
        Request,
        Session,
        Unsupported,
        unspool_adapter,
    )
    from .runner import CaseResult, Report, run_suite
    from .scenarios import Inapplicable, cases

__all__ = [
    "Adapter",
    "CallReference",
    "CaseResult",
    "DeltaMessage",
    "DeltaToolCall",
    "ExtractedToolCallInformation",
    "FunctionCall",
    "Identity",
    "InProcess",
    "Inapplicable",
    "ParserFailed",
    "Program",
    "Reply",
    "Report",
    "Request",
    "Run",
    "Session",
    "TestCase",
    "TextSegment",
    "ToolCall",
    "Unfinished",
    "Unsupported",
    "cases",
    "json_schema",
    "run_suite",
    "unspool_adapter",
]

_MODULES: Final = {
    "parser_interface": (
        "Adapter",
        "Identity",
        "InProcess",
        "ParserFailed",
        "Reply",
        "Request",
        "Session",
        "Unsupported",
        "unspool_adapter",
    ),
    "runner": ("CaseResult", "Report", "run_suite"),
    "scenarios": ("Inapplicable", "cases"),
    "external_program": ("Program",),
}
"""Public names, keyed by module. Public names that are not listed here are in ``case_format``."""


def __getattr__(name: str) -> object:
    # Submodules are imported on first use, because most commands do not need them.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "case_format")
    return getattr(import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

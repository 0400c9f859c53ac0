"""Options that the page offers: dialects, example outputs and policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .._core.explain_dialect import kind
from .._version import __version__
from ..conformance.case_format import TestCase
from ..conformance.scenarios import GROUPS, cases
from ..dialects import list_dialects
from ..policies import ENGINES, policy_choices
from ..sample_outputs import list_samples, tools
from .request_fields import Setup

_GROUPS: Final = ("standard", "order", "quoted", "malformed", "missing", "orphans", "duplicates", "prefilled")
"""Groups of the conformance suite that the page offers as examples."""
_BROKEN: Final = (
    "Let me look.\n<tool_call>\n"
    '{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3.}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n</tool_call>'
)
_MENTIONED: Final = (
    "Put the call between <tool_call> and </tool_call>, and the thought between <think> and </think>:\n\n"
    '<tool_call>\n{"name": "run_python", "arguments": {"code": "print(\'</tool_call>\')"}}\n</tool_call>'
)


def dialects(_: Mapping[str, Any]) -> dict[str, Any]:
    """Return all dialects, the presets of the page, and each policy with its possible values."""
    return {
        "version": __version__,
        "dialects": [
            {
                "name": dialect.name,
                "models": dialect.family.models,
                "aliases": list(dialect.family.aliases),
                "calls": kind(dialect),
            }
            for dialect in list_dialects()
        ],
        "tools": tools(),
        "policies": {name: list(values) for name, values in policy_choices().items()},
        "engines": list(ENGINES),
        "presets": list(_presets()),
    }


def _presets() -> Iterator[dict[str, Any]]:
    """Yield the page's presets: outputs with options, which show typical features of the parser."""
    hermes, tagged, framed = list_samples(["hermes", "qwen3_coder", "harmony"])
    cut = hermes.output[: hermes.output.rindex("return")]
    for title, shown, text, reason in (
        ("Reasoning, text and calls", hermes, hermes.output, "stop"),
        ("Parameters in tags", tagged, tagged.output, "stop"),
        ("Framed messages", framed, framed.output, "stop"),
        ("A broken call", hermes, _BROKEN, "stop"),
        ("Cut off in a call", hermes, cut, "length"),
        ("Markers that are only mentioned", hermes, _MENTIONED, "stop"),
    ):
        yield {
            "title": title,
            "dialect": shown.dialect.name,
            "text": text,
            "prompt": shown.prompt,
            "finish_reason": reason,
        }


def examples(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return example outputs of a dialect: its sample output, and its conformance cases in groups."""
    dialect = Setup.of(request).dialect
    (sample,) = list_samples([dialect.name])
    tool_lists: list[Any] = [tools()]
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in cases([dialect.name], _GROUPS):
        if isinstance(case, TestCase) and case.n == 1:
            groups.setdefault(case.group, []).append(_case(case, tool_lists))
    return {
        "sample": {
            "title": "Sample output",
            "shows": sample.shows,
            "text": sample.output,
            "tools": 0,
            "prompt": sample.prompt,
            "finish_reason": "stop",
        },
        "groups": [{"title": GROUPS[group], "cases": members} for group, members in groups.items()],
        "tools": tool_lists,
    }


def _case(case: TestCase, tool_lists: list[Any]) -> dict[str, Any]:
    """Return a case as JSON; ``tools`` is an index into ``tool_lists``, to which new tools are added."""
    declared = list(case.tools)
    if declared not in tool_lists:
        tool_lists.append(declared)
    return {
        "title": case.scenario_name.partition("/")[2],
        "shows": case.rule,
        "text": case.model_output,
        "tools": tool_lists.index(declared),
        "prompt": case.prompt,
        "finish_reason": case.finish_reason,
    }

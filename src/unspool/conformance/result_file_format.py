r"""Format of result files, which ``run --json`` writes and the report reads.

One JSON object::

    {"format": 1,
     "unspool": "0.1.0",                   # the suite's version
     "created": "2026-11-15T06:30:00Z",
     "chunkings": ["whole", "characters"],
     "parsers": [{"name": "vllm", "version": "0.32.0", "dialects": {"hermes": {...}, ...}}],
     "dialects": [{"name": "hermes", "models": "Hermes 2 Pro to 4, Qwen2.5, ..."}],
     "groups": [{"name": "order", "title": "Order and interleaving"}],
     "inapplicable": [{"dialect": "xlam", "scenario": "order/text-call",
                       "group": "order", "reason": "calls count only if no text precedes them"}],
     "cells": [{"parser": "vllm", "dialect": "hermes", "group": "order",
                "passed": 40, "failed": 1, "xfailed": 2, "unsupported": 0,
                "classes": {"match": 40, "loss": 1, "whitespace": 2},
                "sample": "hermes:order/text-call"}],
     "results": [{"parser": "vllm", "case": "hermes:order/call-text", "dialect": "hermes", "group": "order",
                  "scenario": "order/call-text",
                  "status": "failed",      # failed, xfailed, unsupported; passed only for samples
                  "class": "loss",         # of the worst chunking; see _compare.CLASSES
                  "chunkings": {"whole": "match", "characters": "loss"},
                  "chunking": "characters", "chunks": ["<", "t", ...],    # of the worst run
                  "actual": {...} or null, # ExtractedToolCallInformation, with "order"
                  "error": "",             # the parser's exception, or the violated streaming rule
                  "detail": "content: ...",         # description of the difference
                  "diff": "- content ...\n+ content ...",
                  "reason": "",            # xfailed: the ruling or the policy difference;
                                           # unsupported: the parser's explanation
                  "defect": false,         # xfailed: true if the ruling is a known defect of unspool
                  "minimal": {"output": "...", "chunks": [...]} or null}],
     "cases": {"hermes:order/call-text": {...}}}   # TestCase.to_json(), of every case in "results"

A *cell* is the combination of a parser, a dialect and a group. A cell counts cases, not runs; a case passes
if it passes in every chunking. ``cells`` contains all cells. ``results`` has an entry for every case that did
not pass. ``results`` also has the first passed case of each cell, as an example for the report. The
classes in ``class`` and ``chunkings`` are those of ``_compare.CLASSES``. Texts longer than ``MAX_CHARACTERS``
are abbreviated in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..errors import UsageError

FORMAT: Final = 1
"""Version of the result format."""
MAX_CHARACTERS: Final = 2000
"""Maximum length of a text in the results, in characters."""
MAX_CHUNKS: Final = 500
"""Maximum length of a list of chunks in the results; longer lists are abbreviated."""


def abbreviate(value: Any) -> Any:
    """Abbreviate every long string in a JSON value by replacing its middle."""
    if isinstance(value, str) and len(value) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2
        return f"{value[:half]} ... {len(value) - MAX_CHARACTERS} characters ... {value[-half:]}"
    if isinstance(value, dict):
        return {key: abbreviate(item) for key, item in value.items()}
    return [abbreviate(item) for item in value] if isinstance(value, list) else value


def abbreviate_list(items: Sequence[str]) -> list[str]:
    """Abbreviate a long list of strings by replacing its middle."""
    if len(items) <= MAX_CHUNKS:
        return list(items)
    half = MAX_CHUNKS // 2
    return [*items[:half], f"... {len(items) - MAX_CHUNKS} chunks ...", *items[-half:]]


def merge_results(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the results of several runs of the suite; for each parser, only its last run is used."""
    unsupported = [result for result in results if result.get("format") != FORMAT]
    if unsupported:
        raise UsageError(f"unsupported result format {unsupported[0].get('format')!r}; run the suite again")
    out: dict[str, Any] = dict(results[-1])
    last = {parser["name"]: number for number, result in enumerate(results) for parser in result["parsers"]}

    def keep_last(key: str, name: str) -> list[Any]:
        return [item for i, result in enumerate(results) for item in result[key] if last[item[name]] == i]

    out["parsers"] = keep_last("parsers", "name")
    out["cells"] = keep_last("cells", "parser")
    out["results"] = keep_last("results", "parser")
    for key, names in (("dialects", ("name",)), ("inapplicable", ("dialect", "scenario"))):
        unique = {tuple(item[name] for name in names): item for result in results for item in result[key]}
        out[key] = [unique[name] for name in sorted(unique)]
    out["chunkings"] = list(dict.fromkeys(way for result in results for way in result["chunkings"]))
    out["cases"] = {key: case for result in results for key, case in result["cases"].items()}
    return out

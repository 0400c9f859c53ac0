r"""Results: what ``run --json`` writes and the report reads.

One JSON object::

    {"format": 1,
     "unspool": "0.1.0",                   # the suite's version
     "created": "2026-11-15T06:30:00Z",
     "chunkings": ["whole", "characters"],
     "parsers": [{"name": "vllm", "version": "0.32.0", "dialects": {"hermes": {...}, ...}}],
     "dialects": [{"name": "hermes", "models": "Hermes 2 Pro to 4, Qwen2.5, ..."}],
     "groups": [{"name": "order", "title": "Order and interleaving"}],
     "inapplicable": [{"dialect": "xlam", "scenario": "order/text-call",
                       "group": "order", "reason": "calls count only where no text came before"}],
     "cells": [{"parser": "vllm", "dialect": "hermes", "group": "order",
                "passed": 40, "failed": 1, "xfailed": 2, "unsupported": 0,
                "classes": {"match": 40, "loss": 1, "whitespace": 2},
                "sample": "hermes:order/text-call"}],
     "results": [{"parser": "vllm", "case": "hermes:order/call-text", "dialect": "hermes", "group": "order",
                  "scenario": "order/call-text",
                  "status": "failed",      # failed, xfailed, unsupported; passed only for samples
                  "class": "loss",         # of the worst chunking: see compare.CLASSES
                  "chunkings": {"whole": "match", "characters": "loss"},
                  "chunking": "characters", "chunks": ["<", "t", ...],    # the worst one
                  "actual": {...} or null, # ExtractedToolCallInformation, with "order"
                  "error": "",             # what the parser raised, or which rule of streams it broke
                  "detail": "content: no ...",      # the difference in a sentence
                  "diff": "- content ...\n+ content ...",
                  "excuse": "",            # of xfailed: the ruling's or the excuse's reason;
                                           # of unsupported: what the parser said
                  "defect": false,         # of xfailed: whether the ruling is a known fault of unspool
                  "minimal": {"output": "...", "chunks": [...]} or null}],
     "cases": {"hermes:order/call-text": {...}}}   # TestCase.to_json(), of every case in "results"

A *cell* counts cases, not runs: a case has passed if it has in every chunking.
``cells`` are complete; ``results`` has one entry for every case that did not pass
and, so that each cell can be opened, the first one that did.  ``class`` and
``chunkings`` take the classes of ``compare.CLASSES``.  Texts beyond ``LONGEST``
characters are abbreviated in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..errors import UsageError

FORMAT: Final = 1
LONGEST: Final = 2000
"""Characters of a text in the results ..."""
MOST: Final = 500
"""... and items of a list of chunks."""


def abbreviated(value: Any) -> Any:
    """The value, with long texts cut in the middle."""
    if isinstance(value, str) and len(value) > LONGEST:
        half = LONGEST // 2
        return f"{value[:half]} ... {len(value) - LONGEST} characters ... {value[-half:]}"
    if isinstance(value, dict):
        return {key: abbreviated(item) for key, item in value.items()}
    return [abbreviated(item) for item in value] if isinstance(value, list) else value


def abbreviated_list(items: Sequence[str]) -> list[str]:
    """A list of texts, cut in the middle if it is long."""
    if len(items) <= MOST:
        return list(items)
    half = MOST // 2
    return [*items[:half], f"... {len(items) - MOST} chunks ...", *items[-half:]]


def merged(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Results of several runs as one; of a parser that occurs twice the last run counts."""
    wrong = [found for found in results if found.get("format") != FORMAT]
    if wrong:
        raise UsageError(f"results of format {wrong[0].get('format')!r}: run the suite again")
    out: dict[str, Any] = dict(results[-1])
    last = {parser["name"]: number for number, found in enumerate(results) for parser in found["parsers"]}

    def kept(key: str, name: str) -> list[Any]:
        return [item for i, found in enumerate(results) for item in found[key] if last[item[name]] == i]

    out["parsers"] = kept("parsers", "name")
    out["cells"] = kept("cells", "parser")
    out["results"] = kept("results", "parser")
    for key, names in (("dialects", ("name",)), ("inapplicable", ("dialect", "scenario"))):
        unique = {tuple(item[name] for name in names): item for found in results for item in found[key]}
        out[key] = [unique[name] for name in sorted(unique)]
    out["chunkings"] = list(dict.fromkeys(way for found in results for way in found["chunkings"]))
    out["cases"] = {key: case for found in results for key, case in found["cases"].items()}
    return out

"""Mutated declarations: each one is refused with ``SpecError``, or it works everywhere.

Run more of them with ``python tests/dialects/test_mutated_declarations.py COUNT [FIRST_SEED]``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest

from mutated_declarations import mutated
from unspool import Dialect, Message, SpecError, ToolCall, UsageError, plan, render
from unspool._core.compile_cache import compiled_dialect
from unspool.dialects import dialect_from_json, dialect_to_json, explain
from unspool.dialects._registry import check_declaration
from unspool.dialects._validation import validate_dialect
from unspool.grammar import grammar_for
from unspool.models.convert.python_source import python_source
from unspool.testing import ModelOutput, assert_laws, chunkings, markers

TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "tags": {"type": "array"},
                },
                "required": ["city"],
            },
        },
    }
    for name in ("get_weather", "now")
]
CALLS: Final = (
    ToolCall("a1", "get_weather", '{"city": "Oslo", "days": 3, "tags": ["a"]}'),
    ToolCall("b2", "now", "{}"),
)
MESSAGES: Final = (
    Message(tool_calls=CALLS),
    Message("Hello.", tool_calls=CALLS[:1]),
    Message("Yes.", "Hm."),
)
PER_BATCH: Final = 25


def check_mutant(seed: int) -> str:
    """Return ``refused`` or ``accepted``; raise any other error than ``SpecError``."""
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    dialect = mutated(rng)
    if not isinstance(dialect, SpecError):
        try:
            compiled_dialect(dialect)
            if dialect.request is not None:
                check_declaration(dialect)
        except SpecError as error:
            dialect = error
    if isinstance(dialect, SpecError):
        assert str(dialect).strip()
        return "refused"
    _check_works(dialect, rng)
    return "accepted"


def _check_works(dialect: Dialect, rng: Random) -> None:
    validate_dialect(dialect)
    assert dialect_from_json(dialect_to_json(dialect)) == dialect
    assert python_source(dialect)
    assert explain_or_refuse(dialect)
    texts = ["", *filter(None, (_rendered(dialect, message) for message in MESSAGES))]
    marks = [*markers(dialect), "get_weather", "{", "}", '"city": "Oslo"', "\n"]
    texts += ["".join(rng.choice(marks) for _ in range(rng.randint(1, 7))) for _ in range(3)]
    for text in texts:
        for tools in (None, TOOLS):
            output = ModelOutput(text, tools)
            assert_laws(dialect, output, chunkings(text, seed=rng.randrange(1000), splits=0, random=1))
    for choice in ("auto", "required"):
        try:
            grammar = grammar_for(dialect, TOOLS, choice=choice)
        except UsageError:
            continue
        assert grammar.gbnf()
    request: Mapping[str, object] = {"messages": [{"role": "user", "content": "Hi."}], "tools": TOOLS}
    plannable = dialect if dialect.request is not None else replace(dialect, request="hermes")
    try:
        check_declaration(plannable)
    except SpecError:
        return
    for choice in ("auto", "required"):
        try:
            plan(plannable, {**request, "tool_choice": choice})
        except UsageError:
            continue


def explain_or_refuse(dialect: Dialect) -> str:
    try:
        return explain(dialect)
    except UsageError as error:
        return str(error)


def _rendered(dialect: Dialect, message: Message) -> str:
    try:
        return render(message, dialect)
    except UsageError:
        pass
    try:
        return render(message, dialect, check=False)
    except UsageError:
        return ""


@pytest.mark.parametrize("batch", range(12))
def test_mutated_declaration_is_refused_or_works(batch: int) -> None:
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        try:
            check_mutant(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


def main(count: int, first: int = 0) -> None:
    """Check many mutants, and print how many were refused, how many work, and the seeds of the failures."""
    found: Counter[str] = Counter()
    failures: dict[str, list[int]] = {}
    started = time.monotonic()
    for seed in range(first, first + count):
        try:
            found[check_mutant(seed)] += 1
        except Exception as error:  # noqa: BLE001 - all kinds of failures are counted
            found["failed"] += 1
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            where = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else ""
            failures.setdefault(f"{type(error).__name__} {where} {str(error)[:80]!r}", []).append(seed)
    for kind, seeds in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):5} {kind}: seeds {seeds[:5]}")
    print(f"{count} declarations from seed {first} in {time.monotonic() - started:.0f} s: {dict(found)}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*map(int, sys.argv[1:]))

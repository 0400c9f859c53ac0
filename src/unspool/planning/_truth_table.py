"""The truth table as a page: generated from plans, so that it cannot disagree with them.

``python -m unspool.planning._truth_table`` writes ``docs/truth-table.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..dialects._declaration import Dialect
from ..dialects._registry import built_in_dialects, facts_of
from ..dialects._request_facts import MODEL, Thinking
from ..errors import UsageError
from ._build_plan import plan

TOOLS: Final = ({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},)
NAMED: Final = {"type": "function", "function": {"name": "f"}}
AFTER_TOOL: Final = (
    {"role": "user", "content": "?"},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "tool", "content": "!"},
)

COLUMNS: Final = (
    "dialect",
    "special tokens, with tools",
    "without",
    "reasoning",
    "off when",
    "while off",
    "begins",
    "begins, switched on",
    "after a tool",
    "required",
    "named",
    "ends a turn",
    "stripped",
)

INTRO: Final = """\
# What each family is told

One row per dialect, one column per decision that surrounds a request. The page is generated from
`unspool.plan` (`python -m unspool.planning._truth_table`), and a test compares the two. `n/a` means that a
question does not arise.

- **special tokens** (PRE.1): whether the detokenizer must *keep* special tokens or may *strip* them, where no
  tokenizer can be asked; with one, its flags decide.
- **reasoning** (PRE.2): what a request gets that says nothing: *on*, *off*, *always*, or up to the *model*.
  **Off when**: the switches that turn it off; other spellings of them are translated. **While off**: whether
  its markers are then *text* or still *read*.
- **begins** (PRE.3): where the output begins if no prompt is given, for a request that says nothing, for one
  that switches reasoning on, and for the latter after the result of a tool. A prompt has the last word.
- **required**, **named** (PRE.4): how a forced call is enforced: by the *native* grammar of the dialect, or
  by a *json* schema; in brackets, the alternative.
- **ends a turn** (PRE.5): tokens; *model*: only the generation config knows.
- **stripped** (PRE.6): what is taken off the beginning of the content while reasoning is off.
"""

CHECKPOINTS: Final = """\
## Checkpoints and reasoning parsers

They share a dialect with others, but are switched or seeded in another way. `plan` takes these names, also
behind a plus sign: `qwen3_coder+qwen3_thinking`. Dialects that come from a tokenizer's response template keep
special tokens, follow the prompt, and are forced by their native grammar.
"""


def truth_table() -> str:
    """The page."""
    names = [dialect.name for dialect in built_in_dialects()]
    parts = [INTRO, *_table(COLUMNS, map(row, names)), ""]
    parts += [CHECKPOINTS, *_table(("name", *COLUMNS), checkpoints())]
    return "\n".join(parts) + "\n"


def checkpoints() -> Iterator[tuple[str, ...]]:
    """The rows of names that are not dialects."""
    shared = [(name, each) for each in built_in_dialects() for name, _ in facts_of(each).checkpoints]
    for name, dialect in sorted(shared, key=lambda pair: pair[0]):
        yield (f"`{name}`", f"`{dialect.name}`", *row(name)[1:])


def row(name: str) -> tuple[str, ...]:
    """The cells of one row."""
    said_nothing = plan(name, {"tools": TOOLS})
    facts = said_nothing.facts
    thinking = facts.thinking
    switched_on = switch(thinking, on=True)
    switched_off = switch(thinking, on=False)
    off = None if switched_off is None else plan(name, switched_off)
    on = plan(name, switched_on or {})
    after = plan(name, {**(switched_on or {}), "messages": AFTER_TOOL})
    return (
        f"`{said_nothing.dialect.name}`",
        "strip" if said_nothing.skip_special_tokens else "keep",
        "strip" if plan(name, {}).skip_special_tokens else "keep",
        thinking.default,
        thinking.off_when(),
        thinking.when_off if off is None or off.reasoning else _read(off.reads.reasoning, thinking),
        said_nothing.start,
        "n/a" if thinking.default == "n/a" else on.start,
        after.start,
        _forced(name, "required", said_nothing.dialect),
        _forced(name, NAMED, said_nothing.dialect),
        " ".join(eos if eos == MODEL else _code(eos) for eos in facts.eos),
        "n/a" if off is None or not off.strip else _code(off.strip),
    )


def switch(thinking: Thinking, *, on: bool) -> dict[str, Any] | None:
    """A request that switches reasoning on or off in the family's own words."""
    if thinking.default in ("always", "n/a"):
        return None
    for name in thinking.switches:
        if name == "thinking_budget":
            return {"thinking_budget": -1 if on else 0}
        if name == "reasoning_effort":
            return {"reasoning_effort": "high" if on else thinking.effort_off[0]}
        if name != "thinking_mode":
            return {"chat_template_kwargs": {name: on}}
    return None


def _read(reasoning: tuple[str, ...], thinking: Thinking) -> str:
    return "read" if reasoning or thinking.seed == "header" else "text"


def _forced(name: str, choice: str | Mapping[str, object], dialect: Dialect) -> str:
    """How a call is enforced, and the alternative."""
    found: list[str] = []
    for constraints in (("native", "json"), ("json",), ("native",)):
        try:
            decided = plan(name, {"tools": TOOLS, "tool_choice": choice}, constraints=constraints)
        except UsageError:  # only the vocabulary can tell how it writes
            found.append("native")
            continue
        kind = decided.constraint.kind
        if kind != "none":
            found.append("json" if kind == "guided_json" else kind)
    best, *others = dict.fromkeys(found) or ("none",)
    notes = [f"or {other}" for other in others]
    if best == "native" and dialect.family.variants:
        notes.insert(0, "by tokenizer")
    return best + (f" ({', '.join(notes)})" if notes else "")


def _code(text: str) -> str:
    return "`" + text.replace("\n", "\\n").replace("|", "\\|") + "`"


def _table(columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for cells in rows:
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(truth_table())

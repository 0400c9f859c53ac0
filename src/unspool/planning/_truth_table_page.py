"""Generator of the page ``docs/truth-table.md``.

The table contains results of ``plan``, so the page agrees with the code.
``python -m unspool.planning._truth_table_page`` prints the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..dialects import Dialect, Thinking, built_in_dialects, end_tokens, facts_of
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

NOT_APPLICABLE: Final = "n/a"

INTRO: Final = """\
# Request decisions by model family

The table has one row per dialect and one column per decision of a plan. It is generated from `unspool.plan`
(`python -m unspool.planning._truth_table_page`), and a test compares the two. `n/a` means that the decision
does not apply.

- **special tokens** (PRE.1): the detokenizer must *keep* special tokens, or may *strip* them. With a
  tokenizer, the flags of its tokens decide instead.
- **reasoning** (PRE.2): the default without a switch in the request: *on*, *off*, *always*, or up to the
  *model*. **Off when**: the switches that turn reasoning off; other common switches are translated to these.
  **While off**: the parser treats markers of reasoning as *text*, or still *reads* them.
- **begins** (PRE.3): where the output begins if no prompt is given: without a switch, with reasoning switched
  on, and with reasoning switched on after the result of a tool. If a prompt is given, its end decides.
- **required**, **named** (PRE.4): a required call is enforced by the *native* grammar of the dialect, or by a
  *json* schema; the alternative is in brackets.
- **ends a turn** (PRE.5): the tokens that end a turn; *model*: only the model's generation config knows them.
- **stripped** (PRE.6): the marker that is stripped from the beginning of the content while reasoning is off.
"""

CHECKPOINTS: Final = """\
## Checkpoints and reasoning parsers

These share a dialect with other models, but have other options for reasoning or another seed. `plan` accepts
their names, also after a plus sign: `qwen3_coder+qwen3_thinking`. A dialect from the response template of a
tokenizer keeps special tokens, begins where the prompt says, and enforces calls with its native grammar.
"""


def truth_table() -> str:
    """Return the page as Markdown."""
    names = [dialect.name for dialect in built_in_dialects()]
    parts = [INTRO, *_table(COLUMNS, map(row, names)), ""]
    parts += [CHECKPOINTS, *_table(("name", *COLUMNS), checkpoints())]
    return "\n".join(parts) + "\n"


def checkpoints() -> Iterator[tuple[str, ...]]:
    """Yield the table rows for checkpoints and reasoning parsers."""
    names = [(name, each) for each in built_in_dialects() for name, _ in facts_of(each).checkpoints]
    for name, dialect in sorted(names, key=lambda pair: pair[0]):
        yield (f"`{name}`", f"`{dialect.name}`", *row(name)[1:])


def row(name: str) -> tuple[str, ...]:
    """Return the cells of the table row for a dialect or checkpoint."""
    default = plan(name, {"tools": TOOLS})
    facts = default.facts
    thinking = facts.thinking
    switched_on = switch(thinking, on=True)
    switched_off = switch(thinking, on=False)
    off = None if switched_off is None else plan(name, switched_off)
    on = plan(name, switched_on or {})
    after = plan(name, {**(switched_on or {}), "messages": AFTER_TOOL})
    return (
        f"`{default.dialect.name}`",
        "strip" if default.skip_special_tokens else "keep",
        "strip" if plan(name, {}).skip_special_tokens else "keep",
        thinking.default or NOT_APPLICABLE,
        thinking.off_when() if thinking.default else NOT_APPLICABLE,
        thinking.when_off or NOT_APPLICABLE
        if off is None or off.reasoning
        else _read(off.reads.reasoning, in_header=off.reads.prompt.opens_message),
        default.start,
        on.start if thinking.default else NOT_APPLICABLE,
        after.start,
        _forced(name, "required", default.dialect),
        _forced(name, NAMED, default.dialect),
        " ".join(map(_code, end_tokens(default.dialect, facts))) or "model",
        NOT_APPLICABLE if off is None or not off.strip else _code(off.strip),
    )


def switch(thinking: Thinking, *, on: bool) -> dict[str, Any] | None:
    """Return request fields that switch reasoning on or off; None if the family has no switch."""
    if thinking.default in ("always", None):
        return None
    for name in thinking.switches:
        if name == "thinking_budget":
            return {"thinking_budget": -1 if on else 0}
        if name == "reasoning_effort":
            return {"reasoning_effort": "high" if on else thinking.effort_off[0]}
        if name != "thinking_mode":
            return {"chat_template_kwargs": {name: on}}
    return None


def _read(reasoning: tuple[object, ...], *, in_header: bool) -> str:
    return "read" if reasoning or in_header else "text"


def _forced(name: str, choice: str | Mapping[str, object], dialect: Dialect) -> str:
    """Return a table cell: the kind of constraint that enforces a call, and notes in parentheses.

    The notes are other kinds, for backends that support fewer constraints; and ``by tokenizer`` if the
    form of calls depends on the vocabulary.
    """
    kinds: list[str] = []
    for constraints in (("native", "json"), ("json",), ("native",)):
        try:
            decided = plan(name, {"tools": TOOLS, "tool_choice": choice}, constraints=constraints)
        except UsageError:  # the form of calls depends on the vocabulary
            kinds.append("native")
            continue
        kind = decided.constraint.kind
        if kind != "none":
            kinds.append("json" if kind == "guided_json" else kind)
    best, *others = dict.fromkeys(kinds) or ("none",)
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

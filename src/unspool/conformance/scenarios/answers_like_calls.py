"""Scenarios with answers that only look like calls or reasoning: JSON that is not a call, and quoted markers.

A client must never receive a call that the model did not make.  The client must receive the answer, even if
the answer looks like a call or reasoning.
"""

from __future__ import annotations

from typing import Final

from ...dialects import facts_of
from ...testing import RenderedPiece
from ..case_format import TextSegment
from .dialect_capabilities import reasoning_markers
from .sample_parts import REASONING, ScenarioPart
from .scenario import Draft, Scenario

TITLE: Final = "Answers that look like something else"

_JSON_RULE: Final = (
    "JSON is a call only if it has a function name and arguments, or only the name of a declared "
    "function; any other JSON is an answer and stays unchanged."
)
_JSON_ANSWERS: Final = {
    "an object with a name": '{"name": "Alice", "age": 30}',
    "an object with a name, over several lines": '{\n  "name": "Alice",\n  "address": {"city": "Oslo"}\n}',
    "an object without a name": '{"city": "Oslo", "days": 3}',
    "an empty object": "{}",
    "a list of objects with names": '[{"name": "Alice", "age": 30}, {"name": "Bob", "age": 31}]',
    "a list of numbers": "[1, 2, 3]",
    "an empty list": "[]",
}


def _quote_in_prompt(draft: Draft) -> str | None:
    """Set a prompt whose last user message mentions the reasoning opener."""
    opener, _ = reasoning_markers(draft.capabilities)
    facts = facts_of(draft.capabilities.dialect)
    if not opener:
        return "reasoning has no marker of its own"
    if facts.thinking.default == "always":
        return "its prompts always open reasoning"
    turn = next(iter(draft.capabilities.dialect.prompt.ends), "<|im_start|>assistant\n")
    stop = draft.capabilities.dialect.stop[0] if draft.capabilities.dialect.stop else "<|im_end|>"
    draft.prompt = f"What does {opener} mean?{stop}{turn}"
    return None


def _insert_opener_in_line(draft: Draft) -> str | None:
    """Insert a reasoning opener between other words in a line."""
    opener, _ = reasoning_markers(draft.capabilities)
    if not opener or draft.capabilities.is_control(opener):
        return "a control token does not occur in prose" if opener else "reasoning has no marker of its own"
    number = draft.find("text")
    text = f"Write {opener} there, and go on."
    piece = draft.pieces[number]
    draft.order = [TextSegment("content", draft.capabilities.dialect.habits.echo + text)]
    draft.pieces[number] = RenderedPiece(piece.kind, text, piece.part)
    return None


def _insert_before_header(draft: Draft) -> str | None:
    """Insert ordinary text before the first message header."""
    if not draft.capabilities.framed:
        return "messages have no headers"
    if draft.text[0].isalnum():
        return "the prompt has opened the header"
    draft.pieces.insert(0, RenderedPiece("text", "Hello there. ", 0))
    draft.order.insert(0, TextSegment("content", "Hello there."))
    return None


def _json_scenario(parts: list[ScenarioPart], what: str, where: str) -> Scenario:
    return Scenario("answers", f"JSON: {what}{where}", parts, _JSON_RULE)


SCENARIOS: Final = [
    *(_json_scenario([text], what, "") for what, text in _JSON_ANSWERS.items()),
    *(_json_scenario([REASONING, text], what, ", after reasoning") for what, text in _JSON_ANSWERS.items()),
    Scenario(
        "answers",
        "the user quotes the opener of reasoning",
        ["It opens a thought."],
        "Only the text after the last start of a turn decides where the output begins.",
        ["reasoning"],
        _quote_in_prompt,
    ),
    Scenario(
        "answers",
        "an opener of reasoning in the middle of a line",
        ["Write it there, and go on."],
        "In text an opener counts at the start of the output or a line, or right after markup.",
        ["reasoning"],
        _insert_opener_in_line,
    ),
    Scenario(
        "answers",
        "text before the first header",
        ["It is sunny."],
        "Text before a header is content and is kept completely.",
        [],
        _insert_before_header,
    ),
]

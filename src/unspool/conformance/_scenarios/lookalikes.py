"""Answers that look like something else: JSON that is no call, and markers that somebody else wrote.

A client must never get a call that the model did not write, and an answer is an
answer whatever it looks like.
"""

from __future__ import annotations

from typing import Final

from ...dialects._registry import facts_of
from .._cases import Stretch
from .capabilities import reasoning_markers
from .message_parts import THOUGHT, Say
from .rendering import Wording
from .scenario import Draft, Scenario

TITLE: Final = "Answers that look like something else"

_NO_CALL: Final = (
    "JSON is a call only if it names a function and has a member for arguments, or nothing but the name of a "
    "declared one; anything else is the answer, verbatim."
)
_JSON: Final = {
    "an object with a name": '{"name": "Alice", "age": 30}',
    "an object with a name, over several lines": '{\n  "name": "Alice",\n  "address": {"city": "Oslo"}\n}',
    "an object without one": '{"city": "Oslo", "days": 3}',
    "an empty object": "{}",
    "a list of objects with names": '[{"name": "Alice", "age": 30}, {"name": "Bob", "age": 31}]',
    "a list of numbers": "[1, 2, 3]",
    "an empty list": "[]",
}


def _quoting(draft: Draft) -> str | None:
    """The user's message, which the prompt ends with, mentions what opens reasoning."""
    opener, _ = reasoning_markers(draft.able)
    facts = facts_of(draft.able.dialect)
    if not opener:
        return "reasoning has no marker of its own"
    if facts.thinking.default == "always":
        return "its prompts always open reasoning"
    turn = next((prompt for prompt in facts.prompts if prompt != "any"), "<|im_start|>assistant\n")
    stop = draft.able.dialect.stop[0] if draft.able.dialect.stop else "<|im_end|>"
    draft.prompt = f"What does {opener} mean?{stop}{turn}"
    return None


def _opener_in_a_line(draft: Draft) -> str | None:
    """An opener of reasoning stands among other words of a line."""
    opener, _ = reasoning_markers(draft.able)
    if not opener or draft.able.is_control(opener):
        return (
            "nobody writes what opens reasoning in prose" if opener else "reasoning has no marker of its own"
        )
    number = draft.find("text")
    text = f"Write {opener} there, and go on."
    piece = draft.pieces[number]
    draft.order = [Stretch("content", draft.able.dialect.prompt.echo + text)]
    draft.pieces[number] = Wording(piece.role, text, piece.part)
    return None


def _before_the_header(draft: Draft) -> str | None:
    """Text comes before the first header."""
    if not draft.able.framed:
        return "messages have no headers"
    if draft.text[0].isalnum():
        return "the prompt has opened the header"
    draft.pieces.insert(0, Wording("text", "Hello there. ", 0))
    draft.order.insert(0, Stretch("content", "Hello there."))
    return None


def _json(parts: list[Say], what: str, where: str) -> Scenario:
    return Scenario("answers", f"JSON: {what}{where}", parts, _NO_CALL)


SCENARIOS: Final = [
    *(_json([text], what, "") for what, text in _JSON.items()),
    *(_json([THOUGHT, text], what, ", behind reasoning") for what, text in _JSON.items()),
    Scenario(
        "answers",
        "the user quotes what opens reasoning",
        ["It opens a thought."],
        "Only what stands behind the last border of a turn says where the output begins.",
        ["reasoning"],
        _quoting,
    ),
    Scenario(
        "answers",
        "an opener of reasoning in the middle of a line",
        ["Write it there, and go on."],
        "In text an opener counts where the output or a line begins, or directly behind markup.",
        ["reasoning"],
        _opener_in_a_line,
    ),
    Scenario(
        "answers",
        "text before the first header",
        ["It is sunny."],
        "What comes before a header is text, and nothing of it is lost.",
        [],
        _before_the_header,
    ),
]

"""What training must know of a chat template: whether prompts extend each other, and what its marks cover.

A trajectory is sampled turn by turn.  If the next prompt does not begin with what was there, its ids are
others than those that were sampled, and nothing fails.  If a mask is made from ``{% generation %}``, it is
all zeros where there is none.  Each is tried on conversations with stand-ins for what a model writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...chat_templates._capabilities import ChatMessage
from ...chat_templates._chat_template import ChatTemplate, ChatTemplateError
from ...chat_templates._prefix_stability import (
    CONTENT,
    QUESTION,
    TAG,
    THOUGHT,
    Call,
    Difference,
    Follower,
    Marks,
    a_round,
    marks_of,
    said,
    switched,
    turn,
)

Verdict: TypeAlias = Literal["kept", "broken", "refused", "opens"]
CASES: Final = ("a tool result", "a second round of calls", "the next question")
_CALLS: Final = (Call("unspool00", "get_weather"), Call("unspool01", "get_weather"))


class PrefixCase(NamedTuple):
    """What a template does to what was sampled when something is appended."""

    appended: str
    thinking: bool
    """The model's turns have reasoning."""
    verdict: Verdict
    """``opens``: there are no turns without reasoning, since every prompt opens it."""
    difference: Difference | None = None
    """Where the next prompt parts from what was there."""
    why: str = ""
    """Why the template refuses such a conversation."""

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values; of the texts what is around the difference."""
        found = self.difference
        return {
            "appended": self.appended,
            "thinking": self.thinking,
            "verdict": self.verdict,
            "difference": None
            if found is None
            else {"at": found.at, "was": found.around(found.was), "now": found.around(found.now)},
            "why": self.why,
        }


class MaskMarks(NamedTuple):
    """What ``{% generation %}`` covers; None: there is no such thing to cover, or nothing is marked."""

    answer: bool
    """What the model says: without it a mask made from the marks is all zeros."""
    end_of_turn: bool | None = None
    """The marker that ends the turn: without it a model is not trained to stop."""
    calls: bool | None = None
    reasoning: bool | None = None
    empty_block: bool | None = None
    """The empty block of reasoning that the template writes, not the model."""


@dataclass(frozen=True, slots=True)
class Training:
    """What training must know of a template."""

    prefixes: tuple[PrefixCase, ...] = ()
    mask: MaskMarks = field(default_factory=lambda: MaskMarks(answer=False))
    empty_block: str = ""
    """What a prompt supplies of reasoning where it is to be none: it is not the model's."""

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "prefix": [case.to_dict() for case in self.prefixes],
            "generation": self.mask._asdict(),
            "empty_block": self.empty_block,
        }


def training(template: ChatTemplate, tools: Sequence[object]) -> Training:
    """Try a template."""
    return _Trial(template, tools).training()


@dataclass(frozen=True, slots=True)
class _Trial:
    template: ChatTemplate
    tools: Sequence[object]

    def training(self) -> Training:
        marks = marks_of(self.template)
        modes = (False,) if marks is None else (False, True)
        prefixes = [case for thinking in modes for case in self.prefixes(marks, thinking=thinking)]
        try:
            seed = self.follower(thinking=False).prompt([self.question()]).seed
        except ChatTemplateError:
            seed = ""
        supplied = seed if marks is not None and marks.closer in seed else ""
        return Training(tuple(prefixes), self.mask(marks), supplied)

    def question(self) -> ChatMessage:
        return said(self.template.wants, "user", QUESTION)

    def follower(self, *, thinking: bool) -> Follower:
        """The template with tools, if it can write them."""
        variables = switched(self.template, on=thinking)
        for tools in (self.tools, None):
            follower = Follower(self.template, tools, variables)
            try:
                follower.prompt([self.question()])
            except ChatTemplateError:
                continue
            break
        return follower

    # -- what becomes of a prefix

    def prefixes(self, marks: Marks | None, *, thinking: bool) -> Iterator[PrefixCase]:
        wants = self.template.wants
        follower = self.follower(thinking=thinking)
        first, other = (a_round(wants, marks, thought=thinking, call=call) for call in _CALLS)
        question = self.question()
        answer = turn(wants, marks, thought=thinking)
        following = said(wants, "user", "Unspool's next question?")
        conversations = [[question, *first], [question, *first, *other], [question, answer, following]]
        for appended, conversation in zip(CASES, conversations, strict=True):
            if wants.calls != "none" or appended == CASES[-1]:
                yield self.case(follower, appended, conversation, thinking=thinking)

    def case(
        self, follower: Follower, appended: str, conversation: Sequence[ChatMessage], *, thinking: bool
    ) -> PrefixCase:
        *history, last, new = conversation
        marks = marks_of(self.template)
        try:
            seed = follower.prompt(history).seed
            if not thinking and marks is not None and seed and marks.closer not in seed:
                return PrefixCase(appended, thinking, "opens")
            found = follower.follow(history, last, [new], lead=None if thinking else seed)
        except ChatTemplateError as error:
            return PrefixCase(appended, thinking, "refused", why=error.reason.strip())
        difference = found.difference(closed=True)
        return PrefixCase(appended, thinking, "broken" if difference else "kept", difference)

    # -- what the marks cover

    def mask(self, marks: Marks | None) -> MaskMarks:
        if "generation" not in self.template.source:
            return MaskMarks(answer=False)
        wants = self.template.wants
        text, spans = self.written(turn(wants, marks, thought=False), thinking=False)
        at = text.find(CONTENT)
        if at < 0 or not _covered(at, at + len(CONTENT), spans):
            return MaskMarks(answer=False)
        end = re.compile(TAG).search(text, at + len(CONTENT))
        block = self.block(text[:at], marks)
        return MaskMarks(
            answer=True,
            end_of_turn=None if end is None else _covered(end.start(), end.end(), spans),
            calls=self.covers(_CALLS[0].name, turn(wants, marks, thought=False, calls=_CALLS[:1])),
            reasoning=self.covers(THOUGHT, turn(wants, marks, thought=True)) if marks else None,
            empty_block=None if block is None else _covered(*block, spans),
        )

    def block(self, before: str, marks: Marks | None) -> tuple[int, int] | None:
        """Where the template puts an empty block of reasoning before an answer."""
        at = -1 if marks is None else before.rfind(marks.closer)
        if marks is None or at < before.find(QUESTION):
            return None
        return at, at + len(marks.closer)

    def covers(self, text: str, last: ChatMessage) -> bool | None:
        """Whether the model's part of a turn is marked; None: the template does not write it."""
        written, spans = self.written(last, thinking=True)
        at = written.find(text, written.find(QUESTION))
        return _covered(at, at + len(text), spans) if at >= 0 else None

    def written(self, last: ChatMessage, *, thinking: bool) -> tuple[str, list[tuple[int, int]]]:
        """A turn as the last message, since some write reasoning nowhere else."""
        variables: Mapping[str, Any] = switched(self.template, on=thinking)
        try:
            return self.template.written(
                [self.question(), last], None, add_generation_prompt=False, **variables
            )
        except ChatTemplateError:
            return "", []


def _covered(start: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(first <= start and end <= last for first, last in spans)

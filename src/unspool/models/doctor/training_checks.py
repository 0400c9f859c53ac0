"""Checks of a chat template's suitability for training: prefix stability and ``{% generation %}`` marks.

Two properties are checked on conversations with placeholders instead of the model's text:

1. Each prompt must start with the previous prompt and output.  Otherwise training on several turns silently
   uses token ids that differ from the sampled ones.
2. The template must contain ``{% generation %}`` marks, from which Transformers builds the training mask.
   Without these marks, the mask is all zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...templates import ChatMessage, ChatTemplate, ChatTemplateError
from ...templates.prefix_stability import (
    CONTENT,
    QUESTION,
    TAG,
    THOUGHT,
    ConversationRenderer,
    Difference,
    ProbeCall,
    ReasoningMarkers,
    find_reasoning_markers,
    make_message,
    make_round,
    make_turn,
    thinking_variables,
)

PrefixResult: TypeAlias = Literal["kept", "broken", "refused", "opens"]
PREFIX_CASES: Final = ("a tool result", "a second round of calls", "the next question")
_CALLS: Final = (ProbeCall("unspool00", "get_weather"), ProbeCall("unspool01", "get_weather"))


class PrefixCase(NamedTuple):
    """Result of a test that appends messages to a conversation and compares the prompts."""

    appended: str
    thinking: bool
    """True if the model's turns contain reasoning."""
    verdict: PrefixResult
    """The result of the test.

    * ``kept``: the next prompt starts with the previous prompt and output.
    * ``broken``: the next prompt does not start with the previous prompt and output.
    * ``refused``: the template cannot render the conversation.
    * ``opens``: turns without reasoning cannot occur, because every prompt opens reasoning.
    """
    difference: Difference | None = None
    """The first place at which the next prompt differs from the previous prompt and output."""
    why: str = ""
    """The template's error message if it refuses the conversation."""

    def to_dict(self) -> dict[str, Any]:
        """Return the case as JSON values, with the text around the difference."""
        difference = self.difference
        return {
            "appended": self.appended,
            "thinking": self.thinking,
            "verdict": self.verdict,
            "difference": None
            if difference is None
            else {
                "at": difference.at,
                "was": difference.around(difference.was),
                "now": difference.around(difference.now),
            },
            "why": self.why,
        }


class MaskMarks(NamedTuple):
    """Parts of a turn: True if ``{% generation %}`` marks the part, None if the part is not rendered."""

    answer: bool
    """The content; if the content is not marked, the training mask is all zeros."""
    end_of_turn: bool | None = None
    """The end-of-turn text; if this text is not marked, training does not teach the model to stop."""
    calls: bool | None = None
    reasoning: bool | None = None
    empty_block: bool | None = None
    """An empty reasoning block; it should not be marked, because the template writes it and not the model."""


@dataclass(frozen=True, slots=True)
class Training:
    """Properties of a template that matter for training."""

    prefixes: tuple[PrefixCase, ...] = ()
    mask: MaskMarks = field(default_factory=lambda: MaskMarks(answer=False))
    empty_block: str = ""
    """The empty reasoning block at the end of a prompt that turns reasoning off; empty if there is none."""

    def to_dict(self) -> dict[str, Any]:
        """Return the properties as JSON values."""
        return {
            "prefix": [case.to_dict() for case in self.prefixes],
            "generation": self.mask._asdict(),
            "empty_block": self.empty_block,
        }


def check_training(template: ChatTemplate, tools: Sequence[object]) -> Training:
    """Check whether a chat template is suitable for training, and return the results."""
    return _Check(template, tools).run()


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks of one template."""

    template: ChatTemplate
    tools: Sequence[object]

    def run(self) -> Training:
        marks = find_reasoning_markers(self.template)
        modes = (False,) if marks is None else (False, True)
        prefixes = [case for thinking in modes for case in self.prefixes(marks, thinking=thinking)]
        try:
            seed = self.renderer(thinking=False).prompt([self.question()]).seed
        except ChatTemplateError:
            seed = ""
        supplied = seed if marks is not None and marks.closer in seed else ""
        return Training(tuple(prefixes), self.mask(marks), supplied)

    def question(self) -> ChatMessage:
        return make_message(self.template.capabilities, "user", QUESTION)

    def renderer(self, *, thinking: bool) -> ConversationRenderer:
        """Return a renderer for conversations, with tools if the template can render tools."""
        variables = thinking_variables(self.template, on=thinking)
        for tools in (self.tools, None):
            renderer = ConversationRenderer(self.template, tools, variables)
            try:
                renderer.prompt([self.question()])
            except ChatTemplateError:
                continue
            break
        return renderer

    # -- prefixes

    def prefixes(self, marks: ReasoningMarkers | None, *, thinking: bool) -> Iterator[PrefixCase]:
        wants = self.template.capabilities
        renderer = self.renderer(thinking=thinking)
        first, other = (make_round(wants, marks, thought=thinking, call=call) for call in _CALLS)
        question = self.question()
        answer = make_turn(wants, marks, thought=thinking)
        following = make_message(wants, "user", "Unspool's next question?")
        conversations = [[question, *first], [question, *first, *other], [question, answer, following]]
        for appended, conversation in zip(PREFIX_CASES, conversations, strict=True):
            if wants.calls != "none" or appended == PREFIX_CASES[-1]:
                yield self.case(renderer, appended, conversation, thinking=thinking)

    def case(
        self,
        renderer: ConversationRenderer,
        appended: str,
        conversation: Sequence[ChatMessage],
        *,
        thinking: bool,
    ) -> PrefixCase:
        *history, last, new = conversation
        marks = find_reasoning_markers(self.template)
        try:
            seed = renderer.prompt(history).seed
            if not thinking and marks is not None and seed and marks.closer not in seed:
                return PrefixCase(appended, thinking, "opens")
            followed = renderer.extend(history, last, [new], lead=None if thinking else seed)
        except ChatTemplateError as error:
            return PrefixCase(appended, thinking, "refused", why=error.reason.strip())
        difference = followed.difference(closed=True)
        return PrefixCase(appended, thinking, "broken" if difference else "kept", difference)

    # -- marks

    def mask(self, marks: ReasoningMarkers | None) -> MaskMarks:
        if "generation" not in self.template.source:
            return MaskMarks(answer=False)
        wants = self.template.capabilities
        text, spans = self.rendered(make_turn(wants, marks, thought=False), thinking=False)
        at = text.find(CONTENT)
        if at < 0 or not _covered(at, at + len(CONTENT), spans):
            return MaskMarks(answer=False)
        end = re.compile(TAG).search(text, at + len(CONTENT))
        block = self.block(text[:at], marks)
        return MaskMarks(
            answer=True,
            end_of_turn=None if end is None else _covered(end.start(), end.end(), spans),
            calls=self.covers(_CALLS[0].name, make_turn(wants, marks, thought=False, calls=_CALLS[:1])),
            reasoning=self.covers(THOUGHT, make_turn(wants, marks, thought=True)) if marks else None,
            empty_block=None if block is None else _covered(*block, spans),
        )

    def block(self, before: str, marks: ReasoningMarkers | None) -> tuple[int, int] | None:
        """Return the span of the marker that closes an empty reasoning block; None if there is no block."""
        at = -1 if marks is None else before.rfind(marks.closer)
        if marks is None or at < before.find(QUESTION):
            return None
        return at, at + len(marks.closer)

    def covers(self, text: str, last: ChatMessage) -> bool | None:
        """Return whether ``text`` in the last message is marked, or None if the template leaves it out."""
        text_rendered, spans = self.rendered(last, thinking=True)
        at = text_rendered.find(text, text_rendered.find(QUESTION))
        return _covered(at, at + len(text), spans) if at >= 0 else None

    def rendered(self, last: ChatMessage, *, thinking: bool) -> tuple[str, list[tuple[int, int]]]:
        """Render a conversation that ends with this turn; return the text and the marked spans."""
        variables: Mapping[str, Any] = thinking_variables(self.template, on=thinking)
        try:
            return self.template.render_with_spans(
                [self.question(), last], None, add_generation_prompt=False, **variables
            )
        except ChatTemplateError:
            return "", []


def _covered(start: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(first <= start and end <= last for first, last in spans)

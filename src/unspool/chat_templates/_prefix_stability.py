"""Whether a template keeps what stood in a prompt when the conversation goes on.

A model's turn is sampled behind a prompt; then messages are added, and the
template writes all of it anew.  Where it begins with what was there, the next
prompt is what was sampled and a suffix.  Where it does not (reasoning that
goes at the next question, an empty block that only prompts have, an end of
turn that changes), it must be known, and where.

The rule of this file: what is compared are *renderings*, of a conversation
whose last turn of the model is a stand-in: text that is found again.  What the
model really wrote is never rendered, since no template writes it exactly so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..dialects._registry import list_dialects
from ..dialects._templates import split_marks
from ._capabilities import REASONING_KEYS, ChatMessage, TemplateCapabilities, text_part
from ._chat_template import ChatTemplate, ChatTemplateError

CONTENT: Final = "Unspool's answer."
THOUGHT: Final = "Unspool's thought."
QUESTION: Final = "Unspool's question?"
RESULT: Final = "Unspool's result."

TAG: Final = r"(?:<[^<>\s]{1,60}>|\[/?[A-Z_]{2,}\]|[\[\]]~?!?\w~?[\[\]]|◁[^◁▷\s]{1,40}▷)"
"""What looks like a marker of any family; there may be no vocabulary to ask."""
_TAGS_AT_END: Final = re.compile(rf"(?:{TAG}\s*)*\Z")
_TAIL: Final = 1024
"""Characters in which an end is looked for: a long run of tags would be looked at from each of them."""
_TAG_AT_END: Final = re.compile(rf"{TAG}\s*\Z")
_HEADER_AT_END: Final = re.compile(rf"{TAG}[\w =]{{0,40}}{TAG}\s*\Z")
_TAG_AHEAD: Final = re.compile(rf"\s*({TAG})")
_HEADER_AHEAD: Final = re.compile(rf"\s*({TAG}[\w =]{{1,40}}{TAG})")


class Difference(NamedTuple):
    """Where two renderings part."""

    was: str
    """What the sampled tokens stand behind, and a stand-in for them."""
    now: str
    """The next prompt."""
    at: int
    """The first character that is another."""

    def around(self, text: str, width: int = 60) -> str:
        """What of one of the two is around that place."""
        return text[max(0, self.at - width // 2) : self.at + width // 2]

    def show(self, width: int = 60) -> str:
        """Both around that place, and a caret under it."""
        shared = json.dumps(self.around(self.was[: self.at], width), ensure_ascii=False)[:-1]
        lines = [
            shared + json.dumps(text[self.at : self.at + width // 2], ensure_ascii=False)[1:]
            for text in (self.was, self.now)
        ]
        return f"was  {lines[0]}\nnow  {lines[1]}\n{' ' * (5 + len(shared))}^"


def first_difference(was: str, now: str) -> Difference:
    """Where two texts part."""
    return Difference(was, now, _shared(was, now))


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.startswith(other[low:middle], low) else (low, middle - 1)
    return low


class Continuation(NamedTuple):
    """A conversation before and after messages were added."""

    header: int
    """How long the prompt is, up to the header of the model's turn."""
    was: str
    """The prompt, and a stand-in for what the model wrote behind it; not the end of its turn."""
    end: str
    """What ends the turn as long as it is the last."""
    now: str
    """The next prompt."""

    @property
    def own(self) -> str:
        """What stands for the model's turn."""
        return self.was[self.header :]

    @property
    def rest(self) -> str:
        """What the next prompt has behind the model's text, from the end of its turn on."""
        return self.now[len(self.was) :]

    def difference(self, *, closed: bool) -> Difference | None:
        """Where the next prompt parts from what was there; None: it keeps it.

        :param closed: the end of the turn was there, too.
        """
        was = self.was + (self.end.rstrip() if closed else "")
        return None if self.now.startswith(was) else first_difference(was, self.now)


class Prompt(NamedTuple):
    """A prompt, taken apart."""

    header: str
    """All of it, up to the header of the model's turn."""
    seed: str
    """What it has behind the header: the beginning of reasoning, or an empty block of it."""
    finale: str
    """What ends a conversation that no turn of the model follows, and is in no prompt."""
    always: bool
    """The template writes the header whether or not it is told to."""


class Marks(NamedTuple):
    """What stands around reasoning."""

    opener: str
    closer: str
    own: bool = True
    """What closes reasoning closes nothing else."""
    key: str = ""
    """Where the template reads it; empty: nowhere but in the content."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that stands in for one of the model's."""

    id: str
    name: str


def turn(
    wants: TemplateCapabilities, marks: Marks | None, *, thought: bool, calls: Sequence[Call] = ()
) -> ChatMessage:
    """A turn of the model, of stand-ins: calls, or an answer."""
    text = "" if calls else CONTENT
    key = marks.key if marks is not None and thought else ""
    if thought and marks is not None and not key:
        # The template does not write reasoning; it may look for it in the content.
        text = f"{marks.opener}\n{THOUGHT}\n{marks.closer}\n\n{text}"
    content: object = text or (wants.empty if calls else "")
    if key == "parts":
        content = [{"type": "thinking", "thinking": THOUGHT}, *text_part(text)]
    elif text and "assistant" in wants.only_parts:
        content = text_part(text)
    message: ChatMessage = {"role": "assistant", "content": content}
    if key not in ("", "parts"):
        message[key] = THOUGHT
    if calls:
        arguments: object = {"unspool": 1} if wants.arguments == "object" else '{"unspool": 1}'
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
            for call in calls
        ]
    return message


def said(wants: TemplateCapabilities, role: str, text: str, **extra: object) -> ChatMessage:
    """A message of somebody else."""
    return {"role": role, "content": text_part(text) if role in wants.only_parts else text, **extra}


@dataclass(frozen=True, slots=True)
class Follower:
    """A template, with what a request gives it besides the messages."""

    template: ChatTemplate
    tools: Sequence[object] | None
    variables: Mapping[str, Any]

    def prompt(self, history: Sequence[ChatMessage]) -> Prompt:
        """The prompt behind which the model writes its turn."""
        text = self.render(history, generation=True)
        ended = self.render(history, generation=False)
        seed = _seed(text, marks_of(self.template))
        finale = ended[_border(ended, _shared(text, ended)) :]
        return Prompt(text[: len(text) - len(seed)], seed, finale, always=text == ended)

    def header(self, history: Sequence[ChatMessage]) -> str:
        """What only a prompt has behind these messages, or the last tags of it."""
        prompt = self.prompt(history)
        ended = self.render(history, generation=False).removesuffix(prompt.finale)
        added = prompt.header.removeprefix(ended) if prompt.header.startswith(ended) else ""
        found = _HEADER_AT_END.search(prompt.header) or _TAG_AT_END.search(prompt.header)
        return added if added.strip() else found[0] if found else ""

    def follow(
        self,
        history: Sequence[ChatMessage],
        turn: ChatMessage,
        new: Sequence[ChatMessage],
        *,
        lead: str | None,
        begun: str | None = None,
    ) -> Continuation:
        """What becomes of the model's turn when new messages follow it.

        :param lead: what the turn began with: an empty block of reasoning, or nothing; None: a thought.
        :param begun: the text that the turn really began with, a prompt's seed included; None: with
            what the prompt now ends with.
        """
        prompt = self.prompt(history)
        seed = prompt.seed if begun is None or begun.startswith(prompt.seed) else ""
        now = self.render([*history, turn, *new], generation=True)
        alone = self.render([*history, turn], generation=False).removesuffix(prompt.finale)
        body = alone.removeprefix(prompt.header) if alone.startswith(prompt.header) else ""
        body, next_header = _cut_header(body, prompt) if prompt.always else (body, "")
        end = "" if next_header else self._end(turn, body)
        body = body[: len(body) - len(end)]
        if lead is not None:
            body = _led(lead, body, marks_of(self.template))
        elif THOUGHT not in body or not body.startswith(seed):
            body = self._thought(seed)
        return Continuation(len(prompt.header), prompt.header + body, end, now)

    def _thought(self, seed: str) -> str:
        marks = marks_of(self.template)
        opener = "" if marks is None or marks.opener in seed else marks.opener
        return seed + opener + THOUGHT

    def _end(self, turn: ChatMessage, body: str) -> str:
        """What a rendering that ends with this turn has behind what the model writes of it."""
        if not turn.get("tool_calls") and CONTENT in body:
            return body[max(body.rfind(text) + len(text) for text in (CONTENT, THOUGHT)) :]
        found = _TAGS_AT_END.search(body, max(0, len(body) - _TAIL))
        return found[0] if found else ""

    def render(self, messages: Sequence[ChatMessage], *, generation: bool) -> str:
        """What the template writes for these messages; ``generation``: with a prompt for the model."""
        return self.template.render(messages, self.tools, add_generation_prompt=generation, **self.variables)


def a_round(
    wants: TemplateCapabilities, marks: Marks | None, *, thought: bool, call: Call
) -> list[ChatMessage]:
    """A turn of the model, and what was said to it: the result of its call, or another question."""
    if wants.calls == "none":
        return [turn(wants, marks, thought=thought), said(wants, "user", QUESTION)]
    result = said(wants, "tool", RESULT, tool_call_id=call.id, name=call.name)
    return [turn(wants, marks, thought=thought, calls=[call]), result]


def _border(text: str, at: int) -> int:
    """The place, or where the tag begins that it is inside of: tags begin alike."""
    around = max(0, at - 60)
    inside = (tag.start() for tag in re.finditer(TAG, text[around:]) if tag.start() < at - around < tag.end())
    return around + next(inside, at - around)


def _cut_header(body: str, prompt: Prompt) -> tuple[str, str]:
    """A turn without what the template writes behind every conversation: an end of turn, and a header."""
    shared = body[len(body) - _shared(body[::-1], (prompt.header + prompt.seed)[::-1]) :]
    found = re.search(TAG, shared)
    at = len(body) - (len(shared) - found.start() if found else 0)
    return body[:at], body[at:]


# -- reasoning


def _seed(prompt: str, marks: Marks | None) -> str:
    """What a prompt ends with that is, or begins, a block of reasoning."""
    found = None if marks is None else re.search(rf"{_block(marks)}\Z", prompt[-_TAIL:])
    return found[0] if found else ""


def _led(lead: str, body: str, marks: Marks | None) -> str:
    """A turn without a thought, with what it began with in place of what the template writes there."""
    if marks is None:
        return body
    block = re.compile(_block(marks))
    if body.startswith(lead) and not block.match(body, len(lead)):
        return body  # what stands between the lead and the answer, the model writes itself
    return lead + block.sub("", body, count=1) if block.match(body) else lead + body


def _block(marks: Marks) -> str:
    either = "|".join(re.escape(mark) for mark in marks[:2] if mark)
    return rf"(?:{either})(?:{either}|\s)*"


SWITCHES: Final[tuple[Mapping[bool, Mapping[str, object]], ...]] = (
    {
        True: {"enable_thinking": True, "thinking": True, "reasoning": True, "add_thoughts": True},
        False: {"enable_thinking": False, "thinking": False, "reasoning": False, "add_thoughts": False},
    },
    {True: {"thinking_mode": "enabled"}, False: {"thinking_mode": "disabled"}},
    {True: {"thinking_mode": "thinking"}, False: {"thinking_mode": "chat"}},
    {True: {"reasoning_effort": "high"}, False: {"reasoning_effort": "none"}},
)
"""By which variables templates are told to reason, and not to."""


def switched(template: ChatTemplate, *, on: bool) -> dict[str, Any]:
    """The variables that tell this template to reason, or not to: those that it reads."""
    told: dict[str, Any] = {}
    question = [said(template.wants, "user", QUESTION)]
    for values in SWITCHES:
        named = {
            name: value for name, value in values[on].items() if re.search(rf"\b{name}\b", template.source)
        }
        if named and not told.keys() & named.keys():
            try:
                template.render(question, **told | named)
            except ChatTemplateError:
                continue
            told |= named
    return told


@lru_cache(maxsize=256)
def marks_of(template: ChatTemplate) -> Marks | None:
    """What stands around reasoning, as the template writes it; None: it knows of none."""
    wants = template.wants
    question = said(wants, "user", QUESTION)
    # Some write the reasoning of the last message only: that they want any does not show in a history.
    for key in [wants.reasoning] if wants.reasoning else REASONING_KEYS:
        answer = turn(wants, Marks("", "", key=key), thought=True)
        try:
            variables = switched(template, on=True)
            text = template.render([question, answer], add_generation_prompt=False, **variables)
        except ChatTemplateError:
            continue
        if THOUGHT in text:
            return _around(text)._replace(key=key)
    # It may write it beside calls only.
    known = next((marks for marks in _known_marks() if marks.closer in template.source), None)
    return known and known._replace(key=wants.reasoning)


def _around(text: str) -> Marks:
    before, _, after = text.partition(THOUGHT)
    asked = before.find(QUESTION)
    for known in _known_marks():
        if before.rstrip().endswith(known.opener) and after.lstrip().startswith(known.closer):
            return known._replace(own=known.closer not in before[asked:])
    opener = _TAG_AT_END.search(before)
    closer = _TAG_AHEAD.match(after)
    if opener and opener[0].strip() in before[max(0, asked - 40) : asked]:
        # The tag ends any header: what is in this one counts.
        opener = _HEADER_AT_END.search(before)
        closer = _HEADER_AHEAD.match(after) or closer
    close = closer[1] if closer else ""
    return Marks(opener[0].strip() if opener else "", close, own=close not in before[asked:])


@lru_cache(maxsize=1)
def _known_marks() -> tuple[Marks, ...]:
    return tuple(dict.fromkeys(_marks_of_dialects()))


def _marks_of_dialects() -> Iterator[Marks]:
    for dialect in list_dialects():
        for written in dialect.reasoning:
            opener, _, closer = split_marks(written)[1].partition("{text}")
            if opener.strip() and closer.strip():
                yield Marks(opener.strip(), closer.strip())

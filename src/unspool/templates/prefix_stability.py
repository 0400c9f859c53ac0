"""Check of prefix stability: whether the next prompt begins with the old prompt and the model's turn.

A model writes its turn after a prompt.  Then messages are added, and the template renders the whole
conversation again.  If the new prompt begins with the old prompt and the turn, the token ids of both can be
reused, and only a suffix is new.  Some templates break this. For example, they remove reasoning after the
next question, write an empty reasoning block only in prompts, or change the end of a turn.  This module finds
the first character at which the old and the new text differ.

The module compares two renderings of a conversation whose last turn is a placeholder: a text that is easy to
find.  It never renders the model's real output, because templates do not reproduce that output exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..dialects import list_dialects
from ..dialects.parse_templates import text_around
from ._capabilities import REASONING_KEYS, ChatMessage, TemplateCapabilities, text_part
from ._chat_template import ChatTemplate, ChatTemplateError

CONTENT: Final = "Unspool's answer."
THOUGHT: Final = "Unspool's thought."
QUESTION: Final = "Unspool's question?"
RESULT: Final = "Unspool's result."

TAG: Final = r"(?:<[^<>\s]{1,60}>|\[/?[A-Z_]{2,}\]|[\[\]]~?!?\w~?[\[\]]|◁[^◁▷\s]{1,40}▷)"
"""Regular expression for the markers of all families, for use without a vocabulary."""
_TAGS_AT_END: Final = re.compile(rf"(?:{TAG}\s*)*\Z")
_TAIL: Final = 1024
"""Maximum number of characters to search for markers at the end of a text.  Without this limit, a long run
of markers would take quadratic time.
"""
_TAG_AT_END: Final = re.compile(rf"{TAG}\s*\Z")
_HEADER_AT_END: Final = re.compile(rf"{TAG}[\w =]{{0,40}}{TAG}\s*\Z")
_TAG_AHEAD: Final = re.compile(rf"\s*({TAG})")
_HEADER_AHEAD: Final = re.compile(rf"\s*({TAG}[\w =]{{1,40}}{TAG})")


class Difference(NamedTuple):
    """The first difference between two renderings."""

    was: str
    """The previous prompt, followed by a placeholder for the model's turn."""
    now: str
    """The next prompt."""
    at: int
    """Offset of the first character at which the two texts differ."""

    def around(self, text: str, width: int = 60) -> str:
        """Return the part of a text that surrounds the difference."""
        return text[max(0, self.at - width // 2) : self.at + width // 2]

    def show(self, width: int = 60) -> str:
        """Return the text around the difference from both renderings, with a caret under the difference."""
        shared = json.dumps(self.around(self.was[: self.at], width), ensure_ascii=False)[:-1]
        lines = [
            shared + json.dumps(text[self.at : self.at + width // 2], ensure_ascii=False)[1:]
            for text in (self.was, self.now)
        ]
        return f"was  {lines[0]}\nnow  {lines[1]}\n{' ' * (5 + len(shared))}^"


def first_difference(was: str, now: str) -> Difference:
    """Return the first difference between two texts."""
    return Difference(was, now, _shared(was, now))


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.startswith(other[low:middle], low) else (low, middle - 1)
    return low


class ExtendedConversation(NamedTuple):
    """Renderings of a conversation before and after new messages are added."""

    header: int
    """Length of the old prompt, including the header of the model's turn."""
    was: str
    """The old prompt and a placeholder for the model's turn, without the marker that ends the turn."""
    end: str
    """The text with which the template ends the model's turn if no message follows."""
    now: str
    """The next prompt."""

    @property
    def own(self) -> str:
        """The placeholder for the model's turn."""
        return self.was[self.header :]

    @property
    def rest(self) -> str:
        """The part of the next prompt after the model's text; it starts with the end of the model's turn."""
        return self.now[len(self.was) :]

    def difference(self, *, closed: bool) -> Difference | None:
        """Return the first difference; None if the next prompt begins with the old prompt and turn.

        :param closed: True to compare the end of the turn, too.
        """
        was = self.was + (self.end.rstrip() if closed else "")
        return None if self.now.startswith(was) else first_difference(was, self.now)


class SplitPrompt(NamedTuple):
    """The parts of a prompt."""

    header: str
    """The prompt up to and including the header of the model's turn."""
    seed: str
    """The text after the header: an opening reasoning marker, an empty reasoning block, or nothing."""
    finale: str
    """The text that the template adds at the end of a conversation if there is no generation prompt."""
    always: bool
    """True if the template writes the header even without ``add_generation_prompt``."""


class ReasoningMarkers(NamedTuple):
    """The markers around reasoning."""

    opener: str
    closer: str
    own: bool = True
    """True if only reasoning has this closing marker."""
    key: str = ""
    """The key under which the template reads reasoning; empty if the template looks only in the content."""


@dataclass(frozen=True, slots=True)
class ProbeCall:
    """A placeholder for a call of the model."""

    id: str
    name: str


def make_turn(
    capabilities: TemplateCapabilities,
    markers: ReasoningMarkers | None,
    *,
    thought: bool,
    calls: Sequence[ProbeCall] = (),
) -> ChatMessage:
    """Return an assistant message with placeholder calls or a placeholder answer."""
    text = "" if calls else CONTENT
    key = markers.key if markers is not None and thought else ""
    if thought and markers is not None and not key:
        # The template does not read reasoning from any key, but it may look for reasoning markers in the
        # content.
        text = f"{markers.opener}\n{THOUGHT}\n{markers.closer}\n\n{text}"
    content: object = text or (capabilities.empty_content if calls else "")
    if key == "parts":
        content = [{"type": "thinking", "thinking": THOUGHT}, *text_part(text)]
    elif text and "assistant" in capabilities.roles_with_parts_only:
        content = text_part(text)
    message: ChatMessage = {"role": "assistant", "content": content}
    if key not in ("", "parts"):
        message[key] = THOUGHT
    if calls:
        arguments: object = {"unspool": 1} if capabilities.arguments == "object" else '{"unspool": 1}'
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
            for call in calls
        ]
    return message


def make_message(capabilities: TemplateCapabilities, role: str, text: str, **extra: object) -> ChatMessage:
    """Return a message with a role other than ``assistant``."""
    return {
        "role": role,
        "content": text_part(text) if role in capabilities.roles_with_parts_only else text,
        **extra,
    }


@dataclass(frozen=True, slots=True)
class ConversationRenderer:
    """Renderer of conversations, with a fixed template and with the tools and variables of one request."""

    template: ChatTemplate
    tools: Sequence[object] | None
    variables: Mapping[str, Any]

    def prompt(self, history: Sequence[ChatMessage]) -> SplitPrompt:
        """Return the parts of the prompt for a conversation."""
        text = self.render(history, generation=True)
        ended = self.render(history, generation=False)
        seed = _seed(text, find_reasoning_markers(self.template))
        finale = ended[_border(ended, _shared(text, ended)) :]
        return SplitPrompt(text[: len(text) - len(seed)], seed, finale, always=text == ended)

    def header(self, history: Sequence[ChatMessage]) -> str:
        """Return the header of the model's turn.

        The header is the text that the generation prompt adds after these messages.  If the generation
        prompt adds no text, the last markers of the prompt are returned.
        """
        prompt = self.prompt(history)
        ended = self.render(history, generation=False).removesuffix(prompt.finale)
        added = prompt.header.removeprefix(ended) if prompt.header.startswith(ended) else ""
        match = _HEADER_AT_END.search(prompt.header) or _TAG_AT_END.search(prompt.header)
        return added if added.strip() else match[0] if match else ""

    def extend(
        self,
        history: Sequence[ChatMessage],
        turn: ChatMessage,
        new: Sequence[ChatMessage],
        *,
        lead: str | None,
        turn_start: str | None = None,
    ) -> ExtendedConversation:
        """Return renderings of a conversation before and after new messages are added.

        Before the addition, the conversation ends with the model's turn.

        :param lead: the text before the answer if the turn has no reasoning (an empty reasoning block, or an
            empty string); None if the turn begins with reasoning.
        :param turn_start: the actual beginning of the turn, including the reasoning marker or empty reasoning
            block at the end of its prompt (``SplitPrompt.seed``); None if that
            prompt ends in the same way as the prompt rendered from ``history``.
        """
        prompt = self.prompt(history)
        seed = prompt.seed if turn_start is None or turn_start.startswith(prompt.seed) else ""
        now = self.render([*history, turn, *new], generation=True)
        alone = self.render([*history, turn], generation=False).removesuffix(prompt.finale)
        body = alone.removeprefix(prompt.header) if alone.startswith(prompt.header) else ""
        body, next_header = _cut_header(body, prompt) if prompt.always else (body, "")
        end = "" if next_header else self._end(turn, body)
        body = body[: len(body) - len(end)]
        if lead is not None:
            body = _replace_lead(lead, body, find_reasoning_markers(self.template))
        elif THOUGHT not in body or not body.startswith(seed):
            body = self._thought(seed)
        return ExtendedConversation(len(prompt.header), prompt.header + body, end, now)

    def _thought(self, seed: str) -> str:
        markers = find_reasoning_markers(self.template)
        opener = "" if markers is None or markers.opener in seed else markers.opener
        return seed + opener + THOUGHT

    def _end(self, turn: ChatMessage, body: str) -> str:
        """Return the text that ends the turn; ``body`` is the rendered turn without later messages."""
        if not turn.get("tool_calls") and CONTENT in body:
            return body[max(body.rfind(text) + len(text) for text in (CONTENT, THOUGHT)) :]
        match = _TAGS_AT_END.search(body, max(0, len(body) - _TAIL))
        return match[0] if match else ""

    def render(self, messages: Sequence[ChatMessage], *, generation: bool) -> str:
        """Return the rendering of these messages, with a generation prompt if ``generation`` is True."""
        return self.template.render(messages, self.tools, add_generation_prompt=generation, **self.variables)


def make_round(
    capabilities: TemplateCapabilities, markers: ReasoningMarkers | None, *, thought: bool, call: ProbeCall
) -> list[ChatMessage]:
    """Return a model turn and the message after it: a call and a result, or an answer and a question."""
    if capabilities.calls == "none":
        return [
            make_turn(capabilities, markers, thought=thought),
            make_message(capabilities, "user", QUESTION),
        ]
    result = make_message(capabilities, "tool", RESULT, tool_call_id=call.id, name=call.name)
    return [make_turn(capabilities, markers, thought=thought, calls=[call]), result]


def _border(text: str, at: int) -> int:
    """Return ``at`` or, if this offset is inside a marker, the start of the marker.

    Two different markers may begin with the same characters, so texts may differ inside a marker.
    """
    around = max(0, at - 60)
    inside = (tag.start() for tag in re.finditer(TAG, text[around:]) if tag.start() < at - around < tag.end())
    return around + next(inside, at - around)


def _cut_header(body: str, prompt: SplitPrompt) -> tuple[str, str]:
    """Split a rendered turn into the model's text and the text that the template adds after every turn.

    The second text consists of the end of the turn and the header of the next turn.
    """
    shared = body[len(body) - _shared(body[::-1], (prompt.header + prompt.seed)[::-1]) :]
    match = re.search(TAG, shared)
    at = len(body) - (len(shared) - match.start() if match else 0)
    return body[:at], body[at:]


# -- reasoning


def _seed(prompt: str, markers: ReasoningMarkers | None) -> str:
    """Return the opening reasoning marker or empty reasoning block at the end of a prompt, if any."""
    match = None if markers is None else re.search(rf"{_block(markers)}\Z", prompt[-_TAIL:])
    return match[0] if match else ""


def _replace_lead(lead: str, body: str, markers: ReasoningMarkers | None) -> str:
    """Replace an empty reasoning block at the start of a rendered turn with ``lead``."""
    if markers is None:
        return body
    block = re.compile(_block(markers))
    if body.startswith(lead) and not block.match(body, len(lead)):
        return body  # no other reasoning block follows ``lead``, so nothing has to be replaced
    return lead + block.sub("", body, count=1) if block.match(body) else lead + body


def _block(markers: ReasoningMarkers) -> str:
    either = "|".join(re.escape(mark) for mark in markers[:2] if mark)
    return rf"(?:{either})(?:{either}|\s)*"


SWITCH_VALUES: Final[tuple[Mapping[bool, Mapping[str, object]], ...]] = (
    {
        True: {"enable_thinking": True, "thinking": True, "reasoning": True, "add_thoughts": True},
        False: {"enable_thinking": False, "thinking": False, "reasoning": False, "add_thoughts": False},
    },
    {True: {"thinking_mode": "enabled"}, False: {"thinking_mode": "disabled"}},
    {True: {"thinking_mode": "thinking"}, False: {"thinking_mode": "chat"}},
    {True: {"reasoning_effort": "high"}, False: {"reasoning_effort": "none"}},
)
"""Template variables that switch reasoning on or off."""


def thinking_variables(template: ChatTemplate, *, on: bool) -> dict[str, Any]:
    """Return the variables that switch reasoning on or off for this template."""
    variables: dict[str, Any] = {}
    question = [make_message(template.capabilities, "user", QUESTION)]
    for values in SWITCH_VALUES:
        supported = {
            name: value for name, value in values[on].items() if re.search(rf"\b{name}\b", template.source)
        }
        if supported and not variables.keys() & supported.keys():
            try:
                template.render(question, **variables | supported)
            except ChatTemplateError:
                continue
            variables |= supported
    return variables


@lru_cache(maxsize=256)
def find_reasoning_markers(template: ChatTemplate) -> ReasoningMarkers | None:
    """Return the markers that a template writes around reasoning; None if no markers are found."""
    capabilities = template.capabilities
    question = make_message(capabilities, "user", QUESTION)
    # The capability probes find no key if a template writes only the last message's reasoning. In this case,
    # try all keys.
    for key in [capabilities.reasoning_key] if capabilities.reasoning_key else REASONING_KEYS:
        answer = make_turn(capabilities, ReasoningMarkers("", "", key=key), thought=True)
        try:
            variables = thinking_variables(template, on=True)
            text = template.render([question, answer], add_generation_prompt=False, **variables)
        except ChatTemplateError:
            continue
        if THOUGHT in text:
            return _around(text)._replace(key=key)
    # The template may write reasoning only in messages with calls, so search its source for known markers.
    match = next((markers for markers in _known_markers() if markers.closer in template.source), None)
    return match and match._replace(key=capabilities.reasoning_key)


def _around(text: str) -> ReasoningMarkers:
    before, _, after = text.partition(THOUGHT)
    question = before.find(QUESTION)
    for known in _known_markers():
        if before.rstrip().endswith(known.opener) and after.lstrip().startswith(known.closer):
            return known._replace(own=known.closer not in before[question:])
    opener = _TAG_AT_END.search(before)
    closer = _TAG_AHEAD.match(after)
    if opener and opener[0].strip() in before[max(0, question - 40) : question]:
        # The marker before reasoning also ends the headers of other messages. So use the whole header as the
        # opening reasoning marker.
        opener = _HEADER_AT_END.search(before)
        closer = _HEADER_AHEAD.match(after) or closer
    close = closer[1] if closer else ""
    return ReasoningMarkers(opener[0].strip() if opener else "", close, own=close not in before[question:])


@lru_cache(maxsize=1)
def _known_markers() -> tuple[ReasoningMarkers, ...]:
    return tuple(dict.fromkeys(_markers_of_dialects()))


def _markers_of_dialects() -> Iterator[ReasoningMarkers]:
    for dialect in list_dialects():
        for template in dialect.reasoning:
            opener, closer = text_around(template, "text")
            if opener.strip() and closer.strip():
                yield ReasoningMarkers(opener.strip(), closer.strip())

"""Rendering of test messages with a chat template, to extract the assistant's turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...message import Message
from ...templates import ChatTemplate, ChatTemplateError, ChatTemplateLimit, RenderMode, normalise_history
from .probe_tools import FLAT_TOOLS, TOOLS, RenderedTurn

QUESTION: Final[Mapping[str, object]] = {"role": "user", "content": "What is the weather like?"}
"""The user's message in every test conversation."""
_THINKING_ON: Final[Mapping[str, object]] = {
    "enable_thinking": True,
    "thinking": True,
    "add_thoughts": True,
    "thinking_mode": "enabled",
    "reasoning_effort": "high",
}


_RENDER_TIMEOUT: Final = 2.0
"""Time limit for one rendering, in seconds."""
_MAX_LENGTH: Final = 1 << 16
"""Maximum length of a rendering in characters: eight times the longest of any known template."""
_TOTAL_TIMEOUT: Final = 30.0
"""Time limit for all renderings of one template together, in seconds."""


class TemplateProbe(ChatTemplate):
    """Chat template with lenient rendering, used to find out how the template formats messages.

    The current time is fixed, and undefined variables are empty.  The template may modify lists, which the
    Transformers sandbox forbids but other engines allow.
    """

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        super().__init__(source, max_length=_MAX_LENGTH, max_seconds=_RENDER_TIMEOUT, **tokens)  # type: ignore[arg-type]
        self._turns: dict[Message, RenderedTurn] = {}

    def _mode(self, *, probing: bool) -> RenderMode:
        del probing
        return "lenient"

    def _run(self, *args: Any, seconds_left: float = _TOTAL_TIMEOUT, **kwargs: Any) -> str:
        return super()._run(*args, seconds_left=min(seconds_left, _TOTAL_TIMEOUT - self._spent), **kwargs)

    def conversation(
        self,
        *messages: Mapping[str, object],
        tools: Sequence[object] | None = TOOLS,
        generation: bool = False,
        **variables: Any,
    ) -> str:
        """Render messages; return an empty string if the template refuses them."""
        history = normalise_history(messages, self)
        # Some templates can render calls, but fail on nested schemas or on any tools.  So try simpler
        # tools, and then no tools.
        for candidate in (tools, FLAT_TOOLS, None):
            try:
                return self.render(history, candidate, add_generation_prompt=generation, **variables)
            except ChatTemplateLimit:
                raise  # an exceeded limit does not mean that the template refuses the messages
            except ChatTemplateError:
                continue
        return ""

    def render_turn(self, message: Message) -> RenderedTurn:
        """Render an assistant message; turn reasoning on if the template omits it otherwise."""
        rendered = self._turns.get(message)
        if rendered is None:
            rendered = self._render_turn(message, {})
            if message.reasoning and message.reasoning not in rendered.turn:
                switched = self._render_turn(message, _THINKING_ON)
                rendered = switched if message.reasoning in switched.turn else rendered
            self._turns[message] = rendered
        return rendered

    def _render_turn(self, message: Message, variables: Mapping[str, Any]) -> RenderedTurn:
        # The turn starts after the common prefix of the rendering and a prompt.  It ends before the common
        # suffix of the rendering and a conversation without the turn.
        text = self.conversation(
            QUESTION, message_dict(message, self.capabilities.reasoning_key), **variables
        )
        start = _split_point(text, self.prompt(**variables))
        end = len(text) - _shared_end(text[start:], self.conversation(QUESTION, **variables))
        return RenderedTurn(text[:start], text[start:end], text[end:])

    def prompt(self, **variables: Any) -> str:
        """Render a prompt that contains only the user's question."""
        return self.conversation(QUESTION, generation=True, **variables)


def message_dict(message: Message, key: str) -> dict[str, object]:
    """Convert a message to the dictionary that a request contains.

    :param key: the message key from which the template reads reasoning, or ``parts`` if reasoning is a part
        of the content.
    """
    content: object = message.content
    if message.reasoning and key == "parts":
        text = [{"type": "text", "text": message.content}] if message.content else []
        content = [{"type": "thinking", "thinking": message.reasoning}, *text]
    fields: dict[str, object] = {"role": "assistant", "content": content}
    if message.reasoning and key not in ("", "parts"):
        fields[key] = message.reasoning
    if message.tool_calls:
        fields["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return fields


def _split_point(text: str, prompt: str) -> int:
    """Return the offset at which two renderings diverge, moved back if it is inside a marker."""
    at = 0
    while at < min(len(text), len(prompt)) and text[at] == prompt[at]:
        at += 1
    if at == len(prompt):
        return at
    # Different markers may start with the same characters, such as ``<|im_end|>`` and ``<|im_start|>``.  So
    # the returned offset is the end of the last line or marker before the difference.
    return max(text.rfind(mark, 0, at) for mark in ("\n", ">", "]")) + 1


def _shared_end(text: str, other: str) -> int:
    """Return the length of the longest common suffix of two renderings that does not split a marker.

    The suffix starts at a marker or at whitespace.  It consists of the end marker of the turn, and of text
    that the template adds to every prompt.
    """
    length = 0
    while length < min(len(text), len(other)) and text[-1 - length] == other[-1 - length]:
        length += 1
    while length and text[-length] not in "<[ \n":
        length -= 1
    return length

"""A chat template as a witness: it is given messages, and what it writes is cut out of the rendering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...chat_templates import (
    ChatTemplate,
    ChatTemplateError,
    ChatTemplateLimit,
    normalise_history,
)
from ...chat_templates._jinja_environment import Manner
from ...message import Message
from .probe_messages import FLAT_TOOLS, TOOLS, Writing

ASKED: Final[Mapping[str, object]] = {"role": "user", "content": "What is the weather like?"}
"""What the user says."""
_THINKING_ON: Final[Mapping[str, object]] = {
    "enable_thinking": True,
    "thinking": True,
    "add_thoughts": True,
    "thinking_mode": "enabled",
    "reasoning_effort": "high",
}


_SECONDS: Final = 2.0
_MAX_LENGTH: Final = 1 << 16
"""Eight times what the longest template writes for a few short messages."""
_ALL_SECONDS: Final = 30.0
"""All that a template is asked may take this long."""


class Probe(ChatTemplate):
    """A template that is asked what it writes.

    Time stands still, and a variable that nobody gave is empty.  Lists may be
    changed: the sandbox of Transformers refuses that, other engines allow it,
    and what such a template writes is to be known all the same.
    """

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        super().__init__(source, max_length=_MAX_LENGTH, max_seconds=_SECONDS, **tokens)  # type: ignore[arg-type]
        self._written: dict[Message, Writing] = {}

    def _manner(self, *, probing: bool) -> Manner:
        del probing
        return "lenient"

    def _run(self, *args: Any, left: float = _ALL_SECONDS, **kwargs: Any) -> str:
        return super()._run(*args, left=min(left, _ALL_SECONDS - self._spent), **kwargs)

    def conversation(
        self,
        *messages: Mapping[str, object],
        tools: Sequence[object] | None = TOOLS,
        generation: bool = False,
        **variables: Any,
    ) -> str:
        """The template's rendering of these messages; empty if it refuses them."""
        history = normalise_history(messages, self)
        for offered in (tools, FLAT_TOOLS, None):  # some cannot render tools, but calls they can
            try:
                return self.render(history, offered, add_generation_prompt=generation, **variables)
            except ChatTemplateLimit:
                raise  # a refusal is an answer, that is none
            except ChatTemplateError:
                continue
        return ""

    def write(self, message: Message) -> Writing:
        """The turn that says this, cut out of the conversation."""
        writing = self._written.get(message)
        if writing is None:
            writing = self._write(message, {})
            if message.reasoning and message.reasoning not in writing.turn:
                told = self._write(message, _THINKING_ON)
                writing = told if message.reasoning in told.turn else writing
            self._written[message] = writing
        return writing

    def _write(self, message: Message, variables: Mapping[str, Any]) -> Writing:
        given = as_dict(message, self.wants.reasoning)
        text = self.conversation(ASKED, given, **variables)
        start = _parting(text, self.prompt(**variables))
        end = len(text) - _shared_end(text[start:], self.conversation(ASKED, **variables))
        return Writing(text[:start], text[start:end], text[end:])

    def prompt(self, **variables: Any) -> str:
        """A prompt."""
        return self.conversation(ASKED, generation=True, **variables)


def as_dict(message: Message, key: str) -> dict[str, object]:
    """A message as a request has it, its reasoning under the key that the template reads."""
    content: object = message.content
    if message.reasoning and key == "parts":
        text = [{"type": "text", "text": message.content}] if message.content else []
        content = [{"type": "thinking", "thinking": message.reasoning}, *text]
    given: dict[str, object] = {"role": "assistant", "content": content}
    if message.reasoning and key not in ("", "parts"):
        given[key] = message.reasoning
    if message.tool_calls:
        given["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return given


def _parting(text: str, prompt: str) -> int:
    """Where two renderings part, but never inside a marker."""
    at = 0
    while at < min(len(text), len(prompt)) and text[at] == prompt[at]:
        at += 1
    if at == len(prompt):
        return at
    # The prompt went on with something else, perhaps with markup that begins alike.
    return max(text.rfind(mark, 0, at) for mark in ("\n", ">", "]")) + 1


def _shared_end(text: str, other: str) -> int:
    """How much of the end of two renderings is the same.

    That is the end of any turn, and what a template adds to every prompt.  It
    begins with a marker or a blank, never inside one.
    """
    length = 0
    while length < min(len(text), len(other)) and text[-1 - length] == other[-1 - length]:
        length += 1
    while length and text[-length] not in "<[ \n":
        length -= 1
    return length

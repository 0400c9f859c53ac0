"""The current turn: the request that the server is working on, which SGLang does not pass to detectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from ...dialects import Dialect
from ...events import FinishReason
from ...planning.prompt_end import continued_turn

PROMPT_ATTRIBUTE: Final = "_unspool_prompt"
"""The name of the attribute in which a request stores the end of its prompt."""

_FINISH_REASONS: Final[dict[object, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "abort": "length",  # an aborted output is incomplete, too
}


class Turn:
    """A request whose prompt is being rendered or whose output is being parsed."""

    __slots__ = ("finish", "request", "responses", "server", "tag_with_reasoning")

    def __init__(self, server: Any, request: Any, finish: Any = None, *, responses: bool = False) -> None:
        self.server = server
        self.request = request
        self.finish = finish
        """SGLang's data about the end of the output, which the server also uses for its answer."""
        self.responses = responses
        """True if the request belongs to OpenAI's Responses API."""
        self.tag_with_reasoning: Callable[[], Any] | None = None
        """Function that creates a grammar for reasoning followed by a forced call.  None unless the request
        has a grammar that covers only the call."""

    @property
    def tool_parser(self) -> str | None:
        """The name of the server's tool call parser."""
        return getattr(self.server, "tool_call_parser", None)

    @property
    def reasoning_parser(self) -> str | None:
        """The name of the server's reasoning parser."""
        return getattr(self.server, "reasoning_parser", None)

    @property
    def prompt(self) -> str | None:
        """The end of the prompt; None if the prompt is unknown."""
        tail = getattr(self.request, PROMPT_ATTRIBUTE, None)
        return tail if isinstance(tail, str) else None

    @property
    def continues(self) -> bool:
        """True if the output continues the last message of the request."""
        return getattr(self.request, "continue_final_message", False) is True

    def parser_start(self, dialect: Dialect, prompt: str) -> dict[str, Any]:
        """Return the parser options that determine the channel in which the output starts.

        If the output continues the request's last message, only that message determines the options;
        otherwise the whole prompt does.
        """
        if not self.continues:
            return {"prompt": prompt}
        messages = getattr(self.request, "messages", None) or [None]
        return {"prompt": continued_turn(dialect, prompt, _text_of(messages[-1])), "continues": True}

    @property
    def one_call(self) -> bool:
        """True if the request allows only one call per answer."""
        return getattr(self.request, "parallel_tool_calls", None) is False

    @property
    def finish_reason(self) -> FinishReason | None:
        """The finish reason of the output; None if the output has not ended."""
        return _FINISH_REASONS.get(self.finish.get("type")) if isinstance(self.finish, dict) else None

    @property
    def compiles_tags(self) -> bool:
        """True if the server's grammar backend supports xgrammar's structural tags."""
        manager = getattr(self.server, "tokenizer_manager", None)
        try:
            backend = manager.config_value("grammar_backend")  # type: ignore[union-attr]
        except Exception:  # noqa: BLE001 - a manager without this method uses the default backend
            return True
        return backend in (None, "xgrammar")

    def mark_truncated(self) -> None:
        """Change the finish reason ``stop`` to ``length``, because a call is incomplete."""
        if isinstance(self.finish, dict) and self.finish.get("type") == "stop":
            self.finish["type"] = "length"


def _text_of(message: Any) -> str:
    """Return the text of a message, which is a dictionary or an object and may contain a list of parts."""
    content = _field(message, "content")
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "".join(str(_field(part, "text") or "") for part in content)
    return content if isinstance(content, str) else ""


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


_current: ContextVar[Turn | None] = ContextVar("unspool_turn", default=None)


def current_turn() -> Turn | None:
    """Return the current turn; None if SGLang uses a detector outside the wrapped server methods."""
    return _current.get()


@contextmanager
def turn_context(turn: Turn) -> Iterator[None]:
    """Make a turn the current turn during a ``with`` block."""
    token = _current.set(turn)
    try:
        yield
    finally:
        _current.reset(token)

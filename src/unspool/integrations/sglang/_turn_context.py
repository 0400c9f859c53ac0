"""What the server knows of the turn that is being read, and its detectors are not told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from ...dialects._declaration import Dialect
from ...events import FinishReason
from ...planning._prompt_end import continued_turn

PROMPT: Final = "_unspool_prompt"
"""The attribute of a request that the end of its prompt is kept in."""

_REASONS: Final[dict[object, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "abort": "length",  # cut, in any case
}


class Turn:
    """One request, while its prompt is made or an output of it is read."""

    __slots__ = ("finish", "reasoned_tag", "request", "responses", "server")

    def __init__(self, server: Any, request: Any, finish: Any = None, *, responses: bool = False) -> None:
        self.server = server
        self.request = request
        self.finish = finish
        """SGLang's own record of how the output ended, which its answer is made from."""
        self.responses = responses
        """Whether it is answered in OpenAI's Responses format."""
        self.reasoned_tag: Callable[[], Any] | None = None
        """Makes the grammar of a forced call with reasoning before it, where there is one without."""

    @property
    def tool(self) -> str | None:
        """The name of the server's parser of calls."""
        return getattr(self.server, "tool_call_parser", None)

    @property
    def reasoning(self) -> str | None:
        """The name of its parser of reasoning."""
        return getattr(self.server, "reasoning_parser", None)

    @property
    def prompt(self) -> str | None:
        """What the prompt ends with, if it is known."""
        found = getattr(self.request, PROMPT, None)
        return found if isinstance(found, str) else None

    @property
    def continues(self) -> bool:
        """Whether the output continues the last message of the request."""
        return getattr(self.request, "continue_final_message", False) is True

    def begins(self, dialect: Dialect, prompt: str) -> dict[str, Any]:
        """Return where the output begins, as options of a parser.

        Of a prompt that ends with a message to be continued, this message alone counts.
        """
        if not self.continues:
            return {"prompt": prompt}
        messages = getattr(self.request, "messages", None) or [None]
        return {"prompt": continued_turn(dialect, prompt, _text_of(messages[-1])), "continues": True}

    @property
    def one_call(self) -> bool:
        """Whether the request wants one call at a time."""
        return getattr(self.request, "parallel_tool_calls", None) is False

    @property
    def reason(self) -> FinishReason | None:
        """How the output ended, as far as it is known."""
        return _REASONS.get(self.finish.get("type")) if isinstance(self.finish, dict) else None

    @property
    def compiles_tags(self) -> bool:
        """Whether the server's grammar backend takes structural tags as xgrammar has them."""
        manager = getattr(self.server, "tokenizer_manager", None)
        try:
            backend = manager.config_value("grammar_backend")  # type: ignore[union-attr]
        except Exception:  # noqa: BLE001 - older or other managers: the default backend is the one
            return True
        return backend in (None, "xgrammar")

    def was_cut(self) -> None:
        """A call was not completed: whatever the backend said, the answer says so."""
        if isinstance(self.finish, dict) and self.finish.get("type") == "stop":
            self.finish["type"] = "length"


def _text_of(message: Any) -> str:
    """Return the text of a message: a dictionary or an object, whose content may be in parts."""
    content = _field(message, "content")
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "".join(str(_field(part, "text") or "") for part in content)
    return content if isinstance(content, str) else ""


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


_current: ContextVar[Turn | None] = ContextVar("unspool_turn", default=None)


def current() -> Turn | None:
    """The turn that is being read; None where SGLang asks a detector by other ways."""
    return _current.get()


@contextmanager
def reading(turn: Turn) -> Iterator[None]:
    """While this turn is read."""
    token = _current.set(turn)
    try:
        yield
    finally:
        _current.reset(token)

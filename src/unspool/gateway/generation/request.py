"""Generation request: the form of a request that is independent of the API it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..state.message_threads import MessageThread

ApiName: TypeAlias = Literal["chat", "responses", "messages", "ollama", "ollama_generate"]


@dataclass(slots=True)
class GenerationRequest:
    """Request for generation, independent of the API that it came from."""

    api: ApiName
    chat: dict[str, Any]
    """The request in the format of Chat Completions."""
    stream: bool = False
    n: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    """Stop token ids besides the model's own."""
    include_stop: bool = False
    """Keep the stop string or token in the output."""
    logprobs: int | None = None
    """Number of alternatives per token; None for no log probabilities."""
    token_ids: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply, if the request asks for JSON."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """All other fields that the engine may understand."""
    custom_tools: tuple[str, ...] = ()
    """Names of free-form tools."""
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Namespace of a tool and its name there, by the name that the model sees."""
    echo: dict[str, Any] = field(default_factory=dict)
    """Fields of the request to repeat in the response."""
    items: list[dict[str, Any]] = field(default_factory=list)
    """Input items of the request itself, each with an id (Responses)."""
    store: bool = True
    """Store the response."""
    conversation: str | None = None
    """Conversation to extend by input and output (Responses)."""
    optional_fields: tuple[str, ...] = ()
    """Fields of ``chat`` that are left out if the model does not support them.  Clients send these to every
    model."""
    seal: Callable[[str], str] | None = None
    """Encrypts reasoning for a client that sends it back; None if the client does not."""
    thread: MessageThread | None = None
    """Thread to extend by the message (Messages)."""
    ignored: Sequence[str] = ()
    """Ignored fields with the reason, for the log."""

"""Generation request: the common form of requests to all APIs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..state.messages_api_conversations import MessageThread

ApiName: TypeAlias = Literal["chat", "responses", "messages", "ollama", "ollama_generate"]


@dataclass(slots=True)
class GenerationRequest:
    """Request to generate a response, in a form that does not depend on the API."""

    api: ApiName
    chat: dict[str, Any]
    """Request in the format of Chat Completions."""
    stream: bool = False
    n: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    """Stop token ids in addition to the model's own."""
    include_stop: bool = False
    """True to keep the stop string or stop token in the output."""
    logprobs: int | None = None
    """Number of alternatives per token in the log probabilities; None to omit log probabilities."""
    token_ids: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    schema: Mapping[str, Any] | None = None
    """JSON schema for the reply, if the request asks for JSON."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Sampling parameters and other fields for the engine."""
    custom_tools: tuple[str, ...] = ()
    """Names of free-form tools."""
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Namespace and short name of each namespaced tool, keyed by the name that the model sees."""
    echo: dict[str, Any] = field(default_factory=dict)
    """Request fields that the response repeats."""
    items: Sequence[Mapping[str, Any]] = ()
    """Input items of this request (Responses API only)."""
    store: bool = True
    """True to store the response."""
    conversation: str | None = None
    """Id of the conversation to which input and output are added (Responses API only)."""
    optional_fields: tuple[str, ...] = ()
    """Fields of ``chat`` that are left out if the model does not support them.

    Clients send these fields to every model.
    """
    seal: Callable[[str], str] | None = None
    """Function that encrypts reasoning, if the client stores the conversation itself; otherwise None."""
    thread: MessageThread | None = None
    """Thread to which the reply is added (Messages API only)."""
    ignored: Sequence[str] = ()
    """Log entries for ignored fields, each with the reason."""

"""The API-neutral form of a request that generates text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..state.message_threads import MessageThread

ApiName: TypeAlias = Literal["chat", "responses", "messages", "ollama", "ollama_generate"]


@dataclass(slots=True)
class GenerationRequest:
    """A request, whichever API it came by."""

    api: ApiName
    request: dict[str, Any]
    """In the shape of a chat completion."""
    stream: bool = False
    n: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    """Tokens that end the answer, besides the model's own."""
    keeps_stop: bool = False
    """What ended the answer is part of it."""
    logprobs: int | None = None
    """Alternatives per token; None: no log probabilities."""
    token_ids: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    schema: Mapping[str, Any] | None = None
    """What the answer is to be, if JSON."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Everything for the engine."""
    custom_tools: tuple[str, ...] = ()
    """Names of free-form tools."""
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By the name that the model is shown, the namespace of a tool and its name there."""
    echo: dict[str, Any] = field(default_factory=dict)
    """Fields that the response repeats."""
    items: list[dict[str, Any]] = field(default_factory=list)
    """Its own input as items, each with an id."""
    store: bool = True
    """Whether the response is to be kept."""
    conversation: str | None = None
    """What its input and its output are to be added to."""
    soft: tuple[str, ...] = ()
    """Switches that clients send unasked: left out where the model has no ear for them."""
    seal: Callable[[str], str] | None = None
    """Seals reasoning for a client that sends it back; None: it does not want that."""
    thread: MessageThread | None = None
    """What the message is to be added to (Messages)."""
    left_out: Sequence[str] = ()
    """What of the request the answer does without: for the log."""

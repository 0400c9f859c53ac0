"""Upstream interface: the protocols and data types that all kinds of upstreams share.

An :class:`Upstream` opens a :class:`Stream` for an :class:`UpstreamRequest`.  The stream returns one
:class:`Batch` per network read, so the gateway writes to its client once per read.  Every error is a
:class:`~unspool.gateway.http.failure.Failure`.  A stream reports the finish reason of every choice before it
returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...wire import Delta

if TYPE_CHECKING:
    from ...planning import Plan
    from .http_client import ForwardedResponse

T = TypeVar("T")


@dataclass(slots=True)
class Usage:
    """Token counts of a request."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class Batch:
    """Deltas of one network read."""

    __slots__ = ("deltas", "prompt_token_ids", "usage")

    def __init__(self, deltas: list[Delta], usage: Usage | None = None) -> None:
        self.deltas = deltas
        self.usage = usage
        """Token counts so far, if the upstream reports them."""
        self.prompt_token_ids: Sequence[int] | None = None
        """Token ids of the prompt, if the request asks for them."""


class Stream(Protocol):
    """Output of one request while the upstream generates it."""

    async def next(self) -> Batch | None:
        """Return the next batch, or None at the end."""
        ...

    async def close(self) -> None:
        """Stop generation and release the connection."""
        ...


class RunIfLarge(Protocol):
    """Function that runs work in a thread if its input is large, otherwise on the event loop."""

    async def __call__(self, large: bool, work: Callable[[], T], /) -> T:
        """Run the work and return its result."""
        ...


async def run_inline(large: bool, work: Callable[[], T], /) -> T:  # noqa: ARG001 - there is no pool
    """Run work on the event loop, even if its input is large."""
    return work()


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """Request for generation, independent of the upstream's API."""

    id: str
    """Id of the client's request."""
    chat: Mapping[str, Any]
    """The client's request in the format of Chat Completions."""
    plan: Plan
    """Plan for the request: backend settings, and how to parse the output."""
    prompt: str | None
    """Rendered prompt; None if the upstream renders the prompt itself."""
    tools: Sequence[Mapping[str, Any]] = ()
    """Tools that are available to the model."""
    n: int = 1
    max_tokens: int | None = None
    """Token limit; None for no limit."""
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    """Additional stop token ids, besides the model's own."""
    include_stop: bool = False
    """True to keep the stop string or token in the output."""
    logprobs: int | None = None
    """Number of alternatives per token in the log probabilities; None to omit log probabilities."""
    token_ids: bool = False
    """True to return token ids."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply, if the request asks for JSON."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """All other request fields that the engine may support."""
    large: bool = False
    """True if the request is too large to process on the event loop."""
    run_if_large: RunIfLarge = run_inline
    """Function that runs slow work, such as building a large grammar, in a thread."""
    on_body: Callable[[Mapping[str, Any]], None] | None = None
    """Function that is called with the body of the upstream request."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers for the upstream: the request id and the client's trace context."""
    constraint_fields: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Cache of the request fields that constrain the output, keyed by engine name."""


class Upstream(Protocol):
    """Server or engine that generates text."""

    @property
    def renders(self) -> bool:
        """True if the upstream renders the chat template itself."""
        ...

    @property
    def constraints(self) -> Sequence[str]:
        """Supported output constraints: ``native`` for grammars, ``json`` for JSON schemas."""
        ...

    async def start(self) -> None:
        """Connect to the upstream."""
        ...

    async def stop(self) -> None:
        """Release all resources."""
        ...

    async def open(self, request: UpstreamRequest) -> Stream:
        """Start generation; return once the upstream has accepted the request."""
        ...

    async def ready(self) -> bool:
        """Return whether the upstream would accept a request now."""
        ...

    async def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """Return the token ids of ``text``, or None if the upstream cannot tokenize.

        :param special: True to add the special tokens with which the model's prompts start.
        """
        ...

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        """Return the text for token ids, or None if the upstream cannot detokenize."""
        ...

    async def forward(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ForwardedResponse:
        """Forward a request unchanged to another endpoint of the upstream.

        :param headers: the request id and the client's trace context.
        """
        ...

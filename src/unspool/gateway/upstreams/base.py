"""What a gateway asks of whatever generates text.

An :class:`Upstream` opens a :class:`Stream` for a :class:`UpstreamRequest`; the stream gives
:class:`Batch` after batch, each with all that one read brought, so that the
gateway can send as often as it reads and no oftener.  Everything that goes wrong
is a :class:`~unspool.gateway.http.errors.Failure`; a stream that ends with None has
told the finish reason of every choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...events import FinishReason

if TYPE_CHECKING:
    from ...planning import Plan
    from .http import Passed

Result = TypeVar("Result")


class CallPiece:
    """A piece of a call that an upstream has told apart by itself."""

    __slots__ = ("arguments", "id", "index", "name")

    def __init__(self, index: int, id: str, name: str, arguments: str) -> None:
        self.index = index
        """The upstream's own number of it."""
        self.id = id
        self.name = name
        """Empty: it continues."""
        self.arguments = arguments


class Delta:
    """What one step of generation added to one choice."""

    __slots__ = (
        "calls",
        "choice",
        "finish",
        "logprobs",
        "plain",
        "reasoning",
        "stopped_by",
        "text",
        "token_ids",
    )

    def __init__(
        self,
        choice: int,
        text: str,
        *,
        finish: FinishReason | None = None,
        stopped_by: str | None = None,
        logprobs: list[dict[str, Any]] | None = None,
        token_ids: Sequence[int] | None = None,
        reasoning: str = "",
        calls: Sequence[CallPiece] = (),
    ) -> None:
        self.choice = choice
        """Which of the n choices."""
        self.text = text
        """Raw output: to be parsed."""
        self.finish = finish
        """Why generation of the choice ended; None: it goes on."""
        self.stopped_by = stopped_by
        """The stop string that ended it, if the upstream says."""
        self.logprobs = logprobs
        """Of the step's tokens, as chat completions spell them."""
        self.token_ids = token_ids
        """The step's tokens."""
        self.reasoning = reasoning
        """Reasoning that the upstream has told apart by itself."""
        self.calls = calls
        """Calls that the upstream has told apart by itself."""
        self.plain = finish is None and logprobs is None and token_ids is None and not reasoning and not calls
        """There is nothing but text."""


@dataclass(slots=True)
class Usage:
    """Token counts."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class Batch:
    """What one read brought."""

    __slots__ = ("deltas", "prompt_token_ids", "usage")

    def __init__(self, deltas: list[Delta], usage: Usage | None = None) -> None:
        self.deltas = deltas
        self.usage = usage
        """The counts so far, if the upstream told them."""
        self.prompt_token_ids: Sequence[int] | None = None
        """The prompt as the model sees it, if that was asked for."""


class Stream(Protocol):
    """An output as it is generated."""

    async def next(self) -> Batch | None:
        """What has come in since; None: there is no more."""
        ...

    async def close(self) -> None:
        """Stop generating, if that goes on, and let go of everything."""
        ...


class RunIfLarge(Protocol):
    """Function that runs another one: in a thread if its input is large, else at once."""

    async def __call__(self, large: bool, work: Callable[[], Result], /) -> Result:
        """Return what the other function returns."""
        ...


async def run_at_once(large: bool, work: Callable[[], Result], /) -> Result:  # noqa: ARG001 - there is no pool
    """Run a function at once."""
    return work()


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What is to be generated."""

    id: str
    """Of the request, for logs."""
    request: Mapping[str, Any]
    """The request in the shape of a chat completion."""
    plan: Plan
    """What the backend must be told, and how its output is read."""
    prompt: str | None
    """The rendered prompt; None where the upstream renders it itself."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The tools that the model is shown."""
    n: int = 1
    max_tokens: int | None = None
    """None: as long as it takes."""
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    """Tokens that end the output, besides the model's own."""
    keeps_stop: bool = False
    """What ended the output is part of it."""
    logprobs: int | None = None
    """How many alternatives to tell; None: no log probabilities at all."""
    token_ids: bool = False
    """Whether ids are wanted."""
    schema: Mapping[str, Any] | None = None
    """What the answer is held to, if the request asks for JSON."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Everything else of the request that concerns the engine."""
    large: bool = False
    """Whether it takes time to go through the request."""
    run_if_large: RunIfLarge = run_at_once
    """Runs what may take long: making grammars, and going through large requests."""
    tell: Callable[[Mapping[str, Any]], None] | None = None
    """Called with the body that the engine gets."""
    held: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the name of an engine, what it is told to hold the model to, once that has been made."""


class Upstream(Protocol):
    """Something that generates text."""

    @property
    def renders(self) -> bool:
        """Whether it renders the chat template itself, so that there is no prompt."""
        ...

    @property
    def constraints(self) -> Sequence[str]:
        """What it can hold a model to: ``native`` grammars, ``json`` schemas."""
        ...

    async def start(self) -> None:
        """Get ready."""
        ...

    async def stop(self) -> None:
        """Let go of everything."""
        ...

    async def open(self, task: UpstreamRequest) -> Stream:
        """Begin to generate; returns when the upstream has accepted the task."""
        ...

    async def ready(self) -> bool:
        """Whether it would accept a task now."""
        ...

    async def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """The tokens of a text; None: it does not say.

        :param special: with those that the model's prompts begin with.
        """
        ...

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        """The text of tokens; None: it does not say."""
        ...

    async def forward(self, path: str, body: Mapping[str, Any]) -> Passed:
        """Hand a request on to another of its endpoints."""
        ...

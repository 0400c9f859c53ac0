"""Interface for watching how a request is generated; the web page's request log implements it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from ...policies import Policies
from ..http.exchange import Exchange
from ..upstreams.base import Batch, Stream
from .model import Prepared
from .request import GenerationRequest
from .served_models import ServedModel


class GenerationObserver(Protocol):
    """Observer of one request."""

    def on_plan(
        self,
        served: ServedModel,
        request: GenerationRequest,
        prepared: Prepared,
        policies: Policies,
        *,
        reads_ids: bool,
    ) -> None:
        """Take note of the plan, before the upstream is called."""
        ...

    def on_upstream_request(self, body: Mapping[str, Any]) -> None:
        """Take note of the body that the upstream gets, without its prompt."""
        ...

    async def on_open(self, stream: Stream) -> Stream:
        """Return the stream to read, once the upstream has accepted the request."""
        ...

    def on_batch(self, batch: Batch) -> None:
        """Take note of what one read of the stream brought."""
        ...


Observe: TypeAlias = Callable[[Exchange], GenerationObserver | None]
"""Function that returns the observer of a request, or None."""

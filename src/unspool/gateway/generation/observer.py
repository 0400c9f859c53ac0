"""Interface for observers of generation requests, such as the request log of the web page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from ...policies import Policies
from ..http.exchange import Exchange
from ..upstreams.base import Batch, Stream
from .prepare_request import PreparedRequest
from .request import GenerationRequest
from .served_models import ServedModel


class GenerationObserver(Protocol):
    """Interface for the observer of one request."""

    def on_plan(
        self,
        served: ServedModel,
        request: GenerationRequest,
        prepared: PreparedRequest,
        policies: Policies,
        *,
        reads_ids: bool,
    ) -> None:
        """Record the plan before the request is sent to the upstream."""
        ...

    def on_upstream_request(self, body: Mapping[str, Any]) -> None:
        """Record the body of the request to the upstream, without the prompt."""
        ...

    async def on_open(self, stream: Stream) -> Stream:
        """Return the stream that the gateway reads in place of the upstream's stream.

        This method is called after the upstream has accepted the request.
        """
        ...

    def on_batch(self, batch: Batch) -> None:
        """Record a batch of deltas that was read from the stream."""
        ...


Observe: TypeAlias = Callable[[Exchange], GenerationObserver | None]
"""Function that returns an observer for a request, or None to leave the request unobserved."""

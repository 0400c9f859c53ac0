"""Interface of observers of generation requests; the request log of the web page is one."""

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
    """Observer of one request."""

    def on_plan(
        self,
        served: ServedModel,
        request: GenerationRequest,
        prepared: PreparedRequest,
        policies: Policies,
        *,
        reads_ids: bool,
    ) -> None:
        """Record the plan, before the request goes to the upstream."""
        ...

    def on_upstream_request(self, body: Mapping[str, Any]) -> None:
        """Record the body that goes to the upstream, without the prompt."""
        ...

    async def on_open(self, stream: Stream) -> Stream:
        """Return the stream to read in place of this one; called when the upstream has accepted."""
        ...

    def on_batch(self, batch: Batch) -> None:
        """Record a batch of the stream."""
        ...


Observe: TypeAlias = Callable[[Exchange], GenerationObserver | None]
"""Function that returns the observer of a request, or None."""

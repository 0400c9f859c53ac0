"""The models behind one address: each with its upstream, its template, its policies."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ...errors import UsageError
from ...policies import Policies
from ..generation.request import GenerationRequest
from ..http.errors import Failure
from ..http.worker_pools import WorkerPool
from ..settings import Settings
from ..telemetry.logs import log
from ..upstreams.base import Upstream
from .model import Model, Prepared
from .optional_fields import prepare_with_optional_fields


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model, and what generates its text."""

    settings: Settings
    """Its own."""
    model: Model
    upstream: Upstream

    def prepare(self, job: GenerationRequest, id: str, policies: Policies | None = None) -> Prepared:
        """Plan and render; off the loop, because templates and schemas may be large.

        :param id: of the request, for the log.
        """
        prepare = partial(
            self.model.prepare,
            constraints=self.upstream.constraints,
            renders=self.upstream.renders,
            policies=policies,
        )
        try:
            prepared = prepare(job.request)
        except Failure as failure:
            if failure.kind != "invalid_request" or not any(key in job.request for key in job.soft):
                raise
            # Clients of these APIs send such switches to every model.
            prepared, ignored = prepare_with_optional_fields(prepare, job)
            for reason in ignored:
                log(logging.WARNING, "switch ignored", id=id, reason=reason)
        for warning in prepared.plan.warnings:
            log(logging.WARNING, "plan", id=id, warning=warning)
        return prepared

    async def tokenize(
        self, lane: WorkerPool, owner: str, text: str, *, special: bool = False
    ) -> list[int] | None:
        """The tokens of a text; None: nobody can tell.

        :param lane: where that is found out, if it is here; and whose work it is.
        :param special: with those that the model's prompts begin with.
        """
        found = await lane.run(owner, self.model.tokenize, text, special=special)
        return await self.upstream.tokenize(text, special=special) if found is None else found

    async def detokenize(self, lane: WorkerPool, owner: str, tokens: Sequence[int]) -> str | None:
        """The text of tokens; None: nobody can tell."""
        found = await lane.run(owner, self.model.detokenize, tokens)
        return await self.upstream.detokenize(tokens) if found is None else found


class ServedModels:
    """Models by the names that requests use."""

    def __init__(self, served: Sequence[ServedModel], *, strict: bool) -> None:
        """Take models; the first is that of requests that name none.

        :param strict: a single model, too, answers to its own names only.
        """
        self.all = tuple(served)
        self._one = len(served) == 1 and not strict
        self._names: dict[str, ServedModel] = {}
        for one in served:
            for name in (one.model.name, *one.model.aliases):
                if name in self._names:
                    raise UsageError(f"two models answer to the name {name!r}: set model or aliases of one")
                self._names[name] = one

    def find(self, name: object) -> ServedModel:
        """The model that a request means."""
        if not name or self._one:
            return self.all[0]
        found = self._names.get(name) if isinstance(name, str) else None
        if found is None and isinstance(name, str):  # Ollama's clients add this to every name
            found = self._names.get(name.removesuffix(":latest"))
        found = found or self._names.get("*")
        if found is None:
            known = ", ".join(repr(one.model.name) for one in self.all)
            raise Failure(
                "not_found",
                f"the model {name!r} does not exist; there is {known} "
                "(the gateway's setting aliases adds names)",
                param="model",
                code="model_not_found",
            )
        return found

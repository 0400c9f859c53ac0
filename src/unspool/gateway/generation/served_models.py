"""Models that one gateway serves, each with its own upstream and settings."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ...errors import UsageError
from ...policies import Policies
from ..generation.request import GenerationRequest
from ..http.failure import Failure
from ..http.thread_pools import WorkerPool
from ..settings import Settings
from ..telemetry.logs import log
from ..upstreams.base import Upstream
from .adapt_reasoning_options import prepare_with_reasoning_options
from .model import Model
from .prepare_request import PreparedRequest, prepare_request


@dataclass(frozen=True, slots=True)
class ServedModel:
    """Model with its settings and its upstream."""

    settings: Settings
    """Settings of this model."""
    model: Model
    upstream: Upstream

    def prepare(
        self, request: GenerationRequest, id: str, policies: Policies | None = None
    ) -> PreparedRequest:
        """Plan a request and render its prompt.

        Call this in a worker pool, because templates and schemas may be large.

        :param id: id of the client's request, for the log.
        """
        prepare = partial(
            prepare_request,
            self.model,
            constraints=self.upstream.constraints,
            renders=self.upstream.renders,
            policies=policies,
        )
        try:
            prepared = prepare(request.chat)
        except Failure as failure:
            if failure.kind != "invalid_request" or not any(
                key in request.chat for key in request.optional_fields
            ):
                raise
            # An optional field may cause the error, so find out which optional fields the model supports.
            prepared, ignored = prepare_with_reasoning_options(prepare, request)
            for reason in ignored:
                log(logging.WARNING, "option_ignored", id=id, reason=reason)
        for warning in prepared.plan.warnings:
            log(logging.WARNING, "plan_warning", id=id, warning=warning)
        return prepared

    async def tokenize(
        self, pool: WorkerPool, client: str, text: str, *, special: bool = False
    ) -> list[int] | None:
        """Return the token ids of a string, or None if neither the gateway nor the upstream has a tokenizer.

        :param special: add the special tokens with which the model's prompts begin.
        """
        tokens = await pool.run(client, self.model.tokenize, text, special=special)
        return await self.upstream.tokenize(text, special=special) if tokens is None else tokens

    async def detokenize(self, pool: WorkerPool, client: str, tokens: Sequence[int]) -> str | None:
        """Return the text for token ids, or None if neither the gateway nor the upstream has a tokenizer."""
        text = await pool.run(client, self.model.detokenize, tokens)
        return await self.upstream.detokenize(tokens) if text is None else text


class ServedModels:
    """Collection of served models, indexed by the names that requests use."""

    def __init__(self, served: Sequence[ServedModel], *, strict: bool) -> None:
        """Index the models by name; the first model is the default.

        :param strict: reject unknown names even if there is only one model.
        """
        self.all = tuple(served)
        self._accepts_any_name = len(served) == 1 and not strict
        self._names: dict[str, ServedModel] = {}
        for one in served:
            for name in (one.model.name, *one.model.aliases):
                if name in self._names:
                    raise UsageError(
                        f"two models have the name {name!r}; change model or aliases in one model's settings"
                    )
                self._names[name] = one

    def visible(self, allowed: frozenset[str] | None) -> tuple[ServedModel, ...]:
        """Return the models that a client may use.

        :param allowed: names of these models; None for all models.
        """
        if allowed is None:
            return self.all
        return tuple(one for one in self.all if one.model.name in allowed)

    def find(self, name: object, allowed: frozenset[str] | None = None) -> ServedModel:
        """Return the model with this name, or the default model if the name is empty.

        The default model is the first one that the client may use.
        :param allowed: names of the models that the client may use; None for all models.
        """
        visible = self.visible(allowed)
        if visible and (not name or self._accepts_any_name):
            return visible[0]
        served = self._names.get(name) if isinstance(name, str) else None
        if served is None and isinstance(name, str):  # Ollama clients append :latest
            served = self._names.get(name.removesuffix(":latest"))
        served = served or self._names.get("*")
        if not visible:
            raise Failure(
                "not_found",
                "the API key may use none of the models that are served here",
                param="model",
                code="model_not_found",
            )
        if served is None or served not in visible:
            known = ", ".join(repr(one.model.name) for one in visible)
            raise Failure(
                "not_found",
                f"the model {name!r} does not exist; choose {known}, or add the name to aliases in the "
                "gateway's settings",
                param="model",
                code="model_not_found",
            )
        return served

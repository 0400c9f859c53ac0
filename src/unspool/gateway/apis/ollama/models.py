"""Ollama's API around the two that generate: which models there are, and what they can do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ....dialects._registry import get_dialect
from ...generation.model import Model
from ...generation.served_models import ServedModel, ServedModels
from ...http.errors import invalid
from ...http.exchange import Exchange
from ...http.json_encoding import encode_line
from ...http.request_body import BodyReader
from ..validation import checked
from .request import OllamaBody

_VERSION: Final = "0.13.0"
"""Of the API that is spoken: some clients refuse servers that they take for too old."""
_THINKS: Final = ("think", "reasoning", "analysis")
"""Words of templates of models that reason."""


class OllamaModels:
    """Handlers of what there is."""

    def __init__(self, models: ServedModels, bodies: BodyReader) -> None:
        self._models = models
        self._bodies = bodies

    async def version(self, exchange: Exchange) -> None:
        """Which API this is."""
        await exchange.respond(200, encode_line({"version": _VERSION}))

    async def tags(self, exchange: Exchange) -> None:
        """All models."""
        await exchange.respond(200, encode_line({"models": [_listed(one.model) for one in self._models.all]}))

    async def running(self, exchange: Exchange) -> None:
        """All models: they are always there."""
        listed = [
            {**_listed(one.model), "expires_at": _time(time.time() + 3600), "size_vram": 0}
            for one in self._models.all
        ]
        await exchange.respond(200, encode_line({"models": listed}))

    async def show(self, exchange: Exchange) -> None:
        """One model."""
        body = await self._bodies.read(exchange)
        served = self._models.find(body.get("model") or body.get("name"))
        model = served.model
        shown = {
            "modelfile": "",
            "parameters": "",
            "template": "" if model.template is None else model.template.source,
            "details": _details(model),
            "model_info": {"general.architecture": model.family},
            "capabilities": _capabilities(served),
            "modified_at": _time(model.created),
        }
        await exchange.respond(200, encode_line(shown))

    async def refuse(self, exchange: Exchange) -> None:
        """Refuse what would change which models there are."""
        raise invalid(
            f"{exchange.path}: which models there are is set in the gateway; engines load them",
            code="unsupported",
        )


def loaded(model: str, body: Mapping[str, Any], form: str) -> dict[str, Any]:
    """The answer to a request that wants nothing but that the model is there."""
    checked({key: value for key, value in body.items() if key in ("keep_alive", "stream")}, OllamaBody)
    empty: dict[str, Any] = {"message": {"role": "assistant", "content": ""}}
    if form == "generate":
        empty = {"response": ""}
    return {"model": model, "created_at": _time(time.time()), **empty, "done": True, "done_reason": "load"}


def _listed(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": _time(model.created),
        "size": 0,
        "digest": "",
        "details": _details(model),
    }


def _details(model: Model) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "",
        "family": model.family,
        "families": [model.family],
        "parameter_size": "",
        "quantization_level": "",
    }


def _capabilities(served: ServedModel) -> list[str]:
    model = served.model
    dialect = get_dialect(model.dialect) if isinstance(model.dialect, str) else model.dialect
    out = ["completion"]
    if dialect.call or dialect.frame is not None:
        out.append("tools")
    source = "thinking" if model.template is None else model.template.source
    if any(word in source for word in _THINKS):
        out.append("thinking")
    return out


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")

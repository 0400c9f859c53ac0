"""Handlers for Ollama's endpoints that describe models, and for ``/api/version``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ....dialects import get_dialect
from ...generation.model import Model
from ...generation.served_models import ServedModel, ServedModels
from ...http.exchange import Exchange
from ...http.failure import invalid
from ...http.json_encoding import encode_line
from ...http.request_body import BodyReader
from ..validation import decode_body
from .request import OllamaBody

_VERSION: Final = "0.13.0"
"""Version of Ollama that the gateway reports; some clients reject older servers."""
_REASONING_WORDS: Final = ("think", "reasoning", "analysis")
"""Words that the chat templates of reasoning models contain."""


class OllamaModels:
    """Handlers for requests about models."""

    def __init__(self, models: ServedModels, bodies: BodyReader) -> None:
        self._models = models
        self._bodies = bodies

    async def version(self, exchange: Exchange) -> None:
        """Send the version of Ollama that the gateway reports."""
        await exchange.respond(200, encode_line({"version": _VERSION}))

    async def tags(self, exchange: Exchange) -> None:
        """Send the list of all models."""
        models = [_summary(one.model) for one in self._models.visible(exchange.allowed_models)]
        await exchange.respond(200, encode_line({"models": models}))

    async def running(self, exchange: Exchange) -> None:
        """Send the list of loaded models, which contains all models because the gateway never unloads one."""
        models = [
            {**_summary(one.model), "expires_at": _time(time.time() + 3600), "size_vram": 0}
            for one in self._models.visible(exchange.allowed_models)
        ]
        await exchange.respond(200, encode_line({"models": models}))

    async def show(self, exchange: Exchange) -> None:
        """Send the description of one model."""
        body = await self._bodies.read(exchange)
        served = self._models.find(body.get("model") or body.get("name"), exchange.allowed_models)
        model = served.model
        description = {
            "modelfile": "",
            "parameters": "",
            "template": "" if model.template is None else model.template.source,
            "details": _details(model),
            "model_info": {"general.architecture": model.family},
            "capabilities": _capabilities(served),
            "modified_at": _time(model.created),
        }
        await exchange.respond(200, encode_line(description))

    async def refuse(self, exchange: Exchange) -> None:
        """Reject requests that would change the set of models."""
        raise invalid(
            f"{exchange.path} is not supported; set models in the gateway's settings", code="unsupported"
        )


def load_response(model: str, body: Mapping[str, Any], form: str) -> dict[str, Any]:
    """Return the response to a request that only asks to load the model."""
    decode_body({key: value for key, value in body.items() if key in ("keep_alive", "stream")}, OllamaBody)
    empty: dict[str, Any] = {"message": {"role": "assistant", "content": ""}}
    if form == "generate":
        empty = {"response": ""}
    return {"model": model, "created_at": _time(time.time()), **empty, "done": True, "done_reason": "load"}


def _summary(model: Model) -> dict[str, Any]:
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
    if any(word in source for word in _REASONING_WORDS):
        out.append("thinking")
    return out


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")

"""Handler for ``/v1/models``."""

from __future__ import annotations

from typing import Any

from ..generation.model import Model
from ..generation.served_models import ServedModels
from ..http.exchange import Exchange
from ..http.json_encoding import encode_line


class ModelList:
    """Handler for requests that list the served models."""

    def __init__(self, models: ServedModels) -> None:
        self._models = models

    async def get(self, exchange: Exchange) -> None:
        """Describe the model that the path names; if the path names no model, list all models."""
        name = exchange.path.removeprefix("/v1/models").strip("/")
        if name:
            await exchange.respond(
                200, encode_line(_describe(self._models.find(name, exchange.allowed_models).model))
            )
            return
        visible = self._models.visible(exchange.allowed_models)
        names = [one.model.name for one in visible]
        listed = {
            "object": "list",
            "data": [_describe(one.model) for one in visible],
            "has_more": False,
            "first_id": names[0] if names else None,
            "last_id": names[-1] if names else None,
        }
        await exchange.respond(200, encode_line(listed))


def _describe(model: Model) -> dict[str, Any]:
    """Describe a model with the fields that OpenAI and Anthropic clients read."""
    return {
        "id": model.name,
        "object": "model",
        "type": "model",
        "display_name": model.name,
        "created": model.created,
        "owned_by": "unspool",
        "dialect": model.family,
    }

"""Request fields that neither the gateway nor the engine supports.

The fields fall into three groups:

- A field that would change the output is rejected, because the client relies on it.
- An unknown field is ignored and logged once, because agents send such fields to every server.
- A field that does not affect the output is ignored silently.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from ..http.failure import invalid

_VENDOR: Final = "only the API's vendor supports this"

REFUSED: Final[dict[str, dict[str, str]]] = {
    "chat": {
        "audio": "only text output is supported",
        "web_search_options": f"{_VENDOR}; offer a search tool",
        "chat_template": "set template in the gateway's settings",
        "prompt": "send messages",
        "prompt_embeds": "send messages",
        "suffix": "send messages",
        "echo": "the output never repeats the prompt",
        "best_of": "use n",
    },
    "responses": {
        "prompt": "stored prompts are not supported; send input and instructions",
        "background": "background responses are not supported; use stream",
    },
    "messages": {
        "mcp_servers": f"{_VENDOR}; connect to the servers in the client, and offer their tools",
        "container": _VENDOR,
    },
}
"""Rejected fields, keyed by API and field name; each value is a reason or an alternative for the client."""

WITHOUT_EFFECT: Final = frozenset(
    (
        "access_programs",
        "betas",
        "cache_control",
        "client_metadata",
        "diagnostics",
        "fallback_credit_token",
        "inference_geo",
        "max_tool_calls",
        "metadata",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "speed",
        "store",
        "stream_options",
        "user_profile_id",
        "workspace_id",
    )
)
"""Fields that do not change the output: fields for accounts, caches, speed or the vendor's own tools."""

_EMPTY: Final[tuple[object, ...]] = (None, False, [], {}, "")


def reject_unsupported(request: Mapping[str, Any], api: str) -> None:
    """Reject a request with unsupported fields that would change the output."""
    for name, why in REFUSED[api].items():
        if request.get(name) not in _EMPTY and not (name == "best_of" and request[name] == 1):
            raise invalid(f"{name}: {why}", name, "unsupported_parameter")


def list_ignored(request: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return a log entry for each unknown field whose value may affect the output."""
    return [
        f"{name}: this gateway does not know this field"
        for name, value in request.items()
        if name not in known and name not in WITHOUT_EFFECT and value not in _EMPTY
    ]


def ignore_verbosity(value: str | None) -> list[str]:
    """Return a log entry if the verbosity is not the default, because no chat template supports verbosity."""
    return [f"verbosity {value}: no model supports it"] if value not in (None, "medium") else []

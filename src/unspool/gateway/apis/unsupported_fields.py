"""Fields of requests that are neither honoured nor handed to the engine: what becomes of each.

A field that changes the answer, and that nobody here can honour, is refused by its
name, because whoever sends it relies on it.  Fields that agents send to every server are
left out, and the log says so once.  What is said here of neither kind has no effect on
the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from ..http.errors import invalid

_VENDOR: Final = "its vendor would have to run it"

REFUSED: Final[dict[str, dict[str, str]]] = {
    "chat": {
        "audio": "this gateway answers in text",
        "web_search_options": f"{_VENDOR}; offer a tool that searches",
        "chat_template": "the model's own is used; the gateway's setting template changes it",
        "prompt": "this API takes messages",
        "prompt_embeds": "this API takes messages",
        "suffix": "this API takes messages",
        "echo": "the answer begins behind the prompt",
        "best_of": "ask for n choices, and choose",
    },
    "responses": {
        "prompt": "prompts are kept by their vendor; send input and instructions",
        "background": "this gateway answers at once, or streams",
    },
    "messages": {
        "mcp_servers": f"{_VENDOR}; connect to them in the client, and offer their tools",
        "container": _VENDOR,
    },
}
"""What is refused, and why."""

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
"""Fields that are about accounts, caches and speed, or about tools that the vendor runs."""

_EMPTY: Final[tuple[object, ...]] = (None, False, [], {}, "")


def refuse(request: Mapping[str, Any], api: str) -> None:
    """Refuse what nobody here can honour."""
    for name, why in REFUSED[api].items():
        if request.get(name) not in _EMPTY and not (name == "best_of" and request[name] == 1):
            raise invalid(f"{name}: {why}", name, "unsupported_parameter")


def left_out(request: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """What of a request has no effect although it might be meant to have one."""
    return [
        f"the field {name}: this gateway does not know what to do about it"
        for name, value in request.items()
        if name not in known and name not in WITHOUT_EFFECT and value not in _EMPTY
    ]


def verbosity(wanted: str | None) -> list[str]:
    """What is not done about it: no chat template has such a switch."""
    return [f"verbosity {wanted}: models have no switch for it"] if wanted not in (None, "medium") else []

"""Log probabilities: two forms in, that of chat completions out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

_LEAST: Final = -9999.0
"""For what has no probability: JSON has no infinity."""


class TokenLogprob(msgspec.Struct):
    """A token, as chat completions and Ollama have it."""

    token: Any = None
    logprob: Any = None
    bytes: list[int] | None = None
    top_logprobs: list[TokenLogprob] | None = None


class Logprobs(msgspec.Struct):
    """Those of a chunk, in either form."""

    content: list[TokenLogprob] | None = None
    tokens: list[Any] | None = None
    token_logprobs: list[Any] | None = None
    top_logprobs: list[Any] | None = None


def logprobs_of(given: Logprobs | None, top: int | None) -> list[dict[str, Any]] | None:
    """Log probabilities as chat completions have them."""
    if given is None or top is None:
        return None
    if given.content is not None:
        return [_entry(one, top) for one in given.content]
    if given.tokens is None or given.token_logprobs is None:
        return None
    others = given.top_logprobs or [None] * len(given.tokens)
    return [
        {**_token(token, value), "top_logprobs": _alternatives(other, top)}
        for token, value, other in zip(given.tokens, given.token_logprobs, others, strict=False)
    ]


def _entry(one: TokenLogprob, top: int) -> dict[str, Any]:
    others = (one.top_logprobs or [])[:top]
    return {
        **_token(one.token, one.logprob, one.bytes),
        "top_logprobs": [_token(other.token, other.logprob, other.bytes) for other in others],
    }


def _alternatives(other: object, top: int) -> list[dict[str, Any]]:
    return [_token(*pair) for pair in list(other.items())[:top]] if isinstance(other, Mapping) else []


def _token(token: object, value: object, raw: list[int] | None = None) -> dict[str, Any]:
    text = token if isinstance(token, str) else ""
    known = list(text.encode("utf-8", "replace")) if raw is None else [one & 255 for one in raw]
    return {"token": text, "logprob": _number(value), "bytes": known}


def _number(value: object) -> float:
    """A probability cannot be more than one, and its logarithm not more than zero, but for rounding."""
    if not isinstance(value, (int, float)) or value != value:  # noqa: PLR0124 - not a number
        return _LEAST
    return float(min(max(value, _LEAST), -_LEAST))

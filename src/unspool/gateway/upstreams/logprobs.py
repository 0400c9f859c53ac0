"""Conversion of log probabilities to the format of Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

_MIN_LOGPROB: Final = -9999.0
"""Log probability for a probability of zero, because JSON cannot represent minus infinity."""


class TokenLogprob(msgspec.Struct):
    """Log probability of a token in the format of Chat Completions and Ollama."""

    token: Any = None
    logprob: Any = None
    bytes: list[int] | None = None
    top_logprobs: list[TokenLogprob] | None = None


class Logprobs(msgspec.Struct):
    """Log probabilities of a chunk, in the format of Chat Completions or Completions."""

    content: list[TokenLogprob] | None = None
    tokens: list[Any] | None = None
    token_logprobs: list[Any] | None = None
    top_logprobs: list[Any] | None = None


def convert_logprobs(source: Logprobs | None, top: int | None) -> list[dict[str, Any]] | None:
    """Return log probabilities in the format of Chat Completions.

    :param top: maximum number of alternatives per token; None if log probabilities were not requested.
    """
    if source is None or top is None:
        return None
    if source.content is not None:
        return [_entry(one, top) for one in source.content]
    if source.tokens is None or source.token_logprobs is None:
        return None
    others = source.top_logprobs or [None] * len(source.tokens)
    return [
        {**_token(token, value), "top_logprobs": _alternatives(other, top)}
        for token, value, other in zip(source.tokens, source.token_logprobs, others, strict=False)
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
    data = list(text.encode("utf-8", "replace")) if raw is None else [one & 255 for one in raw]
    return {"token": text, "logprob": _clamp(value), "bytes": data}


def _clamp(value: object) -> float:
    """Return a log probability as a finite number; replace invalid values with the minimum."""
    if not isinstance(value, (int, float)) or value != value:  # noqa: PLR0124 - NaN
        return _MIN_LOGPROB
    # Rounding can raise a log probability slightly above 0, so the upper limit is generous.
    return float(min(max(value, _MIN_LOGPROB), -_MIN_LOGPROB))

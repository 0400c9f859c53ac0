"""Limits of one API key: concurrent requests, and requests and tokens per minute.

The limits per minute hold for any 60 seconds, in each worker process.  A request counts when it starts.  Its
tokens count when it ends, because their number is not known earlier: a request may start while the tokens
of the last minute are below the limit.

Responses have the headers that OpenAI's clients read: ``x-ratelimit-limit-*``, ``x-ratelimit-remaining-*``
and ``x-ratelimit-reset-*``, and with status 429 ``Retry-After``.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from .api_keys import ApiKey
from .failure import Failure

_SECONDS: Final = 60
CODE: Final = "rate_limit_exceeded"


class Window:
    """Counter of the amounts that were added in the last minute, in steps of one second."""

    def __init__(self) -> None:
        self.total = 0
        self._steps: deque[list[int]] = deque()
        """Pairs of a second and the amount that was added in it; at most 61 pairs."""

    def add(self, now: float, amount: int) -> None:
        """Add an amount."""
        second = math.floor(now)
        if self._steps and self._steps[-1][0] == second:
            self._steps[-1][1] += amount
        else:
            self._steps.append([second, amount])
        self.total += amount

    def expire(self, now: float) -> None:
        """Remove the amounts of seconds that ended more than a minute ago."""
        while self._steps and now >= self._steps[0][0] + 1 + _SECONDS:
            self.total -= self._steps.popleft()[1]

    def seconds_until(self, now: float, limit: int) -> float:
        """Return the time until the total falls below a limit, which it has reached, if nothing is added."""
        total = self.total
        for second, amount in self._steps:
            total -= amount
            if total < limit:
                return second + 1 + _SECONDS - now
        return _SECONDS

    def seconds_until_empty(self, now: float) -> float:
        """Return the time until the total is 0, if nothing is added."""
        return self._steps[-1][0] + 1 + _SECONDS - now if self._steps else 0.0


class KeyUsage:
    """What the requests with one API key use.  A reload of the settings keeps it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.active = 0
        """Number of requests in progress."""
        self.requests = Window()
        self.tokens = Window()

    def admit(self, key: ApiKey) -> list[tuple[bytes, bytes]]:
        """Count a new request; return the headers for its response, or raise a failure with such headers."""
        now = self._clock()
        self.requests.expire(now)
        self.tokens.expire(now)
        waits: list[tuple[float, str]] = []
        if key.max_concurrency and self.active >= key.max_concurrency:
            waits.append((1.0, f"{key.max_concurrency} concurrent requests"))
        for window, limit, what in (
            (self.requests, key.requests_per_minute, "requests per minute"),
            (self.tokens, key.tokens_per_minute, "tokens per minute"),
        ):
            if limit and window.total >= limit:
                waits.append((window.seconds_until(now, limit), f"{limit} {what}"))
        if waits:
            wait, what = max(waits)
            later = str(max(1, math.ceil(wait)))
            raise Failure(
                "rate_limit",
                f"the API key {key.name} is limited to {what}; retry in {later} seconds",
                code=CODE,
                retry_after=later,
                headers=self._headers(key, now),
            )
        self.active += 1
        self.requests.add(now, 1)
        return self._headers(key, now)

    def finish(self, tokens: int) -> None:
        """Count the tokens of a request that has ended."""
        self.active -= 1
        if tokens:
            self.tokens.add(self._clock(), tokens)

    def _headers(self, key: ApiKey, now: float) -> list[tuple[bytes, bytes]]:
        headers: list[tuple[bytes, bytes]] = []
        for window, limit, what in (
            (self.requests, key.requests_per_minute, b"requests"),
            (self.tokens, key.tokens_per_minute, b"tokens"),
        ):
            if limit:
                reset = b"%.3fs" % window.seconds_until_empty(now)
                headers += (
                    (b"x-ratelimit-limit-" + what, b"%d" % limit),
                    (b"x-ratelimit-remaining-" + what, b"%d" % max(0, limit - window.total)),
                    (b"x-ratelimit-reset-" + what, reset),
                )
        return headers

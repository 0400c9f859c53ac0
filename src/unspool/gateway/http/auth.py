"""Who may come in."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from ..settings import Settings, is_loopback, is_other_address
from .errors import Failure, invalid
from .exchange import Exchange

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""What a program on this machine calls it."""


class Guard:
    """Checks API keys and host names."""

    def __init__(self, settings: Settings) -> None:
        self._keys = [_digest(key) for key in settings.api_keys]
        self._open = bool(self._keys) or settings.allow_no_keys
        # Without keys, nothing but the name that it asks for tells a web page that
        # has pointed its own name at this machine from a program on this machine.
        named = bool(self._keys) or not is_loopback(settings.host) or "*" in settings.hosts
        self._hosts = None if named else {*_LOOPBACK, *(name.lower() for name in settings.hosts)}

        self.knows_callers = bool(self._keys) or (self._hosts is not None and not settings.hosts)
        """Whether whoever comes in shows a key, or is on this machine: others are shown nobody's requests."""

    def check_host(self, exchange: Exchange) -> None:
        """Refuse requests that were meant for another name."""
        hosts = exchange.headers(b"host")
        if len(hosts) > 1:
            raise invalid("the request has two Host fields", code="bad_request")
        if not self._open and is_other_address(exchange.listener):
            # Another server than ours listens where the settings do not say.
            raise Failure(
                "authentication",
                "this gateway has no keys and answers on the loopback address only; set api_keys",
                code="no_api_keys",
                status=403,
            )
        if self._hosts is None:
            return
        name = (hosts[0] if hosts else "").lower()
        name = name.rpartition("]")[0].lstrip("[") if name.startswith("[") else name.partition(":")[0]
        if name not in self._hosts:
            raise Failure(
                "invalid_request",
                f"this gateway listens on the loopback address and does not answer to {name!r}; "
                "set hosts, or api_keys, if it should",
                code="wrong_host",
                status=421,
            )

    def admits(self, exchange: Exchange) -> bool:
        """Whether a request shows a valid key, or none is needed."""
        try:
            self.check_key(exchange)
        except Failure:
            return False
        return True

    def check_key(self, exchange: Exchange) -> str:
        """Refuse requests without a valid key; whose key it is, in a form that does not tell the key."""
        if not self._keys:
            return ""
        scheme, _, token = exchange.header(b"authorization").partition(" ")
        shown = token.strip() if scheme.lower() == "bearer" else ""
        shown = shown or exchange.header(b"x-api-key")
        digest = _digest(shown)
        # All of them, always: how long it takes tells nothing.
        matches = [hmac.compare_digest(digest, key) for key in self._keys]
        if not any(matches):
            told = (
                "the API key is not valid" if shown else "an API key is required: Authorization: Bearer ..."
            )
            raise Failure("authentication", told, code="invalid_api_key")
        return digest.hex()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()

"""Who may come in."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from .exchange import Exchange
from .failure import Failure

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class Guard:
    """Checks API keys and host names."""

    def __init__(self, keys: Sequence[str], host: str, hosts: Sequence[str]) -> None:
        self._keys = [_digest(key) for key in keys]
        # Without keys, nothing but the name that it asks for tells a web page that
        # has pointed its own name at this machine from a program on this machine.
        open_to_all = bool(keys) or host not in _LOOPBACK or "*" in hosts
        self._hosts = None if open_to_all else {*_LOOPBACK, *(name.lower() for name in hosts)}

    def check_host(self, exchange: Exchange) -> None:
        """Refuse requests that were meant for another name."""
        if self._hosts is None:
            return
        name = exchange.header(b"host").lower()
        name = name.rpartition("]")[0].lstrip("[") if name.startswith("[") else name.partition(":")[0]
        if name not in self._hosts:
            raise Failure(
                "invalid_request",
                f"this gateway listens on the loopback address and does not answer to {name!r}; "
                "set hosts, or api_keys, if it should",
                code="wrong_host",
                status=421,
            )

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

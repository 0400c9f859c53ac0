"""Authentication of clients: API keys and host names."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from ..settings import Settings, is_loopback, is_other_address
from .exchange import Exchange
from .failure import Failure, invalid

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""Names that a program on this machine uses for the machine."""


class Authenticator:
    """Checks API keys and host names."""

    def __init__(self, settings: Settings) -> None:
        self._keys = [_digest(key) for key in settings.api_keys]
        self._any_address = bool(self._keys) or settings.allow_no_keys
        # Without keys, only the Host header tells a program on this machine from a web page
        # that has pointed its own host name at this machine (DNS rebinding).
        any_host = bool(self._keys) or not is_loopback(settings.host) or "*" in settings.hosts
        self._hosts = None if any_host else {*_LOOPBACK, *(name.lower() for name in settings.hosts)}

        self.knows_clients = bool(self._keys) or (self._hosts is not None and not settings.hosts)
        """Every client shows a key or is on this machine; else nobody may see the request log."""

    def check_host(self, exchange: Exchange) -> None:
        """Refuse requests for another host name."""
        hosts = exchange.headers(b"host")
        if len(hosts) > 1:
            raise invalid("the request has two Host headers", code="bad_request")
        if not self._any_address and is_other_address(exchange.server_address):
            # An ASGI server other than ours listens on an address that the settings do not name.
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
                f"this gateway listens on the loopback address and does not answer to the host {name!r}; "
                "to allow it, set hosts or api_keys",
                code="wrong_host",
                status=421,
            )

    def is_authenticated(self, exchange: Exchange) -> bool:
        """Return whether a request shows a valid key, or needs none."""
        try:
            self.check_key(exchange)
        except Failure:
            return False
        return True

    def check_key(self, exchange: Exchange) -> str:
        """Refuse requests without a valid key; return the key's digest, or an empty string without keys."""
        if not self._keys:
            return ""
        scheme, _, token = exchange.header(b"authorization").partition(" ")
        shown = token.strip() if scheme.lower() == "bearer" else ""
        shown = shown or exchange.header(b"x-api-key")
        digest = _digest(shown)
        # Compare with every key, so that the time taken reveals nothing.
        matches = [hmac.compare_digest(digest, key) for key in self._keys]
        if not any(matches):
            message = (
                "the API key is not valid" if shown else "an API key is required: Authorization: Bearer ..."
            )
            raise Failure("authentication", message, code="invalid_api_key")
        return digest.hex()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()

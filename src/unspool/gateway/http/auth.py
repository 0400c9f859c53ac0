"""Authentication of clients: API keys and host names."""

from __future__ import annotations

import hmac
from typing import Final

from ..settings import Settings, is_loopback, is_other_address
from .api_keys import ApiKey, digest_of, load_api_keys
from .exchange import Exchange
from .failure import Failure, invalid
from .rate_limits import KeyUsage

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""Host names that programs on this machine use to connect to it."""


class Authenticator:
    """Checker of API keys and ``Host`` headers."""

    def __init__(self, settings: Settings) -> None:
        self._keys = load_api_keys(settings)
        self._usage = {key.digest: KeyUsage() for key in self._keys if key.is_limited}
        self._any_address = bool(self._keys) or settings.allow_no_keys
        # A web page can make its own host name resolve to this machine (DNS rebinding).  Without API
        # keys, only the Host header shows whether a request comes from such a page or from a local program.
        any_host = bool(self._keys) or not is_loopback(settings.host) or "*" in settings.hosts
        self._hosts = None if any_host else {*_LOOPBACK, *(name.lower() for name in settings.hosts)}

        self.knows_clients = bool(self._keys) or (self._hosts is not None and not settings.hosts)
        """True if every client has an API key or runs on this machine; only then may requests be logged."""

    def check_host(self, exchange: Exchange) -> None:
        """Reject a request whose ``Host`` header names a host that the gateway does not accept."""
        hosts = exchange.headers(b"host")
        if len(hosts) > 1:
            raise invalid("the request has more than one Host header", code="bad_request")
        if not self._any_address and is_other_address(exchange.server_address):
            # If another ASGI server runs the gateway, that server may listen on a public address, whatever
            # the setting ``host`` says.
            raise Failure(
                "authentication",
                "this gateway has no API keys, so it answers only on the loopback address; set api_keys",
                code="no_api_keys",
                status=403,
            )
        if self._hosts is None:
            return
        name = (hosts[0] if hosts else "").lower()
        # Remove the port.  An IPv6 address contains colons itself, so it is in brackets: [::1]:8765
        name = name.rpartition("]")[0].lstrip("[") if name.startswith("[") else name.partition(":")[0]
        if name not in self._hosts:
            raise Failure(
                "invalid_request",
                f"this gateway listens on the loopback address and does not accept the host name {name!r}; "
                "to allow it, set hosts or api_keys",
                code="wrong_host",
                status=421,
            )

    def is_authenticated(self, exchange: Exchange) -> bool:
        """Return whether a request has a valid API key, or needs no key."""
        try:
            if self._keys:
                self.check_key(exchange)
        except Failure:
            return False
        return True

    def take_over(self, previous: Authenticator) -> None:
        """Continue to count what the keys use, after this authenticator has replaced another one."""
        for digest in self._usage:
            self._usage[digest] = previous._usage.get(digest, self._usage[digest])

    def authenticate(self, exchange: Exchange) -> None:
        """Identify the client of a request; reject the request if it has no valid API key."""
        if not self._keys:
            return
        key = self.check_key(exchange)
        exchange.set_key(key, self._usage.get(key.digest))

    def check_key(self, exchange: Exchange) -> ApiKey:
        """Return a request's API key; reject the request if the key is not valid."""
        scheme, _, token = exchange.header(b"authorization").partition(" ")
        shown = token.strip() if scheme.lower() == "bearer" else ""
        shown = shown or exchange.header(b"x-api-key")
        digest = digest_of(shown)
        # Compare with every key, so that the time of the comparison reveals nothing about the keys.
        matches = [key for key in self._keys if hmac.compare_digest(digest, key.digest)]
        if not matches:
            message = (
                "the API key is not valid" if shown else "an API key is required: Authorization: Bearer ..."
            )
            raise Failure("authentication", message, code="invalid_api_key")
        return matches[0]

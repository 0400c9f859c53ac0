"""Encryption of reasoning that clients store, so that only this gateway can read or change it.

Clients that keep their own conversations send reasoning back as ``encrypted_content``.  A sealed
text is bound to its tenant, and the gateway stores nothing for it.  A text that was sealed with
another key is not an error: the rest of the item still counts.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from copy import copy
from typing import Final

_PREFIX: Final = "unspool1."
_NONCE: Final = 12
"""Bytes of the nonce in front of the encrypted text."""


class Seal:
    """Encrypts and decrypts the texts of one tenant."""

    def __init__(self, key: str = "") -> None:
        """Derive the key.

        :param key: a secret that all gateways share which open each other's texts; empty: a random one.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        secret = key.encode("utf-8", "surrogateescape") or secrets.token_bytes(32)
        self._cipher = AESGCM(hashlib.sha256(b"unspool seal\0" + secret).digest())
        self.tenant = ""
        """The tenant to whom sealed texts are bound."""

    def of(self, tenant: str) -> Seal:
        """Return a seal with the same key for another tenant."""
        seal = copy(self)
        seal.tenant = tenant
        return seal

    def close(self, text: str) -> str:
        """Return an encrypted text."""
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._cipher.encrypt(nonce, text.encode("utf-8", "surrogatepass"), self.tenant.encode())
        return _PREFIX + urlsafe_b64encode(nonce + sealed).decode()

    def open(self, sealed: str) -> str | None:
        """Return a decrypted text; None if its key, its tenant or its content is another one."""
        from cryptography.exceptions import InvalidTag

        if not sealed.startswith(_PREFIX):
            return None
        try:
            data = urlsafe_b64decode(sealed.removeprefix(_PREFIX))
            if not _is_canonical(data, sealed):
                return None
            text = self._cipher.decrypt(data[:_NONCE], data[_NONCE:], self.tenant.encode())
        except (InvalidTag, ValueError):
            return None
        return text.decode("utf-8", "surrogatepass")


def _is_canonical(data: bytes, sealed: str) -> bool:
    """Return whether a text is the only valid encoding of its data, as Base64 ignores some bits."""
    end = urlsafe_b64encode(data[len(data) // 3 * 3 :]).decode()
    size = len(_PREFIX) + len(data) // 3 * 4 + len(end)
    return len(sealed) == size and sealed.endswith(end) and "+" not in sealed and "/" not in sealed

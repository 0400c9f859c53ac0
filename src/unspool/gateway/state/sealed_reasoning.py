"""Encryption of reasoning that clients store, so that only this gateway can read or change it.

Clients that store their own conversations send reasoning back as ``encrypted_content``.  The gateway
itself stores nothing.  The text can be decrypted only for the tenant for which it was encrypted.  Text
that was encrypted with another key is not an error: the gateway ignores it and uses the rest of the item.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from copy import copy
from typing import Final

_PREFIX: Final = "unspool1."
_NONCE: Final = 12
"""Length in bytes of the nonce, which precedes the encrypted text."""


class Seal:
    """Cipher for the reasoning of one tenant."""

    def __init__(self, key: str = "") -> None:
        """Derive the encryption key from a secret.

        :param key: secret; if empty, a random secret is used.  Gateways with the same secret can decrypt each
            other's data.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        secret = key.encode("utf-8", "surrogateescape") or secrets.token_bytes(32)
        self._cipher = AESGCM(hashlib.sha256(b"unspool seal\0" + secret).digest())
        self.tenant = ""
        """Tenant for which text is encrypted and decrypted."""

    def of(self, tenant: str) -> Seal:
        """Return a seal with the same key for another tenant."""
        seal = copy(self)
        seal.tenant = tenant
        return seal

    def close(self, text: str) -> str:
        """Return the text in encrypted form."""
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._cipher.encrypt(nonce, text.encode("utf-8", "surrogatepass"), self.tenant.encode())
        return _PREFIX + urlsafe_b64encode(nonce + sealed).decode()

    def open(self, sealed: str) -> str | None:
        """Return the decrypted text, or None if the key or tenant is wrong or the data was changed."""
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
    """Return whether ``sealed`` is the canonical Base64 encoding of its data.

    Base64 decoding ignores some bits and characters, so several strings decode to the same data.
    """
    # Base64 encodes three bytes as four characters.  Only the last group can be shorter and have unused bits.
    end = urlsafe_b64encode(data[len(data) // 3 * 3 :]).decode()
    size = len(_PREFIX) + len(data) // 3 * 4 + len(end)
    return len(sealed) == size and sealed.endswith(end) and "+" not in sealed and "/" not in sealed

"""Reasoning that a client carries for us: sealed, so that nobody but this gateway reads or changes it.

Clients that keep their conversations themselves send reasoning back as
``encrypted_content``.  What is sealed is bound to its owner, and needs nothing to be
kept here.  A seal of another key is not an error: what else the item says counts then.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from copy import copy
from typing import Final

_MARK: Final = "unspool1."
_NONCE: Final = 12


class Seal:
    """Seals texts for their owner, and opens them again."""

    def __init__(self, key: str = "") -> None:
        """Prepare.

        :param key: what others who are to open them must know, too; empty: nobody else opens them.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        secret = key.encode("utf-8", "surrogateescape") or secrets.token_bytes(32)
        self._cipher = AESGCM(hashlib.sha256(b"unspool seal\0" + secret).digest())
        self.owner = ""
        """Whose texts they are."""

    def of(self, owner: str) -> Seal:
        """The same, for what belongs to this owner."""
        found = copy(self)
        found.owner = owner
        return found

    def close(self, text: str) -> str:
        """The text, sealed."""
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._cipher.encrypt(nonce, text.encode("utf-8", "surrogatepass"), self.owner.encode())
        return _MARK + urlsafe_b64encode(nonce + sealed).decode()

    def open(self, sealed: str) -> str | None:
        """The text; None: it was sealed by somebody else, or for somebody else, or changed."""
        from cryptography.exceptions import InvalidTag

        if not sealed.startswith(_MARK):
            return None
        try:
            data = urlsafe_b64decode(sealed.removeprefix(_MARK))
            if not _is_spelt(data, sealed):
                return None
            text = self._cipher.decrypt(data[:_NONCE], data[_NONCE:], self.owner.encode())
        except (InvalidTag, ValueError):
            return None
        return text.decode("utf-8", "surrogatepass")


def _is_spelt(data: bytes, sealed: str) -> bool:
    """Whether that is how the data is spelt: base64 has letters and bits that say nothing."""
    end = urlsafe_b64encode(data[len(data) // 3 * 3 :]).decode()
    size = len(_MARK) + len(data) // 3 * 4 + len(end)
    return len(sealed) == size and sealed.endswith(end) and "+" not in sealed and "/" not in sealed

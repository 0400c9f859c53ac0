"""Certificate of the gateway, which can be replaced while connections are open."""

from __future__ import annotations

import ssl

from ...errors import UsageError
from ..settings import Settings


def load_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    """Load the certificate and its key into a context; connections that are open keep the old one."""
    try:
        context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile or None, password=_no_password)
    except ssl.SSLError as error:
        raise UsageError(
            f"ssl_certfile={settings.ssl_certfile}: not a certificate in PEM format with its private key "
            f"({error.reason or error}); the key may be in ssl_keyfile"
        ) from error
    except OSError as error:
        names = " or ".join(filter(None, (settings.ssl_certfile, settings.ssl_keyfile)))
        raise UsageError(f"ssl_certfile: cannot read {names}: {error.strerror}") from error


def check_certificate(settings: Settings) -> None:
    """Raise an error if the certificate cannot be loaded; do nothing without a certificate."""
    if settings.ssl_certfile:
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings)


def _no_password() -> str:
    # Without this function, OpenSSL would ask for the password in the terminal.
    raise UsageError("ssl_keyfile: the key is encrypted; store it without a password")

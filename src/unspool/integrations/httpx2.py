"""Transports that put the parser between an httpx2 client and a server that leaves markup in the text.

In responses of ``*/chat/completions`` and ``*/messages``, streamed or not, the parser moves reasoning and
tool calls to their own fields.  Everything else passes unchanged.  An SDK that accepts an httpx2 client
therefore needs no gateway.  For an SDK that uses httpx, use ``unspool.integrations.httpx``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import httpx2

from ._http_transport import (
    AsyncRepairedStream,
    AsyncRepairingTransport,
    RepairedStream,
    RepairingTransport,
)

__all__ = ["AsyncTransport", "Transport"]


class _Stream(RepairedStream, httpx2.SyncByteStream):
    pass


class _AsyncStream(AsyncRepairedStream, httpx2.AsyncByteStream):
    pass


class Transport(RepairingTransport[httpx2.BaseTransport], httpx2.BaseTransport):
    """Transport for ``httpx2.Client``.

    >>> import httpx2
    >>> client = httpx2.Client(transport=Transport("hermes"))
    """

    _library: ClassVar[Any] = httpx2
    _default = httpx2.HTTPTransport
    _stream = _Stream


class AsyncTransport(AsyncRepairingTransport[httpx2.AsyncBaseTransport], httpx2.AsyncBaseTransport):
    """Transport for ``httpx2.AsyncClient``.

    >>> import httpx2
    >>> client = httpx2.AsyncClient(transport=AsyncTransport("hermes"))
    """

    _library: ClassVar[Any] = httpx2
    _default = httpx2.AsyncHTTPTransport
    _stream = _AsyncStream

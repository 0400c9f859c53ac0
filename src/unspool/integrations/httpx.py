"""Transports that put the parser between an httpx client and a server that leaves markup in the text.

In responses of ``*/chat/completions`` and ``*/messages``, streamed or not, the parser moves reasoning and
tool calls to their own fields.  Everything else passes unchanged.  An SDK that accepts an httpx client
therefore needs no gateway.  For an SDK that uses httpx2, use ``unspool.integrations.httpx2``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import httpx

from ._http_transport import (
    AsyncRepairedStream,
    AsyncRepairingTransport,
    RepairedStream,
    RepairingTransport,
)

__all__ = ["AsyncTransport", "Transport"]


class _Stream(RepairedStream, httpx.SyncByteStream):
    pass


class _AsyncStream(AsyncRepairedStream, httpx.AsyncByteStream):
    pass


class Transport(RepairingTransport[httpx.BaseTransport], httpx.BaseTransport):
    """Transport for ``httpx.Client``.

    >>> import httpx
    >>> client = httpx.Client(transport=Transport("hermes"))
    """

    _library: ClassVar[Any] = httpx
    _default = httpx.HTTPTransport
    _stream = _Stream


class AsyncTransport(AsyncRepairingTransport[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport):
    """Transport for ``httpx.AsyncClient``.

    >>> import httpx
    >>> client = httpx.AsyncClient(transport=AsyncTransport("hermes"))
    """

    _library: ClassVar[Any] = httpx
    _default = httpx.AsyncHTTPTransport
    _stream = _AsyncStream

"""From settings to a gateway."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._errors import UsageError
from .app import Gateway
from .model import load_model
from .settings import Settings
from .upstreams.base import Upstream
from .upstreams.chat import ChatUpstream
from .upstreams.completions import CompletionsUpstream
from .upstreams.engines import ENGINES
from .upstreams.http import Connection
from .upstreams.replay import ReplayUpstream


async def build(settings: Settings) -> Gateway:
    """A gateway that is ready to be served; its upstream has been started."""
    if settings.upstream == "replay":
        upstream: Upstream = ReplayUpstream(settings.file, delay=settings.replay_delay)
        await upstream.start()
        model = load_model(settings, name="replay", created=int(time.time()))
    elif settings.upstream == "embedded":
        from .upstreams.embedded import EmbeddedUpstream

        upstream = engine = EmbeddedUpstream(settings)
        await engine.start()
        # A small model calls well only where a grammar holds it to that.
        held = replace(settings, strict_tools=True)
        if not settings.file and settings.dialect == "auto":
            held = replace(held, dialect="hermes")
        model = load_model(held, source=engine.source, name=engine.name, created=int(time.time()))
    else:
        upstream, source = await _connect(settings)
        model = load_model(settings, source=source, name=upstream.model, created=int(time.time()))
        if settings.upstream == "completions" and model.template is None:
            await upstream.stop()
            raise UsageError(
                "upstream=completions needs the model's chat template: set model_dir or template"
            )
        upstream.bos_token = model.bos_token
    return Gateway(settings, model, upstream)


async def _connect(settings: Settings) -> tuple[CompletionsUpstream, Mapping[str, Any] | None]:
    """The upstream behind a URL, and what it says of its template."""
    connection = Connection(
        settings.url,
        key=settings.upstream_key,
        connect=settings.connect_timeout,
        idle=settings.idle_timeout,
        limit=settings.max_output_bytes,
    )
    kind = ChatUpstream if settings.upstream == "chat" else CompletionsUpstream
    upstream = kind(
        connection,
        engine=None if settings.engine == "auto" else ENGINES[settings.engine],
        model=settings.upstream_model,
        default_tokens=settings.max_tokens,
    )
    await upstream.start()
    source = None
    if not settings.model_dir and not settings.template and upstream.engine.name == "llamacpp":
        source = await connection.get("/props")
    return upstream, source if isinstance(source, Mapping) else None

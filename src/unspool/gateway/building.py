"""From settings to a gateway."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core.values.errors import UsageError
from .app import Gateway
from .model import Model, load_model
from .settings import Settings
from .upstreams.base import Upstream
from .upstreams.chat import ChatUpstream
from .upstreams.completions import CompletionsUpstream, short_name
from .upstreams.engines import ENGINES
from .upstreams.http import Connection
from .upstreams.replay import ReplayUpstream


async def build(settings: Settings) -> Gateway:
    """A gateway that is ready to be served; its upstream and its store have been started."""
    upstream = _upstream(settings)
    try:
        await upstream.start()
        gateway = Gateway(settings, await _model(settings, upstream), upstream)
        await gateway.store.start()
    except BaseException:
        await upstream.stop()
        raise
    return gateway


def _upstream(settings: Settings) -> Upstream:
    if settings.upstream == "replay":
        return ReplayUpstream(settings.file, delay=settings.replay_delay)
    if settings.upstream == "embedded":
        from .upstreams.embedded import EmbeddedUpstream

        return EmbeddedUpstream(settings)
    connection = Connection(
        settings.url,
        key=settings.upstream_key,
        connect=settings.connect_timeout,
        idle=settings.idle_timeout,
        limit=settings.max_output_bytes,
    )
    kind = ChatUpstream if settings.upstream == "chat" else CompletionsUpstream
    return kind(
        connection,
        engine=None if settings.engine == "auto" else ENGINES[settings.engine],
        model=settings.upstream_model,
        default_tokens=settings.max_tokens,
    )


async def _model(settings: Settings, upstream: Upstream) -> Model:
    """The model behind an upstream that runs."""
    created = int(time.time())
    if not isinstance(upstream, CompletionsUpstream):
        return load_model(settings, name="replay", created=created)
    source: Mapping[str, Any] | None = None
    if settings.upstream == "embedded":
        # A small model calls well only where a grammar holds it to that.
        settings = replace(settings, strict_tools=True)
        if not settings.file and settings.dialect == "auto":
            settings = replace(settings, dialect="hermes")
    if not settings.model_dir and not settings.template:
        source = await upstream.tokenizer_config()
        if source is None and not upstream.renders and not await upstream.ready():
            raise UsageError(
                f"{settings.url} does not answer, so it cannot tell the model's chat template: "
                "start it first, or set model_dir or template"
            )
    model = load_model(settings, source=source, name=short_name(upstream.model), created=created)
    if model.template is None and not upstream.renders:
        raise UsageError("upstream=completions needs the model's chat template: set model_dir or template")
    upstream.bos_token = model.bos_token
    return model

"""From settings to a gateway."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import UsageError
from .app import Gateway
from .generation.model import Model, load_model
from .generation.served_models import ServedModel
from .model_source import settle
from .settings import Settings
from .telemetry.logs import log
from .upstreams.balanced import Balanced
from .upstreams.base import Upstream
from .upstreams.chat import ChatUpstream
from .upstreams.completions import CompletionsUpstream, short_name
from .upstreams.engines import ENGINES
from .upstreams.http import Connection
from .upstreams.ollama import OllamaUpstream
from .upstreams.recorded import ReplayUpstream


async def build(settings: Settings) -> Gateway:
    """A gateway that is ready to be served; its upstreams and its store have been started."""
    settled = await asyncio.to_thread(settle, settings)
    settings = settled.settings
    for sentence in settled.said:
        log(logging.INFO, sentence)
    upstreams: list[Upstream] = []
    try:
        served: list[ServedModel] = []
        for one in settings.each():
            upstreams.append(_upstream(one))
            served.append(
                await _served(one, upstreams[-1], f"models.{one.model}: " if settings.models else "")
            )
        gateway = Gateway(settings, served)
        await gateway.store.start()
    except BaseException:
        for upstream in upstreams:
            await upstream.stop()
        raise
    return gateway


async def _served(settings: Settings, upstream: Upstream, place: str) -> ServedModel:
    try:
        await upstream.start()
        return ServedModel(settings, await _model(settings, upstream), upstream)
    except UsageError as error:
        raise UsageError(f"{place}{error}") from error


def _upstream(settings: Settings) -> Upstream:
    if settings.upstream == "replay":
        return ReplayUpstream(settings.file, delay=settings.replay_delay)
    if settings.upstream == "embedded":
        from .upstreams.embedded import EmbeddedUpstream

        return EmbeddedUpstream(settings)
    upstreams = [_at(url, settings) for url in (settings.url, *settings.urls)]
    return upstreams[0] if len(upstreams) == 1 else Balanced(upstreams)


def _at(url: str, settings: Settings) -> CompletionsUpstream:
    """The upstream at an address."""
    kind = CompletionsUpstream
    if settings.upstream == "chat":
        kind = ChatUpstream
    elif settings.engine == "ollama":
        kind = OllamaUpstream
    upstream = kind(
        Connection(
            url,
            key=settings.upstream_key,
            connect=settings.connect_timeout,
            idle=settings.idle_timeout,
            limit=settings.max_output_bytes,
        ),
        engine=None if settings.engine == "auto" else ENGINES[settings.engine],
        model=settings.upstream_model,
        default_tokens=settings.max_tokens,
    )
    if isinstance(upstream, OllamaUpstream):
        upstream.context = settings.context
    return upstream


async def _model(settings: Settings, upstream: Upstream) -> Model:
    """The model behind an upstream that runs."""
    created = int(time.time())
    several = [member.upstream for member in upstream.members] if isinstance(upstream, Balanced) else []
    if isinstance(upstream, CompletionsUpstream):
        several = [upstream]
    if not several:
        return load_model(settings, name="replay", created=created)
    # Any that answers can tell what is to be known.
    asked = next((one for one in several if one.model), several[0])
    source: Mapping[str, Any] | None = None
    if settings.upstream == "embedded":
        # A small model calls well only where a grammar holds it to that.
        settings = replace(settings, strict_tools=True)
        if not settings.file and settings.dialect == "auto":
            settings = replace(settings, dialect="hermes")
    if not settings.model_dir and not settings.template:
        source = await asked.tokenizer_config()
        if source is None and not asked.renders and not await asked.ready():
            raise UsageError(
                f"{settings.url} does not answer, so it cannot tell the model's chat template: "
                "start it first, or set model_dir or template"
            )
    model = load_model(settings, source=source, name=short_name(asked.model), created=created)
    if model.template is None and not asked.renders:
        raise UsageError("upstream=completions needs the model's chat template: set model_dir or template")
    for one in several:
        one.bos_token = model.bos_token
    return model

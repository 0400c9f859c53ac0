"""Functions that create a gateway, its models and its upstreams from settings."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ..errors import UsageError
from .app import Gateway
from .generation.load_model import load_model
from .generation.model import Model
from .generation.served_models import ServedModel
from .settings import Settings
from .settings_from_model import resolve_sources
from .telemetry.logs import log
from .upstreams.base import Upstream
from .upstreams.chat import ChatUpstream
from .upstreams.completions import CompletionsUpstream, short_name
from .upstreams.engines import ENGINES
from .upstreams.http_client import Connection
from .upstreams.load_balancer import LoadBalancer
from .upstreams.ollama import OllamaUpstream
from .upstreams.replay import ReplayUpstream

_ENGINE_SETTINGS: Final = (
    "threads",
    "context",
    "slots",
    "connect_timeout",
    "idle_timeout",
    "max_output_bytes",
)
"""Settings of the embedded engine that are used only when it starts."""


async def build(settings: Settings, *, previous: Gateway | None = None) -> Gateway:
    """Return a new gateway whose upstreams and store have been started.

    :param previous: gateway in the same process that the new one replaces.  The new gateway uses the same
        store, metrics and embedded model.
    """
    resolved = await asyncio.to_thread(resolve_sources, settings)
    settings = resolved.settings
    for note in resolved.notes:
        log(logging.INFO, "source_resolved", note=note)
    upstreams: list[Upstream] = []
    try:
        served: list[ServedModel] = []
        for one in settings.each():
            upstreams.append(_find_embedded(one, previous) or _create_upstream(one))
            served.append(
                await _start_model(one, upstreams[-1], f"models.{one.model}: " if settings.models else "")
            )
        gateway = Gateway(settings, served, previous)
        if previous is None:
            await gateway.store.start()
    except BaseException:
        used = () if previous is None else tuple(one.upstream for one in previous.models.all)
        for upstream in upstreams:
            if upstream not in used:
                await upstream.stop()
        raise
    return gateway


def _find_embedded(settings: Settings, previous: Gateway | None) -> Upstream | None:
    """Return the previous gateway's embedded upstream for a model; None if there is none.

    A second copy of the model beside the running one could exceed the machine's memory, so the settings
    of the engine cannot change while it runs.
    """
    if previous is None or settings.upstream != "embedded":
        return None
    for served in previous.models.all:
        if served.settings.upstream == "embedded" and served.settings.file == settings.file:
            changed = [
                name for name in _ENGINE_SETTINGS if getattr(served.settings, name) != getattr(settings, name)
            ]
            if changed:
                raise UsageError(
                    f"{', '.join(changed)}: the embedded engine cannot change while it runs; restart the "
                    "gateway"
                )
            return served.upstream
    return None


async def _start_model(settings: Settings, upstream: Upstream, place: str) -> ServedModel:
    """Start an upstream and load its model.

    :param place: prefix for error messages, such as ``models.qwen3: ``; empty if there is only one model.
    """
    try:
        await upstream.start()
        return ServedModel(settings, await _load_model(settings, upstream), upstream)
    except UsageError as error:
        raise UsageError(f"{place}{error}") from error


def _create_upstream(settings: Settings) -> Upstream:
    if settings.upstream == "replay":
        return ReplayUpstream(settings.file, delay=settings.replay_delay)
    if settings.upstream == "embedded":
        from .upstreams.embedded_llamacpp import EmbeddedUpstream

        return EmbeddedUpstream(settings)
    upstreams = [_create_remote(url, settings) for url in (settings.url, *settings.urls)]
    return upstreams[0] if len(upstreams) == 1 else LoadBalancer(upstreams)


def _create_remote(url: str, settings: Settings) -> CompletionsUpstream:
    """Create the upstream for the server at a URL."""
    upstream_type = CompletionsUpstream
    if settings.upstream == "chat":
        upstream_type = ChatUpstream
    elif settings.engine == "ollama":
        upstream_type = OllamaUpstream
    upstream = upstream_type(
        Connection(
            url,
            key=settings.upstream_key,
            connect=settings.connect_timeout,
            idle=settings.idle_timeout,
            limit=settings.max_output_bytes,
            ca=settings.upstream_ca,
            proxy=settings.upstream_proxy,
        ),
        engine=None if settings.engine == "auto" else ENGINES[settings.engine],
        model=settings.upstream_model,
        default_tokens=settings.max_tokens,
    )
    if isinstance(upstream, OllamaUpstream):
        upstream.context = settings.context
    return upstream


async def _load_model(settings: Settings, upstream: Upstream) -> Model:
    """Load the template, tokenizer and dialect for the model of a started upstream."""
    created = int(time.time())
    engines = [member.upstream for member in upstream.members] if isinstance(upstream, LoadBalancer) else []
    if isinstance(upstream, CompletionsUpstream):
        engines = [upstream]
    if not engines:
        return load_model(settings, name="replay", created=created)
    # All upstreams serve the same model, so use the first one that has reported the model's name.
    first = next((one for one in engines if one.model), engines[0])
    source: Mapping[str, Any] | None = None
    if settings.upstream == "embedded":
        # The embedded model is small: it writes valid tool calls only if a grammar constrains its output.
        settings = replace(settings, strict_tools=True)
        if not settings.file and settings.dialect == "auto":
            settings = replace(settings, dialect="hermes")
    if not settings.model_dir and not settings.template:
        source = await first.tokenizer_config()
        if source is None and not first.renders and not await first.ready():
            raise UsageError(
                f"{settings.url} does not answer, so the model's chat template is unknown: "
                "start the upstream first, or set model_dir or template"
            )
    model = load_model(settings, source=source, name=short_name(first.model), created=created)
    if model.template is None and not first.renders:
        raise UsageError("upstream=completions needs the model's chat template: set model_dir or template")
    for one in engines:
        one.bos_token = model.bos_token
    return model

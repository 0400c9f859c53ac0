"""Settings derived from the MODEL argument of ``unspool serve MODEL``.

- If MODEL is the URL of a running server, that server becomes the upstream.  If the gateway knows the engine
  and the model's chat template, it uses the server's completions endpoint, otherwise the chat endpoint.
- If MODEL is a file, a directory or a model name, the embedded engine runs the model's GGUF file.  A model
  without a GGUF file is rejected.
- If MODEL is a file, a directory or a model name, and the setting ``url`` is set, requests go to ``url``.
  MODEL then only provides the chat template.

Settings that the user has changed keep their values.  Notes tell the user which settings were derived.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from ..dialects import get_dialect
from ..errors import UsageError
from ..models.detection.detect_dialect import detect_dialect
from ..models.detection.result import Detection
from ..models.sources import Source, find_source, read_source
from ..models.sources.running_server import from_server, is_url
from .settings import EngineName, Settings

_WANTED_CONTEXT: Final = 32768
"""Preferred context size in tokens: enough for an agent's tools and a few files."""
_MIN_CONTEXT: Final = 4096
_CACHE_BYTES: Final = 1 << 17
"""Bytes of KV cache per token for a model whose cache size is unknown; typical of an 8B model."""
_ENGINES: Final[dict[str, tuple[EngineName, str]]] = {
    "vllm": ("vllm", "vLLM"),
    "sglang": ("sglang", "SGLang"),
    "llamacpp": ("llamacpp", "llama.cpp"),
    "ollama": ("ollama", "Ollama"),
    "unspool": ("openai", "another unspool gateway"),
    "openai": ("openai", "an unknown engine"),
}
"""For each detected engine: its name in the settings, and its name in notes to the user."""
_KINDS: Final = {
    "gguf": "a GGUF file",
    "hub": "a model in the Hugging Face cache",
    "ollama": "an Ollama model",
    "folder": "a model directory",
    "server": "a running server",
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings after all model sources have been resolved, with notes for the user."""

    settings: Settings
    notes: tuple[str, ...] = ()
    """Sentences that describe the models and their settings to the user."""


def resolve_sources(settings: Settings) -> Resolved:
    """Return settings in which each model's source is replaced with the settings to serve that model."""
    if not settings.models:
        return _resolve_source(settings) if settings.source else Resolved(settings)
    models = dict(settings.models)
    notes: list[str] = []
    for name, one in zip(settings.models, settings.each(), strict=True):
        if one.source:
            resolved = _resolve_source(one)
            changed = {
                each.name: getattr(resolved.settings, each.name)
                for each in fields(one)
                if getattr(resolved.settings, each.name) != getattr(one, each.name)
            }
            models[name] = {**models[name], **changed}
            notes += resolved.notes
    return Resolved(replace(settings, models=models), tuple(notes))


def _resolve_source(settings: Settings) -> Resolved:
    name = settings.source
    if name == "-":
        raise UsageError("standard input cannot be served: pass a file, a model name or a URL")
    source = from_server(name, key=settings.upstream_key or None) if is_url(name) else find_source(name)
    template = read_source(Path(settings.template)).template if settings.template else source.template
    detection = detect_dialect(replace(source, template=template))
    if source.engine is not None:
        resolved = _use_server(settings, source, detection)
    elif settings.url:
        resolved = _use_template(settings, source)
    elif source.weights is not None:
        if not source.template and not settings.template:
            other = ", or pass Ollama's URL instead" if source.kind == "ollama" else ""
            raise UsageError(
                f"{name} has no chat template for rendering prompts: set template to the chat template of "
                f"the original model{other}"
            )
        resolved = _use_embedded_engine(settings, source)
    else:
        raise UsageError(
            f"{name} has no GGUF file, which the embedded engine needs: serve the model with another engine "
            f"(vllm serve {name}) and pass that server's URL, or pass the path of a GGUF file"
        )
    settings = replace(resolved.settings, source="")
    if settings.dialect == "auto" and _is_builtin(detection):
        assert detection.dialect is not None  # noqa: S101 - else it is not built in
        settings = replace(settings, dialect=detection.dialect.name)
    if settings.upstream == "chat" and settings.dialect == "auto":
        raise UsageError(f"{name}: {' '.join(detection.evidence)} Set dialect to the model's output format")
    return Resolved(
        settings, (_describe_source(source), *resolved.notes, _describe_dialect(settings, detection))
    )


def _is_builtin(detection: Detection) -> bool:
    """Return whether the detected dialect is built in; only then can the setting ``dialect`` name it."""
    if detection.dialect is None or detection.inferred or not detection.renders_calls:
        return False
    try:
        return get_dialect(detection.dialect.name) == detection.dialect
    except UsageError:
        return False


def _use_server(settings: Settings, source: Source, detection: Detection) -> Resolved:
    """Return settings that use a running engine as the upstream."""
    assert source.engine is not None  # noqa: S101 - the caller has checked this
    engine, called = _ENGINES[source.engine]
    changes: dict[str, Any] = {"url": source.url}
    if settings.engine == "auto":
        changes["engine"] = engine
    if source.engine != "llamacpp":
        changes["upstream_model"] = settings.upstream_model or source.name
    if settings.upstream == "embedded":
        renders_here = detection.tried and source.engine != "openai"
        changes["upstream"] = "completions" if renders_here else "chat"
    kind = changes.get("upstream", settings.upstream)
    if kind == "chat":
        note = (
            f"Requests go to the chat endpoint of {source.url} ({called}); the gateway parses the tool calls "
            "and the reasoning that remain in the text."
        )
        return Resolved(replace(settings, **changes), (note,))
    if not settings.model_dir and not settings.template:
        changes |= _files(source)
    if source.engine == "ollama" and settings.context == _default("context"):
        changes["context"] = _fit_context(source, 1)["context"]
    note = (
        f"Requests go to {source.url} ({called}); the gateway renders the prompt with the model's template."
    )
    return Resolved(replace(settings, **changes), (note,))


def _files(source: Source) -> dict[str, Any]:
    """Return settings with the template's files, or an empty dict if the server provides the template."""
    if source.engine == "llamacpp":
        return {}
    if source.file is not None and source.file == source.weights:
        return {"template": str(source.file)}
    changes: dict[str, Any] = {}
    if source.directory is not None:
        changes["model_dir"] = str(source.directory)
    if source.file is not None and (source.directory is None or source.directory not in source.file.parents):
        changes["template"] = str(source.file)
    return changes


def _use_template(settings: Settings, source: Source) -> Resolved:
    """Return settings that use the source's template with the upstream at ``url``."""
    changes: dict[str, Any] = {}
    if settings.upstream == "embedded":
        changes["upstream"] = "completions"
    changes |= _files(source)
    note = (
        f"Requests go to {settings.url}; the gateway renders the prompt with the template of {source.origin}."
    )
    return Resolved(replace(settings, **changes), (note,))


def _use_embedded_engine(settings: Settings, source: Source) -> Resolved:
    """Return settings that run a GGUF file with llama.cpp in this process."""
    changes: dict[str, Any] = {"upstream": "embedded", "file": str(source.weights)}
    if not settings.model:
        changes["model"] = source.name
    if settings.context == _default("context"):
        changes |= _fit_context(source, settings.slots)
    settings = replace(settings, **changes)
    at_once = "" if settings.slots == 1 else f" for each of {settings.slots} concurrent requests"
    note = (
        f"It runs in this process with llama.cpp and {settings.context:,} tokens of context{at_once} "
        "(--set context=N changes the context)."
    )
    return Resolved(settings, (note,))


def _default(name: str) -> object:
    return next(each.default for each in fields(Settings) if each.name == name)


def _fit_context(source: Source, slots: int) -> dict[str, Any]:
    """Return values of ``context`` and ``slots`` that need at most a quarter of the machine's memory.

    ``slots`` is reduced before ``context``, because agents need a large context.
    """
    context = min(source.context_length or _WANTED_CONTEXT, _WANTED_CONTEXT)
    available = memory_bytes() // 4 // (source.cache_bytes or _CACHE_BYTES)
    if available >= context * slots:
        return {"context": context}
    if available < context:
        context = min(context, max(available // 1024 * 1024, _MIN_CONTEXT))
    return {"context": context, "slots": max(1, min(slots, available // context))}


def memory_bytes() -> int:
    """Return the machine's memory in bytes, or 8 GiB if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def _describe_source(source: Source) -> str:
    """Return a sentence with the model's name, kind, architecture and context length."""
    parts = [_KINDS.get(source.kind, "a model")]
    if source.model_type:
        parts.append(f"architecture {source.model_type}")
    if source.context_length is not None:
        parts.append(f"made for {source.context_length:,} tokens")
    where = "" if source.weights is None else f" ({source.weights})"
    return f"{source.name or source.origin}: {', '.join(parts)}{where}."


def _describe_dialect(settings: Settings, detection: Detection) -> str:
    """Return a sentence with the model's dialect and the reason why it was chosen."""
    if settings.dialect == "auto" and detection.hint:
        return f"It writes calls as {detection.hint}: the template mentions such calls but renders no calls."
    if (
        settings.dialect == "auto"
        and detection.tried
        and not detection.renders_calls
        and detection.dialect is None
    ):
        return (
            "The template does not render tools: the system message describes the tools, and the model is "
            "told to write calls in the hermes dialect."
        )
    if settings.dialect == "auto":
        return detection.evidence[0]
    detected = detection.dialect is not None and detection.dialect.name == settings.dialect
    why = (
        f": {detection.evidence[0] if detection.tried else ' '.join(detection.evidence[1:])}"
        if detected
        else ", as the settings say."
    )
    return f"It writes calls as {settings.dialect}{why}"

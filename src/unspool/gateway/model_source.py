"""``unspool serve MODEL``: from what somebody has of a model to the settings that serve it.

A GGUF, wherever it lies, runs in the embedded engine.  A server is the upstream: asked
for completions where the chat template is known here, for chats otherwise.  What was set
by hand stays as it is, and what was found out is said in words.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from ..dialects._registry import get_dialect
from ..errors import UsageError
from ..models.detect.detect_dialect import detect_dialect
from ..models.detect.result import Detection
from ..models.sources import Source, find_source, read_source
from ..models.sources.running_server import from_server, is_url
from .settings import EngineName, Settings

_WANTED_CONTEXT: Final = 32768
"""What agents need for their tools and a few files."""
_LEAST_CONTEXT: Final = 4096
_CACHE_BYTES: Final = 1 << 17
"""What a token of context takes where the model does not say, as it does with eight billion parameters."""
_ENGINES: Final[dict[str, tuple[EngineName, str]]] = {
    "vllm": ("vllm", "vLLM"),
    "sglang": ("sglang", "SGLang"),
    "llamacpp": ("llamacpp", "llama.cpp"),
    "ollama": ("ollama", "Ollama"),
    "openai": ("openai", "an engine that does not say which"),
}
"""What an engine is called in the settings, and by people."""
_KINDS: Final = {
    "gguf": "a GGUF file",
    "hub": "a model in the Hugging Face cache",
    "ollama": "a model of Ollama's",
    "folder": "a model directory",
    "server": "a model that is served",
}


@dataclass(frozen=True, slots=True)
class Settled:
    """Settings with nothing left to find out."""

    settings: Settings
    said: tuple[str, ...] = ()
    """What was found out, a sentence each."""


def settle(settings: Settings) -> Settled:
    """Find out what the source of each model leaves open."""
    if not settings.models:
        return _settle_one(settings) if settings.source else Settled(settings)
    models = dict(settings.models)
    said: list[str] = []
    for name, one in zip(settings.models, settings.each(), strict=True):
        if one.source:
            found = _settle_one(one)
            own = {
                each.name: getattr(found.settings, each.name)
                for each in fields(one)
                if getattr(found.settings, each.name) != getattr(one, each.name)
            }
            models[name] = {**models[name], **own}
            said += found.said
    return Settled(replace(settings, models=models), tuple(said))


def _settle_one(settings: Settings) -> Settled:
    given = settings.source
    if given == "-":
        raise UsageError("what is served must stay: give a file, a name or an address, not standard input")
    source = from_server(given, key=settings.upstream_key or None) if is_url(given) else find_source(given)
    own = read_source(Path(settings.template)).template if settings.template else source.template
    found = detect_dialect(replace(source, template=own))
    if source.engine is not None:
        settled = _at_server(settings, source, found)
    elif settings.url:
        settled = _template_for(settings, source)
    elif source.weights is not None:
        if not source.template and not settings.template:
            other = ", or give the address of Ollama" if source.kind == "ollama" else ""
            raise UsageError(
                f"{given} has no chat template, which prompts are written by: set template to that of the "
                f"model it was made from{other}"
            )
        settled = _embedded(settings, source)
    else:
        raise UsageError(
            f"{given} has no GGUF file that the embedded engine could run: start an engine with it "
            f"(vllm serve {given}) and give its address, or take the model's GGUF"
        )
    settings = replace(settled.settings, source="")
    if settings.dialect == "auto" and _is_known(found):
        assert found.dialect is not None  # noqa: S101 - it is known
        settings = replace(settings, dialect=found.dialect.name)
    if settings.upstream == "chat" and settings.dialect == "auto":
        raise UsageError(f"{given}: {' '.join(found.evidence)} Set dialect")
    return Settled(settings, (_what(source), *settled.said, _spoken(settings, found)))


def _is_known(found: Detection) -> bool:
    """Whether a name says all about the dialect."""
    if found.dialect is None or found.inferred or not found.renders_calls:
        return False
    try:
        return get_dialect(found.dialect.name) == found.dialect
    except UsageError:
        return False


def _at_server(settings: Settings, source: Source, found: Detection) -> Settled:
    """An engine that runs already."""
    assert source.engine is not None  # noqa: S101 - the caller has looked
    engine, called = _ENGINES[source.engine]
    changes: dict[str, Any] = {"url": source.url}
    if settings.engine == "auto":
        changes["engine"] = engine
    if source.engine != "llamacpp":
        changes["upstream_model"] = settings.upstream_model or source.name
    if settings.upstream == "embedded":
        rendered_here = found.tried and source.engine != "openai"
        changes["upstream"] = "completions" if rendered_here else "chat"
    kind = changes.get("upstream", settings.upstream)
    if kind == "chat":
        said = (
            f"Requests go to {source.url} ({called}) as chats, and what it leaves in the text is read here."
        )
        return Settled(replace(settings, **changes), (said,))
    if not settings.model_dir and not settings.template:
        changes |= _files(source)
    if source.engine == "ollama" and settings.context == _default("context"):
        changes["context"] = _room(source, 1)["context"]
    said = f"Requests go to {source.url} ({called}); the prompt is written here, by the model's own template."
    return Settled(replace(settings, **changes), (said,))


def _files(source: Source) -> dict[str, Any]:
    """Where the template lies, unless the server tells it."""
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


def _template_for(settings: Settings, source: Source) -> Settled:
    """The source has the template, and the model runs at an address that is set."""
    changes: dict[str, Any] = {}
    if settings.upstream == "embedded":
        changes["upstream"] = "completions"
    changes |= _files(source)
    said = f"Requests go to {settings.url}; the prompt is written here, by the template of {source.origin}."
    return Settled(replace(settings, **changes), (said,))


def _embedded(settings: Settings, source: Source) -> Settled:
    """llama.cpp, in this process."""
    changes: dict[str, Any] = {"upstream": "embedded", "file": str(source.weights)}
    if not settings.model:
        changes["model"] = source.name
    if settings.context == _default("context"):
        changes |= _room(source, settings.slots)
    settled = replace(settings, **changes)
    at_once = "" if settled.slots == 1 else f" for each of {settled.slots} requests at once"
    said = (
        f"It runs in this process, by llama.cpp, with {settled.context:,} tokens of context{at_once} "
        "(--set context=N changes that)."
    )
    return Settled(settled, (said,))


def _default(name: str) -> object:
    return next(each.default for each in fields(Settings) if each.name == name)


def _room(source: Source, slots: int) -> dict[str, Any]:
    """The context that agents need, if a quarter of the memory has room; rather for one request than less."""
    wanted = min(source.context_length or _WANTED_CONTEXT, _WANTED_CONTEXT)
    fitting = memory_bytes() // 4 // (source.cache_bytes or _CACHE_BYTES)
    if fitting >= wanted * slots:
        return {"context": wanted}
    if fitting < wanted:
        wanted = min(wanted, max(fitting // 1024 * 1024, _LEAST_CONTEXT))
    return {"context": wanted, "slots": max(1, min(slots, fitting // wanted))}


def memory_bytes() -> int:
    """How much memory the machine has; where it does not say, what a small one has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def _what(source: Source) -> str:
    """The model, in a line."""
    told = [_KINDS.get(source.kind, "a model")]
    if source.model_type:
        told.append(f"architecture {source.model_type}")
    if source.context_length is not None:
        told.append(f"made for {source.context_length:,} tokens")
    where = "" if source.weights is None else f" ({source.weights})"
    return f"{source.name or source.origin}: {', '.join(told)}{where}."


def _spoken(settings: Settings, found: Detection) -> str:
    """How it writes calls."""
    if settings.dialect == "auto" and found.hint:
        return f"It writes calls as {found.hint}: its template speaks of them, though it renders none."
    if settings.dialect == "auto" and found.tried and not found.renders_calls and found.dialect is None:
        return "Its template has no place for tools: they are told in words, and calls are written as hermes."
    if settings.dialect == "auto":
        return found.evidence[0]
    told = found.dialect is not None and found.dialect.name == settings.dialect
    why = f": {found.evidence[0] if found.tried else ' '.join(found.evidence[1:])}" if told else ", as set."
    return f"It writes calls as {settings.dialect}{why}"

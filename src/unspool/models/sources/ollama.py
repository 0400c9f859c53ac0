"""Reading of Modelfiles, and of Ollama models by name.

``models/manifests/HOST/NAMESPACE/MODEL/TAG`` is a JSON file that lists the digests of a model's layers.
``models/blobs`` contains the layers: the weights (a GGUF file), the template (a Go template), the parameters,
and a configuration that names the model family.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .gguf import read_gguf
from .model_directory import from_directory
from .read_files import is_directory, is_readable, read_json, read_text
from .source import Source

_PART: Final = r"[A-Za-z0-9_][\w.-]*"
_NAME: Final = re.compile(
    rf"(?:(?:(?P<host>{_PART}(?::\d+)?)/)?(?P<space>{_PART})/)?(?P<model>{_PART})(?::(?P<tag>{_PART}))?"
)
_DIGEST: Final = re.compile(r"sha256[:-]([0-9a-f]{64})")
_LAYER: Final = "application/vnd.ollama.image."
_COMMANDS: Final = frozenset(
    (
        *("FROM", "TEMPLATE", "PARAMETER", "SYSTEM", "ADAPTER"),
        *("LICENSE", "MESSAGE", "PARSER", "RENDERER", "REQUIRES"),
    )
)
_QUOTES: Final = '"""'
_MODELFILE: Final = re.compile(r"\s*(?:#[^\n]*\n\s*)*FROM[ \t]+\S", re.IGNORECASE)
_GO: Final = re.compile(r"\{\{-?\s*(?:\.[A-Z]|\$\w*\s*:?=|\$\.|(?:if|range|with)\s[^}]{0,200}[.$])")


def is_go_template(text: str) -> bool:
    """Return whether text is a Go template and not a Jinja template."""
    return _GO.search(text) is not None


def is_modelfile(text: str) -> bool:
    """Return whether text is a Modelfile, whose first command is FROM."""
    return _MODELFILE.match(text) is not None


def models_directories() -> list[Path]:
    """Return the directories in which Ollama may store models: the configured one, or else the defaults."""
    configured = os.environ.get("OLLAMA_MODELS")
    if configured:
        return [Path(configured).expanduser()]
    return [Path.home() / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]


def from_ollama(text: str) -> Source | None:
    """Return the source for a model that Ollama has stored; None if there is no such model."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    place = Path(
        match["host"] or "registry.ollama.ai",
        match["space"] or "library",
        match["model"],
        match["tag"] or "latest",
    )
    for directory in models_directories():
        manifest = directory / "manifests" / place
        if is_readable(manifest):
            name = text if match["tag"] else f"{text}:latest"
            return _from_manifest(read_json(manifest), directory / "blobs", name)
    return None


def _from_manifest(manifest: Mapping[str, object], blobs: Path, name: str) -> Source:
    layers = dict(_layers(manifest, blobs))
    config = read_json(layers["config"]) if "config" in layers else {}
    weights = layers.get("model")
    source = Source("", f"Ollama's model {name}", kind="ollama")
    if weights is not None:
        source = read_gguf(weights)
        source = replace(source, kind="ollama", origin=f"{weights} (the weights of Ollama's {name})")
    families = config.get("model_families")
    named = families if isinstance(families, list) else []
    return replace(
        source,
        name=name,
        parser=_text(config.get("parser")),
        families=tuple(dict.fromkeys(str(each) for each in (config.get("model_family"), *named) if each)),
        go_template=read_text(layers["template"]) if "template" in layers else "",
        parameters=read_json(layers["params"]) if "params" in layers else {},
    )


def _layers(manifest: Mapping[str, object], blobs: Path) -> Iterator[tuple[str, Path]]:
    """Yield the kind and the path of each layer file that exists, in reverse order.

    The caller converts the pairs to a dictionary, in which later pairs replace earlier ones.  So the reverse
    order keeps the first layer of each kind.
    """
    entries = manifest.get("layers")
    listed = [("config", manifest.get("config"))]
    for layer in reversed(entries) if isinstance(entries, list) else ():
        kind = str(layer.get("mediaType", "")) if isinstance(layer, Mapping) else ""
        listed.append((kind.removeprefix(_LAYER), layer))
    for kind, layer in listed:
        digest = _DIGEST.fullmatch(str(layer.get("digest", ""))) if isinstance(layer, Mapping) else None
        if digest is not None:
            # Older versions of Ollama used file names such as ``sha256:...``.
            for path in (blobs / f"sha256-{digest[1]}", blobs / f"sha256:{digest[1]}"):
                if is_readable(path):
                    yield kind, path


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# -- Modelfiles


def from_modelfile(text: str, origin: str, directory: Path) -> Source:
    """Return the source that a Modelfile describes.

    :param directory: the base directory for relative paths in the Modelfile.
    """
    values: dict[str, str] = {}
    parameters: dict[str, Any] = {}
    for name, value in _commands(text):
        if name == "PARAMETER":
            key, _, setting = value.partition(" ")
            parameters.setdefault(key, []).append(_unquoted(setting))
        else:
            values.setdefault(name, _unquoted(value))
    source = _base_model(values.get("FROM", ""), origin, directory)
    fields = {"parser": values.get("PARSER"), "go_template": values.get("TEMPLATE")}
    source = replace(source, **{key: value for key, value in fields.items() if value})  # type: ignore[arg-type]
    return replace(source, kind="ollama", parameters={**source.parameters, **parameters})


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each command; a value in triple quotes may contain newlines."""
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        name, _, value = text[at:end].strip().partition(" ")
        if name.upper() in _COMMANDS:
            opening = text.find(_QUOTES, at, end)
            if opening >= 0:
                closing = text.find(_QUOTES, opening + 3)
                end = len(text) if closing < 0 else closing + 3
                before = text[at:opening].strip().partition(" ")[2]
                value = f"{before} {text[opening + 3 : end].removesuffix(_QUOTES)}"
            yield name.upper(), value.strip()
        at = end + 1


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _base_model(name: str, origin: str, directory: Path) -> Source:
    """Return the source for a Modelfile's base model, given as a path or a model name."""
    path = Path(name).expanduser()
    if not path.is_absolute():
        path = directory / path
    if name and is_directory(path):
        return from_directory(path)
    if is_readable(path):
        return read_gguf(path)
    source = from_ollama(name)
    if source is not None:
        return source
    # The base model is not on this machine, but its name or the Modelfile's template may reveal the dialect.
    if path.suffix == ".gguf" or name.startswith((".", "/", "~")):
        return Source("", origin, name=path.name)
    return Source("", origin, name=name)

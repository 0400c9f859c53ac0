"""Models of Ollama, by their names, and the files that they are made from.

``models/manifests/HOST/NAMESPACE/MODEL/TAG`` is JSON that names the layers of a model by
their digests, ``models/blobs`` has the layers: the weights, which are a GGUF, the template,
which is Go's, parameters, and a configuration that names the family.
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
from .source import Source
from .text_files import is_directory, is_readable, read_json, read_text

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
    """Whether a template is one of Go's, not of Jinja."""
    return _GO.search(text) is not None


def is_modelfile(text: str) -> bool:
    """Whether a text is a Modelfile: its first command is FROM."""
    return _MODELFILE.match(text) is not None


def models_directories() -> list[Path]:
    """Where Ollama may keep models: where it was told to, where a user's are, where a service's are."""
    told = os.environ.get("OLLAMA_MODELS")
    if told:
        return [Path(told).expanduser()]
    return [Path.home() / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]


def from_ollama(text: str) -> Source | None:
    """The model of that name; None: Ollama has none."""
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    where = Path(
        found["host"] or "registry.ollama.ai",
        found["space"] or "library",
        found["model"],
        found["tag"] or "latest",
    )
    for directory in models_directories():
        manifest = directory / "manifests" / where
        if is_readable(manifest):
            name = text if found["tag"] else f"{text}:latest"
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
    """The files of the layers that are there, by what they are; of several the first."""
    entries = manifest.get("layers")
    listed = [("config", manifest.get("config"))]
    for layer in reversed(entries) if isinstance(entries, list) else ():
        kind = str(layer.get("mediaType", "")) if isinstance(layer, Mapping) else ""
        listed.append((kind.removeprefix(_LAYER), layer))
    for kind, layer in listed:
        digest = _DIGEST.fullmatch(str(layer.get("digest", ""))) if isinstance(layer, Mapping) else None
        if digest is not None:
            # It was ``sha256:...`` before Ollama ran on Windows.
            for path in (blobs / f"sha256-{digest[1]}", blobs / f"sha256:{digest[1]}"):
                if is_readable(path):
                    yield kind, path


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# -- Modelfiles


def from_modelfile(text: str, origin: str, directory: Path) -> Source:
    """The model that a Modelfile describes.

    :param directory: what its paths are relative to.
    """
    told: dict[str, str] = {}
    parameters: dict[str, Any] = {}
    for name, value in _commands(text):
        if name == "PARAMETER":
            key, _, setting = value.partition(" ")
            parameters.setdefault(key, []).append(_unquoted(setting))
        else:
            told.setdefault(name, _unquoted(value))
    source = _base(told.get("FROM", ""), origin, directory)
    given = {"parser": told.get("PARSER"), "go_template": told.get("TEMPLATE")}
    source = replace(source, **{key: value for key, value in given.items() if value})  # type: ignore[arg-type]
    return replace(source, kind="ollama", parameters={**source.parameters, **parameters})


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a Modelfile in order; a value between three quotes may have line breaks."""
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


def _base(given: str, origin: str, directory: Path) -> Source:
    """What a Modelfile begins from: a path, or a model's name."""
    path = Path(given).expanduser()
    if not path.is_absolute():
        path = directory / path
    if given and is_directory(path):
        return from_directory(path)
    if is_readable(path):
        return read_gguf(path)
    found = from_ollama(given)
    if found is not None:
        return found
    # Perhaps its template tells all the same.
    if path.suffix == ".gguf" or given.startswith((".", "/", "~")):
        return Source("", origin, name=path.name)
    return Source("", origin, name=given)

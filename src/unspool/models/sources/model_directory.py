"""Reading of a model's own files: a model directory, a tokenizer configuration or a chat template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...errors import UsageError
from .gguf import MAGIC, is_later_part, read_gguf
from .read_files import read_json, read_text
from .source import Source, is_template, token_texts

NO_TEMPLATE: Final = "not a chat template: it contains no {{ }} or {% %}"
_DEFAULT_QUANTISATION: Final = "Q4_K_M"
"""The quantisation to prefer if a directory has several GGUF files, as in other tools."""


def from_file(path: Path) -> Source:
    """Read a source from a GGUF file, a tokenizer configuration or a chat template."""
    if path.suffix == ".gguf" or _begins_with_magic(path):
        return read_gguf(path)
    if path.name in ("tokenizer.json", "config.json", "generation_config.json", "tekken.json"):
        raise UsageError(f"{path} does not contain a chat template: pass the model directory, {path.parent}")
    if path.suffix != ".json":
        text = read_text(path)
        if not is_template(text):
            raise UsageError(f"{path} is {NO_TEMPLATE}")
        return Source(text, str(path), file=path, kind="file")
    return replace(from_config(read_json(path), str(path)), file=path, kind="file")


def _begins_with_magic(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def from_directory(path: Path, quantisation: str = "") -> Source:
    """Read a source from a model directory.

    :param quantisation: the quantisation of the GGUF file to read if the directory has several GGUF files.
    """
    config: dict[str, object] = {}
    if (path / "tokenizer_config.json").is_file():
        config = read_json(path / "tokenizer_config.json")
    if (path / "special_tokens_map.json").is_file():
        config = {**read_json(path / "special_tokens_map.json"), **config}
    templates = _templates(path, config)
    weights = find_gguf(path, quantisation)
    if not templates and weights is not None:
        return replace(read_gguf(weights), directory=path)
    if not templates:
        raise UsageError(
            f"{path} has no chat template: add chat_template.jinja, or the field chat_template in "
            "tokenizer_config.json (a base model has none; use the instruct model's template)"
        )
    # For requests with tools, Transformers uses the template named tool_use if it exists.
    origin = "additional_chat_templates/tool_use.jinja"
    if origin not in templates:
        origin = next(iter(templates))
    model = read_json(path / "config.json") if (path / "config.json").is_file() else {}
    kind = model.get("model_type")
    return Source(
        template=templates[origin],
        origin=str(path / origin),
        tokens=token_texts(config),
        config=config,
        model_type=kind if isinstance(kind, str) else "",
        directory=path,
        file=path / origin,
        others={name: text for name, text in templates.items() if name != origin},
        kind="folder",
        name=path.resolve().name,
        end_ids=_end_ids(path, model),
        context_length=_context_length(model),
        weights=weights,
    )


def _templates(path: Path, config: Mapping[str, object]) -> dict[str, str]:
    templates: dict[str, str] = {}
    if (path / "chat_template.jinja").is_file():
        templates["chat_template.jinja"] = read_text(path / "chat_template.jinja")
    for name in ("chat_template.json", "processor_config.json"):
        inside = read_json(path / name).get("chat_template") if (path / name).is_file() else None
        if isinstance(inside, str):
            templates[name] = inside
    if "chat_template" in config:
        templates["tokenizer_config.json"] = from_config(config, str(path / "tokenizer_config.json")).template
    for file in sorted((path / "additional_chat_templates").glob("*.jinja")):
        templates[f"additional_chat_templates/{file.name}"] = read_text(file)
    return templates


def find_gguf(path: Path, quantisation: str = "") -> Path | None:
    """Return the GGUF file in a directory, or the first part of a split file; None if there is no GGUF file.

    :param quantisation: text that the file name must contain; if empty, the default quantisation is
        preferred.
    """
    files = [
        file
        for pattern in ("*.gguf", "*/*.gguf")
        for file in sorted(path.glob(pattern))
        if not file.name.startswith("mmproj") and not is_later_part(file)
    ]
    for wanted in (quantisation,) if quantisation else (_DEFAULT_QUANTISATION, ""):
        for file in files:
            if wanted.lower() in str(file.relative_to(path)).lower():
                return file
    return None


def _end_ids(path: Path, model: Mapping[str, object]) -> tuple[int, ...] | None:
    """Return the end token ids from ``generation_config.json`` or, if it has none, from ``model``.

    :param model: the model configuration, ``config.json``.
    """
    generation = path / "generation_config.json"
    for config in (read_json(generation) if generation.is_file() else {}, model):
        value = config.get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        numbers = tuple(id for id in ids if isinstance(id, int))
        if numbers:
            return numbers
    return None


def _context_length(model: Mapping[str, object]) -> int | None:
    inner = model.get("text_config")
    for config in (model, inner if isinstance(inner, Mapping) else {}):
        length = config.get("max_position_embeddings")
        if isinstance(length, int):
            return length
    return None


def from_config(config: Mapping[str, object], origin: str) -> Source:
    """Build a source from a tokenizer configuration."""
    template = config.get("chat_template")
    others: dict[str, str] = {}
    if isinstance(template, list):
        named: dict[str, str] = {}
        for entry in template:
            if isinstance(entry, Mapping) and isinstance(entry.get("template"), str):
                named[str(entry.get("name"))] = str(entry["template"])
        chosen = "tool_use" if "tool_use" in named else "default"
        template = named.get(chosen)
        others = {f"the template {name!r}": text for name, text in named.items() if name != chosen}
    if not isinstance(template, str):
        raise UsageError(f"{origin} has no field chat_template: add it, or pass the chat template itself")
    return Source(template, origin, token_texts(config), config, others=others)

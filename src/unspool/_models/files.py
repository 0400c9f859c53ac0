"""The files of a model: what a directory, a tokenizer configuration or a template file holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from .._core.values.errors import UsageError

_TOKENS: Final = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What is known of a model: its chat template, and what lies beside it."""

    template: str
    """The chat template."""
    origin: str
    """Where it was found, for people."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Special tokens that the template is given."""
    config: Mapping[str, object] = field(default_factory=dict)
    """``tokenizer_config.json``."""
    model_type: str = ""
    """``model_type`` of ``config.json``."""
    directory: Path | None = None
    """The directory that holds it all."""
    file: Path | None = None
    """The file that the template came from."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Other templates that were found, by where."""


_NEEDED: Final = "give a chat template, a tokenizer_config.json or a model directory"
_NO_TEMPLATE: Final = "not a chat template: there is no {{ }} or {% %} in it"
_LONGEST_PATH: Final = 4096
"""Longer than any system lets a path be."""
_GGUF: Final = (
    "the chat template in a GGUF file is not read: save it as chat_template.jinja (llama-server -m FILE "
    "shows it at /props), put the original model's tokenizer.json beside it, and give that directory"
)


def read_model(source: object) -> ModelFiles:
    """Find the chat template in whatever was given.

    A ``Path`` is a path.  Text is a template if it holds ``{{``, ``{%`` or a
    line break, or is longer than any path; every other text is a path.
    Nothing depends on which files there are.
    """
    if isinstance(source, ModelFiles):
        return source
    if isinstance(source, Mapping):
        return _from_config(source, "the tokenizer configuration")
    if isinstance(source, Path):
        return _from_path(source)
    if not isinstance(source, str):
        got = type(source).__name__
        raise UsageError(f"detect() takes a chat template, a tokenizer configuration or a path, got {got}")
    if _is_template(source):
        return ModelFiles(source, "the text given")
    if "\n" in source or len(source) > _LONGEST_PATH:
        raise UsageError(f"{source[:60]!r}... is {_NO_TEMPLATE}")
    return _from_path(Path(source))


def _is_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def _from_path(path: Path) -> ModelFiles:
    try:
        if path.is_dir():
            return _from_directory(path)
        if path.is_file():
            return _from_file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}: {_NEEDED}") from error
    raise UsageError(_missing(path))


def _missing(path: Path) -> str:
    if path.exists():
        return f"{path} is neither a file nor a directory: {_NEEDED}"
    if not path.is_absolute() and path.suffix not in (".jinja", ".json") and len(path.parts) == 2:
        return f"{path} does not exist: if it is a model's name, download it, and give the directory"
    return f"{path} does not exist: {_NEEDED}"


def read_json(path: Path) -> dict[str, object]:
    """The object in a JSON file."""
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON ({error}): download it again") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds no JSON object: is it the right file?")
    return value


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: a template or JSON is needed, not weights") from error


def _from_file(path: Path) -> ModelFiles:
    if path.suffix == ".gguf":
        raise UsageError(f"{path}: {_GGUF}")
    if path.name in ("tokenizer.json", "config.json", "generation_config.json", "tekken.json"):
        raise UsageError(f"{path} holds no chat template: give the directory, {path.parent}")
    if path.suffix != ".json":
        text = read_text(path)
        if not _is_template(text):
            raise UsageError(f"{path} is {_NO_TEMPLATE}")
        return ModelFiles(text, str(path), file=path)
    return replace(_from_config(read_json(path), str(path)), file=path)


def _from_directory(path: Path) -> ModelFiles:
    config: dict[str, object] = {}
    if (path / "tokenizer_config.json").is_file():
        config = read_json(path / "tokenizer_config.json")
    if (path / "special_tokens_map.json").is_file():
        config = {**read_json(path / "special_tokens_map.json"), **config}
    found: dict[str, str] = {}
    if (path / "chat_template.jinja").is_file():
        found["chat_template.jinja"] = read_text(path / "chat_template.jinja")
    for name in ("chat_template.json", "processor_config.json"):
        inside = read_json(path / name).get("chat_template") if (path / name).is_file() else None
        if isinstance(inside, str):
            found[name] = inside
    if "chat_template" in config:
        found["tokenizer_config.json"] = _from_config(config, str(path / "tokenizer_config.json")).template
    for file in sorted((path / "additional_chat_templates").glob("*.jinja")):
        found[f"additional_chat_templates/{file.name}"] = read_text(file)
    if not found and any(path.glob("*.gguf")):
        raise UsageError(f"{path}: {_GGUF}")
    if not found:
        raise UsageError(
            f"{path} has no chat template: put chat_template.jinja there, or the field chat_template into "
            "tokenizer_config.json (base models have none: take the instruct model's)"
        )
    # Transformers takes tool_use where a request has tools, and otherwise the first of these.
    origin = "additional_chat_templates/tool_use.jinja"
    if origin not in found:
        origin = next(iter(found))
    kind = read_json(path / "config.json").get("model_type") if (path / "config.json").is_file() else None
    return ModelFiles(
        template=found[origin],
        origin=str(path / origin),
        tokens=_tokens(config),
        config=config,
        model_type=kind if isinstance(kind, str) else "",
        directory=path,
        file=path / origin,
        others={name: text for name, text in found.items() if name != origin},
    )


def _from_config(config: Mapping[str, object], origin: str) -> ModelFiles:
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
        raise UsageError(f"{origin} has no field chat_template: give the chat template itself, or add it")
    return ModelFiles(template, origin, _tokens(config), config, others=others)


def _tokens(config: Mapping[str, object]) -> dict[str, str]:
    tokens: dict[str, str] = {}
    for name in _TOKENS:
        token = config.get(name)
        token = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(token, str):
            tokens[name] = token
    return tokens

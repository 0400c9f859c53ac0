"""Resolution of a user's input (a path, a template, a model name or a server's address) to a ``Source``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from ...dialects.model_names import known_model
from ...errors import UsageError
from .gguf import MAGIC, read_header, source_of
from .hub_cache import cache_directory, from_hub, snapshot_in
from .model_directory import NO_TEMPLATE, from_config, from_directory, from_file
from .ollama import (
    from_modelfile,
    from_ollama,
    is_go_template,
    is_modelfile,
    models_directories,
)
from .read_files import json_object, read_text
from .running_server import from_server, is_url
from .source import Source, is_template

__all__ = ["Source", "find_source", "read_source", "read_template"]

_VALID_SOURCES: Final = (
    "a chat template, a tokenizer_config.json, a model directory, a GGUF file, the name of a downloaded "
    "model or the address of a server"
)
_MAX_PATH_LENGTH: Final = 4096
"""Maximum length of a string that may be a path; a longer string is certainly not a path."""
_MAX_INPUT_BYTES: Final = 1 << 26
"""Maximum size of text on standard input."""
_MAX_TEMPLATE_BYTES: Final = 1 << 20
_SUFFIXES: Final = (".jinja", ".json", ".gguf")


def read_source(value: object) -> Source:
    """Return the ``Source`` that a Python value describes, such as a path, a template or a mapping.

    A ``Path`` is always a path, and a mapping is a tokenizer configuration.  A string that contains ``{{`` or
    ``{%`` is a template.  Any other string is passed to :func:`find_source`.
    """
    if isinstance(value, Source):
        return value
    if isinstance(value, Mapping):
        return from_config(value, "the tokenizer configuration")
    if isinstance(value, Path):
        return _from_path(value)
    if not isinstance(value, str):
        got = type(value).__name__
        raise UsageError(f"detect() takes a chat template, a tokenizer configuration or a path, not {got}")
    if is_template(value):
        return _from_text(value, "the text", Path())
    if "\n" in value or len(value) > _MAX_PATH_LENGTH:
        raise UsageError(f"{value[:60]!r}... is {NO_TEMPLATE}")
    return find_source(value)


def read_template(value: str | Mapping[str, object]) -> Source:
    """Return the ``Source`` for a template or a tokenizer configuration, without reading files."""
    if isinstance(value, str) and value.lstrip().startswith('{"'):
        value = _parse_config(value)
    if isinstance(value, Mapping):
        return from_config(value, "the tokenizer configuration")
    if is_template(value) or is_modelfile(value) or is_go_template(value):
        return _from_text(value, "the text", Path())
    raise UsageError(
        f"{value[:60]!r} is {NO_TEMPLATE}: call detect_model() for paths and names of models, "
        "and detect_server() for servers"
    )


def _parse_config(text: str) -> str | Mapping[str, object]:
    """Return the mapping in the text of a ``tokenizer_config.json``; return any other text unchanged."""
    try:
        config = json.loads(text)
    except ValueError:
        return text
    return config if isinstance(config, dict) and "chat_template" in config else text


def find_source(text: str) -> Source:
    """Return the ``Source`` that a command-line argument names.

    ``-`` means standard input.  An argument that starts with ``http://`` or ``https://`` is the address of a
    server.  If a path and a model have the same name, the path is used; ``./name`` is always a path.
    """
    if text == "-":
        return from_stream(sys.stdin.buffer, "standard input")
    if is_url(text):
        return from_server(text)
    path = Path(text)
    if _is_path(path) or text.startswith("."):
        return _from_path(path)
    source = from_hub(text) or from_ollama(text)
    if source is not None:
        return source
    ollama = " or ".join(map(str, models_directories()))
    raise UsageError(
        f"{text} does not exist: it is not a path, not a model in the Hugging Face cache "
        f"({cache_directory()}) and not a model of Ollama ({ollama}). Download it, or pass "
        f"{_VALID_SOURCES}{_dialect_by_name(text)}"
    )


def _dialect_by_name(name: str) -> str:
    """Return a sentence with the dialect that a model's name suggests; an empty string if there is none."""
    known = known_model(name)
    if known is None:
        return ""
    dialect = known.dialect.name
    return f". Its name suggests the dialect {dialect}: run `unspool dialects {name}` for the reason"


def _is_path(path: Path) -> bool:
    try:
        return path.exists() or path.is_absolute() or path.suffix in _SUFFIXES
    except OSError:
        return True  # for example, the name is too long; opening the file will report the error


def _from_path(path: Path) -> Source:
    try:
        if path.is_dir():
            return _from_directory(path)
        if path.is_file():
            return _from_file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}: pass {_VALID_SOURCES}") from error
    reason = "is neither a file nor a directory" if path.exists() else "does not exist"
    raise UsageError(f"{path} {reason}: pass {_VALID_SOURCES}")


def _from_file(path: Path) -> Source:
    if path.suffix.lower() not in (".gguf", ".json"):
        text = _beginning(path)
        if text is not None and (is_modelfile(text) or is_go_template(text)):
            return replace(_from_text(read_text(path), str(path), path.parent), file=path)
    return from_file(path)


def _beginning(path: Path) -> str | None:
    """Return the first megabyte of a file as text; None if the file is not UTF-8."""
    with path.open("rb") as file:
        data = file.read(_MAX_TEMPLATE_BYTES)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _from_directory(path: Path) -> Source:
    cached = snapshot_in(path)
    if cached is None:
        return from_directory(path)
    return replace(from_directory(cached[0]), kind="hub", name=cached[1])


def from_stream(file: BinaryIO, origin: str) -> Source:
    """Read a source from a stream: a GGUF file, a tokenizer configuration or a template."""
    begin = file.read(len(MAGIC))
    if begin == MAGIC:
        return source_of(read_header(_PrefixedStream(begin, file), origin), origin)
    data = begin + file.read(_MAX_INPUT_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{origin} is neither UTF-8 text nor a GGUF file; pass {_VALID_SOURCES}") from error
    if text.lstrip().startswith("{") and not text.lstrip().startswith(("{{", "{%", "{#")):
        return from_config(json_object(text, origin), origin)
    return _from_text(text, origin, Path())


def _from_text(text: str, origin: str, directory: Path) -> Source:
    """Build a source from the text of a Modelfile, a Go template or a Jinja template."""
    if is_modelfile(text):
        return from_modelfile(text, origin, directory)
    if is_go_template(text):
        return Source("", origin, go_template=text)
    if not is_template(text):
        raise UsageError(f"{origin} is {NO_TEMPLATE}")
    return Source(text, origin)


class _PrefixedStream:
    """Stream that returns bytes that were already read from a file, and then the rest of the file."""

    def __init__(self, begin: bytes, file: BinaryIO) -> None:
        self._begin = begin
        self._file = file

    def read(self, count: int) -> bytes:
        begin, self._begin = self._begin[:count], self._begin[count:]
        return begin + self._file.read(count - len(begin)) if count > len(begin) else begin

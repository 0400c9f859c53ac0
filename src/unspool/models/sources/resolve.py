"""Sources: where a model's template, tokens and ends of turns are found, whatever was given."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

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
from .running_server import from_server, is_url
from .source import Source, is_template
from .text_files import json_object, read_text

__all__ = ["Source", "find_source", "read_source"]

WHAT: Final = (
    "a chat template, a tokenizer_config.json, a model directory, a GGUF file, the name of a downloaded "
    "model or the address of a server"
)
_LONGEST_PATH: Final = 4096
"""Longer than any system lets a path be."""
_LONGEST_TEXT: Final = 1 << 26
"""Of what standard input gives."""
_LONGEST_TEMPLATE: Final = 1 << 20
_SUFFIXES: Final = (".jinja", ".json", ".gguf")


def read_source(given: object) -> Source:
    """Find out what there is to know of a model.

    A ``Path`` is a path, and a mapping a tokenizer configuration.  Text is a
    template if it holds ``{{``, ``{%`` or a line break, or is longer than any
    path; any other text is what :func:`find_source` takes.
    """
    if isinstance(given, Source):
        return given
    if isinstance(given, Mapping):
        return from_config(given, "the tokenizer configuration")
    if isinstance(given, Path):
        return _from_path(given)
    if not isinstance(given, str):
        got = type(given).__name__
        raise UsageError(f"detect() takes a chat template, a tokenizer configuration or a path, got {got}")
    if is_template(given):
        return _from_text(given, "the text given", Path())
    if "\n" in given or len(given) > _LONGEST_PATH:
        raise UsageError(f"{given[:60]!r}... is {NO_TEMPLATE}")
    return find_source(given)


def find_source(text: str) -> Source:
    """What is meant by a word on the command line.

    ``-`` is standard input, and ``http://`` begins the address of a server.  Then
    paths come first: ``./name`` is never anything else.  What is no path is a
    model's name.
    """
    if text == "-":
        return from_stream(sys.stdin.buffer, "standard input")
    if is_url(text):
        return from_server(text)
    path = Path(text)
    if _is_path(path) or text.startswith("."):
        return _from_path(path)
    found = from_hub(text) or from_ollama(text)
    if found is not None:
        return found
    ollama = " or ".join(map(str, models_directories()))
    raise UsageError(
        f"{text} does not exist: there is no such path, and no such model in the Hugging Face cache "
        f"({cache_directory()}) or of Ollama ({ollama}). Download it, or give {WHAT}"
    )


def _is_path(path: Path) -> bool:
    try:
        return path.exists() or path.is_absolute() or path.suffix in _SUFFIXES
    except OSError:
        return True  # longer than names may be, say: who reads it finds out


def _from_path(path: Path) -> Source:
    try:
        if path.is_dir():
            return _from_directory(path)
        if path.is_file():
            return _from_file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}: give {WHAT}") from error
    there = "is neither a file nor a directory" if path.exists() else "does not exist"
    raise UsageError(f"{path} {there}: give {WHAT}")


def _from_file(path: Path) -> Source:
    if path.suffix.lower() not in (".gguf", ".json"):
        text = _beginning(path)
        if text is not None and (is_modelfile(text) or is_go_template(text)):
            return replace(_from_text(read_text(path), str(path), path.parent), file=path)
    return from_file(path)


def _beginning(path: Path) -> str | None:
    """The text of a file that is not larger than a template is; None: it is something else."""
    with path.open("rb") as file:
        data = file.read(_LONGEST_TEMPLATE)
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
    """What comes as bytes: a GGUF, a tokenizer configuration, or a template."""
    begin = file.read(len(MAGIC))
    if begin == MAGIC:
        return source_of(read_header(_Rest(begin, file), origin), origin)
    data = begin + file.read(_LONGEST_TEXT)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{origin} is neither UTF-8 text nor a GGUF file: give {WHAT}") from error
    if text.lstrip().startswith("{") and not text.lstrip().startswith(("{{", "{%", "{#")):
        return from_config(json_object(text, origin), origin)
    return _from_text(text, origin, Path())


def _from_text(text: str, origin: str, directory: Path) -> Source:
    """A Modelfile, or a template, of Go or of Jinja."""
    if is_modelfile(text):
        return from_modelfile(text, origin, directory)
    if is_go_template(text):
        return Source("", origin, go_template=text)
    if not is_template(text):
        raise UsageError(f"{origin} is {NO_TEMPLATE}")
    return Source(text, origin)


class _Rest:
    """A stream of which the beginning was read already."""

    def __init__(self, begin: bytes, file: BinaryIO) -> None:
        self._begin = begin
        self._file = file

    def read(self, count: int) -> bytes:
        begin, self._begin = self._begin[:count], self._begin[count:]
        return begin + self._file.read(count - len(begin)) if count > len(begin) else begin

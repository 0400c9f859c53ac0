"""Which dialect a file speaks of: a chat template, a tokenizer configuration, the header of a GGUF."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

from ..dialects._declaration import Dialect
from ..dialects._registry import get_dialect
from ..errors import UnknownDialect, UsageError
from ..models.convert.dialect_json import dialect_to_json
from ..models.detect.detect_dialect import detect_dialect
from ..models.sources import from_stream
from ..models.sources.ollama import is_modelfile
from ..models.sources.special_tokens import load_vocabulary
from .options import given


def find(request: Mapping[str, Any]) -> dict[str, Any]:
    """The dialect, and why.

    Of the request: ``text``, or ``base64`` where it is not text; ``name`` of the file.  The answer
    is what ``unspool detect --json`` prints, and ``use``: what to give as ``dialect`` to play with it.
    """
    name = given(request, "name", str, "") or "what was given"
    data = _data(request)
    if is_modelfile(data.decode(errors="replace")):
        raise UsageError(f"{name} is a Modelfile, which names other files: give the GGUF that it begins from")
    model = from_stream(BytesIO(data), name)
    found = detect_dialect(replace(model, vocabulary=load_vocabulary(model)))
    use = None if found.dialect is None else _usable(found.dialect)
    return {**found.to_dict(), "use": use, "source": model.to_dict()}


def _data(request: Mapping[str, Any]) -> bytes:
    if request.get("base64") is None:
        return given(request, "text", str, "").encode("utf-8", "surrogatepass")
    try:
        return b64decode(given(request, "base64", str, ""), validate=True)
    except binascii.Error as error:
        raise UsageError(f"base64: {error}") from error


def _usable(dialect: Dialect) -> str | dict[str, Any]:
    """Its name, if that is enough to find it again."""
    try:
        if get_dialect(dialect.name) == dialect:
            return dialect.name
    except UnknownDialect:
        pass
    return dialect_to_json(dialect)

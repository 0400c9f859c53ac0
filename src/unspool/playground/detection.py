"""Detection of the dialect of a chat template, a tokenizer configuration or a GGUF file."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

from ..dialects import Dialect, dialect_to_json, get_dialect
from ..errors import UnknownDialect, UsageError
from ..models.detection.detect_dialect import detect_dialect as detect_model_dialect
from ..models.sources import from_stream
from ..models.sources.ollama import is_modelfile
from ..models.sources.special_tokens import load_vocabulary
from .request_fields import read_field


def detect_dialect(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dialect of an uploaded file, with the evidence for it.

    The request has the field ``name`` (the file's name) and one field for the contents of the file: ``text``,
    or ``base64`` if they are binary.  The answer has the fields of ``unspool detect --json``, and the field
    ``use``, which contains the value to send as ``dialect`` in later requests.
    """
    name = read_field(request, "name", str, "") or "the file"
    data = _data(request)
    if is_modelfile(data.decode(errors="replace")):
        raise UsageError(
            f"{name} is a Modelfile, which refers to other files: pass the GGUF file that its FROM line names"
        )
    model = from_stream(BytesIO(data), name)
    detection = detect_model_dialect(replace(model, vocabulary=load_vocabulary(model)))
    use = None if detection.dialect is None else _dialect_value(detection.dialect)
    return {**detection.to_dict(), "use": use, "source": model.to_dict()}


def _data(request: Mapping[str, Any]) -> bytes:
    if request.get("base64") is None:
        return read_field(request, "text", str, "").encode("utf-8", "surrogatepass")
    encoded = read_field(request, "base64", str, "")
    try:
        return b64decode(encoded, validate=True)
    except ValueError as error:  # b64decode rejects invalid base64, and text that is not ASCII
        raise UsageError(f"the field base64 is not valid: {error}") from error


def _dialect_value(dialect: Dialect) -> str | dict[str, Any]:
    """Return the name of a dialect if it is registered, otherwise its declaration as JSON."""
    try:
        if get_dialect(dialect.name) == dialect:
            return dialect.name
    except UnknownDialect:
        pass
    return dialect_to_json(dialect)

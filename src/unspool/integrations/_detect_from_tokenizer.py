"""Dialect detection for the model that an engine or trainer has loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..dialects import Dialect
from ..errors import UsageError
from ._registered_parser_names import DETECTED

_MIN_CONFIDENCE: Final = 0.8


def detect_served_dialect(tokenizer: object, *, model_type: str = "") -> tuple[Dialect, str]:
    """Detect the dialect of the served model; return it with the most important evidence.

    The dialect is detected from the tokenizer's chat template and vocabulary.

    :raises UsageError: if the dialect is not certain; the error message suggests what to do instead.
    """
    from ..models.detection.detect_dialect import detect_dialect
    from ..models.sources import read_source

    instead = f"name it, as {DETECTED}_DIALECT (`unspool dialects` lists them)"
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        template = template.get("tool_use") or template.get("default")
    if not isinstance(template, str) or not template:
        raise UsageError(f"the model has no chat template to detect its dialect from: {instead}")
    config: dict[str, Any] = {"chat_template": template}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        token = getattr(tokenizer, name, None)
        if isinstance(token, str):
            config[name] = token
    if model_type:
        config["model_type"] = model_type
    detection = detect_dialect(read_source(config), tokenizer=tokenizer)
    if detection.dialect is None or not detection.renders_calls:
        hint = f"; its text mentions the calls of {detection.hint}" if detection.hint else ""
        raise UsageError(
            f"the model's chat template does not render tool calls in any known dialect{hint}: {instead}"
        )
    if detection.inferred:
        raise UsageError(f"no registered dialect can parse what the model's chat template renders: {instead}")
    if detection.confidence < _MIN_CONFIDENCE:
        names = ", ".join((detection.dialect.name, *detection.runners_up[:3]))
        raise UsageError(f"several dialects can parse what the chat template renders ({names}): {instead}")
    return detection.dialect, detection.evidence[0] if detection.evidence else ""

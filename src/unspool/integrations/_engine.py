"""What the plug-ins of all engines share: names, the dialect of the served model, and where problems go."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..dialects._declaration import Dialect
from ..dialects._registry import list_dialects
from ..errors import UsageError
from ..events import Diagnostic, Event

DETECTED: Final = "unspool"
"""The name that stands for whatever dialect the model's template and tokenizer show."""
REPLACE: Final = "UNSPOOL_REPLACE"
"""The environment variable with the names of the engine's own parsers that ours are to stand under."""

_SURE: Final = 0.8
"""Detection is this far ahead of the next dialect, or there is no answer."""


def offered() -> dict[str, str]:
    """The names that a plug-in adds, and the dialect that each stands for."""
    return {f"{DETECTED}_{dialect.name}": dialect.name for dialect in list_dialects()}


def _asked() -> set[str]:
    return {name.strip() for name in os.environ.get(REPLACE, "").split(",")} - {""}


def replaced(own: Iterable[str]) -> tuple[str, ...]:
    """Which of the engine's own names the user wants ours under."""
    asked = _asked()
    return tuple(name for name in own if name in asked or asked == {"all"})


def unknown(own: Iterable[str]) -> tuple[str, ...]:
    """Names that the user wants replaced and the engine does not have."""
    return tuple(sorted(_asked() - {"all", *own}))


def dialect_of_model(tokenizer: object, *, model_type: str = "") -> tuple[Dialect, str]:
    """The dialect that the served model speaks, and why; by the template and vocabulary of its tokenizer.

    :raises UsageError: with what to do instead, where it is not sure.
    """
    from ..models.detect.detect_dialect import detect_dialect
    from ..models.sources import read_source

    instead = f"name it, as {DETECTED}_DIALECT (`unspool dialects` lists them)"
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        template = template.get("tool_use") or template.get("default")
    if not isinstance(template, str) or not template:
        raise UsageError(f"the model has no chat template to find its dialect in: {instead}")
    config: dict[str, Any] = {"chat_template": template}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        token = getattr(tokenizer, name, None)
        if isinstance(token, str):
            config[name] = token
    if model_type:
        config["model_type"] = model_type
    found = detect_dialect(read_source(config), tokenizer=tokenizer)
    if found.dialect is None or not found.renders_calls:
        hint = f"; its text speaks of the calls of {found.hint}" if found.hint else ""
        raise UsageError(
            f"the model's chat template writes no tool calls that a dialect reads{hint}: {instead}"
        )
    if found.inferred:
        raise UsageError(f"no known dialect reads what the model's chat template writes: {instead}")
    if found.confidence < _SURE:
        others = ", ".join((found.dialect.name, *found.runners_up[:3]))
        raise UsageError(f"several dialects read what the model's chat template writes ({others}): {instead}")
    return found.dialect, found.evidence[0] if found.evidence else ""


class DiagnosticLog:
    """What was wrong with outputs: a line in the engine's log, and a counter among its metrics."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._counter: Any = None

    def report(self, dialect: str, notes: Iterable[Diagnostic]) -> None:
        """Log and count what an output had wrong."""
        kinds = Counter(note.kind for note in notes)
        if not kinds:
            return
        self._log.log(
            logging.WARNING if "malformed_call" in kinds else logging.INFO,
            "unspool reads %s: %s",
            dialect,
            ", ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in kinds.items()),
        )
        for kind, count in kinds.items():
            self._count(dialect, kind, count)

    def _count(self, dialect: str, kind: str, count: int) -> None:
        if self._counter is None:
            # Only now: engines prepare the client's directory before they import it.
            try:
                from prometheus_client import Counter as Metric

                self._counter = Metric(
                    "unspool_diagnostics", "What was wrong with outputs of the model", ["dialect", "kind"]
                )
            except (ImportError, ValueError, OSError):
                self._counter = False
        if self._counter:
            self._counter.labels(dialect, kind).inc(count)


def notes_in(events: Iterable[Event]) -> list[Diagnostic]:
    """The notes among the events."""
    return [event for event in events if isinstance(event, Diagnostic)]

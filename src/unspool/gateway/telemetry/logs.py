"""Structured logging: one line per event, as JSON or as text."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ..._core.terminal_escaping import visible
from ..settings import Settings, unknown_variables

LOGGER: Final = logging.getLogger("unspool.gateway")
MAX_MESSAGE: Final = 4000
"""Maximum length in characters of a logged value or of an error message to a client.

Logged values and error messages may contain names of any length from a client's request.
"""
_MAX_TRACEBACK: Final = 20_000
"""Maximum length in characters of a logged traceback."""


class _JsonFormatter(logging.Formatter):
    """Formatter that writes each event as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_clipped_fields(record),
        }
        if record.exc_info:
            fields["exception"] = clip(self.formatException(record.exc_info), _MAX_TRACEBACK)
        return visible(json.dumps(fields, ensure_ascii=False, default=str))


class _TextFormatter(logging.Formatter):
    """Formatter that writes each event as one line of ``name=value`` pairs, for terminals."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _clipped_fields(record).items())
        fields = visible(fields).replace("\n", "\\u000a")  # a value must not imitate a log line
        time = self.formatTime(record, "%H:%M:%S")
        line = f"{time} {record.levelname.lower():7} {record.getMessage()}{fields}"
        if not record.exc_info:
            return line
        return f"{line}\n{visible(clip(self.formatException(record.exc_info), _MAX_TRACEBACK))}"


def clip(text: str, limit: int = MAX_MESSAGE) -> str:
    """Return ``text``; if it is longer than ``limit``, return its first characters and its length."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _clipped_fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return {name: clip(value) if isinstance(value, str) else value for name, value in fields.items()}


class _StderrHandler(logging.Handler):
    """Handler that looks up ``sys.stderr`` for every line, because the stream may be replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - a failure to log must not end a request
            self.handleError(record)


def set_up(settings: Settings) -> None:
    """Configure the gateway's logger."""
    handler = _StderrHandler()
    log_format = settings.log_format
    use_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    handler.setFormatter(_TextFormatter() if use_text else _JsonFormatter())
    LOGGER.handlers = [handler]
    LOGGER.setLevel(settings.log_level.upper())
    LOGGER.propagate = False


def warn_about_variables(environment: Mapping[str, str]) -> None:
    """Log a warning for each variable of the environment that looks like a misspelt setting."""
    for name, reason in unknown_variables(environment).items():
        log(logging.WARNING, "variable_ignored", name=name, reason=reason)


def log(level: int, event: str, **fields: object) -> None:
    """Log an event.

    :param event: a stable key in snake case.
    """
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": fields})


@lru_cache(maxsize=256)
def log_once(event: str, reason: str) -> None:
    """Log a warning once per reason, so that it is not repeated for every request."""
    log(logging.WARNING, event, reason=reason)

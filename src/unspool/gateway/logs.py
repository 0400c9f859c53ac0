"""Structured logs: a line per request, without what anybody wrote."""

from __future__ import annotations

import json
import logging
import sys
from functools import lru_cache
from typing import Final

from .settings import Settings

LOGGER: Final = logging.getLogger("unspool.gateway")


class _Json(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


class _Plain(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in getattr(record, "fields", {}).items())
        when = self.formatTime(record, "%H:%M:%S")
        line = f"{when} {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Stderr(logging.Handler):
    """Writes to what is standard error at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - a log must not stop what it is about
            self.handleError(record)


def set_up(settings: Settings) -> None:
    """Log as the settings say."""
    handler = _Stderr()
    form = settings.log_format
    plain = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler.setFormatter(_Plain() if plain else _Json())
    LOGGER.handlers = [handler]
    LOGGER.setLevel(settings.log_level.upper())
    LOGGER.propagate = False


def log(level: int, event: str, **fields: object) -> None:
    """Write a line."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": fields})


@lru_cache(maxsize=256)
def log_once(event: str, reason: str) -> None:
    """Warn of something that every request of a client would repeat."""
    log(logging.WARNING, event, reason=reason)

"""Structured logs: a line per request, without what anybody wrote."""

from __future__ import annotations

import json
import logging
import sys
from functools import lru_cache
from typing import Final

from ..._core.escape_controls import visible
from ..http.errors import clipped
from ..settings import Settings

LOGGER: Final = logging.getLogger("unspool.gateway")
_LONGEST_TRACEBACK: Final = 20_000


class _Json(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_bounded(record),
        }
        if record.exc_info:
            fields["exception"] = clipped(self.formatException(record.exc_info), _LONGEST_TRACEBACK)
        return visible(json.dumps(fields, ensure_ascii=False, default=str))


class _Plain(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _bounded(record).items())
        fields = visible(fields).replace("\n", "\\u000a")  # a value must not look like a line of the log
        when = self.formatTime(record, "%H:%M:%S")
        line = f"{when} {record.levelname.lower():7} {record.getMessage()}{fields}"
        if not record.exc_info:
            return line
        return f"{line}\n{visible(clipped(self.formatException(record.exc_info), _LONGEST_TRACEBACK))}"


def _bounded(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a line, none of them longer than anybody reads."""
    fields: dict[str, object] = getattr(record, "fields", {})
    return {name: clipped(value) if isinstance(value, str) else value for name, value in fields.items()}


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

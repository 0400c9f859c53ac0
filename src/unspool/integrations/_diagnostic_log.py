"""Reporting of diagnostics to the engine's log and to a Prometheus counter."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..events import Diagnostic, Event


class DiagnosticLog:
    """Writer of diagnostics to the engine's log and metrics."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._counter: Any = None  # created for the first diagnostic; False without a Prometheus client

    def report(self, dialect: str, diagnostics: Iterable[Diagnostic]) -> None:
        """Log and count the diagnostics of one output."""
        kinds = Counter(diagnostic.kind for diagnostic in diagnostics)
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
            # Engines configure the Prometheus client's directory before they import the client, so the
            # plug-in must not import it earlier.
            try:
                from prometheus_client import Counter as Metric

                self._counter = Metric(
                    "unspool_diagnostics", "Diagnostics of model outputs, by kind", ["dialect", "kind"]
                )
            except (ImportError, ValueError, OSError):
                self._counter = False
        if self._counter:
            self._counter.labels(dialect, kind).inc(count)


def diagnostics_in(events: Iterable[Event]) -> list[Diagnostic]:
    """Return the diagnostics among the events."""
    return [event for event in events if isinstance(event, Diagnostic)]

"""Metrics in Prometheus' text format.

A metric is a dictionary from labels to numbers.  Only one thread updates the metrics, so there are
no locks.  With several workers, each worker sends its numbers as a snapshot, and the worker that
receives a request for ``/metrics`` adds up the snapshots.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_CHARACTERS: Final = (0.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0, 65536.0)

Snapshot: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""Metrics of one process, under the keys ``counters`` and ``gauges``.  Each key has a dictionary from metric
names to metrics.
"""
EMPTY: Final[Snapshot] = {"counters": {}, "gauges": {}}
_SEPARATOR: Final = "\x1f"
"""Separator between labels in a snapshot."""


class Counter:
    """Metric that only increases, with one number for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:  # noqa: A002 - Prometheus' word
        self.name = name
        self.help = help
        self._labels = tuple(labels)
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Add an amount to the number for a combination of labels."""
        self._values[labels] = self._values.get(labels, 0.0) + amount

    def value(self, *labels: str) -> float:
        """Return the number for a combination of labels."""
        return self._values.get(labels, 0.0)

    def state(self) -> dict[str, float]:
        """Return the metric's numbers in the form that snapshots contain."""
        return {_SEPARATOR.join(labels): number for labels, number in self._values.items()}

    def merge(self, state: Mapping[str, float]) -> None:
        """Add the metric's numbers from a snapshot."""
        for labels, number in state.items():
            self.add(*(labels.split(_SEPARATOR) if self._labels else ()), amount=number)

    def lines(self) -> Iterator[str]:
        """Yield the metric's lines in the text format."""
        for values, number in self._values.items():
            yield f"{self.name}{_format_labels(self._labels, values)} {_format_number(number)}"


class Gauge(Counter):
    """Metric that can increase and decrease."""

    kind = "gauge"

    def put(self, value: float, *labels: str) -> None:
        """Set the number for a combination of labels."""
        self._values[labels] = value


class MinGauge(Gauge):
    """Gauge that reports the smallest value of all processes."""

    def merge(self, state: Mapping[str, float]) -> None:
        """For each combination of labels, keep the smaller number: the metric's or the snapshot's."""
        for labels, number in state.items():
            key = tuple(labels.split(_SEPARATOR))
            self._values[key] = min(number, self._values.get(key, number))


class Histogram:
    """Metric that counts values in buckets by size, for each combination of labels."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        help: str,  # noqa: A002 - Prometheus' word
        bounds: Sequence[float],
        labels: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.help = help
        self._bounds = tuple(bounds)
        self._labels = tuple(labels)
        self._values: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}
        """Per combination of labels: the counts per bucket, and a list whose only element is the sum of
        all values.
        """

    def observe(self, value: float, *labels: str) -> None:
        """Add one value."""
        counts, total = self._values.setdefault(labels, ([0] * (len(self._bounds) + 1), [0.0]))
        counts[bisect_left(self._bounds, value)] += 1
        total[0] += value

    def state(self) -> dict[str, list[float]]:
        """Return the metric's numbers in the form that snapshots contain."""
        return {
            _SEPARATOR.join(labels): [*counts, total[0]] for labels, (counts, total) in self._values.items()
        }

    def merge(self, state: Mapping[str, Sequence[float]]) -> None:
        """Add the metric's numbers from a snapshot."""
        for labels, (*counts, total) in state.items():
            key = tuple(labels.split(_SEPARATOR)) if self._labels else ()
            own, sums = self._values.setdefault(key, ([0] * (len(self._bounds) + 1), [0.0]))
            own[:] = [int(mine + more) for mine, more in zip(own, counts, strict=True)]
            sums[0] += total

    def lines(self) -> Iterator[str]:
        """Yield the metric's lines in the text format; the count of a bucket includes all smaller buckets."""
        names = (*self._labels, "le")
        for values, (counts, total) in self._values.items():
            seen = 0
            for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
                seen += count
                yield f"{self.name}_bucket{_format_labels(names, (*values, _format_number(bound)))} {seen}"
            yield f"{self.name}_sum{_format_labels(self._labels, values)} {_format_number(total[0])}"
            yield f"{self.name}_count{_format_labels(self._labels, values)} {seen}"


def _format_labels(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _format_number(value: float) -> str:
    if math.isinf(value):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


class Metrics:
    """All metrics of a gateway."""

    def __init__(self) -> None:
        self.requests = Counter(
            "unspool_requests_total", "Requests by API and HTTP status.", ("api", "status")
        )
        self.ended = Counter(
            "unspool_outputs_total", "Finished outputs by API and finish reason.", ("api", "finish_reason")
        )
        self.active = Gauge("unspool_requests_active", "Generations in progress.")
        self.tokens = Counter(
            "unspool_tokens_total", "Tokens by kind: prompt, completion or reasoning.", ("kind",)
        )
        self.first_delta = Histogram(
            "unspool_time_to_first_delta_seconds",
            "Time from the request to the first text or tool call.",
            _SECONDS,
            ("api",),
        )
        self.duration = Histogram(
            "unspool_request_seconds", "Time from the request to the end of the response.", _SECONDS, ("api",)
        )
        self.outcomes = Counter(
            "unspool_parse_outcomes_total",
            "Tool calls by status, and diagnostics by kind.",
            ("dialect", "outcome"),
        )
        self.unread_calls = Counter(
            "unspool_unread_calls_total", "Texts that look like tool calls, but are not calls.", ("model",)
        )
        self.held = Histogram(
            "unspool_held_back_characters",
            "Largest number of characters that the parser held back in one output.",
            _CHARACTERS,
            ("dialect",),
        )
        self.upstream_up = MinGauge(
            "unspool_upstream_up",
            "1 if this upstream gets requests, 0 if it is paused; only for models with several upstreams.",
            ("model", "url"),
        )
        self.upstream_errors = Counter(
            "unspool_upstream_errors_total", "Upstream failures by error code.", ("code",)
        )
        self.connections_refused = Counter(
            "unspool_connections_refused_total", "Connections refused or dropped, by reason.", ("why",)
        )
        self.clients_gone = Counter(
            "unspool_clients_gone_total", "Clients that disconnected before the end of the response."
        )

    def snapshot(self) -> Snapshot:
        """Return the numbers of all metrics as a snapshot, which another process can merge."""
        out: Snapshot = {"counters": {}, "gauges": {}}
        for metric in vars(self).values():
            out["gauges" if isinstance(metric, Gauge) else "counters"][metric.name] = metric.state()
        return out

    def text(self, others: Sequence[Snapshot] = ()) -> str:
        """Return all metrics in Prometheus' text format, as the response to ``/metrics``.

        :param others: snapshots from other processes, which are added to the numbers of this process.
        """
        total = self
        if others:
            total = Metrics()
            for numbers in (self.snapshot(), *others):
                for metric in vars(total).values():
                    kind = "gauges" if isinstance(metric, Gauge) else "counters"
                    metric.merge(numbers[kind].get(metric.name, {}))
        lines: list[str] = []
        for metric in vars(total).values():
            lines += (f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}")
            lines += metric.lines()
        return "\n".join(lines) + "\n"


def add_counters(first: Snapshot, second: Snapshot) -> Snapshot:
    """Return a snapshot that contains the sums of two snapshots' counters, but no gauges."""
    total = Metrics()
    for metric in vars(total).values():
        for numbers in (first, second):
            metric.merge(numbers["counters"].get(metric.name, {}))
    return {"counters": total.snapshot()["counters"], "gauges": {}}

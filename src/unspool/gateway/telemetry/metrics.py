"""Metrics in the format of Prometheus.

Counters, gauges and histograms are a dictionary each: the gateway runs in one
thread, so there is nothing to lock.  Where it runs in several processes, each gives
its numbers as a snapshot, and whoever is asked adds them up.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
Snapshot: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""The numbers of a process: counters and gauges, by name and labels."""
NOTHING: Final[Snapshot] = {"counters": {}, "gauges": {}}
_BETWEEN: Final = "\x1f"
"""Between the labels of a number, in a snapshot."""

_CHARACTERS: Final = (0.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0, 65536.0)


class Counter:
    """A number for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.about = about
        self._labels = tuple(labels)
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Count."""
        self._values[labels] = self._values.get(labels, 0.0) + amount

    def value(self, *labels: str) -> float:
        """The number for these labels."""
        return self._values.get(labels, 0.0)

    def state(self) -> dict[str, float]:
        """Its numbers, for a snapshot."""
        return {_BETWEEN.join(labels): number for labels, number in self._values.items()}

    def take(self, state: Mapping[str, float]) -> None:
        """Add the numbers of a snapshot."""
        for labels, number in state.items():
            self.add(*(labels.split(_BETWEEN) if self._labels else ()), amount=number)

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it."""
        for values, number in self._values.items():
            yield f"{self.name}{_labelled(self._labels, values)} {_number(number)}"


class Gauge(Counter):
    """A number that may fall."""

    kind = "gauge"

    def put(self, value: float, *labels: str) -> None:
        """Set the number for these labels."""
        self._values[labels] = value


class Least(Gauge):
    """A gauge of which all processes together have the least value of any."""

    def take(self, state: Mapping[str, float]) -> None:
        """Take the numbers of a snapshot, where they are less."""
        for labels, number in state.items():
            key = tuple(labels.split(_BETWEEN))
            self._values[key] = min(number, self._values.get(key, number))


class Histogram:
    """How often a value was how large."""

    kind = "histogram"

    def __init__(self, name: str, about: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self.name = name
        self.about = about
        self._bounds = tuple(bounds)
        self._labels = tuple(labels)
        self._values: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Take a value."""
        counts, total = self._values.setdefault(labels, ([0] * (len(self._bounds) + 1), [0.0]))
        counts[bisect_left(self._bounds, value)] += 1
        total[0] += value

    def state(self) -> dict[str, list[float]]:
        """Its numbers, for a snapshot."""
        return {
            _BETWEEN.join(labels): [*counts, total[0]] for labels, (counts, total) in self._values.items()
        }

    def take(self, state: Mapping[str, Sequence[float]]) -> None:
        """Add the numbers of a snapshot."""
        for labels, (*counts, total) in state.items():
            key = tuple(labels.split(_BETWEEN)) if self._labels else ()
            own, sums = self._values.setdefault(key, ([0] * (len(self._bounds) + 1), [0.0]))
            own[:] = [int(mine + more) for mine, more in zip(own, counts, strict=True)]
            sums[0] += total

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it."""
        names = (*self._labels, "le")
        for values, (counts, total) in self._values.items():
            seen = 0
            for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
                seen += count
                yield f"{self.name}_bucket{_labelled(names, (*values, _number(bound)))} {seen}"
            yield f"{self.name}_sum{_labelled(self._labels, values)} {_number(total[0])}"
            yield f"{self.name}_count{_labelled(self._labels, values)} {seen}"


def _labelled(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


class Metrics:
    """Everything that a gateway counts."""

    def __init__(self) -> None:
        self.requests = Counter(
            "unspool_requests_total", "Requests by API and HTTP status", ("api", "status")
        )
        self.ended = Counter(
            "unspool_outputs_total", "Outputs by API and how they ended", ("api", "finish_reason")
        )
        self.active = Gauge("unspool_requests_active", "Requests being answered")
        self.tokens = Counter("unspool_tokens_total", "Tokens by kind", ("kind",))
        self.first_delta = Histogram(
            "unspool_time_to_first_delta_seconds",
            "From the request to the first text or call",
            _SECONDS,
            ("api",),
        )
        self.duration = Histogram(
            "unspool_request_seconds", "From the request to the end", _SECONDS, ("api",)
        )
        self.outcomes = Counter(
            "unspool_parse_outcomes_total",
            "Calls by how they ended, and notes about outputs, by dialect",
            ("dialect", "outcome"),
        )
        self.held = Histogram(
            "unspool_held_back_characters",
            "The most that was held back in one output",
            _CHARACTERS,
            ("dialect",),
        )
        self.upstream_up = Least(
            "unspool_upstream_up",
            "Whether requests are sent to it, for each of a model's several upstreams",
            ("model", "url"),
        )
        self.upstream_errors = Counter("unspool_upstream_errors_total", "Failures of the upstream", ("code",))
        self.connections_refused = Counter(
            "unspool_connections_refused_total", "Connections that were not let in, or given up", ("why",)
        )
        self.clients_gone = Counter("unspool_clients_gone_total", "Clients that left before the end")

    def snapshot(self) -> Snapshot:
        """The numbers, to be added to those of other processes."""
        out: Snapshot = {"counters": {}, "gauges": {}}
        for metric in vars(self).values():
            out["gauges" if isinstance(metric, Gauge) else "counters"][metric.name] = metric.state()
        return out

    def text(self, others: Sequence[Snapshot] = ()) -> str:
        """The page.

        :param others: what other processes counted.
        """
        shown = self
        if others:
            shown = Metrics()
            for numbers in (self.snapshot(), *others):
                for metric in vars(shown).values():
                    kind = "gauges" if isinstance(metric, Gauge) else "counters"
                    metric.take(numbers[kind].get(metric.name, {}))
        lines: list[str] = []
        for metric in vars(shown).values():
            lines += (f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}")
            lines += metric.lines()
        return "\n".join(lines) + "\n"


def added(one: Snapshot, other: Snapshot) -> Snapshot:
    """The counters of two snapshots in one."""
    total = Metrics()
    for metric in vars(total).values():
        for numbers in (one, other):
            metric.take(numbers["counters"].get(metric.name, {}))
    return {"counters": total.snapshot()["counters"], "gauges": {}}

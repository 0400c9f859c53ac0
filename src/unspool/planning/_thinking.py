"""The thinking switches of a request, in whatever spelling, as one wish.

Clients spell the same wish in many ways: ``enable_thinking``, ``thinking``, an
object with a type, a word, a number, an effort, a budget.  Templates read one
or two of them.  Here they become one answer, and the variables that make the
family's template agree with it.  What a family has no ear for is an error that
says which switch it listens to: a switch that does nothing is worse than none.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..dialects._request_facts import BOOLEANS, SWITCHES, Thinking
from ..errors import UsageError

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_WORDS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on", "enabled"), True),
    **dict.fromkeys(("false", "0", "no", "off", "disabled"), False),
}
_TELLING: Final = re.compile("think|reason|effort")
_PASSED: Final = frozenset(
    {
        "add_thoughts",
        "clear_thinking",
        "drop_thinking",
        "interleaved_thinking",
        "keep_past_thinking",
        "low_effort",
        "preserve_thinking",
        "preserved_thinking",
        "skip_thinking",
        "strip_thinking",
        "think_render_option",
        "truncate_history_thinking",
    }
)
"""Variables that are about the reasoning of earlier turns, or its depth; not ours to judge."""
_OURS: Final = frozenset({"force_nonempty_content"})


@dataclass(frozen=True, slots=True)
class ThinkingRequest:
    """What a request says about reasoning."""

    on: bool | None
    """Whether it is to reason; None: it does not say, or leaves it to the model."""
    said: str
    """In which words; empty: in none."""
    kwargs: dict[str, object]
    """The template's variables, with the switches in the family's own spelling."""
    nonempty: bool
    """``force_nonempty_content``."""
    warnings: tuple[str, ...]


def read_switches(
    family: str, thinking: Thinking, request: Mapping[str, object], defaults: Mapping[str, object]
) -> ThinkingRequest:
    """What the request wants, and what the template must be told.

    :param defaults: template variables of the deployment; its switches count only
        where the request has none.
    """
    warnings: list[str] = []
    given = _given(request, thinking, warnings)
    said = [key for key in (*SWITCHES, thinking.effort_name) if key in given]
    kwargs = {key: value for key, value in defaults.items() if not (said and key in SWITCHES)}
    kwargs.update(given)
    return _Reader(family, thinking, kwargs, warnings).wish()


def _given(request: Mapping[str, object], thinking: Thinking, warnings: list[str]) -> dict[str, object]:
    """The template variables of the request; switches at its top level count as such."""
    given: dict[str, object] = {}
    sources: dict[str, str] = {}
    for source in ("chat_template_kwargs", "chat_template_args"):
        found = request.get(source)
        if found is None:
            continue
        if not isinstance(found, Mapping):
            raise UsageError(f"{source} is a {type(found).__name__}; pass an object of template variables")
        for key, value in found.items():
            _add(given, sources, str(key), value, source)
    for key in SWITCHES:
        value = request.get(key)
        if key == "reasoning" and isinstance(value, Mapping):
            _add_reasoning(given, sources, value)
        elif key == "thinking" and isinstance(value, Mapping):
            _add_thinking(given, sources, value, thinking)
            if value.get("budget_tokens") is not None and "thinking_budget" not in thinking.switches:
                warnings.append("thinking.budget_tokens is not enforced: there is no such switch")
        else:
            _add(given, sources, key, value, "the request")
    for key in request:
        if key in SWITCHES or request[key] is None or not _TELLING.search(str(key)):
            continue
        # Other fields of engines have to do with reasoning, too.
        near = difflib.get_close_matches(str(key), SWITCHES, n=1, cutoff=0.9)
        if near:
            raise UsageError(f"unknown thinking switch {key!r}: did you mean {near[0]}?")
    return given


def _add(given: dict[str, object], sources: dict[str, str], key: str, value: object, source: str) -> None:
    if value is None:  # Pydantic dumps absent fields as None.
        return
    if key in given and _plain(given[key]) != _plain(value):
        raise UsageError(
            f"{sources[key]} says {key}={given[key]!r} and {source} says {key}={value!r}: keep one of them"
        )
    given[key] = value
    sources[key] = source


def _plain(value: object) -> object:
    """A value by which two spellings of the same are equal."""
    if isinstance(value, str):
        return _WORDS.get(value.lower(), value.lower())
    return bool(value) if value in (0, 1) else value


def _add_reasoning(given: dict[str, object], sources: dict[str, str], value: Mapping[str, object]) -> None:
    """``reasoning: {"effort": ..., "enabled": ...}``."""
    unknown = sorted(set(map(str, value)) - {"effort", "enabled", "exclude", "summary", "generate_summary"})
    if unknown:
        raise UsageError(f"reasoning has unknown keys {', '.join(unknown)}: use effort, enabled or exclude")
    _add(given, sources, "reasoning_effort", value.get("effort"), "reasoning.effort")
    _add(given, sources, "thinking", value.get("enabled"), "reasoning.enabled")


def _add_thinking(
    given: dict[str, object], sources: dict[str, str], value: Mapping[str, object], thinking: Thinking
) -> None:
    """``thinking: {"type": "enabled"}``."""
    kind = value.get("type")
    if kind not in ("enabled", "disabled", "adaptive"):
        raise UsageError(f"thinking.type={kind!r}: choose one of enabled, disabled, adaptive")
    budget = value.get("budget_tokens")
    if kind == "adaptive":
        # The model decides, which is what most families do that nobody tells anything.
        if kind in dict(thinking.modes):
            _add(given, sources, "thinking_mode", kind, "thinking.type")
        elif thinking.default == "off":
            _add(given, sources, "thinking", True, "thinking.type")
    elif "thinking_budget" in thinking.switches:
        _add(given, sources, "thinking_budget", 0 if kind == "disabled" else budget, "thinking")
    else:
        _add(given, sources, "thinking", kind == "enabled", "thinking.type")


def near_efforts(word: object) -> tuple[str, ...]:
    """Words for an effort that are nearest to this one; none that would switch reasoning off.

    >>> near_efforts("max")[:2]
    ('xhigh', 'high')
    """
    if word not in _EFFORTS:
        return ()
    at = _EFFORTS.index(str(word))
    others = [other for other in _EFFORTS[1:] if other != word]
    return tuple(sorted(others, key=lambda other: abs(_EFFORTS.index(other) - at)))


class _Reader:
    """One request being read."""

    def __init__(
        self, family: str, thinking: Thinking, kwargs: dict[str, object], warnings: list[str]
    ) -> None:
        self.family = family
        self.thinking = thinking
        self.kwargs = kwargs
        self.on: bool | None = None
        self.said = ""
        self.warnings = warnings

    def wish(self) -> ThinkingRequest:
        for key in self.kwargs:
            self.check_known(key)
        nonempty = self.kwargs.get("force_nonempty_content", False)
        self.read_booleans()
        adaptive = self.read_mode()
        self.read_budget()
        self.read_effort(adaptive)
        on = self.on
        if on is None and self.thinking.written and not adaptive:
            on = True
        self.write(on)
        return ThinkingRequest(
            on=self.on,
            said=self.said,
            kwargs=self.kwargs,
            nonempty=self.boolean("force_nonempty_content", nonempty),
            warnings=tuple(self.warnings),
        )

    # -- what there is

    def check_known(self, key: str) -> None:
        known = (*SWITCHES, self.thinking.effort_name)
        passed = key in _PASSED or key in self.thinking.passes
        if key in known or passed or key in _OURS or not _TELLING.search(key):
            return
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else self.listens_to()
        raise UsageError(
            f"unknown thinking switch {key!r}: {hint} "
            "(if the template does read it, list it in the family's thinking.passes)"
        )

    def listens_to(self) -> str:
        """What to send instead."""
        thinking = self.thinking
        if thinking.default == "n/a":
            return f"{self.family} does not reason; leave it out"
        if thinking.default == "always":
            depth = f"; {thinking.effort_name} sets how much" if thinking.switches else ""
            return f"{self.family} always reasons{depth}; leave it out"
        if not thinking.switches:
            return f"{self.family} has no switch, the model decides; leave it out"
        return f"{self.family} listens to {', '.join(thinking.switches)}"

    def boolean(self, key: str, value: object) -> bool:
        if isinstance(value, str):
            word = _WORDS.get(value.strip().lower())
            if word is not None:
                return word
        elif isinstance(value, (bool, int, float)):
            return value != 0
        raise UsageError(f"{key}={value!r}: choose true or false")

    def decide(self, on: bool | None, said: str) -> None:
        """The first word counts; one that contradicts it is refused."""
        if self.said and on is not None and self.on is not None and on != self.on:
            raise UsageError(f"{self.said} and {said} contradict each other: keep one of them")
        if not self.said:
            self.on, self.said = on, said

    # -- switch by switch

    def read_booleans(self) -> None:
        for key in BOOLEANS:
            if key not in self.kwargs:
                continue
            value = self.kwargs[key]
            if isinstance(value, str) and value.lower() == "adaptive":
                self.kwargs.pop(key)
                self.kwargs.setdefault("thinking_mode", value)
                continue
            on = self.boolean(key, value)
            if not self.possible(on, any(name in self.thinking.switches for name in BOOLEANS)):
                raise UsageError(f"{key}={str(on).lower()} has no effect: {self.listens_to()}")
            self.decide(on, f"{key}={str(on).lower()}")

    def possible(self, on: bool, switched: bool) -> bool:
        """Whether the family can do as it is told, or does so anyway."""
        default = self.thinking.default
        if default == "n/a":
            return not on
        return (switched and default != "always") or (default == "always" and on)

    def read_mode(self) -> bool:
        """``thinking_mode``; whether the model decides."""
        if "thinking_mode" not in self.kwargs:
            return False
        word = str(self.kwargs["thinking_mode"]).strip().lower()
        modes: dict[str, bool | None] = {"enabled": True, "disabled": False, **dict(self.thinking.modes)}
        if word not in modes:
            raise UsageError(
                f"thinking_mode={word!r}: {self.family} knows {', '.join(sorted(modes))}; {self.listens_to()}"
            )
        on = modes[word]
        said = f"thinking_mode={word}"
        if self.said:
            if on is not None and on != self.on:
                self.warnings.append(f"{self.said} wins over {said}")
            return False
        if on is not None and not self.possible(on, bool(self.thinking.switches)):
            raise UsageError(f"{said} has no effect: {self.listens_to()}")
        self.decide(on, said)
        return on is None

    def read_budget(self) -> None:
        value = self.kwargs.get("thinking_budget")
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"thinking_budget={value!r}: a number of tokens, 0 for none, -1 for no limit")
        if "thinking_budget" not in self.thinking.switches:
            raise UsageError(f"thinking_budget={value} has no effect: {self.listens_to()}")
        self.decide(value != 0, f"thinking_budget={value}")

    def read_effort(self, adaptive: bool) -> None:
        thinking = self.thinking
        name = thinking.effort_name
        efforts = {key: self.kwargs[key] for key in ("reasoning_effort", name) if key in self.kwargs}
        if not efforts:
            return
        words = {key: self.effort(key, value) for key, value in efforts.items()}
        if len(set(words.values())) > 1:
            spelt = " and ".join(f"{key}={value!r}" for key, value in efforts.items())
            raise UsageError(f"{spelt} contradict each other: keep one of them")
        key, value = next(iter(efforts.items()))
        said = f"{key}={value}"
        off = str(value).strip().lower() in thinking.effort_off or value == 0
        heard = "reasoning_effort" in thinking.switches or any(n in thinking.switches for n in BOOLEANS)
        if not self.possible(not off, heard) or not (heard or off):
            raise UsageError(f"{said} has no effect: {self.listens_to()}")
        if self.said and self.on is False and not off:
            self.warnings.append(f"{self.said} wins over {said}")
        elif not adaptive:
            self.decide(not off, said)
        for spelling in ("reasoning_effort", name):
            self.kwargs[spelling] = words[key]

    def effort(self, key: str, value: object) -> object:
        """The effort as the template knows it."""
        thinking = self.thinking
        words = dict(thinking.efforts) or {word: word for word in _EFFORTS}
        if isinstance(value, str) and value.strip().lower() in words:
            return words[value.strip().lower()]
        bounds = thinking.numeric_effort
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if bounds is not None and number and bounds[0] <= float(str(value)) <= bounds[1]:
            return value
        numbers = "" if bounds is None else f", or a number from {bounds[0]:g} to {bounds[1]:g}"
        raise UsageError(f"{key}={value!r}: {self.family} takes {', '.join(words)}{numbers}")

    # -- what the template is told

    def write(self, on: bool | None) -> None:
        thinking = self.thinking
        if on is not None:
            if "thinking" in thinking.switches or "enable_thinking" in thinking.switches:
                self.kwargs["thinking"] = self.kwargs["enable_thinking"] = on
            if "reasoning" in thinking.switches:
                self.kwargs["reasoning"] = on
            words = {value: word for word, value in thinking.modes}
            if on in words and ("enabled" in words.values() or "thinking_mode" in self.kwargs):
                self.kwargs["thinking_mode"] = words[on]
        elif "thinking_mode" in self.kwargs:
            self.kwargs["thinking_mode"] = str(self.kwargs["thinking_mode"]).strip().lower()

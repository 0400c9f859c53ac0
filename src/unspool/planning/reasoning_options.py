"""Reader of the options for reasoning in a request: switches, efforts and budgets.

Clients turn reasoning on or off in many ways: ``enable_thinking``, ``thinking``,
``reasoning`` or ``thinking_mode``, an effort, or a token budget.  A chat template
reads one or two of these.  ``read_reasoning_options`` reduces them to one decision,
and sets the variables that the family's template reads.

An option that the family does not support is an error, because otherwise the client would
not notice that the option has no effect.  The error names the supported options.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..dialects import BOOLEANS, SWITCHES, Thinking
from ..errors import UsageError

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_WORDS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on", "enabled"), True),
    **dict.fromkeys(("false", "0", "no", "off", "disabled"), False),
}
_LOOKS_LIKE_OPTION: Final = re.compile("think|reason|effort")
_OTHER_VARIABLES: Final = frozenset(
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
"""Template variables for reasoning that are passed on unchecked, because they do not turn it on or off.

They affect how long the model reasons, or how the template renders the reasoning of earlier turns.
"""
_OWN_OPTIONS: Final = frozenset({"force_nonempty_content"})


@dataclass(frozen=True, slots=True)
class ReasoningOptions:
    """A request's options for reasoning, reduced to one decision."""

    on: bool | None
    """True if the request turns reasoning on, False if it turns reasoning off, otherwise None."""
    source: str
    """The option that made the decision, such as ``enable_thinking=false``; empty if there is none."""
    kwargs: dict[str, object]
    """The template variables, including the options that this family's template reads."""
    force_nonempty_content: bool
    warnings: tuple[str, ...]


def read_reasoning_options(
    family: str, thinking: Thinking, request: Mapping[str, object], defaults: Mapping[str, object]
) -> ReasoningOptions:
    """Return a request's options for reasoning as one decision, with variables for the family's template.

    :param defaults: the deployment's default template variables; reasoning options among them apply only if
        the request has none.
    """
    warnings: list[str] = []
    variables = _Variables()
    variables.read(request, thinking, warnings)
    has_option = any(key in variables.values for key in (*SWITCHES, thinking.habits.effort_name))
    kwargs = {key: value for key, value in defaults.items() if not (has_option and key in SWITCHES)}
    kwargs.update(variables.values)
    return _OptionReader(family, thinking, kwargs, warnings).read()


class _Variables:
    """Template variables of a request, including the reasoning options among its top-level fields."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self._sources: dict[str, str] = {}

    def read(self, request: Mapping[str, object], thinking: Thinking, warnings: list[str]) -> None:
        """Collect the template variables from all fields of a request that may contain such variables."""
        for source in ("chat_template_kwargs", "chat_template_args"):
            variables = request.get(source)
            if variables is None:
                continue
            if not isinstance(variables, Mapping):
                raise UsageError(
                    f"{source} is a {type(variables).__name__}; pass an object of template variables"
                )
            for key, value in variables.items():
                self._add(str(key), value, source)
        for key in SWITCHES:
            value = request.get(key)
            if key == "reasoning" and isinstance(value, Mapping):
                self._add_reasoning(value)
            elif key == "thinking" and isinstance(value, Mapping):
                self._add_thinking(value, thinking)
                if value.get("budget_tokens") is not None and "thinking_budget" not in thinking.switches:
                    warnings.append("thinking.budget_tokens is not enforced: the model has no such option")
            else:
                self._add(key, value, "the request")
        self._check_spelling(request)

    def _check_spelling(self, request: Mapping[str, object]) -> None:
        # Engines have reasoning fields that unspool does not know.  So an unknown field is an error only if
        # its name resembles a known name.
        for key in request:
            if key in SWITCHES or request[key] is None or not _LOOKS_LIKE_OPTION.search(str(key)):
                continue
            near = difflib.get_close_matches(str(key), SWITCHES, n=1, cutoff=0.9)
            if near:
                raise UsageError(f"unknown reasoning option {key!r}: did you mean {near[0]}?")

    def _add(self, key: str, value: object, source: str) -> None:
        if value is None:  # Pydantic dumps absent fields as None.
            return
        if key in self.values and _normal(self.values[key]) != _normal(value):
            raise UsageError(
                f"{self._sources[key]} sets {key}={self.values[key]!r} and {source} sets {key}={value!r}: "
                "remove one of them"
            )
        self.values[key] = value
        self._sources[key] = source

    def _add_reasoning(self, value: Mapping[str, object]) -> None:
        """Add ``reasoning: {"effort": ..., "enabled": ...}``."""
        allowed = {"effort", "enabled", "exclude", "summary", "generate_summary"}
        unknown = sorted(set(map(str, value)) - allowed)
        if unknown:
            raise UsageError(
                f"reasoning has unknown keys {', '.join(unknown)}: use effort, enabled or exclude"
            )
        self._add("reasoning_effort", value.get("effort"), "reasoning.effort")
        self._add("thinking", value.get("enabled"), "reasoning.enabled")

    def _add_thinking(self, value: Mapping[str, object], thinking: Thinking) -> None:
        """Add ``thinking: {"type": "enabled", "budget_tokens": ...}``."""
        kind = value.get("type")
        if kind not in ("enabled", "disabled", "adaptive"):
            raise UsageError(f"thinking.type={kind!r}: choose one of enabled, disabled, adaptive")
        budget = value.get("budget_tokens")
        if kind == "adaptive":
            # With `adaptive`, the model itself chooses whether to reason.  Most families do so by default.
            if kind in dict(thinking.modes):
                self._add("thinking_mode", kind, "thinking.type")
            elif thinking.default == "off":
                self._add("thinking", True, "thinking.type")
        elif "thinking_budget" in thinking.switches:
            self._add("thinking_budget", 0 if kind == "disabled" else budget, "thinking")
        else:
            self._add("thinking", kind == "enabled", "thinking.type")


def _normal(value: object) -> object:
    """Normalize an option's value, so that ``True``, ``1`` and ``"on"`` become equal."""
    if isinstance(value, str):
        return _WORDS.get(value.lower(), value.lower())
    return bool(value) if value in (0, 1) else value


def near_efforts(word: object) -> tuple[str, ...]:
    """Return the efforts other than ``word`` that keep reasoning on, the closest first.

    >>> near_efforts("max")[:2]
    ('xhigh', 'high')
    """
    if word not in _EFFORTS:
        return ()
    at = _EFFORTS.index(str(word))
    others = [other for other in _EFFORTS[1:] if other != word]
    return tuple(sorted(others, key=lambda other: abs(_EFFORTS.index(other) - at)))


class _OptionReader:
    """Reader that reduces the options among the template variables to one decision.

    The reader goes through the options in a fixed order and uses the first one.  A later option
    that contradicts the first one is an error, or a warning if clients commonly send both.
    """

    def __init__(
        self, family: str, thinking: Thinking, kwargs: dict[str, object], warnings: list[str]
    ) -> None:
        self.family = family
        self.thinking = thinking
        self.kwargs = kwargs
        self.on: bool | None = None
        self.source = ""
        self.warnings = warnings

    def read(self) -> ReasoningOptions:
        """Read all options, set those that the family's template reads, and return the result."""
        for key in self.kwargs:
            self._check_known(key)
        force_nonempty_content = self.kwargs.get("force_nonempty_content", False)
        self._read_booleans()
        adaptive = self._read_mode()
        self._read_budget()
        self._read_effort(adaptive)
        on = self.on
        if on is None and self.thinking.habits.written and not adaptive:
            on = True
        self._write_options(on)
        return ReasoningOptions(
            on=self.on,
            source=self.source,
            kwargs=self.kwargs,
            force_nonempty_content=self._boolean("force_nonempty_content", force_nonempty_content),
            warnings=tuple(self.warnings),
        )

    # -- checks

    def _check_known(self, key: str) -> None:
        known = (*SWITCHES, self.thinking.habits.effort_name)
        if key in known or key in _OTHER_VARIABLES or key in _OWN_OPTIONS:
            return
        if not _LOOKS_LIKE_OPTION.search(key):
            return
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else self._advice()
        raise UsageError(f"unknown reasoning option {key!r}: {hint}")

    def _advice(self) -> str:
        """Return advice on which options to use, as a phrase for error messages."""
        thinking = self.thinking
        if thinking.default is None:
            return f"{self.family} does not reason; leave it out"
        if thinking.default == "always":
            depth = f"; {thinking.habits.effort_name} sets how much" if thinking.switches else ""
            return f"{self.family} always reasons{depth}; leave it out"
        if not thinking.switches:
            return f"{self.family} has no such option, because the model decides; leave it out"
        return f"{self.family} supports {', '.join(thinking.switches)}"

    def _boolean(self, key: str, value: object) -> bool:
        if isinstance(value, str):
            word = _WORDS.get(value.strip().lower())
            if word is not None:
                return word
        elif isinstance(value, (bool, int, float)):
            return value != 0
        raise UsageError(f"{key}={value!r}: choose true or false")

    def _decide(self, on: bool | None, source: str) -> None:
        """Decide by this option if it is the first; raise an error if it contradicts an earlier option."""
        if self.source and on is not None and self.on is not None and on != self.on:
            raise UsageError(f"{self.source} and {source} contradict each other: keep one of them")
        if not self.source:
            self.on, self.source = on, source

    def _can_turn(self, on: bool, supported: bool) -> bool:
        """Return whether the family's reasoning can be in this state (on or off).

        :param supported: True if the family has the option that was used to switch reasoning.
        """
        default = self.thinking.default
        if default is None:
            return not on
        return (supported and default != "always") or (default == "always" and on)

    # -- one method per option

    def _read_booleans(self) -> None:
        for key in BOOLEANS:
            if key not in self.kwargs:
                continue
            value = self.kwargs[key]
            if isinstance(value, str) and value.lower() == "adaptive":
                self.kwargs.pop(key)
                self.kwargs.setdefault("thinking_mode", value)
                continue
            on = self._boolean(key, value)
            if not self._can_turn(on, any(name in self.thinking.switches for name in BOOLEANS)):
                raise UsageError(f"{key}={str(on).lower()} has no effect: {self._advice()}")
            self._decide(on, f"{key}={str(on).lower()}")

    def _read_mode(self) -> bool:
        """Read ``thinking_mode``; return True if the mode lets the model choose whether to reason."""
        if "thinking_mode" not in self.kwargs:
            return False
        word = str(self.kwargs["thinking_mode"]).strip().lower()
        modes: dict[str, bool | None] = {"enabled": True, "disabled": False, **dict(self.thinking.modes)}
        if word not in modes:
            raise UsageError(
                f"thinking_mode={word!r}: {self.family} accepts {', '.join(sorted(modes))}; {self._advice()}"
            )
        on = modes[word]
        source = f"thinking_mode={word}"
        if self.source:
            if on is not None and on != self.on:
                self.warnings.append(f"{self.source} takes precedence over {source}")
            return False
        if on is not None and not self._can_turn(on, bool(self.thinking.switches)):
            raise UsageError(f"{source} has no effect: {self._advice()}")
        self._decide(on, source)
        return on is None

    def _read_budget(self) -> None:
        value = self.kwargs.get("thinking_budget")
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(
                f"thinking_budget={value!r}: pass a number of tokens, 0 for no reasoning, -1 for no limit"
            )
        if "thinking_budget" not in self.thinking.switches:
            raise UsageError(f"thinking_budget={value} has no effect: {self._advice()}")
        self._decide(value != 0, f"thinking_budget={value}")

    def _read_effort(self, adaptive: bool) -> None:
        thinking = self.thinking
        name = thinking.habits.effort_name
        efforts = {key: self.kwargs[key] for key in ("reasoning_effort", name) if key in self.kwargs}
        if not efforts:
            return
        words = {key: self._effort(key, value) for key, value in efforts.items()}
        if len(set(words.values())) > 1:
            settings = " and ".join(f"{key}={value!r}" for key, value in efforts.items())
            raise UsageError(f"{settings} contradict each other: keep one of them")
        key, value = next(iter(efforts.items()))
        source = f"{key}={value}"
        off = str(value).strip().lower() in thinking.effort_off or value == 0
        supported = "reasoning_effort" in thinking.switches or any(n in thinking.switches for n in BOOLEANS)
        if not self._can_turn(not off, supported) or not (supported or off):
            raise UsageError(f"{source} has no effect: {self._advice()}")
        if self.source and self.on is False and not off:
            self.warnings.append(f"{self.source} takes precedence over {source}")
        elif not adaptive:
            self._decide(not off, source)
        for variable in ("reasoning_effort", name):
            self.kwargs[variable] = words[key]

    def _effort(self, key: str, value: object) -> object:
        """Return the template's word for an effort."""
        thinking = self.thinking
        words = dict(thinking.efforts) or {word: word for word in _EFFORTS}
        if isinstance(value, str) and value.strip().lower() in words:
            return words[value.strip().lower()]
        bounds = thinking.habits.numeric_effort
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if bounds is not None and number and bounds[0] <= float(str(value)) <= bounds[1]:
            return value
        numbers = "" if bounds is None else f", or a number from {bounds[0]:g} to {bounds[1]:g}"
        raise UsageError(f"{key}={value!r}: {self.family} accepts {', '.join(words)}{numbers}")

    # -- the template's variables

    def _write_options(self, on: bool | None) -> None:
        """Set the options that the family's template reads."""
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

"""Facts about a family of models that are needed for building requests.

A dialect describes the output of models.  These facts describe requests: the option that turns
reasoning off, the text that the template writes at the end of the prompt, the markers that a
detokenizer strips, and the ways to force a call.

``plan`` uses the facts, and ``docs/truth-table.md`` shows them.  A fact that does not apply is None.
Required facts have no defaults, and a dialect without facts cannot be registered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from ..errors import SpecError
from ._check_field_types import check_fields

Default: TypeAlias = Literal["on", "off", "model", "always"]
AfterTool: TypeAlias = Literal["same", "nothing"]
WhenOff: TypeAlias = Literal["text", "read"]
Mode: TypeAlias = Literal["native", "json", "none"]
Switch: TypeAlias = Literal[
    "thinking", "enable_thinking", "reasoning", "thinking_mode", "reasoning_effort", "thinking_budget"
]

BOOLEANS: Final = ("thinking", "enable_thinking", "reasoning")
"""Boolean options for reasoning; the first two are different names for the same option."""
SWITCHES: Final[tuple[Switch, ...]] = get_args(Switch)
"""All options for reasoning that at least one family's chat template reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingHabits:
    """Habits of options for reasoning that only one or two families have."""

    numeric_effort: tuple[float, float] | None = None
    """Range of ``reasoning_effort``, if it may be a number."""
    effort_name: str = "reasoning_effort"
    """Name of the template's variable for the effort."""
    written: bool = False
    """True if requests without an option for reasoning are rendered with reasoning explicitly on."""
    json_off: bool = False
    """True if reasoning is off by default in requests that force a call or a JSON answer."""
    named_off: bool = False
    """True if reasoning is off in requests that force a call of a specific function."""
    swap: Literal["blank", "nothing"] = "blank"
    """Kind of content that ``force_nonempty_content`` replaces with the reasoning: ``blank`` or
    ``nothing``."""
    caution: str = ""
    """Warning for requests that turn reasoning off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """Options for reasoning in requests to a family's models, and their effect on the start of the output.

    >>> Thinking(
    ...     special=False, default="on", switches=("enable_thinking",), seed="<think>", after_tool="same",
    ...     when_off="text", strip=None,
    ... ).default
    'on'
    """

    special: bool | None
    """True if the reasoning markers are special tokens; used for requests without a tokenizer."""
    default: Default | None
    """Reasoning in requests without an option for it: ``on``, ``off``, ``model`` or ``always``.

    With ``model``, the model decides; with ``always``, reasoning cannot be turned off.  None means that the
    family does not reason.
    """
    switches: tuple[Switch, ...]
    """Options from :data:`SWITCHES` that the family's template reads."""
    seed: str
    """Opening marker that the template writes into the prompt, so that the output begins inside reasoning.

    An empty string means that the template writes no such marker.
    """
    after_tool: AfterTool | None
    """Text that the template writes after a tool's result: ``same`` (the marker ``seed``) or ``nothing``."""
    when_off: WhenOff | None
    """Treatment of reasoning markers in the output if reasoning is off.

    With ``text``, the markers are content.  With ``read``, they are still markers; this is for control
    tokens, which no model writes by accident.
    """
    strip: str | None
    """Marker to remove from the beginning of the content if reasoning is off."""

    modes: tuple[tuple[str, bool | None], ...] = ()
    """Values of ``thinking_mode`` in addition to ``enabled`` and ``disabled``.

    Each item is a pair of a value and its effect: True turns reasoning on, False turns reasoning off, and
    None lets the model decide.
    """
    efforts: tuple[tuple[str, str], ...] = ()
    """Pairs of a value of ``reasoning_effort`` and the template's word for this value.

    If empty, the values of OpenAI's API are passed to the template unchanged.
    """
    effort_off: tuple[str, ...] = ("none",)
    """Values of ``reasoning_effort`` that turn reasoning off."""
    habits: ThinkingHabits = ThinkingHabits()
    """Habits that only one or two families have."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.strip is not None and not self.strip.strip():
            raise SpecError("strip is empty: write strip=None if there is no marker to remove")
        if self.default is None and (self.switches or self.seed):
            raise SpecError("default=None means no reasoning, so write switches=() and seed='' as well")
        if self.default in ("on", "off") and not self.switches:
            raise SpecError(
                f"default={self.default!r} requires switches: add them, or write default='always' or 'model'"
            )

    @property
    def inside(self) -> bool:
        """True if the output begins inside reasoning when reasoning is on and the prompt is unknown."""
        return bool(self.seed)

    def off_when(self) -> str:
        """Return a description of the options that turn reasoning off.

        >>> from unspool import get_dialect
        >>> get_dialect("seed_oss").request.thinking.off_when()
        'thinking_budget=0'
        """
        if not self.switches:
            return "never"
        words = [f"{name}=false" for name in self.switches if name in BOOLEANS]
        words += [f"thinking_mode={word}" for word, on in self.modes if on is False]
        if "reasoning_effort" in self.switches and self.default != "always":
            words += [f"{self.habits.effort_name}={word}" for word in self.effort_off]
        if "thinking_budget" in self.switches:
            words.append("thinking_budget=0")
        if self.default == "off":
            words.append("no option")
        return ", ".join(words) or "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Facts about a family of models for building requests; one row of ``docs/truth-table.md``.

    Important facts have no default.

    >>> from unspool import get_dialect
    >>> get_dialect("hermes").request.eos
    ('<|im_end|>',)
    """

    calls_special: bool | None
    """True if the markers of calls are special tokens; used for requests without a tokenizer.

    None means that the dialect has no calls.
    """
    answers_special: bool = False
    """True if even answers without calls contain special tokens, such as those of message headers."""
    forced: tuple[Mode, ...]
    """Ways to force a call, in order of preference.

    ``native`` is a grammar for the dialect, ``json`` is guided JSON, and ``none`` means that calls cannot be
    forced.
    """
    eos: tuple[str, ...] | None = None
    """Tokens that end a turn, if they are not the ``stop`` markers of the dialect.

    Empty if only the model's generation config lists these tokens.
    """
    thinking: Thinking
    """Options for reasoning."""
    checkpoints: tuple[tuple[str, Thinking], ...] = ()
    """Checkpoints and reasoning parsers that have the same dialect but different options for reasoning.

    Each item is a pair of a name and the options that replace ``thinking``.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        if self.eos is not None and not all(self.eos):
            raise SpecError(f"eos={self.eos!r} must be a tuple of strings that are not empty")
        if not self.forced:
            raise SpecError("forced=() is empty: write ('none',) if calls cannot be forced")


# -- common values of Thinking

NO_REASONING: Final = Thinking(
    special=None, default=None, switches=(), seed="", after_tool=None, when_off=None, strip=None
)
UNSWITCHED: Final = Thinking(
    special=False, default="model", switches=(), seed="", after_tool="same", when_off=None, strip=None
)
"""Options for families whose models decide whether to reason; no option turns reasoning on or off."""
HYBRID: Final = Thinking(
    special=False,
    default="on",
    switches=("enable_thinking", "thinking"),
    seed="",
    after_tool="same",
    when_off="text",
    strip=None,
)
"""Options for reasoning that is on by default; the model writes the opening marker."""
SEEDED: Final = replace(HYBRID, seed="<think>\n")
"""Options for reasoning that is on by default; the template writes the opening marker."""
ALWAYS: Final = Thinking(
    special=False,
    default="always",
    switches=(),
    seed="<think>\n",
    after_tool="same",
    when_off=None,
    strip=None,
)
FRAMED: Final = replace(UNSWITCHED, special=True, default="always")

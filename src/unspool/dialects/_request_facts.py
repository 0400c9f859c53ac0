"""Facts about a family of models that are needed for building requests.

A dialect describes the output of models.  These facts describe requests: the option that turns
reasoning off, the text that the template writes at the end of the prompt, the markers that a
detokenizer strips, and the ways to force a call.

The values are readable words, because ``docs/truth-table.md`` is generated from them; ``n/a`` means
that a fact does not apply.  Required facts have no defaults, and a dialect without facts cannot be
registered.  ``plan`` uses the facts as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from ..errors import SpecError

Answer: TypeAlias = Literal["yes", "no", "n/a"]
Default: TypeAlias = Literal["on", "off", "model", "always", "n/a"]
AfterTool: TypeAlias = Literal["same", "nothing", "n/a"]
WhenOff: TypeAlias = Literal["text", "read", "n/a"]
Mode: TypeAlias = Literal["native", "json", "none"]

BOOLEANS: Final = ("thinking", "enable_thinking", "reasoning")
"""Boolean options for reasoning; the first two are different names for the same option."""
SWITCHES: Final = (*BOOLEANS, "thinking_mode", "reasoning_effort", "thinking_budget")
"""All options for reasoning that at least one family's chat template reads."""
HEADER: Final = "header"
"""Value of ``Thinking.seed`` for families whose output begins inside a message header."""
MODEL: Final = "model"
"""Value in ``RequestFacts.eos`` for end-of-turn tokens that only the model's generation config lists."""
ANY: Final = "any"
"""Value in ``RequestFacts.prompts`` for dialects with many different templates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """Options for reasoning in requests to a family's models, and their effect on the start of the output.

    >>> Thinking(
    ...     special="no", default="on", switches=("enable_thinking",), seed="<think>", after_tool="same",
    ...     when_off="text", strip="n/a",
    ... ).default
    'on'
    """

    special: Answer
    """Whether the markers of reasoning are special tokens, for requests without a tokenizer."""
    default: Default
    """Whether reasoning is ``on`` or ``off`` in requests without an option for reasoning.

    The value is ``model`` if the model decides, and ``always`` if reasoning cannot be turned off.
    """
    switches: tuple[str, ...]
    """Options from :data:`SWITCHES` that the family's template reads."""
    seed: str
    """Opening marker that the template writes into the prompt, so that the output begins inside reasoning.

    An empty string means that the model writes the opening marker itself; ``header`` means that the output
    begins inside a message header.
    """
    after_tool: AfterTool
    """Whether the template writes the ``same`` marker (``seed``) after a tool's result, or ``nothing``."""
    when_off: WhenOff
    """Treatment of reasoning markers in the output if reasoning is off.

    With ``text``, the markers are content.  With ``read``, they are still markers; this is for control
    tokens, which no model writes by accident.
    """
    strip: str
    """Marker to remove from the beginning of the content if reasoning is off."""

    modes: tuple[tuple[str, bool | None], ...] = ()
    """Values of ``thinking_mode`` in addition to ``enabled`` and ``disabled``.

    Each is a pair of the value and whether it turns reasoning on, or None if the model decides.
    """
    efforts: tuple[tuple[str, str], ...] = ()
    """Values of ``reasoning_effort``, each with the template's word for it.

    If empty, the values of OpenAI's API are passed to the template unchanged.
    """
    numeric_effort: tuple[float, float] | None = None
    """Range of ``reasoning_effort``, if it may be a number."""
    effort_off: tuple[str, ...] = ("none",)
    """Values of ``reasoning_effort`` that turn reasoning off."""
    effort_name: str = "reasoning_effort"
    """Name of the template's variable for the effort."""
    written: bool = False
    """Whether a request without an option for reasoning is rendered with reasoning explicitly on."""
    json_off: bool = False
    """Whether reasoning is off by default in requests that force a call or a JSON answer."""
    named_off: bool = False
    """Whether reasoning is off in requests that force a call of a specific function."""
    swap: Literal["blank", "nothing"] = "blank"
    """Kind of content that ``force_nonempty_content`` replaces with reasoning: ``blank`` or ``nothing``."""
    caution: str = ""
    """Warning for requests that turn reasoning off."""

    def __post_init__(self) -> None:
        _check_word("special", self.special, get_args(Answer))
        _check_word("default", self.default, get_args(Default))
        _check_word("after_tool", self.after_tool, get_args(AfterTool))
        _check_word("when_off", self.when_off, get_args(WhenOff))
        for switch in self.switches:
            _check_word("switches", switch, SWITCHES)
        if not self.strip:
            raise SpecError("strip is empty: write strip='n/a' if there is no marker to remove")
        if self.default == "n/a" and (self.switches or self.seed not in ("n/a", HEADER)):
            raise SpecError("default='n/a' means no reasoning, so write switches=() and seed='n/a' as well")
        if self.default in ("on", "off") and not self.switches:
            raise SpecError(
                f"default={self.default!r} requires switches: add them, or write default='always' or 'model'"
            )

    @property
    def inside(self) -> bool:
        """Whether the output begins inside reasoning, if reasoning is on and the prompt is unknown."""
        return self.seed not in ("", "n/a", HEADER)

    def off_when(self) -> str:
        """Return a description of the options that turn reasoning off.

        >>> from unspool import get_dialect
        >>> get_dialect("seed_oss").request.thinking.off_when()
        'thinking_budget=0'
        """
        if self.default == "n/a":
            return "n/a"
        if not self.switches:
            return "never"
        words = [f"{name}=false" for name in self.switches if name in BOOLEANS]
        words += [f"thinking_mode={word}" for word, on in self.modes if on is False]
        if "reasoning_effort" in self.switches and self.default != "always":
            words += [f"{self.effort_name}={word}" for word in self.effort_off]
        if "thinking_budget" in self.switches:
            words.append("thinking_budget=0")
        if self.default == "off":
            words.append("no option")
        return ", ".join(words) or "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Facts about a family of models for building requests; one row of ``docs/truth-table.md``.

    Important facts have no default; ``n/a`` means that a fact does not apply.

    >>> from unspool import get_dialect
    >>> get_dialect("hermes").request.eos
    ('<|im_end|>',)
    """

    calls_special: Answer
    """Whether the markers of calls are special tokens, for requests without a tokenizer."""
    answers_special: Answer = "no"
    """Whether even answers without calls contain special tokens, such as those of message headers."""
    forced: tuple[Mode, ...]
    """Ways to force a call, in order of preference.

    ``native`` is a grammar for the dialect, ``json`` is guided JSON, and ``none`` means that calls cannot be
    forced.
    """
    eos: tuple[str, ...]
    """Tokens that end a turn, or ``model`` if only the generation config lists them."""
    prompts: tuple[str, ...] = (ANY,)
    """Texts with which prompts end, before any ``seed``; ``any`` if there are too many templates to list."""
    thinking: Thinking
    """Options for reasoning."""
    checkpoints: tuple[tuple[str, Thinking], ...] = ()
    """Checkpoints and reasoning parsers that have the same dialect but different options for reasoning.

    Each is a pair of a name and the value to use instead of ``thinking``.
    """

    def __post_init__(self) -> None:
        _check_word("calls_special", self.calls_special, get_args(Answer))
        _check_word("answers_special", self.answers_special, get_args(Answer))
        for name, words in (("forced", self.forced), ("eos", self.eos), ("prompts", self.prompts)):
            if isinstance(words, str) or not words or not all(words):
                raise SpecError(f"{name}={words!r} must be a tuple of one or more strings that are not empty")
        for mode in self.forced:
            _check_word("forced", mode, get_args(Mode))
        for thinking in (self.thinking, *(thinking for _, thinking in self.checkpoints)):
            if not isinstance(thinking, Thinking):
                raise SpecError(f"thinking must be a Thinking value, got {type(thinking).__name__}")


def _check_word(cell: str, word: str, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        raise SpecError(f"{cell}={word!r}: choose one of {', '.join(allowed)}")


# -- common values of Thinking

NO_REASONING: Final = Thinking(
    special="n/a", default="n/a", switches=(), seed="n/a", after_tool="n/a", when_off="n/a", strip="n/a"
)
UNSWITCHED: Final = Thinking(
    special="no", default="model", switches=(), seed="", after_tool="same", when_off="n/a", strip="n/a"
)
"""Options for families whose models decide whether to reason; no option turns reasoning on or off."""
HYBRID: Final = Thinking(
    special="no",
    default="on",
    switches=("enable_thinking", "thinking"),
    seed="",
    after_tool="same",
    when_off="text",
    strip="n/a",
)
"""Options for reasoning that is on by default; the model writes the opening marker."""
SEEDED: Final = replace(HYBRID, seed="<think>\n")
"""Options for reasoning that is on by default; the template writes the opening marker."""
ALWAYS: Final = Thinking(
    special="no",
    default="always",
    switches=(),
    seed="<think>\n",
    after_tool="same",
    when_off="n/a",
    strip="n/a",
)
FRAMED: Final = replace(UNSWITCHED, special="yes", default="always", seed=HEADER)

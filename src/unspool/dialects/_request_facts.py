"""Facts about a family of models that a request needs, beyond its output format.

A dialect describes output.  These facts describe input: which option turns reasoning off, what the
template writes into the prompt, which markers a detokenizer strips, how a call can be forced.

The values are words for people, and ``n/a`` is one of them.  Required facts have no defaults,
and a dialect without facts cannot be registered.  ``plan`` uses the facts, and
``docs/truth-table.md`` is generated from them.
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
"""Boolean options for reasoning; the first two are different names of the same option."""
SWITCHES: Final = (*BOOLEANS, "thinking_mode", "reasoning_effort", "thinking_budget")
"""All options for reasoning that the template of at least one family reads."""
HEADER: Final = "header"
"""Value of ``Thinking.seed`` for families whose output begins inside a message header."""
MODEL: Final = "model"
"""Value in ``RequestFacts.eos`` for tokens that only the model's generation config lists."""
ANY: Final = "any"
"""Value in ``RequestFacts.prompts`` for dialects with many different templates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """Options for reasoning in the requests of a family, and their effect on the beginning of the output.

    >>> Thinking(
    ...     special="no", default="on", switches=("enable_thinking",), seed="<think>", after_tool="same",
    ...     when_off="text", strip="n/a",
    ... ).default
    'on'
    """

    special: Answer
    """Whether the markers of reasoning are special tokens; used if there is no tokenizer."""
    default: Default
    """Reasoning in requests without an option: ``on`` or ``off``.

    ``model``: the model decides.  ``always``: reasoning cannot be turned off.
    """
    switches: tuple[str, ...]
    """Options from :data:`SWITCHES` that the family's template reads."""
    seed: str
    """Opening marker that the template writes into the prompt, so that the output begins inside reasoning.

    Empty: the model opens its reasoning itself.  ``header``: the output begins in a message header.
    """
    after_tool: AfterTool
    """Marker that the template writes after the result of a tool: the same one, or nothing."""
    when_off: WhenOff
    """Treatment of the markers of reasoning while it is off: ``text``, or ``read`` as markers.

    ``read`` is for control tokens, which no model writes by accident.
    """
    strip: str
    """Marker to remove from the beginning of the content while reasoning is off."""

    modes: tuple[tuple[str, bool | None], ...] = ()
    """Values of ``thinking_mode`` besides enabled and disabled, and whether reasoning is on.

    None: the model decides.
    """
    efforts: tuple[tuple[str, str], ...] = ()
    """Values of ``reasoning_effort``, and the template's words for them; empty: all values of OpenAI."""
    numeric_effort: tuple[float, float] | None = None
    """Range of ``reasoning_effort``, if it may be a number."""
    effort_off: tuple[str, ...] = ("none",)
    """Efforts that turn reasoning off."""
    effort_name: str = "reasoning_effort"
    """Name of the effort in the template."""
    written: bool = False
    """Whether a request without an option is rendered with reasoning explicitly on."""
    json_off: bool = False
    """Whether reasoning is off by default in requests that force a call or a JSON answer."""
    named_off: bool = False
    """Whether reasoning is off in requests that name the function to call."""
    swap: Literal["blank", "nothing"] = "blank"
    """Text after reasoning with which ``force_nonempty_content`` turns the reasoning into the answer."""
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
            raise SpecError("default='n/a' means no reasoning: write switches=() and seed='n/a' with it")
        if self.default in ("on", "off") and not self.switches:
            raise SpecError(f"default={self.default!r} needs switches; else write 'always' or 'model'")

    @property
    def inside(self) -> bool:
        """Whether output begins inside reasoning if reasoning is on, when no prompt is given."""
        return self.seed not in ("", "n/a", HEADER)

    def off_when(self) -> str:
        """Return the options that turn reasoning off, in words.

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
            words.append("nothing said")
        return ", ".join(words) or "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Facts about a family that a request needs; one row of ``docs/truth-table.md``.

    Important facts have no default; ``n/a`` says that a fact does not apply.

    >>> from unspool import get_dialect
    >>> get_dialect("hermes").request.eos
    ('<|im_end|>',)
    """

    calls_special: Answer
    """Whether the markers of calls are special tokens; used if there is no tokenizer."""
    answers_special: Answer = "no"
    """Whether even plain answers contain special tokens, and words between these."""
    forced: tuple[Mode, ...]
    """Ways to force a call, best first.

    ``native``: the dialect's own grammar; ``json``: guided JSON; ``none``: not possible.
    """
    eos: tuple[str, ...]
    """Tokens that end a turn, or ``model`` if only the generation config lists them."""
    prompts: tuple[str, ...] = (ANY,)
    """Texts that end a prompt, in front of any seed; ``any``: there are too many templates to list."""
    thinking: Thinking
    """Options for reasoning."""
    checkpoints: tuple[tuple[str, Thinking], ...] = ()
    """Checkpoints and reasoning parsers with the same dialect but other options for reasoning.

    Each is a name and the value that replaces ``thinking``.
    """

    def __post_init__(self) -> None:
        _check_word("calls_special", self.calls_special, get_args(Answer))
        _check_word("answers_special", self.answers_special, get_args(Answer))
        for name, words in (("forced", self.forced), ("eos", self.eos), ("prompts", self.prompts)):
            if isinstance(words, str) or not words or not all(words):
                raise SpecError(f"{name}={words!r} must be a tuple of at least one word, without empty words")
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
"""Reasoning that the model decides about; no option turns it on or off."""
HYBRID: Final = Thinking(
    special="no",
    default="on",
    switches=("enable_thinking", "thinking"),
    seed="",
    after_tool="same",
    when_off="text",
    strip="n/a",
)
"""On unless the request turns it off; the model writes the opening marker."""
SEEDED: Final = replace(HYBRID, seed="<think>\n")
"""On unless the request turns it off; the template writes the opening marker."""
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

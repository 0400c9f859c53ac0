"""What a request must know about a family: the words that such facts are stated in.

A dialect says how a model writes.  What the model is told, and by whom, is
another matter: which switch turns its reasoning off, what its template seeds,
which of its markers a detokenizer strips, how it is forced to call.

Cells are words that people can read.  ``n/a`` is one of them; facts without a
cell cannot be built, and a dialect without facts cannot be registered.  ``plan``
reads them, ``docs/truth-table.md`` is generated from them.
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
"""Switches that are true or false; the first two are two names of one."""
SWITCHES: Final = (*BOOLEANS, "thinking_mode", "reasoning_effort", "thinking_budget")
"""Every switch that some family's template reads."""
HEADER: Final = "header"
"""Seed of the families whose output begins in a message header."""
MODEL: Final = "model"
"""End-of-sequence tokens that only the model's generation config knows."""
ANY: Final = "any"
"""The dialect is spoken under many templates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """How a family is told to reason, and where its output begins.

    >>> Thinking(
    ...     special="no", default="on", switches=("enable_thinking",), seed="<think>", after_tool="same",
    ...     when_off="text", strip="n/a",
    ... ).default
    'on'
    """

    special: Answer
    """Whether the markers of reasoning are special tokens, where no tokenizer can be asked."""
    default: Default
    """What a request gets that says nothing: reasoning is on or off; ``model``: the model
    decides and nothing is seeded; ``always``: it cannot be switched off."""
    switches: tuple[str, ...]
    """Which of :data:`SWITCHES` the family understands; empty: none."""
    seed: str
    """What the template writes into the prompt when reasoning is on, so that the output
    begins inside; empty: nothing, the model opens it; ``header``: the output begins in a
    message header."""
    after_tool: AfterTool
    """What it seeds after the result of a tool: the same, or nothing."""
    when_off: WhenOff
    """What markers of reasoning are while it is switched off: text, or still read,
    because they are control tokens that no model writes by accident."""
    strip: str
    """A marker to remove from the beginning of the content while reasoning is off."""

    modes: tuple[tuple[str, bool | None], ...] = ()
    """Words of ``thinking_mode`` besides enabled and disabled; None: the model decides."""
    efforts: tuple[tuple[str, str], ...] = ()
    """Words of ``reasoning_effort`` and what the template calls them; empty: any of OpenAI's."""
    numeric_effort: tuple[float, float] | None = None
    """Least and greatest number that ``reasoning_effort`` may be."""
    effort_off: tuple[str, ...] = ("none",)
    """Efforts that switch reasoning off."""
    effort_name: str = "reasoning_effort"
    """What the template calls the effort."""
    written: bool = False
    """A request that says nothing is rendered with the switch on."""
    json_off: bool = False
    """Off by default where the request forces a call or a JSON answer."""
    named_off: bool = False
    """Off where the request names the function to call."""
    swap: Literal["blank", "nothing"] = "blank"
    """What may follow the end of reasoning for ``force_nonempty_content`` to make it the answer."""
    caution: str = ""
    """What to tell those who switch reasoning off."""
    passes: tuple[str, ...] = ()
    """Other variables of its templates whose names look like switches."""

    def __post_init__(self) -> None:
        _check_word("special", self.special, get_args(Answer))
        _check_word("default", self.default, get_args(Default))
        _check_word("after_tool", self.after_tool, get_args(AfterTool))
        _check_word("when_off", self.when_off, get_args(WhenOff))
        for switch in self.switches:
            _check_word("switches", switch, SWITCHES)
        if not self.strip:
            raise SpecError("strip is empty: write n/a where nothing is to be stripped")
        if self.default == "n/a" and (self.switches or self.seed not in ("n/a", HEADER)):
            raise SpecError("default='n/a' means that there is no reasoning: no switches, seed='n/a'")
        if self.default in ("on", "off") and not self.switches:
            raise SpecError(f"default={self.default!r} needs switches, or say 'always' or 'model'")

    @property
    def inside(self) -> bool:
        """Whether the output begins inside reasoning where it is on and no prompt is known."""
        return self.seed not in ("", "n/a", HEADER)

    def off_when(self) -> str:
        """When the gate fires, in words.

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
    """A row of the truth table: what a request must know about a family.

    Cells that decide something have no default: what does not apply is ``n/a``.

    >>> from unspool import get_dialect
    >>> get_dialect("hermes").request.eos
    ('<|im_end|>',)
    """

    calls_special: Answer
    """Whether the markers of calls are special tokens, where no tokenizer can be asked."""
    answers_special: Answer = "no"
    """Whether even a plain answer comes in special tokens and words between them."""
    forced: tuple[Mode, ...]
    """How a call is enforced that the request demands, best first: by the dialect's own
    grammar, by guided JSON; ``none``: not at all."""
    eos: tuple[str, ...]
    """What ends a turn: tokens, or ``model`` where only the generation config knows."""
    prompts: tuple[str, ...] = (ANY,)
    """What its templates end a prompt with, before any seed; ``any``: too many to tell."""
    thinking: Thinking
    """Reasoning."""
    checkpoints: tuple[tuple[str, Thinking], ...] = ()
    """Checkpoints and reasoning parsers that share the dialect but are switched or seeded in
    another way: their names, and what takes the place of ``thinking``."""

    def __post_init__(self) -> None:
        _check_word("calls_special", self.calls_special, get_args(Answer))
        _check_word("answers_special", self.answers_special, get_args(Answer))
        for name, words in (("forced", self.forced), ("eos", self.eos), ("prompts", self.prompts)):
            if isinstance(words, str) or not words or not all(words):
                raise SpecError(f"{name}={words!r}: a tuple of at least one word; there are no empty cells")
        for mode in self.forced:
            _check_word("forced", mode, get_args(Mode))
        for thinking in (self.thinking, *(thinking for _, thinking in self.checkpoints)):
            if not isinstance(thinking, Thinking):
                raise SpecError(f"thinking must be a Thinking value, got {type(thinking).__name__}")


def _check_word(cell: str, word: str, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        raise SpecError(f"{cell}={word!r}: choose one of {', '.join(allowed)}")


# -- reasoning, by habit

NO_REASONING: Final = Thinking(
    special="n/a", default="n/a", switches=(), seed="n/a", after_tool="n/a", when_off="n/a", strip="n/a"
)
UNSWITCHED: Final = Thinking(
    special="no", default="model", switches=(), seed="", after_tool="same", when_off="n/a", strip="n/a"
)
"""Read where it comes; nothing turns it on or off."""
HYBRID: Final = Thinking(
    special="no",
    default="on",
    switches=("enable_thinking", "thinking"),
    seed="",
    after_tool="same",
    when_off="text",
    strip="n/a",
)
"""On unless the request says no; the model opens it."""
SEEDED: Final = replace(HYBRID, seed="<think>\n")
"""On unless the request says no; the template opens it."""
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

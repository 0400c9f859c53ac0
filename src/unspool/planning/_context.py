"""State shared by the functions that make the decisions of a plan."""

from __future__ import annotations

from .._core.token_ids.tokenizer_adapters import AnyTokenizer
from ._plan import Inputs
from ._read_request import read_request
from .prompt_end import continued_turn, prompt_text, relevant
from .reasoning_options import read_reasoning_options


class PlanContext:
    """The inputs of one plan, and the explanations and warnings that have been added so far.

    Each ``decide_...`` function returns a decision, and adds an explanation to ``why``.  If the caller
    should change something, the function also adds a warning to ``warnings``.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.family = inputs.family
        self.dialect = inputs.dialect
        self.facts = inputs.facts
        self.thinking = inputs.facts.thinking
        self.request = read_request(inputs.request)
        self.reasoning_options = read_reasoning_options(
            self.family, self.thinking, inputs.request, inputs.defaults
        )
        """The request's options for reasoning, reduced to one decision."""
        self.prompt = prompt_text(inputs.prompt, inputs.tokenizer)
        self.continues = self.request.prefill is not None
        """True if the output continues the last message of the request."""
        self.turn = self._turn()
        """The text of the model's turn before the output; None if it is unknown.

        It is the end of the prompt or, without a prompt, the message that the output continues.
        """
        self.template_kwargs = self.reasoning_options.kwargs
        self.why: dict[str, str] = {}
        self.warnings = list(self.reasoning_options.warnings)
        if self.request.overruled:
            self.warnings.append(f"{self.request.overruled} has no effect: tool_choice requires a call")

    @property
    def tokenizer(self) -> AnyTokenizer | None:
        return self.inputs.tokenizer

    @property
    def needs_vocabulary(self) -> bool:
        """True if the form of calls depends on the vocabulary, but no tokenizer was passed."""
        return self.tokenizer is None and bool(self.dialect.family.variants)

    def _turn(self) -> str | None:
        prefill = self.request.prefill
        if prefill is None:
            return None if self.prompt is None else relevant(self.dialect, self.prompt)
        if self.prompt is None:
            return relevant(self.dialect, prefill, continues=True) if prefill else None
        return continued_turn(self.dialect, self.prompt, prefill or self.request.prefilled_reasoning)

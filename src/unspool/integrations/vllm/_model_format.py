"""The output format of the served model: its dialect, and data derived from its tokenizer.

A format is created once per tokenizer and cached.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ...dialects import Dialect, combined, end_tokens, facts_of, find, get_dialect
from ...errors import UsageError
from ...planning import Plan, plan
from ...planning.derived_dialects import closer
from ...policies import DEFAULTS
from ...tokens import ReasoningIds, as_tokenizer, decode
from .._detect_from_tokenizer import detect_served_dialect
from .._registered_parser_names import DETECTED
from ._parser_classes import log

_MAX_CLOSER_TOKENS: Final = 8
"""Maximum number of tokens in a closing reasoning marker."""


class ModelFormat:
    """Output format of the served model."""

    def __init__(self, name: str | Dialect, tokenizer: Any) -> None:
        self.name = name
        """The name of the dialect or checkpoint, as the user passed it.  A checkpoint may have its own
        request facts.
        """
        self.tokenizer = as_tokenizer(tokenizer)
        self.reasoning = ReasoningIds(name, self.tokenizer)
        """Object that finds the start and the end of reasoning in token ids."""
        self.dialect = self.reasoning.dialect
        self.policies = DEFAULTS
        self._closers = tuple(filter(None, map(closer, self.dialect.reasoning)))
        ids = {token: id for id, token in self.tokenizer.special_tokens().items()}
        ends = end_tokens(self.dialect, facts_of(self.dialect))
        self._end_tokens = {ids[end]: end for end in ends if end in ids}

    def plan(self, request: Mapping[str, object], prompt: Sequence[int] | None = None) -> Plan:
        """Return the plan for a request.

        The planner may reject options of a request.  However, the engine has to serve the request: the prompt
        is already rendered, perhaps from a template with options that unspool does not support.  So the error
        is logged once, and the plan is made without template variables.
        """
        turn = None if prompt is None else self.last_turn(prompt)
        try:
            result = self._plan(request, turn)
        except UsageError as error:
            warn_once(f"unspool reads {self.dialect.name}: {error}")
            plain = {key: value for key, value in request.items() if key != "chat_template_kwargs"}
            try:
                result = self._plan(plain, turn)
            except UsageError:
                result = self._plan(plain, None)
        for warning in result.warnings:
            warn_once(f"unspool reads {self.dialect.name}: {warning}")
        return result

    def _plan(self, request: Mapping[str, object], prompt: Sequence[int] | None) -> Plan:
        return plan(self.name, request, prompt=prompt, tokenizer=self.tokenizer, policies=self.policies)

    def closes_reasoning(self, ids: Sequence[int], delta: Sequence[int]) -> bool:
        """Return whether the last ids contain the closing reasoning marker.

        :param delta: the ids of the last step; the marker may begin in earlier ids.
        """
        if not self._closers:  # the header of the next message ends reasoning, so no marker is needed
            return True
        text = decode(ids[-len(delta) - _MAX_CLOSER_TOKENS :], self.tokenizer)
        return any(closer in text for closer in self._closers)

    def is_end(self, id: int) -> bool:
        """Return whether a token ends the turn."""
        return id in self._end_tokens

    def without_end(self, text: str, ids: Sequence[int]) -> Sequence[int]:
        """Return a step's ids; leave out a final end-of-turn token that is not in the step's text."""
        end = self._end_tokens.get(ids[-1]) if ids else None
        return ids if end is None or text.endswith(end) else ids[:-1]

    def last_turn(self, prompt: Sequence[int]) -> Sequence[int]:
        """Return the last turn of a prompt; earlier turns do not affect where the output begins."""
        for index in range(len(prompt) - 1, -1, -1):
            if prompt[index] in self._end_tokens:
                return prompt[index + 1 :] or prompt
        return prompt


@lru_cache(maxsize=1024)
def warn_once(text: str) -> None:
    """Log a warning, but only once."""
    log.warning("%s", text)


@lru_cache(maxsize=8)
def model_format(tokenizer: Any, calls: str | None, reasoning: str | None) -> ModelFormat:
    """Return the output format of the served model (cached).

    :param calls: the dialect of the tool parser; ``unspool`` to detect the dialect, None if there is no tool
        parser.
    :param reasoning: the dialect of the reasoning parser, with the same special values.
    """
    names = dict.fromkeys(name for name in (calls, reasoning) if name is not None)
    if DETECTED not in names:
        return ModelFormat("+".join(names), tokenizer)
    dialect = _detect(tokenizer)
    if calls != DETECTED and calls is not None:
        dialect = combined(get_dialect(calls), dialect)
    elif reasoning != DETECTED and reasoning is not None:
        dialect = combined(dialect, get_dialect(reasoning))
    return ModelFormat(dialect, tokenizer)


@lru_cache(maxsize=8)
def _detect(tokenizer: Any) -> Dialect:
    dialect, why = detect_served_dialect(tokenizer)
    if multiprocessing.parent_process() is None:  # child processes would repeat the log line
        log.info("unspool: the model uses the dialect %s (%s)", dialect.name, why)
    return find(dialect, as_tokenizer(tokenizer))

"""Speech: how the served model writes, found out once for a tokenizer and kept."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ..._core.token_ids.detokenizer import Detokenizer
from ..._core.token_ids.tokenizers import as_tokenizer
from ...dialects._declaration import Dialect
from ...dialects._registry import combined, facts_of, find, get_dialect
from ...errors import UsageError
from ...planning import Plan, plan
from ...planning._derived_dialects import closer
from ...policies import DEFAULTS
from ...tokens import ReasoningIds
from .._engine import DETECTED, dialect_of_model
from ._parser_classes import log

_NEAR: Final = 8
"""Tokens that a closer may consist of."""


class Speech:
    """How the served model writes."""

    def __init__(self, name: str | Dialect, tokenizer: Any) -> None:
        self.name = name
        """The dialect as the user called it: checkpoints have facts of their own."""
        self.tokenizer = as_tokenizer(tokenizer)
        self.reasoning = ReasoningIds(name, self.tokenizer)
        """Where reasoning ends, by ids."""
        self.dialect = self.reasoning.dialect
        self.policies = DEFAULTS
        self._closers = tuple(filter(None, map(closer, self.dialect.reasoning)))
        ids = {token: id for id, token in self.tokenizer.special_tokens().items()}
        self._ends = {ids[end]: end for end in facts_of(self.dialect).eos if end in ids}

    def plan(self, asked: Mapping[str, object], prompt: Sequence[int] | None = None) -> Plan:
        """The plan for a request.

        What a plan refuses is no reason to refuse the request here: the prompt is rendered, by a
        template that may know more than we do.  Then there is a line in the log, and a plan
        without what was refused.
        """
        turn = None if prompt is None else self.turn(prompt)
        try:
            made = self._planned(asked, turn)
        except UsageError as error:
            warn_once(f"unspool reads {self.dialect.name}: {error}")
            plain = {key: value for key, value in asked.items() if key != "chat_template_kwargs"}
            try:
                made = self._planned(plain, turn)
            except UsageError:
                made = self._planned(plain, None)
        for warning in made.warnings:
            warn_once(f"unspool reads {self.dialect.name}: {warning}")
        return made

    def _planned(self, asked: Mapping[str, object], prompt: Sequence[int] | None) -> Plan:
        return plan(self.name, asked, prompt=prompt, tokenizer=self.tokenizer, policies=self.policies)

    def closes(self, ids: Sequence[int], delta: Sequence[int]) -> bool:
        """Whether these last ids, or those just before them, have what closes reasoning."""
        if not self._closers:  # it is a message of its own, which ends where the next one begins
            return True
        text = Detokenizer(self.tokenizer, {}).whole(ids[-len(delta) - _NEAR :])
        return any(closer in text for closer in self._closers)

    def is_end(self, id: int) -> bool:
        """Whether a token ends the turn."""
        return id in self._ends

    def without_end(self, text: str, ids: Sequence[int]) -> Sequence[int]:
        """The last ids of an output, without the one that ended it and that its text does not show."""
        end = self._ends.get(ids[-1]) if ids else None
        return ids if end is None or text.endswith(end) else ids[:-1]

    def turn(self, prompt: Sequence[int]) -> Sequence[int]:
        """The turn that a prompt ends with: prompts are long, and what is before it says nothing."""
        for place in range(len(prompt) - 1, -1, -1):
            if prompt[place] in self._ends:
                return prompt[place + 1 :] or prompt
        return prompt


@lru_cache(maxsize=1024)
def warn_once(text: str) -> None:
    """Say this in the engine's log, the first time."""
    log.warning("%s", text)


@lru_cache(maxsize=8)
def speech_of(tokenizer: Any, calls: str | None, reasoning: str | None) -> Speech:
    """How the model of this tokenizer writes.

    :param calls: the dialect of the tool parser, and of the reasoning parser, as they are
        registered: ``unspool`` is to be found out, None is not there.
    """
    names = dict.fromkeys(name for name in (calls, reasoning) if name is not None)
    if DETECTED not in names:
        return Speech("+".join(names), tokenizer)
    found = _detected(tokenizer)
    if calls != DETECTED and calls is not None:
        found = combined(get_dialect(calls), found)
    elif reasoning != DETECTED and reasoning is not None:
        found = combined(found, get_dialect(reasoning))
    return Speech(found, tokenizer)


@lru_cache(maxsize=8)
def _detected(tokenizer: Any) -> Dialect:
    dialect, why = dialect_of_model(tokenizer)
    if multiprocessing.parent_process() is None:  # the others would only say it again
        log.info("unspool: the model speaks %s (%s)", dialect.name, why)
    return find(dialect, as_tokenizer(tokenizer))

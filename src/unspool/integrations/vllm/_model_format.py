"""The output format of the served model: its dialect, and data derived from its tokenizer.

A format is created once per tokenizer and cached.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from ...dialects import Dialect, Section, combined, end_tokens, facts_of, find, get_dialect
from ...errors import UsageError
from ...planning import Plan, plan
from ...planning.derived_dialects import closer
from ...tokens import ReasoningIds, as_tokenizer, decode
from .._detect_from_tokenizer import detect_served_dialect
from .._plug_in_policies import describe, policies_for
from .._registered_parser_names import DETECTED
from ._parser_classes import log

_MAX_CLOSER_TOKENS: Final = 8
"""Maximum number of tokens in a closing reasoning marker."""


class ModelFormat:
    """Output format of the served model."""

    def __init__(self, name: str | Dialect, tokenizer: Any, why: str = "") -> None:
        """Create the format.

        :param why: the evidence for the dialect, if it was detected.
        """
        self.name = name
        """The name of the dialect or checkpoint, as the user passed it.  A checkpoint may have its own
        request facts.
        """
        self.source = tokenizer
        """The tokenizer as vLLM passed it."""
        self.tokenizer = as_tokenizer(tokenizer)
        self.reasoning = ReasoningIds(name, self.tokenizer)
        """Object that finds the start and the end of reasoning in token ids."""
        self.dialect = self.reasoning.dialect
        path = getattr(tokenizer, "name_or_path", "")
        self.policies = policies_for("vllm", self.dialect.name, path if isinstance(path, str) else "")
        self.why = why
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
    dialect, why = _detect(tokenizer)
    if dialect.name in (calls, reasoning):
        pass
    elif calls != DETECTED and calls is not None:
        dialect = combined(get_dialect(calls), dialect)
    elif reasoning != DETECTED and reasoning is not None:
        dialect = combined(dialect, get_dialect(reasoning))
    return ModelFormat(dialect, tokenizer, why)


@lru_cache(maxsize=8)
def _detect(tokenizer: Any) -> tuple[Dialect, str]:
    dialect, why = detect_served_dialect(tokenizer)
    return find(dialect, as_tokenizer(tokenizer)), why


_quiet: list[None] = []
"""Not empty while the parsers are checked, because it is not certain yet that they are used."""


@contextmanager
def without_log() -> Iterator[None]:
    """Suppress the lines of ``log_format`` during a ``with`` block."""
    _quiet.append(None)
    try:
        yield
    finally:
        _quiet.pop()


_logged: set[tuple[object, str]] = set()
"""The tokenizers and parts of outputs for which the dialect was logged."""


def log_format(model: ModelFormat, *, calls: bool, reasoning: bool) -> None:
    """Log, once per server, which parts of outputs unspool parses, and how.

    :param calls: whether unspool parses calls.
    :param reasoning: whether unspool parses reasoning.
    """
    process = multiprocessing.current_process()
    if multiprocessing.parent_process() is not None and not process.name.startswith("ApiServer_0"):
        return  # the engine's processes would repeat the line
    parts = [part for part, parsed in (("calls", calls), ("reasoning", reasoning)) if parsed]
    keys = {(id(model.source), part) for part in parts}
    if keys <= _logged or _quiet:
        return
    _logged.update(keys)
    hint = ""
    if not reasoning and any(isinstance(s, Section) and s.only_at_start for s in model.dialect.section):
        hint = "; give --reasoning-parser, too: calls after reasoning that stays in the text are text"
    log.info(
        "unspool reads %s of this model as %s%s; policies: %s%s",
        " and ".join(parts),
        model.dialect.name,
        f" ({model.why.rstrip('.')})" if model.why else "",
        describe(model.policies),
        hint,
    )

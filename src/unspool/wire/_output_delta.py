"""Deltas from an upstream; a delta is the output that one generation step adds.

The text of a delta may contain markup, which a parser must read.  Reasoning and tool calls that the
upstream has parsed itself are separate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..errors import ProtocolError
from ..events import FinishReason

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
"""Standard finish reason for each finish reason that engines send."""


class CallDelta:
    """Part of a tool call that the upstream has parsed itself."""

    __slots__ = ("arguments", "id", "index", "name")

    def __init__(self, index: int, id: str, name: str, arguments: str) -> None:
        self.index = index
        """Index of the call, as numbered by the upstream."""
        self.id = id
        self.name = name
        """Function name; empty if this delta continues a call."""
        self.arguments = arguments


class Delta:
    """Output that one generation step adds to one choice."""

    __slots__ = (
        "calls",
        "choice",
        "finish",
        "logprobs",
        "reasoning",
        "stopped_by",
        "text",
        "text_only",
        "token_ids",
    )

    def __init__(
        self,
        choice: int,
        text: str,
        *,
        finish: FinishReason | None = None,
        stopped_by: str | None = None,
        logprobs: list[dict[str, Any]] | None = None,
        token_ids: Sequence[int] | None = None,
        reasoning: str = "",
        calls: Sequence[CallDelta] = (),
    ) -> None:
        self.choice = choice
        """Index of the choice, from 0 to n - 1."""
        self.text = text
        """Raw output, which a parser must read."""
        self.finish = finish
        """Finish reason of the choice; None while it continues."""
        self.stopped_by = stopped_by
        """Stop string that ended the choice, if the upstream reports it."""
        self.logprobs = logprobs
        """Log probabilities of the step's tokens, in the format of Chat Completions."""
        self.token_ids = token_ids
        """Token ids of the step."""
        self.reasoning = reasoning
        """Reasoning that the upstream has parsed itself."""
        self.calls = calls
        """Tool calls that the upstream has parsed itself."""
        self.text_only = (
            finish is None and logprobs is None and token_ids is None and not reasoning and not calls
        )
        """True if only ``text`` is set, so that a fast path can be used."""


def read_chat_choice(
    choice: Mapping[str, Any],
    finish: FinishReason | None,
    *,
    logprobs: list[dict[str, Any]] | None = None,
) -> Delta:
    """Return the delta in a choice of a chat completion or of one of its chunks.

    :param choice: the choice; its fields must have the types of the API.
    :param finish: the standard form of the choice's finish reason.
    :param logprobs: the log probabilities of the choice's tokens.
    :raises ProtocolError: if the arguments of a call are not JSON.
    """
    delta = choice.get("delta") or choice.get("message") or {}
    stopped_by = choice.get("stop_reason")
    if stopped_by is None:
        stopped_by = choice.get("matched_stop")
    return Delta(
        choice.get("index", 0),
        delta.get("content") or "",
        finish=finish,
        stopped_by=stopped_by if isinstance(stopped_by, str) else None,
        logprobs=logprobs,
        token_ids=choice.get("token_ids"),
        reasoning=delta.get("reasoning_content") or delta.get("reasoning") or "",
        calls=_read_calls(delta.get("tool_calls") or ()),
    )


def _read_calls(tool_calls: Sequence[Mapping[str, Any]]) -> list[CallDelta]:
    deltas: list[CallDelta] = []
    for position, call in enumerate(tool_calls):
        function = call.get("function") or {}
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            try:
                arguments = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
            except (ValueError, RecursionError) as error:
                raise ProtocolError("the upstream sent arguments that are not JSON") from error
        index = call.get("index")
        index = position if index is None else index
        deltas.append(CallDelta(index, call.get("id") or "", function.get("name") or "", arguments))
    return deltas

"""verl's tool parsers, ours: in its registry from when this module is imported behind verl.

``VERL_USE_EXTERNAL_MODULES=unspool.integrations.verl`` makes verl import it in each of its processes; then
``actor_rollout_ref.rollout.multi_turn.format`` may be ``unspool`` (the dialect is found in the model's chat
template) or ``unspool_DIALECT``.

Seen: verl 0.9.1, ``verl/experimental/agent_loop/tool_parser.py``.  A parser is made with the tokenizer, and
``await extract_tool_calls(ids, tools)`` gives the content of the assistant's message and its calls.  The
content goes into the next prompt, so reasoning stays in it as it was written.  A broken call is no call, and
its text stays in the content.  The prompt is not known to a parser: where it opens reasoning, what looks
like a call before the end of that counts as one.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from .._core.token_ids.tokenizers import as_tokenizer
from ..dialects._declaration import Dialect
from ..dialects._registry import facts_of, find
from ..errors import UsageError
from ..events import CallEnd, Event, Markup, Text
from ..parser import Parser
from ._engine import DETECTED, DiagnosticLog, dialect_of_model, notes_in, offered

_log: Final = logging.getLogger(__name__)
_REGISTRY: Final = "verl.experimental.agent_loop.tool_parser"


def tool_parser(base: type, call: Callable[..., Any], dialect: str = "") -> type:
    """A class for verl's registry.

    :param base: its ``ToolParser``.
    :param call: its ``FunctionCall``.
    :param dialect: empty: the one that the tokenizer's chat template speaks.
    """
    diagnostics = DiagnosticLog(_log)

    class UnspoolToolParser(base):  # type: ignore[misc]
        """Reads the calls of one family, by ids."""

        def __init__(self, tokenizer: Any) -> None:
            super().__init__(tokenizer)
            named = dialect or dialect_of_model(tokenizer)[0]
            self.dialect: Dialect = find(named, tokenizer)

        @property
        def stop_token_ids(self) -> list[int]:
            """What ends generation in this family."""
            ends = () if self.dialect.request is None else facts_of(self.dialect).eos
            special = as_tokenizer(self.tokenizer).special_tokens()
            return [id for id, literal in special.items() if literal in ends]

        async def extract_tool_calls(
            self, responses_ids: Sequence[int], tools: Sequence[Any] | None = None
        ) -> tuple[str, list[Any]]:
            """The content of the message, and its calls."""
            return await asyncio.to_thread(self.read, responses_ids, tools)

        def read(self, ids: Sequence[int], tools: Sequence[Any] | None = None) -> tuple[str, list[Any]]:
            """The same, now."""
            parser = Parser(
                self.dialect,
                tools=None if tools is None else [_schema(tool) for tool in tools],
                tokenizer=self.tokenizer,
                new_id=lambda name, index: "",  # noqa: ARG005 - an id is the model's here, or none
            )
            events = parser.feed_tokens(list(ids)) + parser.finish()
            diagnostics.report(self.dialect.name, notes_in(events))
            message = parser.message(events)
            calls = [
                call(name=each.name, arguments=each.arguments, tool_call_id=each.id or None)
                for each in message.tool_calls
            ]
            # Of framed messages a template writes the headers itself: reasoning would be in the wrong one.
            framed = self.dialect.frame is not None
            return (message.content or "") if framed else written(events), calls

    return UnspoolToolParser


def written(events: Sequence[Event]) -> str:
    """What the model wrote, but for its calls and the end of its turn."""
    out: list[str] = []
    for event in events:
        match event:
            case Text(_, text) | Markup("reasoning_open" | "reasoning_close", text):
                out.append(text)
            case CallEnd(_, _, raw):
                out.append(raw)  # of a broken call
    return "".join(out).strip("\n")


def _schema(tool: Any) -> Any:
    """A tool as JSON values: verl has a class for it."""
    dump = getattr(tool, "model_dump", None)
    return dump(exclude_unset=True, exclude_none=True) if callable(dump) else tool


def register() -> tuple[str, ...]:
    """Put our parsers into verl's registry, under names of their own; which are returned."""
    try:
        module = importlib.import_module(_REGISTRY)
        base, call = module.ToolParser, module.FunctionCall
    except (ImportError, AttributeError) as error:
        raise UsageError(f"there is no registry of tool parsers at {_REGISTRY}: {error}") from error
    names = {DETECTED: "", **offered()}
    for name, dialect in names.items():
        base.register(name)(tool_parser(base, call, dialect))
    return tuple(names)


if "verl" in sys.modules:  # it is verl that imports us, or somebody who has imported verl
    try:
        register()
    except UsageError as error:
        _log.warning("unspool is not among verl's tool parsers: %s", error)

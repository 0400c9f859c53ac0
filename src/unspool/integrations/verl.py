"""Tool parsers for verl, which are added to verl's registry when this module is imported.

Set ``VERL_USE_EXTERNAL_MODULES=unspool.integrations.verl``, so that verl imports this module in each of its
processes.  Then set ``actor_rollout_ref.rollout.multi_turn.format`` to ``unspool_DIALECT``, or to ``unspool``
to detect the dialect from the model's chat template.

This module was tested with verl 0.9.1 (``verl/experimental/agent_loop/tool_parser.py``):

* verl creates a parser with the tokenizer.  ``await extract_tool_calls(ids, tools)`` returns the content and
  the calls of the assistant message.
* The content becomes part of the next prompt.  Therefore reasoning stays in the content, as the model wrote
  it.
* A malformed or truncated call is not returned as a call; its text stays in the content.
* verl does not pass the prompt to a parser.  So the parser does not know whether the prompt has opened
  reasoning.  If the prompt has opened reasoning, text in this reasoning that looks like a call is parsed as a
  call.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..dialects import Dialect, end_tokens, facts_of, find
from ..errors import UsageError
from ..events import CallEnd, Event, Markup, Text
from ..parser import Parser
from ..tokens import as_tokenizer
from ._detect_from_tokenizer import detect_served_dialect
from ._diagnostic_log import DiagnosticLog, diagnostics_in
from ._registered_parser_names import DETECTED, parser_names

_log: Final = logging.getLogger(__name__)
_REGISTRY: Final = "verl.experimental.agent_loop.tool_parser"


def tool_parser(base: type, call: Callable[..., Any], dialect: str = "") -> type:
    """Create a parser class for verl's registry.

    :param base: verl's class ``ToolParser``.
    :param call: verl's class ``FunctionCall``.
    :param dialect: the name of the dialect; if empty, the dialect is detected from the tokenizer's chat
        template.
    """
    log = DiagnosticLog(_log)

    class UnspoolToolParser(base):  # type: ignore[misc]
        """Tool parser for one dialect, which parses token ids."""

        def __init__(self, tokenizer: Any) -> None:
            super().__init__(tokenizer)
            self.dialect: Dialect = find(dialect or detect_served_dialect(tokenizer)[0], tokenizer)

        @property
        def stop_token_ids(self) -> list[int]:
            """The ids of the tokens that end generation."""
            facts = None if self.dialect.request is None else facts_of(self.dialect)
            ends = () if facts is None else end_tokens(self.dialect, facts)
            special = as_tokenizer(self.tokenizer).special_tokens()
            return [id for id, literal in special.items() if literal in ends]

        async def extract_tool_calls(
            self, responses_ids: Sequence[int], tools: Sequence[Any] | None = None
        ) -> tuple[str, list[Any]]:
            """Parse an output in another thread; return the content and the calls of the message."""
            return await asyncio.to_thread(self.parse, responses_ids, tools)

        def parse(self, ids: Sequence[int], tools: Sequence[Any] | None = None) -> tuple[str, list[Any]]:
            """Parse an output in the calling thread; return the content and the calls of the message."""
            parser = Parser(
                self.dialect,
                tools=None if tools is None else [_schema(tool) for tool in tools],
                tokenizer=self.tokenizer,
                new_id=lambda name, index: "",  # noqa: ARG005 - only ids that the model wrote are kept
            )
            events = parser.feed_tokens(list(ids)) + parser.finish()
            log.report(self.dialect.name, diagnostics_in(events))
            message = parser.message(events)
            calls = [
                call(name=each.name, arguments=each.arguments, tool_call_id=each.id or None)
                for each in message.tool_calls
            ]
            # If messages have headers, the chat template writes the headers itself.  Leave out reasoning,
            # which would end up under the wrong header.
            framed = self.dialect.frame is not None
            return (message.content or "") if framed else text_without_calls(events), calls

    return UnspoolToolParser


def text_without_calls(events: Sequence[Event]) -> str:
    """Return the model's text, without complete calls and without the marker that ends the turn."""
    out: list[str] = []
    for event in events:
        match event:
            case Text(_, text) | Markup("reasoning_open" | "reasoning_close", text):
                out.append(text)
            case CallEnd(_, _, raw):  # the raw text of a broken call; empty for a complete call
                out.append(raw)
    return "".join(out).strip("\n")


def _schema(tool: Any) -> Any:
    """Convert a tool, which may be one of verl's Pydantic models, to JSON values."""
    dump = getattr(tool, "model_dump", None)
    return dump(exclude_unset=True, exclude_none=True) if callable(dump) else tool


def register() -> tuple[str, ...]:
    """Add unspool's parsers to verl's registry, and return their names."""
    try:
        module = importlib.import_module(_REGISTRY)
        base, call = module.ToolParser, module.FunctionCall
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"verl has no registry of tool parsers at {_REGISTRY} ({error}): use verl 0.9.1"
        ) from error
    names = {DETECTED: "", **parser_names()}
    for name, dialect in names.items():
        base.register(name)(tool_parser(base, call, dialect))
    return tuple(names)


if "verl" in sys.modules:  # true if verl imports this module, or if verl was imported before this module
    try:
        register()
    except UsageError as error:
        _log.warning("unspool is not among verl's tool parsers: %s", error)

"""vLLM: its parsers of calls and reasoning are ours, under names of ours or, on request, its own.

The entry point ``vllm.general_plugins`` calls :func:`register` in every process
of the engine.  It enters names into two registries and no more; what is behind
a name is imported when the engine asks for it.

============  ================================================================
compat        vLLM's classes, wherever its release keeps them
parsers       the classes behind the names
speech        how the served model writes, found out once
requests      vLLM's requests as plans, and back
unified       reasoning, content and calls by one machine, for the server
halves        the reasoning parser and the tool parser, where one is others'
messages      deltas in vLLM's classes
============  ================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from inspect import signature
from typing import Any, Final

from .._engine import DETECTED, offered, replaced, unknown
from . import _parser_classes as parsers

_HARMONY: Final = ("openai", "openai_gptoss")
"""For gpt-oss vLLM's server renders, parses and runs tools by code of its own: nothing to replace."""


def register() -> None:
    """Make our names known to vLLM.  May be called again."""
    try:
        _register()
    except Exception as error:  # noqa: BLE001 - the engine must start, whatever it has become
        parsers.step_back(error)


def _register() -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    own: dict[str, None] = {}
    _enter(ToolParserManager, "tools", ToolParserManager.tool_parsers, own)
    _enter(ReasoningParserManager, "reasoning", ReasoningParserManager.reasoning_parsers, own)
    for name in unknown(own):
        parsers.log.warning("unspool: UNSPOOL_REPLACE names %s, which vLLM does not have", name)
    _unify()


def _enter(manager: Any, kind: parsers.Kind, loaded: dict[str, Any], own: dict[str, None]) -> None:
    """Enter our names into one of the registries.

    :param loaded: its classes that were asked for already.
    :param own: is given the names that it has.
    """
    for name, place in manager.lazy_parsers.items():
        if place[0] != parsers.__name__:
            parsers.OWN[kind, name] = place
            own[name] = None
    ours = {DETECTED: DETECTED, **offered()}
    for name in replaced([name for of, name in parsers.OWN if of == kind and name not in _HARMONY]):
        if parsers.is_known(name):
            ours[name] = name
            loaded.pop(name, None)
    for name, dialect in ours.items():
        manager.register_lazy_module(name, parsers.__name__, f"{kind}:{dialect}")


def _unify() -> None:
    """Have vLLM's server read reasoning and calls by one parser where both are ours.

    It has no registry for such parsers, so the method that composes one is wrapped.
    """
    from vllm.parser.parser_manager import ParserManager

    original = ParserManager.get_parser.__func__
    if getattr(original, "by_unspool", False):
        return
    parameters = signature(original)

    @wraps(original)
    def get_parser(cls: Any, *args: Any, **kwargs: Any) -> Any:
        asked = parameters.bind(cls, *args, **kwargs)
        asked.apply_defaults()
        return _ours(cls, asked.arguments) or original(cls, *args, **kwargs)

    get_parser.by_unspool = True  # type: ignore[attr-defined]
    ParserManager.get_parser = classmethod(get_parser)


def _ours(manager: Any, asked: Mapping[str, Any]) -> Any:
    """The class of the server's parsers, if all that it asks for is ours."""
    if asked.get("is_harmony"):
        return None
    reasoning = manager.get_reasoning_parser(asked["reasoning_parser_name"])
    tools = manager.get_tool_parser(
        asked["tool_parser_name"], asked["enable_auto_tools"], asked["model_name"]
    )
    found = [part for part in (tools, reasoning) if part is not None]
    if not found or not all(hasattr(part, "speaks") for part in found):
        return None
    try:
        from ._unified_parser import compose

        parser = compose(tools, reasoning, strict=asked.get("tool_strict_level", "auto") != "auto")
    except Exception as error:  # noqa: BLE001 - the halves do the same, by text
        parsers.step_back(error)
        return None
    tokenizer = asked.get("tokenizer")
    if tokenizer is not None:
        manager.validate_parser_tokenizer(
            parser,
            tokenizer,
            tool_parser_name=asked["tool_parser_name"],
            reasoning_parser_name=asked["reasoning_parser_name"],
            model_name=asked["model_name"],
        )
    return parser

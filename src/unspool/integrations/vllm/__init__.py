"""vLLM plug-in: tool call and reasoning parsers, loaded by the entry point ``vllm.general_plugins``.

vLLM calls :func:`register` in each of its processes.  ``register`` only adds names to vLLM's two parser
registries.  The class for a name is imported when the engine needs it.

===============================  ================================================================
``_compat``                      imports of vLLM's classes from all supported releases
``_parser_classes``              the parser class for each registered name
``_model_format``                the dialect of the served model, and data from its tokenizer
``_plan_requests``               conversion of vLLM's requests to plans, and of plans to requests
``_unified_parser``              one parser for reasoning, content and calls, used by the server
``_reasoning_and_tool_parsers``  separate parsers for reasoning and for calls
``_delta_messages``              conversion of deltas to vLLM's classes
``_server_patches``              patches of vLLM's servers for answers that are not streamed
===============================  ================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from inspect import signature
from typing import Any, Final

from .._registered_parser_names import DETECTED, names_to_replace, parser_names, unknown_names
from . import _parser_classes as parsers

_HARMONY: Final = ("openai", "openai_gptoss")
"""Parser names for gpt-oss, which cannot be replaced because vLLM's server has separate code for gpt-oss."""


def register() -> None:
    """Add unspool's parser names to vLLM's registries; a second call has no effect."""
    try:
        _register()
    except Exception as error:  # noqa: BLE001 - the engine must start with any release
        parsers.warn_unknown_release(error)


def _register() -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    own: dict[str, None] = {}
    _enter(ToolParserManager, "tools", ToolParserManager.tool_parsers, own)
    _enter(ReasoningParserManager, "reasoning", ReasoningParserManager.reasoning_parsers, own)
    for name in unknown_names(own):
        parsers.log.warning("unspool: UNSPOOL_REPLACE names %s, which vLLM does not have", name)
    _wrap_parser_manager()


def _enter(manager: Any, kind: parsers.Kind, classes: dict[str, Any], own: dict[str, None]) -> None:
    """Add unspool's parser names to one of vLLM's registries.

    :param classes: the registry's cache of imported classes.
    :param own: a dictionary to which vLLM's own parser names are added as keys.
    """
    for name, place in manager.lazy_parsers.items():
        if place[0] != parsers.__name__:
            parsers.OWN_PARSERS[kind, name] = place
            own[name] = None
    ours = {DETECTED: DETECTED, **parser_names()}
    replaceable = [name for of, name in parsers.OWN_PARSERS if of == kind and name not in _HARMONY]
    for name in names_to_replace(replaceable):
        if parsers.is_known(name):
            ours[name] = name
            classes.pop(name, None)
    for name, dialect in ours.items():
        manager.register_lazy_module(name, parsers.__name__, f"{kind}:{dialect}")


def _wrap_parser_manager() -> None:
    """Make vLLM's server use one combined parser if its tool and reasoning parsers are both unspool's.

    vLLM has no registry for such combined parsers, so the method that creates them is wrapped.
    """
    from vllm.parser.parser_manager import ParserManager

    original = ParserManager.get_parser.__func__
    if getattr(original, "by_unspool", False):
        return
    parameters = signature(original)

    @wraps(original)
    def get_parser(cls: Any, *args: Any, **kwargs: Any) -> Any:
        bound = parameters.bind(cls, *args, **kwargs)
        bound.apply_defaults()
        unified = _unified_parser_for(cls, bound.arguments)
        return unified or _with_our_halves(original(cls, *args, **kwargs))

    get_parser.by_unspool = True  # type: ignore[attr-defined]
    ParserManager.get_parser = classmethod(get_parser)


def _with_our_halves(composed: Any) -> Any:
    """Return vLLM's combined parser, adapted if its reasoning parser is unspool's."""
    if hasattr(getattr(composed, "reasoning_parser_cls", None), "dialect_name"):
        from ._unified_parser import with_reasoning_parser

        return with_reasoning_parser(composed)
    return composed


def _unified_parser_for(manager: Any, options: Mapping[str, Any]) -> Any:
    """Return the class of the combined parser; None if any of the requested parsers is not unspool's.

    :param options: the arguments of ``get_parser``.
    """
    if options.get("is_harmony"):
        return None
    reasoning = manager.get_reasoning_parser(options["reasoning_parser_name"])
    tools = manager.get_tool_parser(
        options["tool_parser_name"], options["enable_auto_tools"], options["model_name"]
    )
    parts = [part for part in (tools, reasoning) if part is not None]
    if not parts or not all(hasattr(part, "dialect_name") for part in parts):
        return None
    try:
        from ._unified_parser import compose

        parser = compose(tools, reasoning, tool_strict_level=options.get("tool_strict_level"))
    except Exception as error:  # noqa: BLE001 - without a combined parser, the two separate parsers are used
        parsers.warn_unknown_release(error)
        return None
    tokenizer = options.get("tokenizer")
    if tokenizer is not None:
        manager.validate_parser_tokenizer(
            parser,
            tokenizer,
            tool_parser_name=options["tool_parser_name"],
            reasoning_parser_name=options["reasoning_parser_name"],
            model_name=options["model_name"],
        )
    return parser

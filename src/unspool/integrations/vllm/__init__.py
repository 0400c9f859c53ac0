"""vLLM plug-in: tool call and reasoning parsers, loaded by the entry point ``vllm.general_plugins``.

vLLM calls :func:`register` in each of its processes.  ``register`` only adds names to vLLM's two parser
registries.  The class for a name is imported when the engine needs it.

===============================  ================================================================
``_compat``                      imports of vLLM's classes from all supported releases
``_parser_classes``              the parser class for each registered name
``_compose_parsers``             the parser class of a server, and its check at the start
``_model_format``                the dialect of the served model, and data from its tokenizer
``_plan_requests``               conversion of vLLM's requests to plans, and of plans to requests
``_unified_parser``              one parser for reasoning, content and calls, used by the server
``_reasoning_and_tool_parsers``  separate parsers for reasoning and for calls
``_delta_messages``              conversion of deltas to vLLM's classes
``_server_patches``              patches of vLLM's servers for answers that are not streamed
===============================  ================================================================
"""

from __future__ import annotations

from functools import wraps
from inspect import signature
from typing import Any, Final

from ...errors import UnspoolError
from .._registered_parser_names import (
    DETECTED,
    NamesOnDemand,
    is_known,
    names_on_command_line,
    names_to_replace,
    unknown_names,
)
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
        parsers.warn_unknown_name(name)
    _wrap_parser_manager(ReasoningParserManager, ToolParserManager)


def _enter(manager: Any, kind: parsers.Kind, classes: dict[str, Any], own: dict[str, None]) -> None:
    """Add unspool's parser names to one of vLLM's registries.

    :param classes: the registry's cache of imported classes.
    :param own: a dictionary to which vLLM's own parser names are added as keys.
    """

    def place(name: str, dialect: str) -> tuple[str, str]:
        del name
        return parsers.__name__, f"{kind}:{dialect}"

    for name, found in manager.lazy_parsers.items():
        if found[0] != parsers.__name__:
            parsers.OWN_PARSERS[kind, name] = found
            own[name] = None
    ours = {DETECTED: DETECTED, **names_on_command_line()}
    replaceable = [name for of, name in parsers.OWN_PARSERS if of == kind and name not in _HARMONY]
    for name in names_to_replace(replaceable):
        if is_known(name):
            ours[name] = name
            classes.pop(name, None)
    for name, dialect in ours.items():
        manager.register_lazy_module(name, *place(name, dialect))
    if not isinstance(manager.lazy_parsers, NamesOnDemand):
        manager.lazy_parsers = NamesOnDemand(manager.lazy_parsers, place)


def _wrap_parser_manager(*registries: Any) -> None:
    """Make vLLM's server use one combined parser if its tool and reasoning parsers are both unspool's.

    vLLM has no registry for such combined parsers, so the method that creates them is wrapped.  The wrapper
    calls the method unchanged unless an argument is a name of unspool's, and also if unspool's parsers do not
    work in this release.  In the second case, unspool's names stand for vLLM's own parsers.
    """
    from vllm.parser.parser_manager import ParserManager

    original = ParserManager.get_parser.__func__
    if getattr(original, "by_unspool", False):
        return

    parameters = signature(original)

    def is_ours(name: object) -> bool:
        if not isinstance(name, str):
            return False
        places = [registry.lazy_parsers[name] for registry in registries if name in registry.lazy_parsers]
        return any(place[0] == parsers.__name__ for place in places)

    @wraps(original)
    def get_parser(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(map(is_ours, (*args, *kwargs.values()))):
            return original(cls, *args, **kwargs)
        try:
            from ._compose_parsers import choose_parser

            choice = choose_parser(cls, parameters.bind(cls, *args, **kwargs))
        except UnspoolError:  # the user's settings, not vLLM's release, are at fault
            raise
        except Exception as error:  # noqa: BLE001 - the engine must start with any release
            parsers.use_own_parsers(error, registries)
            return original(cls, *args, **kwargs)
        return choice.validated() if choice.unified else choice.adapt(original(cls, *args, **kwargs))

    get_parser.by_unspool = True  # type: ignore[attr-defined]
    ParserManager.get_parser = classmethod(get_parser)

"""The parser class of a server that names unspool's parsers, and a check of this class at the start.

The modules of this package build on vLLM's classes, and also on attributes of them that are not documented.
A release may keep all names and yet behave differently.  So the class parses a short output, whole and
streamed, before the server uses the class.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import BoundArguments
from typing import Any, NamedTuple

from ...errors import UnspoolError
from . import _compat as compat
from ._model_format import without_log
from ._unified_parser import compose, with_reasoning_parser


class Choice(NamedTuple):
    """How a server parses outputs: with unspool's combined parser, or with vLLM's."""

    unified: Any
    """The class of unspool's combined parser; None if the server also has a parser of vLLM."""
    validated: Callable[[], Any]
    """Function that returns ``unified`` after vLLM's own check of its constructor."""
    adapt: Callable[[Any], Any]
    """Function that adapts vLLM's combined parser, which has one parser of unspool."""


def choose_parser(manager: Any, bound: BoundArguments) -> Choice:
    """Return how a server that names one of unspool's parsers parses outputs.

    :param manager: vLLM's class that creates combined parsers.
    :param bound: the arguments of the method that creates them.
    :raises Exception: if unspool's parsers do not work in this release.
    """
    bound.apply_defaults()
    options = bound.arguments
    tokenizer = options.get("tokenizer")
    reasoning = manager.get_reasoning_parser(options["reasoning_parser_name"])
    tools = manager.get_tool_parser(
        options["tool_parser_name"], options["enable_auto_tools"], options["model_name"]
    )
    parts = [part for part in (tools, reasoning) if part is not None]
    ours = [part for part in parts if hasattr(part, "dialect_name")]
    if ours:
        compat.warn_untested_release()
    if not ours or ours != parts or options.get("is_harmony"):
        adapts = hasattr(reasoning, "dialect_name") and not options.get("is_harmony")
        return Choice(None, lambda: None, with_reasoning_parser if adapts else _unchanged)
    parser = compose(tools, reasoning, tool_strict_level=options.get("tool_strict_level"))
    with without_log():
        check(parser, tokenizer)

    def validated() -> Any:
        if tokenizer is not None:
            manager.validate_parser_tokenizer(
                parser,
                tokenizer,
                tool_parser_name=options["tool_parser_name"],
                reasoning_parser_name=options["reasoning_parser_name"],
                model_name=options["model_name"],
            )
        return parser

    return Choice(parser, validated, _unchanged)


def _unchanged(parser: Any) -> Any:
    return parser


def check(parser: Any, tokenizer: Any) -> None:
    """Parse a short output as the server does, whole and streamed.

    :param tokenizer: the model's tokenizer; without it, only the class is checked.
    :raises Exception: if vLLM's classes differ from those with which the parser was written.
    """
    if not callable(parser._initialize_history_tool_call_cnt):  # noqa: SLF001 - vLLM has no public name for it
        raise TypeError("_initialize_history_tool_call_cnt is not a method")
    if tokenizer is None:
        return
    try:
        made = parser(tokenizer, None, chat_template_kwargs={}, model_config=None)
    except UnspoolError:
        return  # the tokenizer or the settings are at fault, and vLLM's own check reports that
    function = {"name": "check", "parameters": {"type": "object", "properties": {}}}
    request = made.adjust_request(
        compat.ChatCompletionRequest(
            model="",
            messages=[{"role": "user", "content": "Hi"}],
            tools=[{"type": "function", "function": function}],
        )
    )
    prompt = list(tokenizer.encode("Hi", add_special_tokens=False))
    ids = list(tokenizer.encode("Yes.", add_special_tokens=False))
    made.is_reasoning_end(prompt)
    made.set_prompt_token_ids(prompt)
    made.parse("Yes.", request, True, ids)
    made.count_reasoning_tokens(ids)
    streamed = parser(tokenizer, request.tools, chat_template_kwargs={}, model_config=None)
    for start, finished in ((0, False), (1, True)):
        streamed.parse_delta("Yes."[start * 2 :][:2], ids[start:][:1], request, prompt, finished=finished)

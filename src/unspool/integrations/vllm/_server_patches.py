"""Patches of vLLM's servers, for answers that are not streamed.

A patch is installed only in a server that names one of unspool's parsers, and acts only if the server's
parser is unspool's.  If a patch fails, the server's own method serves the request, and one line is logged.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from functools import wraps
from http import HTTPStatus
from typing import Any

from ...wire import (
    is_poisoned,
    is_poisoned_as_malformed,
    remove_poison,
    unsendable_call,
)
from . import _compat as compat
from ._parser_classes import warn_unknown_release


def patch_servers(ours: type) -> None:
    """Install all patches; a second call has no effect.

    :param ours: the base class of unspool's combined parsers.
    """

    def is_ours(server: Any) -> bool:
        parser = getattr(server, "parser_cls", None)
        return isinstance(parser, type) and issubclass(parser, ours)

    if not compat.reports_engine_finish_reason():
        _patch(compat.chat_serving(), "chat_completion_full_generator", _report_finish_reason, is_ours)
    _patch(compat.anthropic_serving(), "messages_full_converter", _handle_broken_calls, is_ours)


def _patch(
    server: Any, name: str, patch: Callable[[Any, Callable[[Any], bool]], Any], is_ours: Callable[[Any], bool]
) -> None:
    method = getattr(server, name, None)
    if method is None:
        if server is not None:
            warn_unknown_release(
                AttributeError(f"{server.__name__} has no {name}"), "its answers are its own"
            )
        return
    if not getattr(method, "by_unspool", False):
        patched = wraps(method)(patch(method, is_ours))
        patched.by_unspool = True  # type: ignore[attr-defined]
        setattr(server, name, patched)


# -- the finish reason of Chat Completions


class _LastOutput:
    """The last output of an engine, which has the finish reasons of all choices."""

    def __init__(self) -> None:
        self.value: Any = None

    async def follow(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the outputs unchanged, and keep the last one."""
        async for self.value in outputs:
            yield self.value


def _report_finish_reason(generate: Any, is_ours: Callable[[Any], bool]) -> Any:
    """Make answers with calls report the engine's finish reason, unless generation stopped by itself.

    Before vLLM 0.33, an answer with calls that is not streamed always reports ``tool_calls``, even if a token
    limit cut the last call.  A streamed answer reports the engine's reason.
    """
    parameters = inspect.signature(generate)

    async def generate_with_reason(self: Any, *args: Any, **kwargs: Any) -> Any:
        last = _LastOutput()
        if is_ours(self):
            try:
                bound = parameters.bind(self, *args, **kwargs)
                bound.arguments["result_generator"] = last.follow(bound.arguments["result_generator"])
            except (TypeError, KeyError) as error:
                warn_unknown_release(error, "finish reasons are its own")
            else:
                response = await generate(*bound.args, **bound.kwargs)
                _set_finish_reasons(response, last.value)
                return response
        return await generate(self, *args, **kwargs)

    return generate_with_reason


def _set_finish_reasons(response: Any, output: Any) -> None:
    reasons = {each.index: each.finish_reason for each in getattr(output, "outputs", ())}
    for choice in getattr(response, "choices", ()):
        reason = reasons.get(choice.index)
        if choice.finish_reason == "tool_calls" and reason not in (None, "stop"):
            choice.finish_reason = reason


# -- broken calls in the Messages API


def _handle_broken_calls(convert: Any, is_ours: Callable[[Any], bool]) -> Any:
    """Leave truncated calls out of an answer, and answer with an error if a call is malformed.

    In the Messages API, the input of a call is an object.  So the server decodes all arguments as JSON, and
    fails if the call is malformed or truncated.
    """

    def converted(self: Any, generator: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_ours(self):
            return convert(self, generator, *args, **kwargs)
        for choice in generator.choices:
            calls = choice.message.tool_calls or []
            for call in calls:
                if is_poisoned_as_malformed(call.function.arguments):
                    error = unsendable_call(call.function.name, remove_poison(call.function.arguments))
                    return self.create_error_response(
                        str(error),
                        err_type="InternalServerError",
                        status_code=HTTPStatus.INTERNAL_SERVER_ERROR,
                    )
            choice.message.tool_calls = [call for call in calls if not is_poisoned(call.function.arguments)]
        return convert(self, generator, *args, **kwargs)

    return converted

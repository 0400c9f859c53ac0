"""Wrappers of SGLang's server methods, for setting the current turn.

Each wrapper calls the original method, and makes two values available that SGLang does not pass to its
detectors: the end of the prompt (``_keep_prompt``) and the finish reason (``Turn.finish``).  The wrappers of
one server class are installed together or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import wraps
from typing import Any, Final

from ...dialects import facts_of
from ...errors import MalformedOutput, UsageError
from ...parser import Parser
from ...planning.decide_special_tokens import stripped_markers
from ...planning.prompt_end import closes_reasoning
from ...wire import (
    is_poisoned,
    is_poisoned_as_malformed,
    remove_poison,
    unsendable_call,
)
from .._plug_in_policies import describe
from ._compat import log, run_guarded
from ._dialect_of_parser_name import REGISTERED_NAMES, is_unspool_name, policies_of, resolve_dialect
from ._turn_context import PROMPT_ATTRIBUTE, Turn, current_turn, turn_context

_PROMPT_TAIL: Final = 2048
"""Maximum number of tokens to decode at the end of a prompt, to see in which channel the output begins."""

_SPECIAL_CASES: Final = {
    "deepseek_v3_2": "deepseekv32",
    "glm47": "glm47",
    "hy_v3": "hunyuan",
    "hy_v4": "hunyuan",
    "iquest_q1": "iquest_q1",
    "k2_horizon": "k2_horizon",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "minimax_m3": "minimax-m3",
    "muse_glimmer": "muse",
}
"""SGLang's own parser names, keyed by dialect.  Each of these names affects other code in SGLang as well, for
example the code for prompts, call ids or reasoning switches.
"""

_logged: set[str] = set()


def wrap_chat_server(server: Any) -> None:
    """Wrap the methods of the Chat Completions server."""
    wrappers: list[tuple[str, Callable[[Any], Any]]] = [
        ("__init__", _log_dialect_after),
        ("_patch_reasoning_skip_special_tokens", _keep_special_tokens_after),
        ("_process_messages", _keep_prompt_after),
        ("_generate_stream_content", _stream_in_turn),
        ("_build_chat_response", _respond_in_turn),
        ("_decode_response", _note_choice_before),
    ]
    _wrap(server, wrappers)


def wrap_responses_server(server: Any) -> None:
    """Wrap the methods of the Responses server."""
    _wrap(
        server,
        [
            ("_make_request", _copy_prompt_after),
            ("_make_response_output_items", _make_items_in_turn),
            ("_responses_stream_generator_non_harmony", _stream_responses_in_turn),
        ],
    )


def wrap_messages_server(server: Any) -> None:
    """Wrap the methods of the Messages server."""
    wrappers = [
        ("_convert_response", _remove_broken_calls_before),
        ("_handle_non_streaming", _report_malformed_output),
    ]
    _wrap(server, wrappers)


def _wrap(server: Any, wrappers: Sequence[tuple[str, Callable[[Any], Any]]]) -> None:
    # Look up all methods before replacing the first one, so that the server remains unchanged if a method is
    # missing.
    methods = [(name, getattr(server, name), wrapper) for name, wrapper in wrappers]
    for name, method, wrapper in methods:
        setattr(server, name, wraps(method)(wrapper(method)))


# -- when the server starts


def _log_dialect_after(init: Any) -> Any:
    def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807
        init(self, *args, **options)
        log_dialect(self)

    return __init__


def log_dialect(server: Any) -> None:
    """Log the dialect of the served model.

    :raises ValueError: if the dialect has to be detected but is not certain, or if ``UNSPOOL_POLICIES`` is
        invalid; the error keeps the server from starting.
    """
    tool, reasoning = server.tool_call_parser, server.reasoning_parser
    ours = [name for name in (tool, reasoning) if name in REGISTERED_NAMES]
    if not ours:
        return
    dialect = resolve_dialect(
        tool if tool in ours else None,
        reasoning if reasoning in ours else None,
        server.tokenizer_manager.tokenizer,
    )
    parts = [part for part, name in (("calls", tool), ("reasoning", reasoning)) if name in ours]
    policies = describe(policies_of(dialect, server.tokenizer_manager.tokenizer))
    _log_once(f"unspool reads {' and '.join(parts)} of this model as {dialect.name}; policies: {policies}")
    own = _SPECIAL_CASES.get(dialect.name.partition(":")[0])
    if own is not None and own not in ours:
        _log_once(
            f"unspool: SGLang has more features for these models under its own parser name {own}; "
            f"set UNSPOOL_REPLACE={own} to use unspool under that name"
        )


def _log_once(line: str) -> None:
    if line not in _logged:
        _logged.add(line)
        log.info(line)


# -- when a prompt is rendered


def _keep_special_tokens_after(patch: Any) -> Any:
    def keep(self: Any, request: Any) -> None:
        patch(self, request)
        if request.skip_special_tokens and _strips_markers(self):
            request.skip_special_tokens = False

    return keep


def _strips_markers(server: Any) -> bool:
    """Return whether the detokenizer would remove needed markers from outputs without calls."""
    cached: bool | None = getattr(server, "_unspool_strips", None)
    if cached is None:
        cached = server._unspool_strips = _would_strip_markers(server)  # noqa: SLF001
    return cached


def _would_strip_markers(server: Any) -> bool:
    if not is_unspool_name(server.reasoning_parser) and not is_unspool_name(server.tool_call_parser):
        return False  # SGLang's own parsers need no change of the setting
    tokenizer = server.tokenizer_manager.tokenizer
    tool = server.tool_call_parser if is_unspool_name(server.tool_call_parser) else None
    reasoning = server.reasoning_parser if is_unspool_name(server.reasoning_parser) else None
    dialect = resolve_dialect(tool, reasoning, tokenizer)
    try:
        return bool(stripped_markers(dialect, tokenizer, calls=False, reasoning=reasoning is not None))
    except UsageError:  # unspool cannot read this vocabulary, so use the dialect's declared facts
        facts = facts_of(dialect)
        return facts.answers_special or bool(facts.thinking.special)


def _keep_prompt_after(process: Any) -> Any:
    def keep_prompt(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        turn = Turn(self, request)
        with turn_context(turn):
            processed = process(self, request, *args, **options)
        run_guarded(lambda: _keep_prompt(turn, processed))
        return processed

    return keep_prompt


def _keep_prompt(turn: Turn, processed: Any) -> None:
    """Store the end of the prompt on the request, and decide whether the output starts with reasoning."""
    tail = _prompt_tail(processed, turn.server.tokenizer_manager.tokenizer)
    if tail is not None:
        setattr(turn.request, PROMPT_ATTRIBUTE, tail)
        setattr(processed, PROMPT_ATTRIBUTE, tail)
        if is_unspool_name(turn.reasoning_parser):
            _decide_reasoning(turn, processed, tail)


def _decide_reasoning(turn: Turn, processed: Any, prompt: str) -> None:
    """Set ``require_reasoning`` according to the prompt, and override the server's own setting.

    If ``require_reasoning`` is set, a grammar is applied only after the end of reasoning.  But if the model
    skips reasoning, there is no such end.  So if the model may skip reasoning, the grammar is applied from
    the start of the output, and this grammar allows reasoning.
    """
    server = turn.server
    tool = turn.tool_parser if turn.tool_parser in REGISTERED_NAMES else None
    dialect = resolve_dialect(tool, turn.reasoning_parser, server.tokenizer_manager.tokenizer)
    if Parser(dialect, **turn.parser_start(dialect, prompt)).start_channel == "reasoning":
        processed.require_reasoning = True
    elif closes_reasoning(dialect, prompt):
        processed.require_reasoning = False
    elif turn.tag_with_reasoning is not None and processed.tool_call_constraint is not None:
        if processed.require_reasoning or facts_of(dialect).thinking.default == "model":
            processed.tool_call_constraint = ("structural_tag", turn.tag_with_reasoning())
        processed.require_reasoning = False


def _prompt_tail(processed: Any, tokenizer: Any) -> str | None:
    if isinstance(processed.prompt, str) and processed.prompt:
        return processed.prompt
    if not processed.prompt_ids or tokenizer is None:
        return None
    ids = processed.prompt_ids
    if isinstance(ids, str):
        return ids
    return str(tokenizer.decode(list(ids)[-_PROMPT_TAIL:], skip_special_tokens=False))


def _copy_prompt_after(make: Any) -> Any:
    async def copy_prompt(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        result = await make(self, request, *args, **options)
        tail = getattr(result[-1], PROMPT_ATTRIBUTE, None)
        if tail is not None:
            setattr(request, PROMPT_ATTRIBUTE, tail)
        return result

    return copy_prompt


# -- when an output is parsed


def _stream_in_turn(stream: Any) -> Any:
    def stream_in_turn(self: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        content = options["content"]
        turn = Turn(self, options["request"], content["meta_info"].get("finish_reason"))
        if self.tool_call_parser in REGISTERED_NAMES and options.get("finish_reason_type") == "abort":
            # If the reason were ``abort``, the server would not send the last deltas, so a truncated call
            # would look complete.
            options["finish_reason_type"] = "length"
        return _iterate_in_turn(stream(self, *args, **options), turn)

    return stream_in_turn


async def _iterate_in_turn(chunks: AsyncIterator[Any], turn: Turn) -> AsyncIterator[Any]:
    """Yield the chunks, and set the current turn only while a chunk is generated.

    Between two chunks, the asyncio task may work on other turns.
    """
    while True:
        with turn_context(turn):
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
        yield chunk


def _respond_in_turn(build: Any) -> Any:
    def respond(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        with turn_context(Turn(self, request)):
            return build(self, request, *args, **options)

    return respond


def _note_choice_before(decode: Any) -> Any:
    """Wrap ``decode``: before a choice is decoded, store the finish reason of this choice on the turn."""

    def decode_choice(self: Any, item: Any, *args: Any, **options: Any) -> Any:
        turn = current_turn()
        if turn is not None:
            turn.finish = item["meta_info"]["finish_reason"]
        return decode(self, item, *args, **options)

    return decode_choice


def _make_items_in_turn(make: Any) -> Any:
    def make_items(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        with turn_context(Turn(self, request, options.get("finish_reason"), responses=True)):
            return make(self, request, *args, **options)

    return make_items


def _stream_responses_in_turn(stream: Any) -> Any:
    def stream_in_turn(
        self: Any, request: Any, sampling: Any, results: Any, *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        turn = Turn(self, request, responses=True)
        noted = _note_finish(results, turn)
        return _iterate_in_turn(stream(self, request, sampling, noted, *args, **options), turn)

    return stream_in_turn


async def _note_finish(results: AsyncIterator[Any], turn: Turn) -> AsyncIterator[Any]:
    """Yield the results unchanged, and store the finish reason on the turn."""
    async for result in results:
        chunk = result if isinstance(result, dict) else getattr(result, "last_output", None)
        meta = chunk.get("meta_info") if isinstance(chunk, dict) else None
        turn.finish = (meta or {}).get("finish_reason") or turn.finish
        yield result


# -- broken calls in the Messages API


def _remove_broken_calls_before(convert: Any) -> Any:
    """Wrap ``convert`` to remove truncated calls, and to raise an error for malformed calls.

    In the Messages API, arguments are JSON objects.  If the arguments are not an object, the server would
    replace them with an empty object, and the call would look complete.
    """

    def convert_without_broken_calls(self: Any, response: Any, *args: Any, **options: Any) -> Any:
        for choice in response.choices:
            calls = choice.message.tool_calls or []
            for call in calls:
                raw = call.function.arguments or ""
                if is_poisoned_as_malformed(raw):
                    raise unsendable_call(call.function.name, remove_poison(raw))
            kept = [call for call in calls if not is_poisoned(call.function.arguments or "")]
            choice.message.tool_calls = kept or None
        return convert(self, response, *args, **options)

    return convert_without_broken_calls


def _report_malformed_output(handle: Any) -> Any:
    async def handle_with_errors(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return await handle(self, *args, **options)
        except MalformedOutput as error:
            return self._error_response(status_code=502, error_type="api_error", message=str(error))

    return handle_with_errors

"""Follows SGLang's servers: what they know of a turn is there while its output is read.

Each of these methods runs as it is; around it stands what it knows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import wraps
from typing import Any, Final

from ...dialects._registry import facts_of
from ...errors import MalformedOutput, UsageError
from ...parser import Parser
from ...planning._prompt_end import closes_reasoning
from ...planning._special_tokens import stripped_markers
from ...wire._poisoned_calls import (
    cannot_say,
    is_poisoned,
    is_poisoned_as_malformed,
    without_poison,
)
from ._compat import guarded, log
from ._names import STANDING, dialect_of, is_ours
from ._turn_context import PROMPT, Turn, current, reading

_TAIL: Final = 2048
"""So many tokens of the prompt are read: where the output begins is decided by the last turn."""

_BY_NAME: Final = {
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
"""Dialects that SGLang does something for by the name of its own parser: prompts, ids of calls, switches."""

_said: set[str] = set()


def follow_chat(server: Any) -> None:
    """Follow the server of Chat Completions."""
    steps: list[tuple[str, Callable[[Any], Any]]] = [
        ("__init__", _announced),
        ("_patch_reasoning_skip_special_tokens", _keeps_markers),
        ("_process_messages", _remembers_prompt),
        ("_generate_stream_content", _streams),
        ("_build_chat_response", _answers),
        ("_decode_response", _begins_choice),
    ]
    _follow(server, steps)


def follow_responses(server: Any) -> None:
    """Follow the server of Responses."""
    _follow(
        server,
        [
            ("_make_request", _hands_prompt_on),
            ("_make_response_output_items", _answers_responses),
            ("_responses_stream_generator_non_harmony", _streams_responses),
        ],
    )


def follow_messages(server: Any) -> None:
    """Follow the server of Messages."""
    _follow(server, [("_convert_response", _without_broken), ("_handle_non_streaming", _fails_well)])


def _follow(server: Any, steps: Sequence[tuple[str, Callable[[Any], Any]]]) -> None:
    found = [(name, getattr(server, name), step) for name, step in steps]  # all, or none
    for name, method, step in found:
        setattr(server, name, wraps(method)(step(method)))


# -- when the server starts


def _announced(init: Any) -> Any:
    def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807
        init(self, *args, **options)
        announce(self)

    return __init__


def announce(server: Any) -> None:
    """Say which dialect is read; refuse to serve where nobody can tell."""
    tool, reasoning = server.tool_call_parser, server.reasoning_parser
    ours = [name for name in (tool, reasoning) if name in STANDING]
    if not ours:
        return
    dialect = dialect_of(
        tool if tool in ours else None,
        reasoning if reasoning in ours else None,
        server.tokenizer_manager.tokenizer,
    )
    _say(f"unspool: outputs are read as {dialect.name}")
    own = _BY_NAME.get(dialect.name.partition(":")[0])
    if own is not None and own not in ours:
        _say(
            f"unspool: SGLang does more for these models under the name {own}; "
            f"UNSPOOL_REPLACE={own} puts unspool there"
        )


def _say(line: str) -> None:
    if line not in _said:
        _said.add(line)
        log.info(line)


# -- when a prompt is made


def _keeps_markers(patch: Any) -> Any:
    def keep(self: Any, request: Any) -> None:
        patch(self, request)
        if request.skip_special_tokens and _strips_markers(self):
            request.skip_special_tokens = False

    return keep


def _strips_markers(server: Any) -> bool:
    """Whether an output without calls has markers that the detokenizer would take out."""
    known: bool | None = getattr(server, "_unspool_strips", None)
    if known is None:
        known = server._unspool_strips = _would_strip(server)  # noqa: SLF001
    return known


def _would_strip(server: Any) -> bool:
    if not is_ours(server.reasoning_parser) and not is_ours(server.tool_call_parser):
        return False  # under its own names, the server knows
    tokenizer = server.tokenizer_manager.tokenizer
    tool = server.tool_call_parser if is_ours(server.tool_call_parser) else None
    reasoning = server.reasoning_parser if is_ours(server.reasoning_parser) else None
    dialect = dialect_of(tool, reasoning, tokenizer)
    try:
        return bool(stripped_markers(dialect, tokenizer, calls=False, reasoning=reasoning is not None))
    except UsageError:  # a vocabulary that cannot be asked
        facts = facts_of(dialect)
        return "yes" in (facts.answers_special, facts.thinking.special)


def _remembers_prompt(process: Any) -> Any:
    def remember(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        turn = Turn(self, request)
        with reading(turn):
            made = process(self, request, *args, **options)
        guarded(lambda: _keep_prompt(turn, made))
        return made

    return remember


def _keep_prompt(turn: Turn, made: Any) -> None:
    """Write down what the prompt ends with, and what follows from it."""
    tail = _prompt_tail(made, turn.server.tokenizer_manager.tokenizer)
    if tail is not None:
        setattr(turn.request, PROMPT, tail)
        setattr(made, PROMPT, tail)
        if is_ours(turn.reasoning):
            _settle_reasoning(turn, made, tail)


def _settle_reasoning(turn: Turn, made: Any, prompt: str) -> None:
    """Whether reasoning comes first: the prompt has the last word on what the server believes.

    Where only the model may begin it, a grammar must not wait for an end that may never
    come: it has the reasoning in it.
    """
    server = turn.server
    tool = turn.tool if turn.tool in STANDING else None
    dialect = dialect_of(tool, turn.reasoning, server.tokenizer_manager.tokenizer)
    if Parser(dialect, **turn.begins(dialect, prompt)).start_channel == "reasoning":
        made.require_reasoning = True
    elif closes_reasoning(dialect, prompt):
        made.require_reasoning = False
    elif turn.reasoned_tag is not None and made.tool_call_constraint is not None:
        if made.require_reasoning or facts_of(dialect).thinking.default == "model":
            made.tool_call_constraint = ("structural_tag", turn.reasoned_tag())
        made.require_reasoning = False


def _prompt_tail(made: Any, tokenizer: Any) -> str | None:
    if isinstance(made.prompt, str) and made.prompt:
        return made.prompt
    if not made.prompt_ids or tokenizer is None:
        return None
    ids = made.prompt_ids
    if isinstance(ids, str):
        return ids
    return str(tokenizer.decode(list(ids)[-_TAIL:], skip_special_tokens=False))


def _hands_prompt_on(make: Any) -> Any:
    async def hand_on(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        made = await make(self, request, *args, **options)
        tail = getattr(made[-1], PROMPT, None)
        if tail is not None:
            setattr(request, PROMPT, tail)
        return made

    return hand_on


# -- when an output is read


def _streams(stream: Any) -> Any:
    def follow(self: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        content = options["content"]
        turn = Turn(self, options["request"], content["meta_info"].get("finish_reason"))
        if self.tool_call_parser in STANDING and options.get("finish_reason_type") == "abort":
            # An aborted stream would leave a call that looks as if nothing were missing.
            options["finish_reason_type"] = "length"
        return _stepwise(stream(self, *args, **options), turn)

    return follow


async def _stepwise(chunks: AsyncIterator[Any], turn: Turn) -> AsyncIterator[Any]:
    """The chunks, each made while the turn is current: between two of them others may be."""
    while True:
        with reading(turn):
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
        yield chunk


def _answers(build: Any) -> Any:
    def answer(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        with reading(Turn(self, request)):
            return build(self, request, *args, **options)

    return answer


def _begins_choice(decode: Any) -> Any:
    """Choices are read one after the other, each from the text that this gives."""

    def begin(self: Any, item: Any, *args: Any, **options: Any) -> Any:
        turn = current()
        if turn is not None:
            turn.finish = item["meta_info"]["finish_reason"]
        return decode(self, item, *args, **options)

    return begin


def _answers_responses(make: Any) -> Any:
    def answer(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        with reading(Turn(self, request, options.get("finish_reason"), responses=True)):
            return make(self, request, *args, **options)

    return answer


def _streams_responses(stream: Any) -> Any:
    def follow(
        self: Any, request: Any, sampling: Any, results: Any, *args: Any, **options: Any
    ) -> AsyncIterator[Any]:
        turn = Turn(self, request, responses=True)
        return _stepwise(stream(self, request, sampling, _noted(results, turn), *args, **options), turn)

    return follow


async def _noted(results: AsyncIterator[Any], turn: Turn) -> AsyncIterator[Any]:
    """The results, with how the output ended written down as it passes."""
    async for result in results:
        chunk = result if isinstance(result, dict) else getattr(result, "last_output", None)
        meta = chunk.get("meta_info") if isinstance(chunk, dict) else None
        turn.finish = (meta or {}).get("finish_reason") or turn.finish
        yield result


# -- what Messages cannot say


def _without_broken(convert: Any) -> Any:
    """Messages have objects for arguments: what is none would become an empty one, which looks complete."""

    def without(self: Any, response: Any, *args: Any, **options: Any) -> Any:
        for choice in response.choices:
            calls = choice.message.tool_calls or []
            for call in calls:
                raw = call.function.arguments or ""
                if is_poisoned_as_malformed(raw):
                    raise cannot_say(call.function.name, without_poison(raw))
            kept = [call for call in calls if not is_poisoned(call.function.arguments or "")]
            choice.message.tool_calls = kept or None
        return convert(self, response, *args, **options)

    return without


def _fails_well(handle: Any) -> Any:
    async def fail_well(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return await handle(self, *args, **options)
        except MalformedOutput as error:
            return self._error_response(status_code=502, error_type="api_error", message=str(error))

    return fail_well

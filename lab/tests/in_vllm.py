"""Runs in vLLM's environment: prints how vLLM's classes see our plug-in, as JSON.

One process answers everything, because importing vLLM takes most of the time.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import vllm.sampling_params
from transformers import AutoTokenizer
from vllm import reasoning as vllm_reasoning
from vllm.entrypoints.generate.base.protocol import RequestResponseMetadata
from vllm.entrypoints.openai.chat_completion import serving as chat_serving
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.parser.abstract_parser import Parser
from vllm.parser.parser_manager import ParserManager
from vllm.reasoning import ReasoningParser, ReasoningParserManager
from vllm.tokenizers.hf import get_cached_tokenizer
from vllm.tool_parsers import ToolParser, ToolParserManager

from lab.engines.models import prompt_ends, recordings, write_model
from unspool import integrations
from unspool.integrations.vllm import _parser_classes as parsers
from unspool.integrations.vllm import register

DIALECTS = ("hermes", "qwen3_coder", "kimi_k2", "mistral", "gemma4", "harmony")


class _Lines(logging.Handler):
    """Collects log lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def take(self) -> list[str]:
        """Return the lines logged since the last call."""
        lines, self.lines = self.lines, []
        return lines


LINES = _Lines()


def main() -> None:
    """Run every check, ordered so that later checks do not hide the results of earlier ones."""
    parsers.log.addHandler(LINES)
    parsers.log.setLevel(logging.INFO)
    parsers.log.propagate = False
    report: dict[str, Any] = {"version": version("vllm"), "before": sorted(ToolParserManager.lazy_parsers)}
    report |= {"unregistrable": unregistrable(), "unknown_release": unknown_release()}
    report |= registered()
    report |= {"contracts": contracts(), "replaced": replaced()}
    with tempfile.TemporaryDirectory() as folder:
        for dialect in DIALECTS:
            model = write_model(Path(folder) / dialect, dialect)
            tokenizer = get_cached_tokenizer(AutoTokenizer.from_pretrained(model))
            report[f"streams {dialect}"] = streams(dialect, tokenizer)
            report[f"ends {dialect}"] = ends(dialect, tokenizer)
            report[f"begins {dialect}"] = begins(dialect, tokenizer)
            if dialect == "hermes":
                report["detected"] = detected(tokenizer)
                report["forced"] = forced(tokenizer)
                report |= levels(tokenizer)
                report["finish"] = finish_reasons(tokenizer)
                report["unannounced"] = unannounced_reasoning(tokenizer)
                report["changed"] = changed_releases(tokenizer)
                report["mixed"] = mixed_pairs(tokenizer)
                report["forbidden"] = forbidden_calls(tokenizer)
    print("\n" + json.dumps(report))


# -- registration


def unregistrable() -> list[str]:
    """Return the log lines if a registry is missing."""
    manager = vllm_reasoning.ReasoningParserManager
    del vllm_reasoning.ReasoningParserManager
    try:
        register()
        register()
    finally:
        vllm_reasoning.ReasoningParserManager = manager
        parsers._warn_once.cache_clear()
    return LINES.take()


def unknown_release() -> dict[str, Any]:
    """Return the classes that serve our names if a class of vLLM is missing, and the log lines."""
    register()
    for name in ("hermes", "kimi_k2"):  # load what vLLM itself needs before hiding it
        ToolParserManager.get_tool_parser(name)
        ParserManager.get_parser(name, "kimi_k2", enable_auto_tools=True)
    params = vllm.sampling_params.StructuredOutputsParams
    del vllm.sampling_params.StructuredOutputsParams
    try:
        served = {
            name: ToolParserManager.get_tool_parser(name).__module__
            for name in ("unspool_hermes", "unspool_kimi_k2")
        }
        served["reasoning"] = ReasoningParserManager.get_reasoning_parser("unspool_kimi_k2").__module__
        served["both"] = ParserManager.get_parser(
            "unspool_hermes", "unspool_hermes", enable_auto_tools=True
        ).__name__
    finally:
        vllm.sampling_params.StructuredOutputsParams = params
        parsers._failure.clear()
        parsers._warn_once.cache_clear()
        parsers.parser_class.cache_clear()
        ToolParserManager.tool_parsers.clear()
        ReasoningParserManager.reasoning_parsers.clear()
        for name in [name for name in sys.modules if name.startswith(f"{integrations.__name__}.vllm.")]:
            if name != parsers.__name__:
                del sys.modules[name]
    return {"served": served, "said": LINES.take()}


def changed_releases(tokenizer: Any) -> dict[str, Any]:
    """Return the parsers of servers in releases that differ, and the log lines.

    In each release, one server names unspool's parsers, and another one does not.
    """
    answers: dict[str, Any] = {}

    def renamed_attribute() -> Iterator[None]:
        method = Parser._initialize_history_tool_call_cnt
        del Parser._initialize_history_tool_call_cnt
        yield
        Parser._initialize_history_tool_call_cnt = method

    def raising_method() -> Iterator[None]:
        method = Parser._initialize_history_tool_call_cnt
        Parser._initialize_history_tool_call_cnt = lambda: None  # another signature
        yield
        Parser._initialize_history_tool_call_cnt = method

    def renamed_arguments() -> Iterator[None]:
        kept = ParserManager.get_parser

        def get_parser(cls: type[Any], /, tools: Any = None, reasoning: Any = None, **rest: Any) -> Any:
            return kept.__func__.__wrapped__(cls, tools, reasoning, **rest)

        ParserManager.get_parser = classmethod(get_parser)
        register()
        yield
        ParserManager.get_parser = kept

    for change in (renamed_attribute, raising_method, renamed_arguments):
        LINES.take()
        with contextmanager(change)():
            options = {"enable_auto_tools": True}
            if "tokenizer" in inspect.signature(ParserManager.get_parser).parameters:
                options["tokenizer"] = tokenizer
            theirs = ParserManager.get_parser("hermes", "qwen3", **options)
            said = LINES.take()
            ours: Any = ParserManager.get_parser("unspool:hermes", "unspool:hermes", **options)
            answers[change.__name__] = {
                "theirs": [theirs.__name__, theirs.tool_parser_cls.__module__, said],
                "ours": [ours.__name__, ours.tool_parser_cls.__module__],
                "lines": len(LINES.take()),
            }
        parsers._failure.clear()
        parsers._warn_once.cache_clear()
        parsers.parser_class.cache_clear()
        ToolParserManager.tool_parsers.clear()
        ReasoningParserManager.reasoning_parsers.clear()
    return answers


def registered() -> dict[str, Any]:
    """Return the names in the registries, and the modules that registering them has loaded."""
    register()
    register()
    return {
        "tools": sorted(ToolParserManager.list_registered()),
        "reasoning": sorted(ReasoningParserManager.list_registered()),
        "loaded": [name for name in sys.modules if name.startswith(f"{integrations.__name__}.vllm.")],
        "said": LINES.take(),
        "resolved": [
            ToolParserManager.get_tool_parser(name).__name__
            for name in ("unspool", "unspool:hermes", "unspool_hermes", "unspool:deepseek_r1")
        ],
        "unresolved": "unspool:nonsense" in ToolParserManager.lazy_parsers,
    }


@contextmanager
def replacing(names: str) -> Iterator[None]:
    """Request the replacement of these names."""
    kept = dict(ToolParserManager.lazy_parsers), dict(ReasoningParserManager.lazy_parsers)
    os.environ["UNSPOOL_REPLACE"] = names
    try:
        register()
        yield
    finally:
        del os.environ["UNSPOOL_REPLACE"]
        ToolParserManager.lazy_parsers, ReasoningParserManager.lazy_parsers = kept
        register()
        ToolParserManager.tool_parsers.clear()
        ReasoningParserManager.reasoning_parsers.clear()


def replaced() -> dict[str, Any]:
    """Return which of vLLM's own names are replaced, for each setting."""
    classes: dict[str, Any] = {}
    for names in ("hermes,qwen3,nonsense", "all", ""):
        with replacing(names):
            tools, reasons = ToolParserManager.lazy_parsers, ReasoningParserManager.lazy_parsers
            classes[names] = {
                "tools": [name for name, (module, _) in tools.items() if module == parsers.__name__],
                "reasoning": [name for name, (module, _) in reasons.items() if module == parsers.__name__],
                "said": LINES.take(),
            }
            if names == "hermes,qwen3,nonsense":
                made: Any = ParserManager.get_parser("hermes", "qwen3", enable_auto_tools=True)
                classes["composed"] = made.__name__
    return classes


# -- contracts


def contracts() -> dict[str, list[str]]:
    """Return, by class, the methods whose parameters differ from those of the overridden class."""
    ours: Any = ParserManager.get_parser("unspool_hermes", "unspool_hermes", enable_auto_tools=True)
    pairs = {
        "Parser": (ours, Parser),
        "ReasoningParser": (ours.reasoning_parser_cls, ReasoningParser),
        "ToolParser": (ours.tool_parser_cls, ToolParser),
    }
    return {name: [*_unlike(*pair), *_abstract(*pair)] for name, pair in pairs.items()}


def _unlike(ours: type, theirs: type) -> Iterator[str]:
    for name, method in inspect.getmembers(theirs, inspect.isfunction):
        mine = getattr(ours, name)
        if name == "__init__" or mine is method:
            continue
        parameters = list(inspect.signature(method).parameters)
        if list(inspect.signature(mine).parameters) != parameters:
            yield name


def _abstract(ours: type, theirs: type) -> Iterator[str]:
    for name, method in inspect.getmembers(theirs, inspect.isfunction):
        if getattr(method, "__isabstractmethod__", False) and getattr(ours, name) is method:
            yield name


# -- parsing


def detected(tokenizer: Any) -> dict[str, Any]:
    """Return how the name that selects the dialect from the template resolves."""
    from unspool.integrations.vllm import _model_format

    _model_format._logged.clear()
    LINES.take()
    made: Any = ParserManager.get_parser(
        "unspool", "unspool", enable_auto_tools=True, model_name="tiny", tokenizer=tokenizer
    )
    logged = LINES.take()
    tokenizer.chat_template = "{{ messages }}"
    _model_format.model_format.cache_clear()
    _model_format._detect.cache_clear()
    try:
        ParserManager.get_parser(
            "unspool", "unspool", enable_auto_tools=True, model_name="tiny", tokenizer=tokenizer
        )
    except TypeError as error:
        return {"made": made.__name__, "said": logged, "refused": str(error)}
    return {"made": made.__name__, "said": logged, "refused": ""}


def forced(tokenizer: Any) -> list[bool]:
    """Return whether forced calls, and calls of strict tools, use a structural tag."""
    made: Any = ParserManager.get_parser("unspool_hermes", "unspool_hermes", enable_auto_tools=True)
    results = []
    for choice in ("required", {"type": "function", "function": {"name": "run_python"}}, "auto", "none"):
        request = _request("hermes", tool_choice=choice)
        adjusted = made(tokenizer, request.tools, chat_template_kwargs={}).adjust_request(request)
        results.append(adjusted.structured_outputs is not None)
    return results


def levels(tokenizer: Any) -> dict[str, Any]:
    """Return what each level of ``--tool-strict-level`` enforces in a request with optional calls."""
    names: tuple[str, ...] = ()
    if find_spec("vllm.tool_parsers.tool_strict_level") is not None:
        names = get_args(import_module("vllm.tool_parsers.tool_strict_level").ToolStrictLevelName)
    enforced = {}
    for level in ("default", "auto", "function", "parameter"):
        options = {"tool_strict_level": level} if level in names else {}
        made: Any = ParserManager.get_parser(
            "unspool_hermes", "unspool_hermes", enable_auto_tools=True, **options
        )
        request = _request("hermes")
        adjusted = made(tokenizer, request.tools, chat_template_kwargs={}).adjust_request(request)
        tag = getattr(adjusted.structured_outputs, "structural_tag", None)
        enforced[level] = "free" if tag is None else "schemas" if "properties" in tag else "form"
    return {"levels": enforced, "level names": names}


CALL = '<tool_call>\n{"name": "run_python", "arguments": {"code": "1"}}\n</tool_call>'

MIXED_PAIRS = {
    "text before the output": ("hermes", "unspool_minimax_append_think", "Hm.</think>Yes."),
    "markers around content": (
        "hermes",
        "unspool_cohere",
        "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
    ),
    "answer tag": ("hermes", "unspool_hunyuan_a13b", "<think>Hm.</think><answer>Yes.</answer>"),
    "end of sentence": (
        "hermes",
        "unspool_deepseek_v4",
        "<think>Hm.</think>Yes.<\uff5cend\u2581of\u2581sentence\uff5c>",
    ),
    "our reasoning, their calls": ("hermes", "unspool_hermes", f"<think>Hm.</think>{CALL}"),
    "their reasoning, our calls": ("unspool_hermes", "qwen3", f"<think>Hm.</think>{CALL}"),
}
"""Parsers of calls and of reasoning, one of them unspool's, with an output."""


def _composed(tools: str | None, reasoning: str | None) -> Any:
    """Return the combined parser of vLLM for two parsers, in place of unspool's combined parser."""
    from unspool.integrations.vllm._unified_parser import with_reasoning_parser

    composed = ParserManager.get_parser.__func__.__wrapped__(
        ParserManager, tools, reasoning, enable_auto_tools=tools is not None
    )
    ours = reasoning is not None and reasoning.startswith("unspool")
    return with_reasoning_parser(composed) if ours else composed


def unannounced_reasoning(tokenizer: Any) -> dict[str, list[Any]]:
    """Return what the reasoning parser alone makes of explicit reasoning that the prompt does not announce.

    The first answer is whole, without the prompt; then whole, with the prompt; then streamed by one token.
    """
    answers = {}
    for dialect, kwargs in UNANNOUNCED.items():
        made = _composed(None, f"unspool_{dialect}")
        half = made(tokenizer, None, chat_template_kwargs=kwargs).reasoning_parser
        text = f"{half.reasoning_start_str}Hm.{half.reasoning_end_str}Yes."
        prompt = tokenizer.encode("Hi", add_special_tokens=False)
        if dialect == "hermes":
            prompt = tokenizer.encode(prompt_ends(dialect)[1], add_special_tokens=False)
        ids = tokenizer.encode(text, add_special_tokens=False)
        request = _request("hermes", tools=None, tool_choice=None)
        answers[dialect] = [
            _parse_whole(made, kwargs, tokenizer, text, ids, None, request),
            _parse_whole(made, kwargs, tokenizer, text, ids, prompt, request),
            _parse_stream(made, kwargs, tokenizer, ids, prompt, request),
        ]
    return answers


UNANNOUNCED: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("mistral", "granite", "deepseek_v3", "deepseek_v3_1", "cohere")},
    "hermes": {"enable_thinking": False},
}
"""Dialects whose prompts need not announce reasoning, with template variables."""


def mixed_pairs(tokenizer: Any) -> dict[str, list[Any]]:
    """Return what a parser of vLLM and one of unspool make of an output, whole and streamed by one token."""
    request = _request("hermes")
    prompt = tokenizer.encode("Hi", add_special_tokens=False)
    answers = {}
    for name, (tools, reasoning, text) in MIXED_PAIRS.items():
        made = ParserManager.get_parser(tools, reasoning, enable_auto_tools=True)
        ids = tokenizer.encode(text, add_special_tokens=False)
        answers[name] = [
            _parse_whole(made, {}, tokenizer, text, ids, prompt, request),
            _parse_stream(made, {}, tokenizer, ids, prompt, request),
        ]
    return answers


def forbidden_calls(tokenizer: Any) -> dict[str, list[Any]]:
    """Return what the client gets if a model calls tools although the request forbids calls."""
    prompt = tokenizer.encode(prompt_ends("hermes")[1], add_special_tokens=False)
    text = f"Yes.\n{CALL}"
    ids = tokenizer.encode(text, add_special_tokens=False)
    request = _request("hermes", tool_choice="none")
    answers = {}
    for reasoning in ("unspool_hermes", "qwen3"):  # one parser of unspool, or a mixed pair
        made = ParserManager.get_parser("unspool_hermes", reasoning, enable_auto_tools=True)
        answers[reasoning] = [
            _parse_whole(made, {}, tokenizer, text, ids, prompt, request),
            _parse_stream(made, {}, tokenizer, ids, prompt, request),
        ]
    return answers


def _parse_whole(
    made: Any, kwargs: Any, tokenizer: Any, text: str, ids: list[int], prompt: Any, request: Any
) -> list[Any]:
    parser = made(tokenizer, request.tools, chat_template_kwargs=kwargs)
    if prompt is not None and hasattr(parser, "set_prompt_token_ids"):  # since 0.32
        parser.set_prompt_token_ids(prompt)
    thought, content, calls = parser.parse(text, request, True, ids)
    return [thought or "", content or "", [[call.name, call.arguments] for call in calls or ()]]


def _parse_stream(
    made: Any, kwargs: Any, tokenizer: Any, ids: list[int], prompt: list[int], request: Any
) -> list[Any]:
    parser = made(tokenizer, request.tools, chat_template_kwargs=kwargs)
    found: list[Any] = ["", "", []]
    shown = ""
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:end], skip_special_tokens=False).rstrip("\ufffd")
        delta = parser.parse_delta(
            text[len(shown) :], ids[end - 1 : end], request, prompt, finished=end == len(ids)
        )
        shown = text
        if delta is None:
            continue
        found[0] += delta.reasoning or ""
        found[1] += delta.content or ""
        for call in delta.tool_calls or ():
            if call.function.name is not None:
                found[2].append([call.function.name, ""])
            found[2][call.index][1] += call.function.arguments or ""
    return found


def finish_reasons(tokenizer: Any) -> dict[str, list[Any]]:
    """Return the finish reasons of vLLM's Chat Completions server, whole and streamed.

    The request itself has no limit: the server's own configuration may have one.
    """
    made: Any = ParserManager.get_parser("unspool_hermes", "unspool_hermes", enable_auto_tools=True)
    cut = CALL[: CALL.index("1")]
    outputs = {"call": (CALL, "stop"), "cut": (cut, "length"), "call at the limit": (CALL, "length")}
    return {name: _finish_reasons(made, tokenizer, *output) for name, output in outputs.items()}


def _finish_reasons(made: Any, tokenizer: Any, text: str, reason: str) -> list[Any]:
    server = object.__new__(_Server)
    server.parser_cls, server.enable_auto_tools, server.response_role = made, True, "assistant"
    ids = tokenizer.encode(text, add_special_tokens=False)
    reasons = []
    for stream in (False, True):
        request = _request("hermes", stream=stream, chat_template_kwargs={"enable_thinking": False})
        parser = made(tokenizer, request.tools, chat_template_kwargs=request.chat_template_kwargs)
        output = CompletionOutput(0, text, ids, None, None, finish_reason=reason)
        result = RequestOutput("1", "", [1], None, [output], finished=True)

        async def results(result: Any = result) -> Any:
            yield result

        options = {
            "request": request,
            "result_generator": results(),
            "request_id": "1",
            "model_name": "tiny",
            "conversation": [],
            "tokenizer": tokenizer,
            "request_metadata": RequestResponseMetadata(request_id="1"),
        }
        reasons.append(asyncio.run(_finish_reason(server, stream, parser, options)))
    return reasons


class _Server(chat_serving.OpenAIServingChat):  # type: ignore[misc]
    """vLLM's server without its constructor: all options that a test does not set are off."""

    def __getattr__(self, name: str) -> Any:
        return None


async def _finish_reason(server: Any, stream: bool, parser: Any, options: dict[str, Any]) -> Any:
    if not stream:
        whole = server.chat_completion_full_generator
        response = await whole(**options, parser=parser)
        return response.choices[0].finish_reason
    lines = [
        line
        async for line in server.chat_completion_stream_generator(
            **options, chat_template_kwargs=options["request"].chat_template_kwargs
        )
    ]
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    return next(
        (c["finish_reason"] for k in chunks for c in k.get("choices", ()) if c["finish_reason"]), lines
    )


def _request(dialect: str, **options: Any) -> Any:
    return ChatCompletionRequest(
        model="tiny",
        messages=[{"role": "user", "content": "Hi"}],
        **{"tool_choice": "auto", "tools": recordings()[dialect].tools} | options,
    )


def ends(dialect: str, tokenizer: Any) -> dict[str, Any]:
    """Return where the engine core is told that reasoning ends, token by token."""
    on, off = prompt_ends(dialect)
    part: Any = ReasoningParserManager.get_reasoning_parser(f"unspool_{dialect}")
    prompt = tokenizer.encode(on, add_special_tokens=False)
    ids = prompt + tokenizer.encode(recordings()[dialect].output, add_special_tokens=False)
    made = part(tokenizer, chat_template_kwargs={})
    steps = [
        end
        for end in range(len(prompt) + 1, len(ids))
        if made.is_reasoning_end_streaming(ids[:end], ids[end - 1 : end])
    ]
    return {
        "prompt": made.is_reasoning_end(prompt),
        "off": made.is_reasoning_end(tokenizer.encode(off, add_special_tokens=False)),
        "before": tokenizer.decode(ids[len(prompt) : steps[0]]) if steps else None,
        "start": made.reasoning_start_str,
        "end": made.reasoning_end_str,
    }


def begins(dialect: str, tokenizer: Any) -> dict[str, bool]:
    """Return whether the engine applies the grammar of a request from the first token on."""
    made: Any = ParserManager.get_parser(f"unspool_{dialect}", f"unspool_{dialect}", enable_auto_tools=True)
    part: Any = ReasoningParserManager.get_reasoning_parser(f"unspool_{dialect}")
    prompt = tokenizer.encode(prompt_ends(dialect)[0], add_special_tokens=False)
    tools = recordings()[dialect].tools
    offered = [{"type": "function", **tool["function"]} for tool in tools]
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
    text = {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}}
    chats = {
        "forced": _request(dialect, tool_choice="required"),
        "format": _request(dialect, response_format=form),
    }
    reasoning_ended = {}
    for name, request in chats.items():
        parser = made(tokenizer, request.tools, chat_template_kwargs={})
        adjusted = parser.adjust_request(request)
        if hasattr(adjusted, "resolve_reasoning_ended"):
            ended = adjusted.resolve_reasoning_ended(parser, prompt)
        else:  # before 0.31
            ended = getattr(adjusted, "_grammar_from_parser", False) or parser.is_reasoning_end(prompt)
        reasoning_ended[f"chat, {name}"] = ended
    requests = {
        "forced": ResponsesRequest(model="tiny", input="Hi", tools=offered, tool_choice="required"),
        "format": ResponsesRequest(model="tiny", input="Hi", text=text),
    }
    for name, request in requests.items():
        adjusted = made(tokenizer, request.tools, chat_template_kwargs={}).adjust_request(request)
        core = part(tokenizer, chat_template_kwargs=adjusted.chat_template_kwargs)
        reasoning_ended[f"responses, {name}"] = core.is_reasoning_end(prompt)
    return reasoning_ended


def streams(dialect: str, tokenizer: Any) -> list[str]:
    """Return the chunkings and cuts in which the streamed answer differs from the whole one."""
    name = f"unspool_{dialect}"
    unified: Any = ParserManager.get_parser(name, name, enable_auto_tools=True)
    composed: Any = _composed(name, name)
    ids = tokenizer.encode(recordings()[dialect].output, add_special_tokens=False)
    prompt = tokenizer.encode(prompt_ends(dialect)[0], add_special_tokens=False)
    wrong = []
    for kind, made in (("unified", unified), ("composed", composed)):
        for end in (len(ids), len(ids) // 8, len(ids) // 2, len(ids) * 3 // 4, len(ids) - 4):
            whole = _whole(made, dialect, tokenizer, ids[:end], prompt)
            if kind == "unified" and end == len(ids) and len(whole[2]) != 3:
                wrong.append(f"{dialect}: {whole}")
            for size in (1, 3, 1000):
                streamed = _streamed(made, dialect, tokenizer, ids[:end], prompt, size)
                if streamed != whole:
                    wrong.append(f"{kind}, {end} ids by {size}: {streamed} is not {whole}")
    return wrong


def _whole(made: Any, dialect: str, tokenizer: Any, ids: list[int], prompt: list[int]) -> tuple[Any, ...]:
    parser = made(tokenizer, _request(dialect).tools, chat_template_kwargs={})
    request = parser.adjust_request(_request(dialect))
    if hasattr(parser, "set_prompt_token_ids"):  # since 0.32
        parser.set_prompt_token_ids(prompt)
    text = tokenizer.decode(ids, skip_special_tokens=False).rstrip("\ufffd")
    half = parser.reasoning_parser
    if made.__name__ != "UnspoolParser" and (half.reasoning_end_str or "<|end|>") not in text:
        # Outside streams, vLLM does not pass the prompt; a cut answer alone does not show that it opened
        # reasoning.
        half.adjust_initial_state_from_prompt(prompt)
    thought, content, calls = parser.parse(text, request, True, ids)
    return thought or "", content or "", [(call.name, call.arguments) for call in list(calls or ())]


def _streamed(
    made: Any, dialect: str, tokenizer: Any, ids: list[int], prompt: list[int], size: int
) -> tuple[Any, ...]:
    parser = made(tokenizer, _request(dialect).tools, chat_template_kwargs={})
    request = parser.adjust_request(_request(dialect, stream=True))
    thought = content = ""
    calls: list[tuple[str, str]] = []
    shown = 0
    for start in range(0, len(ids), size):
        text = tokenizer.decode(ids[: start + size], skip_special_tokens=False).rstrip("\ufffd")
        delta = parser.parse_delta(
            text[shown:], ids[start : start + size], request, prompt, finished=start + size >= len(ids)
        )
        shown = max(shown, len(text))
        if delta is None:
            continue
        thought += delta.reasoning or ""
        content += delta.content or ""
        for call in delta.tool_calls:
            if call.function.name is not None:
                calls.append((call.function.name, ""))
            name, arguments = calls[call.index]
            calls[call.index] = name, arguments + (call.function.arguments or "")
    return thought, content, calls


if __name__ == "__main__":
    main()

"""Peer program for SGLang, which runs the detectors with the code of SGLang's chat server.

``OpenAIServingChat`` runs without an engine. The methods that convert generated text to chunks and messages
are unchanged: they first detect reasoning, then calls in the remaining text, and finally finish the stream.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

from ._protocol import (
    ChunkOutput,
    Environment,
    Facts,
    Json,
    PeerProgram,
    PeerStream,
    ProtocolRequest,
    Unsupported,
    any_of,
    parser_names,
    serve,
)
from ._vocabulary import EngineTokenizer

_ENGINE = (
    "sglang.srt.configs",
    "sglang.srt.managers",
    "sglang.srt.utils.hf_transformers",
    "sglang.srt.utils.hf_transformers_utils",
)
"""Modules for running models, which are replaced because parsing does not need them or their dependencies."""


class _WithoutEngine(MetaPathFinder, Loader):
    """Import hook that replaces each module of the engine with a mock."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        inside = any(name == module or name.startswith(f"{module}.") for module in _ENGINE)
        return ModuleSpec(name, self, is_package=True) if inside else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = MagicMock(name=spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing, because the mock is already complete."""


sys.meta_path.insert(0, _WithoutEngine())

from sglang import __version__  # noqa: E402
from sglang.srt.entrypoints.openai import serving_chat  # noqa: E402
from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest  # noqa: E402
from sglang.srt.function_call.function_call_parser import FunctionCallParser  # noqa: E402
from sglang.srt.parser.reasoning_parser import ReasoningParser  # noqa: E402

logging.disable(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class _Setup:
    """Server configuration for the models of a dialect."""

    tool: str | None
    reasoning: str | None = None
    optional: bool = False
    """True if the reasoning parser is suitable only for models that always reason.

    In this case, models that do not reason are served without a reasoning parser.
    """
    kept_stop: str = ""
    """Token that ends a turn but is not removed from the text; empty if there is none."""
    spaces_controls: bool = False
    """True if the tokenizer adds a space between two control tokens, as the parser expects."""


_SETUPS: Mapping[str, _Setup] = {
    "apertus": _Setup("apertus2509", "apertus2509"),
    "beam": _Setup("beam", "beam", kept_stop="<|call|>"),
    "deepseek_v3": _Setup("deepseekv3", "deepseek-r1", optional=True),
    "deepseek_v3_1": _Setup("deepseekv31", "deepseek-v3"),
    "deepseek_v3_2": _Setup("deepseekv32", "deepseek-v3"),
    "deepseek_v4": _Setup("deepseekv4", "deepseek-v4"),
    "deepseek_v41": _Setup("deepseekv41", "deepseek-v41"),
    "dots": _Setup("dots", "dots"),
    "gemma4": _Setup("gemma4", "gemma4"),
    "gigachat3": _Setup("gigachat3"),
    "gigachat35": _Setup("gigachat35", "gigachat35", optional=True),
    "glm45": _Setup("glm45", "glm45"),
    "glm47": _Setup("glm47", "glm45"),
    "granite42": _Setup("qwen3_coder", "granite_thinking_parser"),
    "harmony": _Setup("gpt-oss", "gpt-oss", kept_stop="<|call|>"),
    "hermes": _Setup("hermes", "qwen3"),
    "hy_v3": _Setup("hunyuan", "hunyuan"),
    "hy_v3:opensource": _Setup("hunyuan", "hunyuan"),
    "hy_v4": _Setup("hunyuan", "hunyuan"),
    "hy_v4:6124c78e": _Setup("hunyuan", "hunyuan"),
    "hy_v4:opensource": _Setup("hunyuan", "hunyuan"),
    "inkling": _Setup("inkling", "inkling"),
    "internlm2": _Setup("interns1", "interns1", spaces_controls=True),
    "iquest_q1": _Setup("iquest_q1", "iquest_q1"),
    "k2_horizon": _Setup("k2_horizon", "k2_horizon", optional=True),
    "kimi": _Setup(None, "kimi", optional=True),
    "kimi_k2": _Setup("kimi_k2", "kimi_k2"),
    "kimi_k3": _Setup("kimi_k3", "kimi_k3"),
    "lfm2": _Setup("lfm2"),
    "ling3": _Setup("ling3", "ling3"),
    "llama3_json": _Setup("llama3"),
    "minicpm5": _Setup("minicpm5"),
    "minimax_append_think": _Setup(None, "minimax-append-think"),
    "minimax_m2": _Setup("minimax-m2", "minimax", optional=True),
    "minimax_m3": _Setup("minimax-m3", "minimax-m3"),
    "mistral": _Setup("mistral", "mistral"),
    "mistral_v11": _Setup("mistral", "mistral"),
    "mistral_v3": _Setup("mistral", "mistral"),
    "muse_glimmer": _Setup("muse", "muse"),
    "nemotron_v3": _Setup("qwen3_coder", "nemotron_3"),
    "poolside_v1": _Setup("poolside_v1", "poolside_v1"),
    "pythonic": _Setup("pythonic"),
    "qwen3_coder": _Setup("qwen3_coder", "qwen3"),
    "spark25": _Setup("spark25"),
    "step3": _Setup("step3", "step3", optional=True),
    "step3p5": _Setup("step3p5", "step3p5", optional=True),
    "trinity": _Setup("trinity"),
}
"""Configuration for each dialect, according to SGLang's registry and the documentation of its detectors.

Two of SGLang's parsers are not tested. ``cohere_command4`` parses only the markers of Command 4, but the
cases have the markers of Command 3. ``mimo`` does not remove the newlines around a value, and all cases
contain such newlines.
"""

_FROM_THE_OUTPUT = frozenset(
    ("apertus", "inkling", "muse_glimmer", "harmony", "kimi", "gemma4", "k2_horizon")
)
"""Dialects whose templates never open reasoning, so their parsers look for reasoning only in the output."""


class _Server(serving_chat.OpenAIServingChat):  # type: ignore[misc]
    """SGLang's chat server for one dialect, without an engine."""

    def __init__(self, dialect: str, reasoning: str | None, facts: Facts, environment: Environment) -> None:
        self.setup = _SETUPS[dialect]
        tool = self.setup.tool
        tokenizer = EngineTokenizer(environment.tokenizer, facts.controls, (facts.stops or ["</s>"])[0])
        self.tool_call_parser = tool
        self.reasoning_parser = reasoning
        self.tokenizer_manager = SimpleNamespace(tokenizer=tokenizer)
        self.template_manager = SimpleNamespace(force_reasoning=False, reasoning_config=None)
        self.default_chat_template_kwargs: Json = {}
        self.chat_encoding_spec = "kimi_k3" if tool == "kimi_k3" else None
        self._encoding_adapter = None
        self._response_parser = None
        self._reasoning_detector = reasoning and ReasoningParser(reasoning, tokenizer=tokenizer).detector
        self._keeps_special = dialect in ("harmony", "gemma4")
        self._requests: dict[str, ChatCompletionRequest] = {}

    def request(self, request: ProtocolRequest) -> ChatCompletionRequest:
        """Create the server's request, as it is after the server has rendered the prompt."""
        key = json.dumps([request.tools, request.tool_choice, request.thinking, request.tail, request.mode])
        if key in self._requests:
            return self._requests[key]
        chat_request = ChatCompletionRequest(
            model=request.dialect,
            messages=[{"role": "user", "content": "Hi"}],
            stream=request.mode == "stream",
            **({"tools": request.tools, "tool_choice": request.tool_choice} if request.tools else {}),
        )
        with suppress(ValueError):  # some parsers do not support turning reasoning on or off
            self.apply_reasoning_enabled(chat_request, request.thinking)
        if self.reasoning_parser == "minimax-m3":
            mode = "enabled" if request.start == "reasoning" else "adaptive"
            chat_request.chat_template_kwargs = {"thinking_mode": mode}
        if self.reasoning_parser == "k2_horizon":
            efforts = {"<ifm|think_fast>": "medium", "<ifm|think_faster>": "low"}
            text = request.tail + request.text
            chat_request.reasoning_effort = next((efforts[tag] for tag in efforts if tag in text), "high")
        if self._keeps_special or (chat_request.tools and chat_request.tool_choice != "none"):
            chat_request.skip_special_tokens = False
        self._patch_reasoning_skip_special_tokens(chat_request)
        chat_request._response_parser_prefix = request.tail  # noqa: SLF001
        self._requests[key] = chat_request
        return chat_request


class _Detokenizer:
    """Converter from the joined texts of tokens to the text that the engine's detokenizer would emit."""

    def __init__(self, setup: _Setup, case: ProtocolRequest, chat_request: ChatCompletionRequest) -> None:
        self._setup = setup
        self._stop = case.stop
        self._skipped = case.facts.stops if chat_request.skip_special_tokens else []
        controls = "|".join(map(re.escape, case.facts.controls))
        self._control = re.compile(rf"(?:{controls})(?={controls})")
        self._controls = tuple(case.facts.controls)
        self._after_control = False

    def __call__(self, text: str) -> str:
        for stop in self._skipped:
            text = text.replace(stop, "")
        if not self._setup.spaces_controls or not text:
            return text
        space = " " if self._after_control and text.startswith(self._controls) else ""
        self._after_control = text.endswith(self._controls)
        return space + self._control.sub(r"\g<0> ", text)

    def end(self) -> str:
        return self._stop if self._stop == self._setup.kept_stop else ""


class _Stream(PeerStream):
    def __init__(self, server: _Server, request: ProtocolRequest) -> None:
        self._server = server
        self._case = request
        self._request = server.request(request)
        self._state: Json = {
            "stream_offsets": {},
            "reasoning_parser_dict": {},
            "parser_dict": {},
            "has_tool_calls": {},
        }

        self._detokenizer = _Detokenizer(server.setup, request, self._request)

    def feed(self, text: str, finished: bool) -> ChunkOutput:
        return self._step(self._detokenizer(text), self._case.finish_reason if finished else None)

    def finish(self) -> ChunkOutput:
        return self._step(self._detokenizer.end(), self._case.finish_reason)

    def _step(self, text: str, finish_reason: str | None) -> ChunkOutput:
        chunks = self._server._generate_stream_content(  # noqa: SLF001
            content={"text": text, "meta_info": {"id": "0", "finish_reason": {"type": finish_reason}}},
            index=0,
            request=self._request,
            created=0,
            choice_logprobs=None,
            finish_reason_type=finish_reason,
            continuous_usage_stats=False,
            prompt_tokens={},
            reasoning_tokens={},
            completion_tokens={},
            **self._state,
        )
        return [_delta(chunk) for chunk in _drain(chunks)] or None

    @property
    def finish_reason(self) -> str | None:
        reason = self._case.finish_reason
        called = self._state["has_tool_calls"].get(0, False)
        incomplete = serving_chat._incomplete_tool_call_indices(  # noqa: SLF001
            self._state["parser_dict"].get(0)
        )
        return "tool_calls" if called and reason == "stop" and not incomplete else reason


def _drain(chunks: AsyncIterator[str]) -> list[str]:
    """Collect the items of an asynchronous generator that never suspends."""
    items: list[str] = []

    async def collect() -> None:
        items.extend([chunk async for chunk in chunks])

    coroutine = collect()
    try:
        coroutine.send(None)
    except StopIteration:
        return items
    raise RuntimeError("the server suspended unexpectedly")


def _delta(event: str) -> Json:
    """Extract the delta from a server-sent event."""
    choice = json.loads(event.removeprefix("data: "))["choices"][0]
    delta = choice["delta"]
    return {
        "content": delta.get("content"),
        "reasoning": delta.get("reasoning_content"),
        "tool_calls": [_call(call) for call in delta.get("tool_calls") or ()],
    }


def _call(call: Json) -> Json:
    function = call["function"]
    return {
        "index": call["index"],
        "id": call.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


class _Sglang(PeerProgram):
    name = "sglang"
    version = __version__

    def __init__(self, environment: Environment) -> None:
        self._place = environment
        self._server = cache(self._make_server)

    def dialects(self) -> dict[str, Json]:
        return parser_names(_SETUPS)

    def _make_server(self, dialect: str, reasoning: str | None) -> _Server:
        return _Server(dialect, reasoning, self._place.facts[dialect], self._place)

    def _server_for(self, request: ProtocolRequest) -> _Server:
        setup = _SETUPS[request.dialect]
        if request.thinking and setup.reasoning is None:
            raise Unsupported("no reasoning parser for this dialect")
        if request.starts_in_unopened_reasoning and request.dialect in _FROM_THE_OUTPUT:
            raise Unsupported("no chat template of this family opens reasoning in the prompt")
        reasoning = None if setup.optional and not request.thinking else setup.reasoning
        server = self._server(request.dialect, reasoning)
        if request.tool_choice == "required" or request.named:
            self._check_forced(server.request(request), setup, request)
        return server

    def _check_forced(
        self, chat_request: ChatCompletionRequest, setup: _Setup, request: ProtocolRequest
    ) -> None:
        """Raise ``Unsupported`` if the server's grammar does not allow forced calls in the case's format.

        The grammar enforces either guided JSON or the model's own format.
        """
        if request.is_fenced:
            raise Unsupported("the server's grammars do not allow code fences")
        native = False
        if setup.tool is not None:
            parser = FunctionCallParser(chat_request.tools, setup.tool, tool_choice=chat_request.tool_choice)
            native = parser.owns_tool_format()
        if native == request.is_guided:
            form = "in the model's own format" if native else "as guided JSON"
            raise Unsupported(f"the server generates forced calls {form}")
        if request.named and not native and request.text_after_reasoning.startswith("{"):
            raise Unsupported("the server also generates a named call as an array")

    def unsplittable(self, request: ProtocolRequest) -> re.Pattern[str] | None:
        return any_of(request.facts.controls) if request.facts.controls else None

    def stream(self, request: ProtocolRequest) -> PeerStream:
        return _Stream(self._server_for(request), request)

    def batch(self, request: ProtocolRequest) -> tuple[ChunkOutput, str | None]:
        server = self._server_for(request)
        chat_request = server.request(request)
        detokenizer = _Detokenizer(server.setup, request, chat_request)
        text = detokenizer(request.text) + detokenizer.end()
        meta = {
            "id": "0",
            "finish_reason": {"type": request.finish_reason},
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cached_tokens": 0,
            "weight_version": "",
        }
        response = server._build_chat_response(chat_request, [{"text": text, "meta_info": meta}], 0)  # noqa: SLF001
        choice = json.loads(response.model_dump_json())["choices"][0]
        message = choice["message"]
        entry = {
            "content": message["content"],
            "reasoning": message.get("reasoning_content"),
            "tool_calls": [_call(call) for call in message.get("tool_calls") or ()],
        }
        return entry, choice["finish_reason"]


class _Settings:
    """Server options, with incremental deltas and everything else disabled."""

    incremental_streaming_output = True

    def __getattr__(self, name: str) -> None:
        return None


def main(facts: Path) -> None:
    """Serve requests with SGLang's detectors."""
    serving_chat.get_serving = _Settings
    environment = Environment.read(facts)
    serve(_Sglang(environment), environment)

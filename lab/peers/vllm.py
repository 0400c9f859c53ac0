"""Peer program for vLLM, which calls the parsers in the same way as vLLM's chat server.

``ParserManager.get_parser`` combines a tool parser and a reasoning parser. Like ``OpenAIServingChat``, the
program first calls ``adjust_request``, and then ``parse_delta`` for each delta or ``parse`` for a complete
output.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai_harmony
from vllm import __version__
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager

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

# The parsers log a traceback for every problem, which would be thousands of lines without any use.
logging.disable(logging.CRITICAL)

_ON = {"thinking": True, "enable_thinking": True}
_OFF = {"thinking": False, "enable_thinking": False}


@dataclass(frozen=True, slots=True)
class _Setup:
    """Server configuration for the models of a dialect."""

    tool: str | None
    reasoning: str | None = None
    optional: bool = False
    """True if the reasoning parser treats the whole output as reasoning unless it finds a closing marker.

    In this case, models that do not reason are served without a reasoning parser.
    """
    expects_seed: bool = False
    """True if the reasoning parser assumes that the prompt ends with the reasoning opener."""
    on: Json = field(default_factory=lambda: _ON)
    """Value of ``chat_template_kwargs`` that turns reasoning on."""
    off: Json = field(default_factory=lambda: _OFF)
    """Value of ``chat_template_kwargs`` that turns reasoning off."""
    suffix: str = ""
    """Suffix of the checkpoint's markers; empty if there is none."""
    model_type: str = ""
    """Model type, for parsers that depend on it."""
    plain: tuple[str, ...] = ()
    """Markers that the parser looks up in the vocabulary although they are not single tokens."""
    words: str = ""
    """Pattern for words that are single tokens and that the parser recognizes by their ids."""
    reads: tuple[str, ...] = ()
    """Markers around answers that the reasoning parser removes."""
    by_ids: bool = False
    """True if the reasoning parser finds markers by their ids in a vocabulary that is not available."""


_DSML = tuple(
    f"<{slash}｜DSML｜{word}>" for word in ("function_calls", "tool_calls", " calls") for slash in ("", "/")
)


def _hy(version: str, suffix: str = "") -> _Setup:
    on, off = {"reasoning_effort": "high"}, {"reasoning_effort": "no_think"}
    return _Setup(version, version, suffix=suffix, on=on, off=off)


_PLAMO = tuple(
    f"<|plamo:{environment}_{what}:plamo|>"
    for environment in ("begin", "end")
    for what in ("think", "tool_arguments", "tool_name", "tool_request", "tool_requests")
)

_SETUPS: Mapping[str, _Setup] = {
    "apertus": _Setup("apertus"),
    "cohere": _Setup("cohere_command3", "cohere_command3"),
    "deepseek_v3": _Setup("deepseek_v3", "deepseek_r1", optional=True),
    "deepseek_v3_1": _Setup("deepseek_v31", "deepseek_v3"),
    "deepseek_v3_2": _Setup("deepseek_v32", "deepseek_v3", plain=_DSML),
    "deepseek_v4": _Setup("deepseek_v4", "deepseek_v4", plain=_DSML),
    "deepseek_v41": _Setup("deepseek_v41", "deepseek_v41", plain=_DSML),
    "dots": _Setup("dots"),
    "ernie45": _Setup("ernie45", "ernie45", optional=True, expects_seed=True, reads=("<response>",)),
    "functiongemma": _Setup("functiongemma"),
    "gemma4": _Setup("gemma4", "gemma4"),
    "gigachat3": _Setup("gigachat3"),
    "glm45": _Setup("glm45", "glm45"),
    "glm47": _Setup("glm47", "glm47"),
    "granite": _Setup("granite", "granite", optional=True),
    "granite4": _Setup("granite4"),
    "granite42": _Setup("qwen3_coder", "granite_thinking_parser"),
    "granite_20b_fc": _Setup("granite-20b-fc"),
    "harmony": _Setup("openai", "openai_gptoss"),
    "hermes": _Setup("hermes", "qwen3"),
    "hunyuan_a13b": _Setup("hunyuan_a13b", "hunyuan_a13b", optional=True, reads=("<answer>",), by_ids=True),
    "hy_v3": _hy("hy_v3"),
    "hy_v3:opensource": _hy("hy_v3", ":opensource"),
    "hy_v4": _hy("hy_v4"),
    "hy_v4:6124c78e": _hy("hy_v4", ":6124c78e"),
    "hy_v4:opensource": _hy("hy_v4", ":opensource"),
    "inkling": _Setup("inkling", "inkling"),
    "internlm2": _Setup("internlm", "deepseek_r1", optional=True),
    "jamba": _Setup("jamba"),
    "k2_horizon": _Setup("k2_horizon", "k2_horizon", optional=True, on={"reasoning_effort": "high"}, off={}),
    "kimi_k2": _Setup("kimi_k2", "kimi_k2", model_type="kimi_k2"),
    "kimi_k3": _Setup("kimi_k3", "kimi_k3", words=r"(?<=<\|open\|>)\w+|(?<=<\|close\|>)\w+"),
    "lfm2": _Setup("lfm2"),
    "ling3": _Setup("ling3", "ling3"),
    "llama3_json": _Setup("llama3_json"),
    "llama4_json": _Setup("llama4_json"),
    "longcat": _Setup("longcat"),
    "minicpm5": _Setup("minicpm5"),
    "minicpmv": _Setup("qwen3_coder", "minicpmv"),
    "minimax_append_think": _Setup(None, "minimax_m2_append_think"),
    "minimax_m2": _Setup("minimax_m2", "minimax_m2", optional=True),
    "minimax_m3": _Setup("minimax_m3", "minimax_m3", on={"thinking_mode": "enabled"}, off={}),
    "mistral": _Setup("mistral", "mistral"),
    "mistral_v11": _Setup("mistral", "mistral"),
    "mistral_v3": _Setup("mistral"),
    "muse_glimmer": _Setup("muse_glimmer", "muse_glimmer"),
    "nemotron_v3": _Setup("qwen3_coder", "nemotron_v3"),
    "phi4mini": _Setup("phi4_mini_json"),
    "plamo3": _Setup("plamo3", "plamo3", plain=_PLAMO),
    "poolside_v1": _Setup("poolside_v1", "poolside_v1"),
    "pythonic": _Setup("pythonic"),
    "qwen3_coder": _Setup("qwen3_coder", "qwen3"),
    "seed_oss": _Setup("seed_oss", "seed_oss"),
    "step3": _Setup("step3", "step3", optional=True, expects_seed=True),
    "step3p5": _Setup("step3p5", "step3p5", optional=True),
    "xlam": _Setup("xlam"),
}
"""Configuration for each dialect, according to vLLM's registry and the documentation of its parsers. The
parser ``mimo`` is not tested, because it does not remove the newlines around a value, and all cases contain
such newlines.
"""

_FROM_THE_OUTPUT = frozenset(
    ("harmony", "mistral", "mistral_v11", "muse_glimmer", "inkling", "granite", "gemma4", "k2_horizon")
)
"""Dialects whose templates never open reasoning, so their parsers look for reasoning only in the output."""


class _RecordingVocabulary(dict[str, int]):
    """Vocabulary that contains every token that is looked up, and records the lookups."""

    def get(self, key: str, default: object = None) -> int:  # noqa: ARG002
        return self[key]

    def __missing__(self, key: str) -> int:
        self[key] = len(self)
        return self[key]

    def __contains__(self, key: object) -> bool:
        return self[str(key)] >= 0


class _RecordingTokenizer(EngineTokenizer):
    """Tokenizer that records the markers that a parser looks up in the vocabulary."""

    def __init__(self, suffix: str) -> None:
        self.lookups = _RecordingVocabulary()
        if suffix:
            self.lookups[f"<think{suffix}>"] = 0
        self.init_kwargs = {"token_suffix": suffix} if suffix else {}
        self.eos_token_id = 0
        self.bos_token_id = None

    def get_vocab(self) -> dict[str, int]:
        return self.lookups

    @property
    def vocab(self) -> dict[str, int]:
        return self.lookups

    def __len__(self) -> int:
        return 1

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> int | list[int | None] | None:
        return self.lookups[tokens] if isinstance(tokens, str) else [self.lookups[token] for token in tokens]

    def encode(self, text: str, **_: object) -> list[int]:  # noqa: ARG002
        return [0]

    def decode(self, ids: int | Sequence[int], skip_special_tokens: bool = False, **_: object) -> str:  # noqa: ARG002
        return ""


class _Ids:
    """Encoder from text to token ids for one dialect, with the tokenizer for the dialect's parser."""

    def __init__(self, tokenizer: Any, markers: Mapping[str, int], eos: int | None) -> None:
        self.tokenizer = tokenizer
        self.markers = markers
        self.eos = eos

    def encode(self, text: str) -> list[int]:
        """Encode text to token ids."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))


class _NoGrammar:
    """Replacement for mistral-common's grammars, which affect only sampling."""

    def select_jinja_template(self) -> str:
        return ""

    def get_lark_from_jinja(self, **_: object) -> str:
        return ""


class _MistralIds(_Ids):
    """Encoder for Mistral's models, whose tokenizers do not recognize markers in text."""

    def __init__(self, folder: Path, facts: Facts) -> None:
        from vllm.tokenizers.mistral import MistralTokenizer

        MistralTokenizer.grammar_factory = _NoGrammar()
        tokenizer = MistralTokenizer.from_pretrained(str(folder))
        known = tokenizer.get_vocab()
        super().__init__(
            tokenizer, {mark: known[mark] for mark in facts.controls if mark in known}, tokenizer.eos_token_id
        )
        self._pattern = any_of(list(self.markers))

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        done = 0
        for match in self._pattern.finditer(text):
            ids += super().encode(text[done : match.start()])
            ids.append(self.markers[match.group()])
            done = match.end()
        return ids + super().encode(text[done:])


class _HarmonyIds(_Ids):
    """Encoder for gpt-oss, which has a different vocabulary."""

    def __init__(self, facts: Facts) -> None:
        encoding = openai_harmony.load_harmony_encoding("HarmonyGptOss")
        self._encoding = encoding
        markers = {
            mark: ids[0]
            for mark in facts.controls
            if len(ids := encoding.encode(mark, allowed_special="all")) == 1
        }
        tokenizer = SimpleNamespace(decode=lambda ids, **_: encoding.decode(list(ids)))
        super().__init__(tokenizer, markers, markers["<|return|>"])

    def encode(self, text: str) -> list[int]:
        return list(self._encoding.encode(text, allowed_special="all"))


class _Server:
    """Parsers and tokenizer of a server for one dialect."""

    def __init__(
        self, dialect: str, setup: _Setup, reasoning: str | None, facts: Facts, environment: Environment
    ) -> None:
        self.setup = setup
        self.parser = ParserManager.get_parser(
            setup.tool,
            reasoning,
            enable_auto_tools=True,
            model_name=dialect,
            is_harmony=dialect == "harmony",
        )
        self.model_config = (
            SimpleNamespace(hf_config=SimpleNamespace(model_type=setup.model_type))
            if setup.model_type
            else None
        )
        if dialect == "harmony":
            self.ids: _Ids = _HarmonyIds(facts)
        elif setup.tool == "mistral":
            self.ids = _MistralIds(environment.tekken("v3" if dialect == "mistral_v3" else "v11"), facts)
        else:
            recorder = _RecordingTokenizer(setup.suffix)
            for kwargs in (setup.on, setup.off):
                self.make(recorder, [], kwargs)
            tokens = {*recorder.lookups, *facts.controls} - set(setup.plain)
            vocabulary = EngineTokenizer(
                environment.tokenizer, tokens, (facts.stops or ["</s>"])[0], setup.suffix
            )
            self.ids = _Ids(vocabulary, vocabulary.markers, vocabulary.eos_token_id)
        self._requests: dict[str, ChatCompletionRequest] = {}

    def make(self, tokenizer: Any, tools: Any, kwargs: Json) -> Any:
        """Create a parser, as the server does for every choice."""
        return self.parser(tokenizer, tools, chat_template_kwargs=kwargs, model_config=self.model_config)

    def kwargs(self, request: ProtocolRequest) -> Json:
        """Return ``chat_template_kwargs`` for the request."""
        if self.setup.reasoning == "k2_horizon" and request.thinking:
            efforts = {"<ifm|think_fast>": "medium", "<ifm|think_faster>": "low"}
            text = request.tail + request.text
            return {"reasoning_effort": next((efforts[tag] for tag in efforts if tag in text), "high")}
        if self.setup.reasoning == "minimax_m3" and request.start != "reasoning":
            return {}
        return self.setup.on if request.thinking else self.setup.off

    def request(self, request: ProtocolRequest) -> ChatCompletionRequest:
        """Create the server's request and let the parser adjust it, as in the server."""
        kwargs = self.kwargs(request)
        key = json.dumps([request.tools, request.tool_choice, kwargs, request.mode])
        if key not in self._requests:
            chat_request = ChatCompletionRequest(
                model=request.dialect,
                messages=[{"role": "user", "content": "Hi"}],
                stream=request.mode == "stream",
                chat_template_kwargs=kwargs,
                **({"tools": request.tools, "tool_choice": request.tool_choice} if request.tools else {}),
            )
            parser = self.make(self.ids.tokenizer, chat_request.tools, kwargs)
            self._requests[key] = parser.adjust_request(chat_request)
        return self._requests[key]


class _Stream(PeerStream):
    def __init__(self, server: _Server, request: ProtocolRequest) -> None:
        self._encoder = server.ids
        self._case = request
        self._request = server.request(request)
        self._parser = server.make(server.ids.tokenizer, self._request.tools, server.kwargs(request))
        self._prompt = server.ids.encode(request.tail)
        self._called = False

    def feed(self, text: str, finished: bool) -> ChunkOutput:
        return self._parse(text, self._encoder.encode(text), finished)

    def finish(self) -> ChunkOutput:
        # The id of the token that ends a turn is passed to the parser, but its text is empty.
        eos = self._encoder.markers.get(self._case.stop, self._encoder.eos)
        return self._parse("", [] if eos is None else [eos], finished=True)

    def _parse(self, text: str, ids: list[int], finished: bool) -> ChunkOutput:
        if self._request.skip_special_tokens:
            for stop in self._case.facts.stops:
                text = text.replace(stop, "")
        delta = self._parser.parse_delta(text, ids, self._request, self._prompt, finished=finished)
        if delta is None:
            return None
        calls = [_call(call.index, call.id, call.function) for call in delta.tool_calls or ()]
        self._called = self._called or bool(calls)
        return {"content": delta.content, "reasoning": delta.reasoning, "tool_calls": calls}

    @property
    def finish_reason(self) -> str | None:
        reason = self._case.finish_reason
        return "tool_calls" if self._called and not self._case.named and reason == "stop" else reason


def _call(index: int, id: str | None, function: Any) -> Json:
    return {
        "index": index,
        "id": id,
        "name": function.name if function else None,
        "arguments": function.arguments if function else None,
    }


class _Vllm(PeerProgram):
    name = "vllm"
    version = __version__

    def __init__(self, environment: Environment) -> None:
        self._place = environment
        self._server = cache(self._make_server)

    def dialects(self) -> dict[str, Json]:
        return parser_names(_SETUPS)

    def _make_server(self, dialect: str, reasoning: str | None) -> _Server:
        try:
            return _Server(dialect, _SETUPS[dialect], reasoning, self._place.facts[dialect], self._place)
        except ImportError as error:
            raise Unsupported(str(error).splitlines()[0]) from error

    def _server_for(self, request: ProtocolRequest) -> _Server:
        setup = _SETUPS[request.dialect]
        if request.thinking and setup.reasoning is None:
            raise Unsupported("no reasoning parser for this dialect")
        if request.starts_in_unopened_reasoning and request.dialect in _FROM_THE_OUTPUT:
            raise Unsupported("no chat template of this family opens reasoning in the prompt")
        if request.has_control_token_in_string:
            raise Unsupported("the parser needs token ids, but a marker in the output may be ordinary text")
        reads_reasoning = request.thinking or any(mark in request.text for mark in setup.reads)
        reasoning = None if setup.optional and not reads_reasoning else setup.reasoning
        if reads_reasoning and setup.by_ids and request.mode == "stream":
            raise Unsupported("the reasoning parser needs token ids of a vocabulary that is not available")
        server = self._server(request.dialect, reasoning)
        if request.tool_choice == "required" or request.named:
            _check_forced(server.request(request), request)
        return server

    def expects_seed(self, dialect: str) -> bool:
        return _SETUPS[dialect].expects_seed

    def unsplittable(self, request: ProtocolRequest) -> re.Pattern[str] | None:
        server = self._server_for(request)
        return any_of(list(server.ids.markers), server.setup.words)

    def stream(self, request: ProtocolRequest) -> PeerStream:
        return _Stream(self._server_for(request), request)

    def batch(self, request: ProtocolRequest) -> tuple[ChunkOutput, str | None]:
        server = self._server_for(request)
        chat_request = server.request(request)
        parser = server.make(server.ids.tokenizer, chat_request.tools, server.kwargs(request))
        parser.set_prompt_token_ids(server.ids.encode(request.tail))
        text = request.text
        eos = server.ids.markers.get(request.stop, server.ids.eos)
        ids = server.ids.encode(text) + ([eos] if eos is not None and request.finish_reason == "stop" else [])
        if chat_request.skip_special_tokens:
            for stop in request.facts.stops:
                text = text.replace(stop, "")
        reasoning, content, calls = parser.parse(
            text, chat_request, enable_auto_tools=True, model_output_token_ids=ids
        )
        if not chat_request.tools or chat_request.tool_choice == "none":
            calls = []
        tool_calls = [_call(index, call.id, call) for index, call in enumerate(calls or ())]
        forced = chat_request.tool_choice == "required" and request.finish_reason == "stop"
        finish = "tool_calls" if forced or (tool_calls and not request.named) else request.finish_reason
        return {"content": content, "reasoning": reasoning, "tool_calls": tool_calls}, finish


def _check_forced(chat_request: ChatCompletionRequest, request: ProtocolRequest) -> None:
    """Raise ``Unsupported`` if the server's grammar does not allow forced calls in the case's format.

    The grammar enforces either guided JSON or the model's own format.
    """
    if request.is_fenced:
        raise Unsupported("the server's grammars do not allow code fences")
    params = chat_request.structured_outputs
    is_guided = params is not None and params.json is not None
    if is_guided != request.is_guided:
        form = "as guided JSON" if is_guided else "in the model's own format"
        raise Unsupported(f"the server generates forced calls {form}")
    schema = params.json if params is not None and isinstance(params.json, dict) else {}
    other = schema.get("type") == "array" if request.named else '"parameters"' not in json.dumps(schema)
    if is_guided and other:
        raise Unsupported("the server generates forced calls as guided JSON with another structure")


def main(facts: Path) -> None:
    """Serve requests with vLLM's parsers."""
    environment = Environment.read(facts)
    os.environ.setdefault("TIKTOKEN_ENCODINGS_BASE", str(environment.harmony))
    serve(_Vllm(environment), environment)

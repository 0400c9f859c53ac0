"""Hooks of the plug-ins that need no engine; ``lab/tests`` runs them inside vLLM and SGLang."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from unspool import Policies, get_dialect
from unspool.integrations.sglang import _server_hooks as hooks
from unspool.integrations.sglang._tool_detector import ToolDetector
from unspool.integrations.sglang._turn_context import PROMPT_ATTRIBUTE, Turn, current_turn, turn_context

VLLM_NAMES = {
    "vllm.parser.abstract_parser": ("Parser",),
    "vllm.reasoning.abs_reasoning_parsers": ("ReasoningParser",),
    "vllm.tool_parsers.abstract_tool_parser": ("ToolParser",),
    "vllm.entrypoints.openai.responses.protocol": ("ResponsesRequest",),
    "vllm.entrypoints.openai.chat_completion.protocol": ("ChatCompletionRequest",),
    "vllm.sampling_params": ("StructuredOutputsParams",),
    # The first place of these names is another module, which some releases lack.
    "vllm.entrypoints.openai.engine.protocol": (
        *("DeltaMessage", "DeltaToolCall", "DeltaFunctionCall"),
        *("ExtractedToolCallInformation", "FunctionCall", "ToolCall"),
    ),
}
"""Names of vLLM that the plug-in needs, by module."""
PACKAGE = "unspool.integrations.vllm"


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide vLLM's names, without vLLM."""
    for path, names in VLLM_NAMES.items():
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name not in sys.modules or end == len(parts):
                monkeypatch.setitem(sys.modules, name, ModuleType(name))
        for name in names:
            setattr(sys.modules[path], name, type(name, (), {}))
    loaded = {name: module for name, module in sys.modules.items() if name.startswith(f"{PACKAGE}.")}
    for name in loaded:
        del sys.modules[name]
    yield
    for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    sys.modules.update(loaded)


@pytest.mark.usefixtures("vllm")
def test_vllm_name_is_found_in_an_older_place() -> None:
    compat = import_module(f"{PACKAGE}._compat")
    older = sys.modules["vllm.entrypoints.openai.engine.protocol"]
    assert compat.DeltaMessage is older.DeltaMessage
    assert compat.get_function_tools is None


@pytest.mark.usefixtures("vllm")
def test_missing_vllm_name_is_reported() -> None:
    compat = import_module(f"{PACKAGE}._compat")
    with pytest.raises(ImportError, match=r"vLLM has no vllm\.parser\.nothing"):
        compat._find("vllm.parser:nothing", "vllm.nowhere:nothing")


@pytest.mark.usefixtures("vllm")
def test_vllm_parser_without_reasoning_counts_no_reasoning_tokens() -> None:
    parser_class = import_module(f"{PACKAGE}._unified_parser").UnspoolParser
    assert parser_class.count_reasoning_tokens(SimpleNamespace(reasoning_dialect=None), [1, 2]) == 0


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize(
    ("value", "level"),
    [
        (None, "auto"),  # the default of 0.33
        ("auto", "auto"),  # the default of 0.31 and 0.32
        ("function", "function"),
        ("PARAMETER", "parameter"),
        (1, "function"),
        (object(), "auto"),
        ("other", "auto"),
    ],
)
def test_vllm_strict_level_means_the_same_in_all_releases(value: object, level: str) -> None:
    planning = import_module(f"{PACKAGE}._plan_requests")
    assert planning.strict_level(value) == level


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_vllm_strict_level_function_leaves_arguments_free(choice: str) -> None:
    planning = import_module(f"{PACKAGE}._plan_requests")
    function = {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}
    tool = SimpleNamespace(
        type="function",
        model_dump=lambda **_: {"type": "function", "function": dict(function)},
    )
    request = SimpleNamespace(tools=[tool], tool_choice=choice, extract_structured_outputs=lambda: None)
    bodies = {
        level: planning.to_plan_request(request, {}, calls=True, reasoning=True, level=level)
        for level in ("auto", "function", "parameter")
    }
    asked = {level: body["tools"][0]["function"] for level, body in bodies.items()}
    assert asked["auto"] == function
    if choice == "required":  # a forced call is held to its schema at any level
        assert asked["function"] == asked["parameter"] == function
    else:
        assert asked["function"] == {"name": "f", "parameters": {"type": "object"}, "strict": True}
        assert asked["parameter"] == function | {"strict": True}


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize(
    ("engine", "sent", "reported"),
    [
        ("length", "tool_calls", "length"),
        ("abort", "tool_calls", "abort"),
        ("stop", "tool_calls", "tool_calls"),
        ("length", "stop", "stop"),
    ],
)
def test_vllm_answers_with_calls_report_the_engines_finish_reason(
    engine: str, sent: str, reported: str
) -> None:
    patches = import_module(f"{PACKAGE}._server_patches")

    class Server:
        parser_cls: type = dict

        async def generate(self, result_generator: Any) -> Any:
            async for _ in result_generator:
                pass
            return SimpleNamespace(choices=[SimpleNamespace(index=0, finish_reason=sent)])

    patches._patch(Server, "generate", patches._report_finish_reason, lambda server: server.parser_cls is int)
    patches._patch(Server, "generate", patches._report_finish_reason, bool)  # has no effect

    async def results() -> AsyncIterator[Any]:
        yield SimpleNamespace(outputs=[SimpleNamespace(index=0, finish_reason=engine)])

    server = Server()
    answers = []
    for parser in (dict, int):  # only the second one is unspool's
        server.parser_cls = parser
        answers.append(asyncio.run(server.generate(results())).choices[0].finish_reason)
    assert answers == [sent, reported]


@pytest.mark.usefixtures("vllm")
def test_vllm_server_logs_one_line_and_asks_for_both_flags(caplog: pytest.LogCaptureFixture) -> None:
    module = import_module(f"{PACKAGE}._model_format")
    for dialect in ("xlam", "hermes"):
        model = SimpleNamespace(source=object(), dialect=get_dialect(dialect), why="", policies=Policies())
        with caplog.at_level(logging.INFO, "vllm.unspool"):
            with module.without_log():
                module.log_format(model, calls=True, reasoning=False)
            for _ in range(3):
                module.log_format(model, calls=True, reasoning=False)
    xlam, hermes = (record.getMessage() for record in caplog.records)
    assert xlam.startswith(
        "unspool reads calls of this model as xlam; policies: default; give --reasoning-parser"
    )
    assert hermes == "unspool reads calls of this model as hermes; policies: default"


@pytest.mark.parametrize(
    ("prompt", "reasons"),
    [("<|im_start|>assistant\n<think>\n", True), ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False)],
)
def test_sglang_request_keeps_the_end_of_its_prompt(prompt: str, *, reasons: bool) -> None:
    seen: list[Turn | None] = []

    def process(server: Any, request: Any) -> Any:
        seen.append(current_turn())
        return SimpleNamespace(prompt=prompt, prompt_ids=None, require_reasoning=not reasons)

    server = SimpleNamespace(
        tool_call_parser="unspool_qwen3_coder",
        reasoning_parser="unspool_qwen3_coder",
        tokenizer_manager=SimpleNamespace(tokenizer=None),
    )
    request = SimpleNamespace()
    processed = hooks._keep_prompt_after(process)(server, request)
    assert [turn.request for turn in seen if turn is not None] == [request]
    assert getattr(request, PROMPT_ATTRIBUTE) == getattr(processed, PROMPT_ATTRIBUTE) == prompt
    assert processed.require_reasoning is reasons


@pytest.mark.parametrize("responses", [True, False])
def test_sglang_responses_never_report_malformed_calls_as_complete(*, responses: bool) -> None:
    names: dict[str, Any] = {
        "item": SimpleNamespace,
        "result": SimpleNamespace,
        "parser": None,
        "registry": {},
        "base": object,
    }
    attributes = {"name": "unspool_hermes", "sglang": SimpleNamespace(**names)}
    detector = type("Detector", (ToolDetector,), attributes)()
    with turn_context(Turn(SimpleNamespace(), SimpleNamespace(), responses=responses)):
        for arguments in ("{}", '{"a": }'):
            call = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
            detector.parse_streaming_increment(call, None)
        detector.finish(None)
        assert [call["name"] for call in detector.prev_tool_call_arr] == ["f", "f"]
        assert detector.incomplete_tool_call_indices == ({1} if responses else set())

"""unspool inside verl, TRL and slime: their contracts, without the packages.

``python -m lab.training_peers`` runs the same with the trainers' own packages.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import pytest

from chatml import CHATML
from unspool import UsageError
from unspool.integrations import slime, trl, verl
from vocabularies import Bytes, bytes_for

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather.",
            "parameters": {"type": "object", "properties": {"days": {"type": "integer"}}},
        },
    }
]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"days": 3}}\n</tool_call>'
OUTPUT = f"<think>\nThree days.\n</think>\n\nLet me look.\n{CALL}<|im_end|>"
BROKEN = '<tool_call>\n{"name": "get_weather", "arguments": {"days": }}\n</tool_call>'


class Tokenizer(Bytes):
    """The part of a Transformers tokenizer that trainers use."""

    chat_template: str | None = CHATML
    response_template: Any = None

    def decode(self, ids: list[int], *, skip_special_tokens: bool = False) -> str:
        assert not skip_special_tokens
        return "".join(self.special_tokens().get(id) or chr(id) for id in ids)


# -- verl


@dataclass
class FunctionCall:
    name: str
    arguments: str
    tool_call_id: str | None = None


class ToolParser:
    registry: ClassVar[dict[str, type]] = {}

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @classmethod
    def register(cls, name: str) -> Callable[[type], type]:
        def decorator(subclass: type) -> type:
            cls.registry[name] = subclass
            return subclass

        return decorator


class Schema:
    """A tool in a trainer's own class."""

    def model_dump(self, **options: bool) -> dict[str, Any]:
        assert options
        return TOOLS[0]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, type]]:
    name = "verl.experimental.agent_loop.tool_parser"
    module = ModuleType(name)
    vars(module).update(ToolParser=ToolParser, FunctionCall=FunctionCall)
    for parent in ("verl", "verl.experimental", "verl.experimental.agent_loop"):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    monkeypatch.setitem(sys.modules, name, module)
    verl.register()
    yield ToolParser.registry
    ToolParser.registry.clear()


@pytest.mark.parametrize("name", ["unspool", "unspool_hermes"])
def test_verl_gets_content_and_calls(registry: dict[str, type], name: str) -> None:
    tokenizer = Tokenizer("hermes")
    parser = registry[name](tokenizer)
    content, calls = asyncio.run(parser.extract_tool_calls(tokenizer.encode(OUTPUT), [Schema()]))
    assert content == "<think>\nThree days.\n</think>\n\nLet me look."
    assert calls == [FunctionCall("get_weather", '{"days": 3}')]
    assert parser.stop_token_ids == [tokenizer.markers["<|im_end|>"]]


def test_verl_gets_the_text_of_a_broken_call(registry: dict[str, type]) -> None:
    tokenizer = Tokenizer("hermes")
    parser = registry["unspool_hermes"](tokenizer)
    content, calls = parser.parse(tokenizer.encode(f"Look: {BROKEN}<|im_end|>"))
    assert (content, calls) == (f"Look: {BROKEN}", [])


def test_verl_gets_native_ids(registry: dict[str, type]) -> None:
    tokenizer = Tokenizer("kimi_k2")
    text = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"days": 3}<|tool_call_end|><|tool_calls_section_end|>'
    )
    _, calls = registry["unspool_kimi_k2"](tokenizer).parse(tokenizer.encode(text), TOOLS)
    assert calls == [FunctionCall("get_weather", '{"days": 3}', "functions.get_weather:0")]


def test_reasoning_in_framed_messages_is_not_content(registry: dict[str, type]) -> None:
    tokenizer = Tokenizer("harmony")
    text = "<|channel|>analysis<|message|>Rain?<|end|>"
    text += "<|start|>assistant<|channel|>final<|message|>Rain.<|return|>"
    assert registry["unspool_harmony"](tokenizer).parse(tokenizer.encode(text)) == ("Rain.", [])


def test_verl_without_a_registry_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verl", None)
    with pytest.raises(UsageError, match="no registry of tool parsers"):
        verl.register()


# -- TRL


@pytest.mark.parametrize("dialect", [None, "hermes"])
def test_trl_gets_a_message(dialect: str | None) -> None:
    tokenizer = trl.attach(Tokenizer("hermes"), dialect)
    assert tokenizer.response_template is not None  # otherwise TRL would not use our parser
    expected = {
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "Three days.",
        "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"days": 3}}}],
    }
    parse: Any = tokenizer.parse_response  # type: ignore[attr-defined]
    ids = tokenizer.encode(OUTPUT)
    assert parse(ids, prefix=tokenizer.encode("<|im_start|>assistant\n"), tools=TOOLS) == expected
    assert parse(OUTPUT) == expected
    assert parse([ids, ids]) == [expected, expected]


def test_trl_prefix_decides_the_start_channel() -> None:
    tokenizer = trl.attach(Tokenizer("hermes"), "hermes")
    parse: Any = tokenizer.parse_response  # type: ignore[attr-defined]
    ids = tokenizer.encode("Three days.\n</think>\n\nIt rains.<|im_end|>")
    prefix = "<|im_start|>assistant\n<think>\n"
    expected = {"role": "assistant", "content": "It rains.", "reasoning_content": "Three days."}
    assert parse(ids, prefix=tokenizer.encode(prefix)) == expected
    assert parse(tokenizer.decode(ids), prefix=prefix) == expected


def test_trl_shows_a_broken_call_as_text() -> None:
    tokenizer = trl.attach(Tokenizer("hermes"), "hermes")
    parse: Any = tokenizer.parse_response  # type: ignore[attr-defined]
    message = parse(tokenizer.encode(f"Look: {BROKEN}<|im_end|>"), tools=TOOLS)
    assert message == {"role": "assistant", "content": f"Look: {BROKEN}"}


def test_tokenizer_without_a_template_needs_a_dialect_name() -> None:
    tokenizer = Tokenizer("hermes")
    tokenizer.chat_template = None
    with pytest.raises(UsageError, match="no chat template"):
        trl.attach(tokenizer)


# -- slime


@pytest.mark.parametrize("name", ["qwen25", "hermes"])
def test_slime_gets_normal_text_and_calls(name: str) -> None:
    output = f"Let me look.\n{CALL}"
    result = slime.parse_tools(output, TOOLS, name)
    assert result["normal_text"] == "Let me look."
    assert [call["name"] for call in result["calls"]] == ["get_weather"]
    assert json.loads(result["calls"][0]["parameters"]) == {"days": 3}
    assert slime.parse_tools(output, [], name) == {"normal_text": output, "calls": []}


def test_slime_gets_a_mask_from_ids() -> None:
    vocabulary = bytes_for("hermes")
    ids = vocabulary.encode(OUTPUT)
    result, mask = slime.parse_tool_ids(ids, TOOLS, tokenizer=vocabulary)
    assert result == {
        "normal_text": "Let me look.",
        "calls": [{"tool_index": 0, "name": "get_weather", "parameters": '{"days": 3}'}],
    }
    assert mask == [1] * len(ids)

"""Model outputs for a task of three turns, written by hand and not by unspool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Arguments = Mapping[str, Any]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _hermes(name: str, arguments: Arguments) -> str:
    return f"<tool_call>\n{_json({'name': name, 'arguments': arguments})}\n</tool_call>"


def _qwen3_coder(name: str, arguments: Arguments) -> str:
    rendered = "".join(
        f"<parameter={key}>\n{_plain(value)}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{rendered}</function>\n</tool_call>"


def _harmony(name: str, arguments: Arguments) -> str:
    return (
        "<|channel|>analysis<|message|>The next step.<|end|><|start|>assistant"
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{_json(arguments)}<|call|>"
    )


def _glm47(name: str, arguments: Arguments) -> str:
    rendered = "".join(
        f"<arg_key>{key}</arg_key><arg_value>{_plain(value)}</arg_value>" for key, value in arguments.items()
    )
    return f"<tool_call>{name}{rendered}</tool_call>"


def _kimi_k2(name: str, arguments: Arguments) -> str:
    return (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>"
        f"{_json(arguments)}<|tool_call_end|><|tool_calls_section_end|>"
    )


def _deepseek_v3_2(name: str, arguments: Arguments) -> str:
    rendered = "".join(
        f'<｜DSML｜parameter name="{key}" string="{"true" if isinstance(value, str) else "false"}">'
        f"{_plain(value)}</｜DSML｜parameter>\n"
        for key, value in arguments.items()
    )
    return (
        f'\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="{name}">\n{rendered}</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>"
    )


@dataclass(frozen=True)
class ModelFormat:
    """Writer of one model's format."""

    template: str
    """Name of its chat template in the collection of llama.cpp."""
    call: Callable[[str, Arguments], str]
    opens_reasoning: bool = False
    """True if the model itself opens reasoning unless the prompt has opened it."""
    answer: str = "{}"
    """Template of an answer without a call."""

    def write(self, call: tuple[str, Arguments] | None, text: str, prompt: str) -> str:
        """Write a turn: the call if there is one, otherwise an answer."""
        rendered = self.call(*call) if call else self.answer.format(text)
        if prompt.rstrip().endswith("<think>"):
            return f"The next step.\n</think>\n\n{rendered}"
        thought = "<think>\nThe next step.\n</think>\n\n"
        return (
            thought + rendered
            if self.opens_reasoning and not prompt.rstrip().endswith("</think>")
            else rendered
        )


MODEL_FORMATS: Final[Mapping[str, ModelFormat]] = {
    "hermes": ModelFormat("Qwen-Qwen3-0.6B", _hermes, opens_reasoning=True),
    "qwen3_coder": ModelFormat("Qwen3-Coder", _qwen3_coder),
    "harmony": ModelFormat(
        "openai-gpt-oss-120b",
        _harmony,
        answer="<|channel|>analysis<|message|>The end.<|end|><|start|>assistant"
        "<|channel|>final<|message|>{}<|return|>",
    ),
    "glm47": ModelFormat("GLM-4.7-Flash", _glm47, opens_reasoning=True),
    "kimi_k2": ModelFormat("moonshotai-Kimi-K2", _kimi_k2),
    "deepseek_v3_2": ModelFormat("deepseek-ai-DeepSeek-V3.2", _deepseek_v3_2),
}
"""Writers by dialect, each for one model of the dialect."""

"""Program that parses outputs by response template; runs in the environment of such a reader.

``python response_template_reader.py transformers|vllm|sglang`` reads a JSON list of cases (``template``,
``prefix``, ``text``, ``tools``, and ``size``: the chunk length, 0 for one chunk) and writes a list of
results: ``reasoning``, ``content``, ``calls``, or ``error``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

Case = dict[str, Any]
Read = dict[str, Any]


def pieces(case: Case) -> Iterator[str]:
    """Yield the chunks of a case."""
    text, size = case["text"], case["size"] or len(case["text"]) or 1
    for at in range(0, len(text), size):
        yield text[at : at + size]


def message(reasoning: Any, content: Any, calls: list[tuple[str, Any]]) -> Read:
    """Return a result."""
    return {"reasoning": reasoning or "", "content": content or "", "calls": calls}


def arguments(value: Any) -> Any:
    """Return arguments as an object."""
    return json.loads(value) if isinstance(value, str) else value


def transformers() -> Callable[[Case], Read]:
    """Return the reader of Transformers."""
    from transformers.utils.chat_parsing import ResponseParser

    def read(case: Case) -> Read:
        parser = ResponseParser(case["template"], prefix=case["prefix"], tools=case["tools"])
        for piece in pieces(case):
            parser.feed(piece)
        fields, _ = parser.finalize()
        calls = [each["function"] for each in fields.get("tool_calls") or ()]
        return message(
            fields.get("thinking"),
            fields.get("content"),
            [(call["name"], arguments(call["arguments"])) for call in calls],
        )

    return read


class Codepoints:
    """A tokenizer whose ids are code points, because vLLM receives the prefix as ids."""

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))

    def encode(self, text: str, **_: Any) -> list[int]:
        return list(map(ord, text))

    def get_vocab(self) -> dict[str, int]:
        return {}


def vllm() -> Callable[[Case], Read]:
    """Return the reader of vLLM."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.response_template import ResponseTemplateParser

    tokenizer = Codepoints()

    def read(case: Case) -> Read:
        request = ChatCompletionRequest(model="m", messages=[], tools=case["tools"] or None)
        parser = ResponseTemplateParser(
            tokenizer,
            request.tools,
            response_template=case["template"],
            enable_auto_tools=True,
        )
        prompt = tokenizer.encode(case["prefix"])
        if not case["size"]:
            parser.set_prompt_token_ids(prompt)
            reasoning, content, calls = parser.parse(case["text"], request, enable_auto_tools=True)
            return message(
                reasoning, content, [(call.name, arguments(call.arguments)) for call in calls or ()]
            )
        deltas = [parser.parse_delta(piece, [], request, prompt, finished=False) for piece in pieces(case)]
        deltas.append(parser.parse_delta("", [], request, prompt, finished=True))
        seen = [delta for delta in deltas if delta is not None]
        calls = [call.function for delta in seen for call in delta.tool_calls or ()]
        return message(
            "".join(delta.reasoning or "" for delta in seen),
            "".join(delta.content or "" for delta in seen),
            [(call.name, arguments(call.arguments)) for call in calls],
        )

    return read


def sglang() -> Callable[[Case], Read]:
    """Return the reader of SGLang."""
    os.environ["SGLANG_FORWARD_UNKNOWN_TOOLS"] = "1"
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.parser.response_template import (
        ResponseTemplateReasoningDetector,
        ResponseTemplateToolDetector,
    )

    def read(case: Case) -> Read:
        tools = [Tool(**tool) for tool in case["tools"]]
        options = {"response_template": case["template"], "prefix": case["prefix"]}
        reasoning = ResponseTemplateReasoningDetector(**options)
        # The reasoning detector has already consumed the prefix, so calls are parsed without the prefix.
        calls = (
            ResponseTemplateToolDetector(response_template=case["template"])
            if "tool_calls" in case["template"]["fields"]
            else None
        )
        if not case["size"]:
            halves = [reasoning.detect_and_parse(case["text"])]
            rest = "".join(half.normal_text for half in halves)
            read = [calls.detect_and_parse(rest, tools)] if calls else []
        else:
            halves = [reasoning.parse_streaming_increment(piece) for piece in pieces(case)]
            halves.append(reasoning.finish())
            rest = "".join(half.normal_text for half in halves)
            read = (
                [calls.parse_streaming_increment(half.normal_text, tools) for half in halves] if calls else []
            )
            read += [calls.finish(tools)] if calls else []
        fields: list[list[str]] = []
        for item in (item for each in read for item in each.calls):
            if item.name:
                fields.append([item.name, ""])
            fields[-1][1] += item.parameters
        return message(
            "".join(half.reasoning_text for half in halves),
            "".join(each.normal_text for each in read) if calls else rest,
            [(name, arguments(text)) for name, text in fields],
        )

    return read


def main(engine: str) -> None:
    """Read the cases from standard input and write their results to standard output."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # send what packages print to standard error
    read = {"transformers": transformers, "vllm": vllm, "sglang": sglang}[engine]()
    results: list[Read] = []
    for case in json.load(sys.stdin):
        try:
            results.append(read(case))
        except Exception as error:  # noqa: BLE001 - whatever a reader raises is its answer
            results.append({"error": f"{type(error).__name__}: {error}"})
    json.dump({"version": version(engine), "results": results}, output)
    output.flush()


if __name__ == "__main__":
    main(sys.argv[1])

"""Runs on the Python files of one SGLang release: prints what SGLang's parsers make of an output, as JSON."""

from __future__ import annotations

import json
import sys
import types
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from typing import Any

import transformers

from lab.engines import sglang_servers
from unspool.integrations.sglang import load

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
OUTPUT = f"<think>Hm.</think>Yes.\n{CALL}"
PAIRS = (
    ("unspool:hermes", "unspool:hermes"),
    ("unspool_hermes", "unspool_hermes"),
    ("unspool:hermes", "qwen3"),
    ("qwen25", "unspool:hermes"),
)
"""Parsers of calls and of reasoning."""


def main() -> None:
    """Print the report."""
    if not transformers.utils.is_torchvision_available():
        # Older releases import it, but their parsers do not need it.
        torchvision: Any = types.ModuleType("torchvision.io")
        torchvision.decode_jpeg = None
        sys.modules |= {"torchvision": types.ModuleType("torchvision"), "torchvision.io": torchvision}
        for name in ("torchvision", "torchvision.io"):
            sys.modules[name].__spec__ = ModuleSpec(name, None)
    sys.meta_path.insert(0, sglang_servers._WithoutEngine())
    load()
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    registries = (FunctionCallParser.ToolCallParserEnum, ReasoningParser.DetectorMap)
    report = {
        "version": version("sglang"),
        "listed": [[name for name in registry if name.startswith("unspool")] for registry in registries],
        "answers": {"+".join(pair): [read(*pair, OUTPUT, size) for size in (1, 1 << 20)] for pair in PAIRS},
        "undeclared": read("unspool:hermes", "unspool:hermes", OUTPUT.replace('"f"', '"g"'), 1),
    }
    print("\n" + json.dumps(report))


def read(tools: str, reasoning: str, text: str, size: int) -> list[Any]:
    """Return the reasoning, the content and the calls of an output that is streamed in chunks."""
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool = Tool(type="function", function={"name": "f", "parameters": parameters})
    thoughts = ReasoningParser(reasoning, True, tool_call_parser_active=True)
    calls = FunctionCallParser([tool], tools)
    found: list[Any] = ["", "", []]

    def take(thought: str | None, step: tuple[str, list[Any]]) -> None:
        found[0] += thought or ""
        found[1] += step[0] or ""
        for item in step[1]:
            if item.name:
                found[2].append([item.name, ""])
            found[2][-1][1] += item.parameters or ""

    for at in range(0, len(text), size):
        thought, rest = thoughts.parse_stream_chunk(text[at : at + size])
        take(thought, calls.parse_stream_chunk(rest or ""))
    thought, rest = thoughts.parse_stream_end()
    take(thought, calls.parse_stream_chunk(rest or ""))
    take("", calls.parse_stream_end())
    return found


if __name__ == "__main__":
    main()

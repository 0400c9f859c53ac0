"""Runs in SGLang's environment: prints how the installed SGLang sees the plug-in, as JSON.

Each input line names a part, its arguments and the output file; ``test_sglang.py`` checks the results.
SGLang takes seconds to import, so one process runs several parts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from lab.engines import sglang_servers as server  # noqa: E402
from unspool.integrations.sglang import load  # noqa: E402

REGISTRIES = ("sglang.srt.function_call.function_call_parser", "sglang.srt.parser.reasoning_parser")


def names() -> Any:
    """Return the names known to the command line and to the registries."""
    sys.meta_path.insert(0, server._WithoutEngine())
    if "dist-info" in os.environ.get("UNSPOOL_TEST_PATH", ""):
        sys.path.insert(0, str(Path(os.environ["UNSPOOL_TEST_PATH"]).parent))
        from sglang.srt.plugins import load_plugins

        load_plugins()
    else:
        load()
    imported = [name for name in REGISTRIES if name in sys.modules]
    from sglang.srt.server_args import _reasoning_parser_choices, _tool_call_parser_choices

    choices = [_tool_call_parser_choices(), _reasoning_parser_choices()]
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    return {
        "imported": imported,
        "choices": choices,
        "afterwards": [_tool_call_parser_choices(), _reasoning_parser_choices()],
        "tools": _kinds(FunctionCallParser.ToolCallParserEnum),
        "reasoning": _kinds(ReasoningParser.DetectorMap),
        "abstract": [
            name
            for name, detector in FunctionCallParser.ToolCallParserEnum.items()
            if detector.__abstractmethods__
        ],
    }


def _kinds(registry: dict[str, type]) -> dict[str, list[str]]:
    """Return, by name, the modules of a detector's classes."""
    return {name: [kind.__module__ for kind in cls.__mro__] for name, cls in registry.items()}


@cache
def begin() -> None:
    """Load SGLang's servers once."""
    server.load_servers()


def halves(cases: list[dict[str, Any]]) -> Any:
    """Run both detectors as SGLang's own classes call them, in chunks of several lengths and whole."""
    begin()
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    results = []
    for case in cases:
        name = f"unspool_{case['dialect']}"
        tools = [Tool(**tool) for tool in case["tools"]]
        answers = []
        for size in (1, 3, 1 << 30):
            reasoning = ReasoningParser(
                name, True, force_reasoning=case["inside"], tool_call_parser_active=True
            )
            parser = FunctionCallParser(tools, name)
            out: dict[str, Any] = {"reasoning": "", "content": "", "calls": []}
            text = case["text"]
            for place in range(0, len(text), size):
                thought, rest = reasoning.parse_stream_chunk(text[place : place + size])
                _take(out, thought, parser.parse_stream_chunk(rest))
            thought, rest = reasoning.parse_stream_end()
            _take(out, thought, parser.parse_stream_chunk(rest))
            _take(out, "", parser.parse_stream_end())
            state = parser.detector
            out["state"] = [call["arguments"] for call in state.prev_tool_call_arr] == list(
                state.streamed_args_for_tool
            )
            answers.append(out)
        whole = ReasoningParser(name, False, force_reasoning=case["inside"], tool_call_parser_active=True)
        thought, rest = whole.parse_non_stream(case["text"])
        out = {"reasoning": thought, "content": rest, "calls": [], "state": True}
        parser = FunctionCallParser(tools, name)
        if parser.has_tool_call(rest):
            out["content"], items = parser.parse_non_stream(rest)
            out["calls"] = [[item.name, item.parameters] for item in items]
        answers.append(out)
        results.append(answers)
    return results


def _take(out: dict[str, Any], thought: str | None, rest: tuple[str, list[Any]]) -> None:
    out["reasoning"] += thought or ""
    out["content"] += rest[0]
    for item in rest[1]:
        if item.name:
            out["calls"].append([item.name, ""])
        out["calls"][item.tool_index][1] += item.parameters


def served(job: dict[str, Any]) -> Any:
    """Return the servers' answers for cases with requests and parsers of their own."""
    begin()
    models = server.Models(Path(job["vocabulary"]), job["facts"])
    results = []
    for case in job["cases"]:
        try:
            answers = asyncio.run(server.run(models, case, case.get("apis", ["chat"])))
        except Exception as error:  # noqa: BLE001 - for the test to judge
            results.append({"failed": f"{type(error).__name__}: {error}"})
            continue
        request = models.servers(case).manager.last_request
        answers["asked"] = {
            key: request.sampling_params.get(key)
            for key in ("stop", "structural_tag", "json_schema", "ebnf", "skip_special_tokens")
        }
        answers["require_reasoning"] = request.require_reasoning
        answers["custom"] = request.sampling_params.get("custom_params")
        results.append(answers)
    return results


def detected(templates: dict[str, str]) -> Any:
    """Return the dialects that the name `unspool` detects in chat templates at server start."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    begin()
    logging.disable(logging.NOTSET)
    logging.getLogger("unspool").addHandler(handler)
    logging.getLogger("unspool").setLevel(logging.INFO)
    names = {}
    for name, template in templates.items():
        lines.clear()
        tokenizer = server.Vocabulary(Path(os.environ["UNSPOOL_TEST_VOCABULARY"]), ["<tool_call>"], "</s>")
        tokenizer.chat_template = template  # type: ignore[assignment]
        try:
            server.Servers(tokenizer, "unspool", "unspool")
        except ValueError as error:
            names[name] = ["refused", str(error)]
        else:
            names[name] = ["serves", *lines]
    return names


def main() -> None:
    """Run each part and write its results."""
    parts: dict[str, Callable[..., Any]] = {
        "names": names,
        "halves": halves,
        "served": served,
        "detected": detected,
    }
    for line in sys.stdin:
        job = json.loads(line)
        result = parts[job["part"]](*job["given"])
        Path(job["out"]).write_text(json.dumps(result), encoding="utf-8")
        print("done", flush=True)


if __name__ == "__main__":
    main()

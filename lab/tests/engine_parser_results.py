"""Program that parses outputs with an engine's parsers, JSON in and JSON out; runs where the engine is."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

Read: TypeAlias = Callable[[dict[str, Any], list[Any]], dict[str, Any]]

ENDS = ("<eos>", "<bos>", "<pad>")


def tokenizer(case: dict[str, Any]) -> Any:
    """Return a tokenizer of bytes plus the special tokens of the case."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    small = Tokenizer(models.BPE(vocab={char: id for id, char in enumerate(alphabet)}, merges=[]))
    small.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    small.decoder = decoders.ByteLevel()
    tokens = (*case["tokens"], *ENDS)
    small.add_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
    made = PreTrainedTokenizerFast(
        tokenizer_object=small, eos_token=ENDS[0], bos_token=ENDS[1], pad_token=ENDS[2]
    )
    made.init_kwargs["token_suffix"] = case["suffix"]
    return made


def model_types(root: Path) -> list[str]:
    """Return the values of ``model_type`` in config.json that Transformers and the engine know."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    own = (path.read_text("utf-8") for path in root.rglob("configs/*.py"))
    declared = (re.findall(r'(?m)^    model_type(?:: \w+)? = "(\w+)"', text) for text in own)
    return sorted({*CONFIG_MAPPING_NAMES, *(name for names in declared for name in names)})


def vllm() -> tuple[dict[str, Any], Read]:
    os.environ["VLLM_LOGGING_LEVEL"] = "CRITICAL"
    import vllm
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    def read(case: dict[str, Any], tools: list[Any]) -> dict[str, Any]:
        vocabulary = tokenizer(case)
        made = ParserManager.get_parser(
            case["tool"] or None, case["reasoning"] or None, enable_auto_tools=True, model_name="m"
        )
        request = ChatCompletionRequest(
            model="m", messages=[{"role": "user", "content": "Hi"}], tools=tools, tool_choice="auto"
        )
        ids = vocabulary.encode(case["text"], add_special_tokens=False)
        reasoning, content, calls = made(vocabulary, request.tools).parse(
            case["text"], request, enable_auto_tools=True, model_output_token_ids=ids
        )
        written = [[call.name, call.arguments] for call in calls or ()]
        return {"reasoning": reasoning, "content": content, "calls": written}

    # Building vLLM's command line needs packages that are rarely installed, so read its source.
    root = Path(str(vllm.__file__)).parent
    flags = re.findall(r'"(--[a-z][a-z-]+)"', (root / "engine" / "arg_utils.py").read_text("utf-8"))
    fields = (root / "entrypoints" / "launchers" / "cli_args.py").read_text("utf-8")
    flags += [f"--{name.replace('_', '-')}" for name in re.findall(r"(?m)^    ([a-z_]+): ", fields)]
    facts = {
        "version": vllm.__version__,
        "tools": sorted(ToolParserManager.list_registered()),
        "reasoning": sorted(ReasoningParserManager.list_registered()),
        "flags": sorted(flags),
        "model_types": model_types(root),
    }
    return facts, read


def sglang() -> tuple[dict[str, Any], Read]:
    import sglang
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser
    from sglang.srt.server_args import ServerArgs

    def read(case: dict[str, Any], tools: list[Any]) -> dict[str, Any]:
        """Parse as the engine's server does: reasoning first, then calls in the rest."""
        vocabulary = tokenizer(case)
        reasoning, content, calls = None, case["text"], []
        if case["reasoning"]:
            parser = ReasoningParser(
                case["reasoning"], tokenizer=vocabulary, tool_call_parser_active=bool(case["tool"])
            )
            reasoning, content = parser.parse_non_stream(content)
        if case["tool"]:
            offered = [Tool.model_validate(tool) for tool in tools]
            tool_parser = FunctionCallParser(offered, case["tool"], tokenizer=vocabulary)
            content, calls = tool_parser.parse_non_stream(content)
        written = [[call.name, call.parameters] for call in calls]
        return {"reasoning": reasoning, "content": content, "calls": written}

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    facts = {
        "version": sglang.__version__,
        "tools": sorted(FunctionCallParser.ToolCallParserEnum),
        "reasoning": sorted(ReasoningParser.DetectorMap),
        "flags": sorted(flag for action in parser._actions for flag in action.option_strings),
        "model_types": model_types(Path(str(sglang.__file__)).parent),
    }
    return facts, read


def main() -> None:
    # Packages may print anything, so reserve standard output for the result.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job = json.load(sys.stdin)
    facts, read = {"vllm": vllm, "sglang": sglang}[sys.argv[1]]()
    logging.disable(logging.CRITICAL)
    results = []
    for case in job["cases"]:
        try:
            results.append(read(case, job["tools"]))
        except Exception as error:  # noqa: BLE001 - whatever a parser does is a result
            results.append({"error": f"{type(error).__name__}: {error}"})
    json.dump({**facts, "results": results}, out)
    out.close()


main()

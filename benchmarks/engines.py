"""Cost of a token inside an engine: its own parsers and unspool's, in one process, in turns.

Each engine that ``python -m lab.environments vllm sglang`` installed runs this file in its own
environment. A step passes one token, as text and id, to the method that the engine's server calls,
and gets the engine's own delta.

    python benchmarks/engines.py               # prints a table for each engine
    python benchmarks/engines.py --publish     # also writes the tables into docs/speed.md
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from parsing.workloads import CODE, TOOLS, filled

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "speed.md"
SIZES: Final = {"1k": 1_000, "10k": 10_000}
"""Length of the call's argument in characters."""
ROUNDS: Final = 3
LIMIT: Final = 4.0
"""Time limit of a round in seconds; a stopped round counts with its mean so far."""

Step: TypeAlias = Callable[[str, int, bool], object]
"""Parser step for one token: its text, its id, and whether it is the last."""
Steps: TypeAlias = Callable[[], Step]
"""Factory of a parser for one output."""


class TokenizedOutput(NamedTuple):
    """Output in tokens."""

    dialect: str
    texts: list[str]
    ids: list[int]
    tokenizer: Any


class Contenders(NamedTuple):
    """The two contenders."""

    theirs: Steps
    ours: Steps


# -- engines: each returns the calls of its server for an output


def _contenders(
    steps: Callable[[TokenizedOutput, str, str], Steps], tools: str, reasoning: str
) -> Callable[[TokenizedOutput], Contenders]:
    """Return a function that sets up the engine's own parsers, given by name, and unspool's parser."""
    return lambda case: Contenders(
        steps(case, tools, reasoning),
        steps(case, f"unspool_{case.dialect}", f"unspool_{case.dialect}"),
    )


def vllm() -> tuple[str, dict[str, Callable[[TokenizedOutput], Contenders]]]:
    """Set up ``parse_delta`` of the parser that the server creates for a choice."""
    import logging

    from vllm import __version__
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    from unspool.integrations.vllm import register

    logging.disable(logging.CRITICAL)
    register()

    def steps(case: TokenizedOutput, tools: str, reasoning: str) -> Steps:
        parser = ParserManager.get_parser(tools, reasoning, enable_auto_tools=True, model_name="tiny")
        assert parser is not None  # noqa: S101 - both names are given
        chat_request = ChatCompletionRequest(
            model="tiny", messages=[{"role": "user", "content": "Hi"}], tools=TOOLS, stream=True
        )
        off = {"enable_thinking": False, "thinking": False}
        request = parser(case.tokenizer, chat_request.tools, chat_template_kwargs=off).adjust_request(
            chat_request
        )
        prompt = case.tokenizer.encode("<think></think>", add_special_tokens=False)

        def begin() -> Step:
            parse_delta = parser(case.tokenizer, request.tools, chat_template_kwargs=off).parse_delta
            return lambda text, id, last: parse_delta(text, [id], request, prompt, finished=last)

        return begin

    return __version__, {
        "hermes": _contenders(steps, "hermes", "qwen3"),
        "qwen3_coder": _contenders(steps, "qwen3_coder", "qwen3"),
        "deepseek_v3_1": _contenders(steps, "deepseek_v31", "deepseek_v3"),
        "kimi_k2": _contenders(steps, "kimi_k2", "kimi_k2"),
    }


def sglang() -> tuple[str, dict[str, Callable[[TokenizedOutput], Contenders]]]:
    """Set up ``parse_stream_chunk`` of the two parsers that the server chains for a choice."""
    import logging

    from sglang import __version__
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    from unspool.integrations.sglang import load

    logging.disable(logging.CRITICAL)
    load()
    offered = [Tool(**tool) for tool in TOOLS]

    def steps(case: TokenizedOutput, tools: str, reasoning: str) -> Steps:
        def begin() -> Step:
            think = ReasoningParser(
                reasoning, force_reasoning=False, tokenizer=case.tokenizer, tool_call_parser_active=True
            )
            call = FunctionCallParser(offered, tools, tokenizer=case.tokenizer)

            def step(text: str, _: int, last: bool) -> object:
                found = call.parse_stream_chunk(think.parse_stream_chunk(text)[1])
                if last:
                    return (
                        found,
                        call.parse_stream_chunk(think.parse_stream_end()[1]),
                        call.parse_stream_end(),
                    )
                return found

            return step

        return begin

    return __version__, {
        "hermes": _contenders(steps, "hermes", "qwen3"),
        "qwen3_coder": _contenders(steps, "qwen3_coder", "qwen3"),
        "deepseek_v3_1": _contenders(steps, "deepseekv31", "deepseek-v3"),
        "kimi_k2": _contenders(steps, "kimi_k2", "kimi_k2"),
    }


ENGINES: Final[dict[str, Callable[[], tuple[str, dict[str, Callable[[TokenizedOutput], Contenders]]]]]] = {
    "vllm": vllm,
    "sglang": sglang,
}
"""Setup functions by folder in ``.peers``; each returns the version, and the contenders by dialect."""


# -- measuring, in the engine's environment


def measure(engine: str) -> dict[str, Any]:
    """Return microseconds per token of both contenders, by dialect and size."""
    version, dialects = ENGINES[engine]()
    rows = []
    for dialect, contenders in dialects.items():
        for size, length in SIZES.items():
            case = _case(dialect, length)
            rows.append([dialect, size, len(case.ids), *_measure_in_turns(contenders(case), case)])
    return {"version": version, "rows": rows}


def _case(dialect: str, length: int) -> TokenizedOutput:
    from lab.engines.models import write_model
    from unspool import Message, ToolCall, render

    arguments = json.dumps({"path": "total.py", "content": filled(CODE, length)}, ensure_ascii=False)
    call = ToolCall("functions.write_file:0", "write_file", arguments)
    text = render(Message(reasoning=None, content=None, tool_calls=(call,)), dialect)
    with tempfile.TemporaryDirectory() as folder:
        model = write_model(Path(folder), dialect)
        tokenizer = _tokenizer(model)
    ids = tokenizer.encode(text, add_special_tokens=False)
    return TokenizedOutput(dialect, [tokenizer.decode([id]) for id in ids], ids, tokenizer)


def _tokenizer(model: Path) -> Any:
    """Load the model's tokenizer as the engine's server does."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    try:
        from vllm.tokenizers.hf import get_cached_tokenizer
    except ImportError:
        return tokenizer
    return get_cached_tokenizer(tokenizer)


def _measure_in_turns(contenders: Contenders, case: TokenizedOutput) -> Iterator[float]:
    """Yield microseconds per token, each the best of several rounds."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for side, begin in enumerate(contenders):
            best[side] = min(best[side], _round(begin(), case))
    return (1e6 * seconds for seconds in best)


def _round(step: Step, case: TokenizedOutput) -> float:
    last = len(case.ids) - 1
    started = time.thread_time()
    for place, (text, id) in enumerate(zip(case.texts, case.ids, strict=True)):
        step(text, id, place == last)
        if not place % 256 and time.thread_time() - started > LIMIT:
            last = place
            break
    return (time.thread_time() - started) / (last + 1)


# -- the table


def table(name: str, figures: dict[str, Any]) -> str:
    """Return an engine's results as a table for the docs."""
    lines = [
        f"Inside {name} {figures['version']}, microseconds per token:",
        "",
        "| dialect | argument | tokens | its own parser | unspool | times |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for dialect, size, tokens, theirs, ours in figures["rows"]:
        lines.append(f"| {dialect} | {size} | {tokens:,} | {theirs:.1f} | {ours:.1f} | {theirs / ours:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure every installed engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--publish", action="store_true", help="write the tables into docs/speed.md")
    parser.add_argument("--inside", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print("\n" + json.dumps(measure(options.inside)))
        return
    found = {}
    for engine in ENGINES:
        python = ROOT / ".peers" / engine / "bin" / "python"
        if not python.exists():
            print(f"{engine} is not installed; run python -m lab.environments {engine}")
            continue
        path = os.pathsep.join(str(ROOT / folder) for folder in ("src", "benchmarks", ""))
        run = subprocess.run(  # noqa: S603 - runs this file
            [str(python), __file__, "--inside", engine],
            env=os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found[engine] = table(engine, json.loads(run.stdout.splitlines()[-1]))
        print(found[engine], flush=True)
    if options.publish:
        from parsing.report import put

        put(PAGE, {"engines": "\n\n".join(found.values())})


if __name__ == "__main__":
    main()

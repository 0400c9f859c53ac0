"""Overhead of rendering chat templates in another process, measured in turns in one run.

    python benchmarks/templates.py [TEMPLATE.jinja] [--rounds N]

``make templates`` leaves templates in ``.templates``; the default is Qwen3's. "here" is the same
rendering inside the calling process, the fallback on machines without worker processes. Both
are complete calls of ``ChatTemplate.render``. The output has medians, with the minimum in brackets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from unspool.templates import ChatTemplate
from unspool.templates import _render_pool as renderers

ROOT = Path(__file__).resolve().parent.parent
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TURN = [
    {"role": "user", "content": "What is the weather like in Oslo, and what should I wear? " * 8},
    {"role": "assistant", "content": "It is sunny: a shirt will do, and a pullover for the evening. " * 16},
]
PROMPTS = {
    "a question": TURN[:1],
    "20 turns, 14,000 characters": TURN * 10,
    "600 turns, 440,000 characters": TURN * 300,
}


def timed(work: Callable[[], object]) -> float:
    """Return the microseconds of a call."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e6


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    qwen3 = ROOT / ".templates" / "trl" / "qwen3.jinja"
    parser.add_argument("template", nargs="?", type=Path, default=qwen3)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    source = options.template.read_text(encoding="utf-8")
    processes = renderers._pool  # noqa: SLF001 - only this benchmark switches it off
    started = timed(lambda: ChatTemplate(""))
    print(f"the first process, started: {started / 1000:.0f} ms")
    template = ChatTemplate(source)
    print(f"{'microseconds':32}{'here':>16}{'there':>16}{'more':>8}")
    for name, messages in PROMPTS.items():
        conversation = [dict(message) for message in messages] + TURN[:1]
        taken: dict[str, list[float]] = {"here": [], "there": []}
        for _ in range(max(5, options.rounds // len(messages))):
            for where, times in taken.items():
                vars(renderers)["_pool"] = None if where == "here" else processes
                times.append(timed(lambda conversation=conversation: template.render(conversation, [TOOL])))  # type: ignore[misc]
        here, there = (sorted(times)[1:] for times in taken.values())
        row = "".join(f"{f'{median(times):,.0f} ({times[0]:,.0f})':>16}" for times in (here, there))
        print(f"{name:32}{row}{median(there) - median(here):>8,.0f}")


if __name__ == "__main__":
    main()

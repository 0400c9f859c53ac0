"""Which dialects can be said as response templates, and what the engines' own readers make of those.

``python tools/response_templates.py`` asks the readers that ``make peers`` installed
and says where the table in ``docs/engines.md`` is out of date; ``--write`` writes
it anew.  Two kinds of outputs are read: messages that ``render`` writes, which
must come out the same (``tests/models/test_response_templates.py``), and the well-formed
outputs of our own corpus, of which the table counts how many do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from unspool import (
    Dialect,
    ExportError,
    Message,
    UsageError,
    list_dialects,
    parse,
    render,
    to_response_template,
)
from unspool import (
    sample_outputs as recordings,
)
from unspool._core.render.example import EXAMPLE, EXAMPLE_TOOLS, calls_of

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "engines.md"
BEGIN: Final = "<!-- response-templates: written by tools/response_templates.py -->"
END: Final = "<!-- /response-templates -->"
ENGINES: Final = {"transformers": "transformers", "vllm": "vLLM", "sglang": "SGLang"}
ANCHOR: Final = "<|assistant turn|>"
PROMPT: Final = f"Write <think> and <tool_call>.{ANCHOR}\n"
"""A prompt that quotes markup before the turn of the model."""
SIZES: Final = (0, 1, 7)
"""Characters to a piece; 0: all at once."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output, and what is right about it."""

    dialect: Dialect
    text: str
    right: Mapping[str, Any]
    tools: Sequence[Mapping[str, Any]] = EXAMPLE_TOOLS
    seed: str = ""
    """What the prompt holds of the turn."""

    def case(self, size: int, engine: str = "") -> dict[str, Any]:
        """What a reader is asked; that of transformers sees the token that ended the turn."""
        end = self.dialect.stop[0] if engine == "transformers" and self.dialect.stop else ""
        return {
            "template": template(self.dialect),
            "prefix": PROMPT + self.seed,
            "text": self.text.removesuffix(end) + end,
            "tools": list(self.tools),
            "size": size,
        }


def template(dialect: Dialect) -> dict[str, Any]:
    """The template that is tried; every chat template would begin turns its own way."""
    return to_response_template(dialect, anchor=ANCHOR)


def refusal(dialect: Dialect) -> str:
    """Why there is none; empty if there is one."""
    try:
        template(dialect)
    except ExportError as error:
        return error.reason
    return ""


def exported() -> list[Dialect]:
    """The dialects that there is a template for."""
    return [dialect for dialect in list_dialects() if not refusal(dialect)]


# -- outputs


def rendered(dialect: Dialect) -> Iterator[Output]:
    """What the dialect writes: with and without its parts, its end of a turn and a seeded prompt."""
    for message in (
        EXAMPLE,
        replace(EXAMPLE, content=None),
        replace(EXAMPLE, reasoning=None),
        replace(EXAMPLE, reasoning=None, content=None),
        replace(EXAMPLE, tool_calls=()),
        replace(EXAMPLE, tool_calls=EXAMPLE.tool_calls[:1]),
        Message(content="Two lines,\n\nand no call."),
    ):
        try:
            text = render(dialect, message)
        except UsageError:
            continue
        right = _right(parse(text, dialect, tools=EXAMPLE_TOOLS, prompt=""))
        yield Output(dialect, text, right)
        if dialect.stop:
            yield Output(dialect, text + dialect.stop[0], right)
        opener = _opener(dialect)
        if message.reasoning and opener and text.startswith(opener):
            yield Output(dialect, text[len(opener) :], right, seed=opener)


@cache
def written(dialect: Dialect) -> tuple[Output, ...]:
    """The well-formed outputs of our corpus, and its recording."""
    if __name__ == "__main__":
        sys.path.insert(0, str(ROOT / "tests" / "support"))
    import corpus_cases

    found = []
    for vector in corpus_cases.load(dialect.name.replace(":", "_")):
        if (
            vector.file.endswith("examples.md")
            and vector.start in ("content", "detect", "reasoning")
            and not (vector.tool_choice or vector.policies or vector.prefix or vector.variant)
        ):
            seed = _opener(dialect) if vector.start == "reasoning" else ""
            # Without tools engines read no calls at all.
            tools = vector.tools or _tools(call.name for call in vector.calls)
            message = parse(vector.raw, dialect, tools=tools, prompt=seed)
            found.append(Output(dialect, vector.raw, _right(message), tools, seed))
    (recording,) = recordings.recordings([dialect.name])
    message = parse(recording.output, dialect, tools=recordings.tools(), prompt=recording.prompt or "")
    found.append(
        Output(dialect, recording.output, _right(message), recordings.tools(), recording.prompt or "")
    )
    return tuple(found)


def _tools(names: Iterable[str]) -> tuple[Mapping[str, Any], ...]:
    return tuple({"type": "function", "function": {"name": name}} for name in {"now", *names})


def _opener(dialect: Dialect) -> str:
    opener = template(dialect)["fields"].get("thinking", {}).get("open", "")
    return str(opener if isinstance(opener, str) else opener[0])


def _right(message: Message) -> Mapping[str, Any]:
    calls = [list(call) for call in calls_of(message)]
    return tidied({"reasoning": message.reasoning or "", "content": message.content or "", "calls": calls})


def tidied(read: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was read, without the white space around text: readers differ in who removes it."""
    return {key: value.strip() if isinstance(value, str) else value for key, value in read.items()}


# -- readers


def interpreter(engine: str) -> Path:
    """The interpreter of a reader's environment, whether it is there or not."""
    return ROOT / ".peers" / engine / "bin" / "python"


def read(engine: str, cases: Sequence[Mapping[str, Any]]) -> tuple[str, list[Mapping[str, Any]]]:
    """The version of a reader, and what it makes of the cases."""
    done = subprocess.run(  # noqa: S603 - our own
        [interpreter(engine), ROOT / "tests" / "engines" / "template_reads.py", engine],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    answer = json.loads(done.stdout)
    return answer["version"], [tidied(each) for each in answer["results"]]


# -- the page


def table() -> str:
    """The table, as the readers are now."""
    outputs = [output for dialect in exported() for output in written(dialect)]
    counts: dict[tuple[str, str], int] = {}
    versions = []
    for engine, name in ENGINES.items():
        version, results = read(engine, [output.case(0, engine) for output in outputs])
        versions.append(f"{name} {version}")
        for output, result in zip(outputs, results, strict=True):
            key = engine, output.dialect.name
            counts[key] = counts.get(key, 0) + (result == output.right)
    lines = [
        f"{', '.join(versions)}; {len(exported())} of {len(list_dialects())} dialects.",
        "",
        f"| dialect | well-formed outputs | {' | '.join(ENGINES.values())} |",
        "|---|---|---|---|---|",
    ]
    for dialect in list_dialects():
        reason = refusal(dialect)
        cells = (
            [f"refused: {reason}", "", "", ""]
            if reason
            else [
                str(len(written(dialect))),
                *(str(counts[engine, dialect.name]) for engine in ENGINES),
            ]
        )
        lines.append(f"| {' | '.join([f'`{dialect.name}`', *cells])} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the page with what the readers do, or write it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="write the table")
    write = parser.parse_args(arguments).write
    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    new = f"{before}{begin}\n\n{table()}\n\n{end}{after}"
    if write:
        PAGE.write_text(new, encoding="utf-8")
    elif new != page:
        print(f"{PAGE} is out of date: python tools/response_templates.py --write")
    return int(not write and new != page)


if __name__ == "__main__":
    sys.exit(main())

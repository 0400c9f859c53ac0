"""Check of exported response templates with the engines' own readers.

The program reports if the table in ``docs/engines.md`` is out of date; ``--write`` regenerates it. There are
two kinds of outputs: rendered messages, which must parse back unchanged
(``tests/models/test_response_templates.py``), and the well-formed outputs of the corpus. For these, the table
counts the correct results.

Needs: the environments of vLLM, SGLang and Transformers, which the program installs (several GB).
Takes: minutes, longer on the first run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from lab import ROOT, environments
from lab.docs_section import read_section, write_section
from unspool import (
    Dialect,
    Message,
    UsageError,
    list_dialects,
    parse,
    render,
    sample_outputs,
)
from unspool._core.render.example_output import EXAMPLE, EXAMPLE_TOOLS, calls_of
from unspool.models import ExportError, to_response_template

ENGINES: Final = {"transformers": "transformers", "vllm": "vLLM", "sglang": "SGLang"}
ANCHOR: Final = "<|assistant turn|>"
PROMPT: Final = f"Write <think> and <tool_call>.{ANCHOR}\n"
"""Prompt that quotes markup before the model's turn."""
SIZES: Final = (0, 1, 7)
"""Characters per chunk; 0 means a single chunk."""


@dataclass(frozen=True, slots=True)
class Output:
    """Output and its right result."""

    dialect: Dialect
    text: str
    right: Mapping[str, Any]
    tools: Sequence[Mapping[str, Any]] = EXAMPLE_TOOLS
    seed: str = ""
    """Beginning of the turn, if the prompt contains it."""

    def case(self, size: int, engine: str = "") -> dict[str, Any]:
        """Return the case for a reader; only Transformers' reader gets the token that ends the turn."""
        end = self.dialect.stop[0] if engine == "transformers" and self.dialect.stop else ""
        return {
            "template": template(self.dialect),
            "prefix": PROMPT + self.seed,
            "text": self.text.removesuffix(end) + end,
            "tools": list(self.tools),
            "size": size,
        }


def template(dialect: Dialect) -> dict[str, Any]:
    """Return the template under test, in which every turn begins with ``ANCHOR``."""
    return to_response_template(dialect, anchor=ANCHOR)


def refusal(dialect: Dialect) -> str:
    """Return the reason why a dialect has no template, or an empty string."""
    try:
        template(dialect)
    except ExportError as error:
        return error.reason
    return ""


def exported() -> list[Dialect]:
    """Return the dialects with a template."""
    return [dialect for dialect in list_dialects() if not refusal(dialect)]


# -- outputs


def rendered(dialect: Dialect) -> Iterator[Output]:
    """Yield rendered outputs: with and without each part, with an end of turn, and with a seeded prompt."""
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
            text = render(message, dialect)
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
    """Return the well-formed outputs of the corpus and the recording."""
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
            # Without tools, engines do not parse calls.
            tools = vector.tools or _tools(call.name for call in vector.calls)
            message = parse(vector.raw, dialect, tools=tools, prompt=seed)
            found.append(Output(dialect, vector.raw, _right(message), tools, seed))
    (recording,) = sample_outputs.list_samples([dialect.name])
    message = parse(recording.output, dialect, tools=sample_outputs.tools(), prompt=recording.prompt or "")
    found.append(
        Output(dialect, recording.output, _right(message), sample_outputs.tools(), recording.prompt or "")
    )
    return tuple(found)


def _tools(names: Iterable[str]) -> tuple[Mapping[str, Any], ...]:
    return tuple({"type": "function", "function": {"name": name}} for name in {"now", *names})


def _opener(dialect: Dialect) -> str:
    opener = template(dialect)["fields"].get("thinking", {}).get("open", "")
    return str(opener if isinstance(opener, str) else opener[0])


def _right(message: Message) -> Mapping[str, Any]:
    calls = [list(call) for call in calls_of(message)]
    return without_outer_whitespace(
        {"reasoning": message.reasoning or "", "content": message.content or "", "calls": calls}
    )


def without_outer_whitespace(read: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result without outer whitespace, which only some readers remove."""
    return {key: value.strip() if isinstance(value, str) else value for key, value in read.items()}


# -- readers


def read(engine: str, cases: Sequence[Mapping[str, Any]]) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the version of a reader and its results for the cases."""
    done = subprocess.run(  # noqa: S603 - our own program
        [environments.python(engine), ROOT / "lab" / "response_template_reader.py", engine],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    answer = json.loads(done.stdout)
    return answer["version"], [without_outer_whitespace(each) for each in answer["results"]]


# -- table


def table() -> str:
    """Return the table for the installed readers."""
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


def main() -> int:
    """Compare the page with the readers, or update it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/engines.md")
    options = parser.parse_args()
    for engine in ENGINES:
        environments.install(engine)
    if options.write:
        write_section("docs/engines.md", "response-templates", table())
    elif table() != read_section("docs/engines.md", "response-templates"):
        print("docs/engines.md is out of date; run this program with --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

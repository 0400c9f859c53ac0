"""The table of engine parsers, checked against the engines where they are installed.

``engine_parser_results.py`` runs in their environments.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lab import environments
from lab.peers import of_one_checkpoint
from unspool import Dialect, Message, UsageError, get_dialect, list_dialects, parse, render
from unspool._core.render.example_output import EXAMPLE, EXAMPLE_TOOLS, calls_of, json_value
from unspool.dialects import dialect_texts
from unspool.dialects.list_templates_and_markers import turn_markers
from unspool.models.doctor.engine_parser_table import (
    ASSUME_OPEN,
    COMMON_PARSERS,
    PARSERS,
    VERSIONS,
    EngineName,
    parsers_for,
)
from unspool.models.doctor.server_flags import ServerModel, server_flags
from unspool.models.doctor.simulate_wrong_settings import read_with_parser

NOON = "It is noon."


class Right(NamedTuple):
    """The expected content of an output."""

    reasoning: str
    content: str
    calls: list[tuple[str, object]]


def case(text: str, dialect: Dialect | None, tool: str, reasoning: str) -> dict[str, Any]:
    """Return an output for an engine's parsers."""
    tokens = {"<think>", "</think>"} if dialect is None else {"<assistant>"}
    if dialect is not None:
        for template in (*dialect_texts(replace(dialect, also_accepts=())), *turn_markers(dialect)):
            tokens.update(re.findall(r"<[^<>{}\s=]+>|\[/?[A-Z_]{3,}\]", template))
    suffix = "" if dialect is None else dialect.name.partition(":")[2]
    return {
        "text": text,
        "tokens": of_one_checkpoint(sorted(tokens)),
        "suffix": f":{suffix}" if suffix else "",
        "tool": tool,
        "reasoning": reasoning,
    }


def ask(engine: str, cases: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    python = environments.python(engine)
    if not python.exists():
        pytest.skip(f"no {engine}: python -m lab.environments {engine}")
    flags = json.dumps({"tools": EXAMPLE_TOOLS, "cases": list(cases)})
    program: list[Path | str] = [python, Path(__file__).with_name("engine_parser_results.py"), engine]
    done = subprocess.run(program, input=flags, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def differing(right: Right, result: Mapping[str, Any]) -> set[str]:
    """Return what differs from the written output."""
    if "error" in result:
        return {"error"}
    # For a Cohere call without arguments, vLLM returns an empty text, which is not JSON.
    calls = [(name, json.loads(arguments) if arguments else arguments) for name, arguments in result["calls"]]
    return {
        kind
        for kind, wrong in (
            ("calls", calls != right.calls),
            ("reasoning", (result["reasoning"] or "").strip() != right.reasoning),
            ("content", (result["content"] or "").strip() != right.content),
        )
        if wrong
    }


UNTRIED = {
    ("vllm", "harmony"),  # the parser needs a vocabulary that must be downloaded
    ("vllm", "response_template"),
    ("sglang", "response_template"),
}
SHORTCOMINGS: Mapping[tuple[EngineName, str], set[str]] = {
    ("vllm", "cohere"): {"calls"},
    ("vllm", "deepseek_v3_1"): {"reasoning", "content"},
    ("vllm", "deepseek_v3_2"): {"reasoning", "content"},
    ("vllm", "ernie45"): {"calls"},
    ("vllm", "firefunction"): {"content"},
    ("vllm", "functiongemma"): {"calls"},
    ("vllm", "gigachat3"): {"calls", "content"},
    ("vllm", "granite"): {"content"},
    ("vllm", "hunyuan_a13b"): {"calls"},
    ("vllm", "hy_v3"): {"reasoning", "content"},
    ("vllm", "hy_v3:opensource"): {"reasoning", "content"},
    ("vllm", "internlm2"): {"error"},
    ("vllm", "mimo"): {"calls"},  # we render Qwen's newlines around values, which this parser keeps
    ("vllm", "minicpm5"): {"content"},
    ("vllm", "phi4mini"): {"content"},
    ("vllm", "poolside_v1"): {"reasoning", "content"},
    ("vllm", "pythonic"): {"calls", "content"},
    ("vllm", "step3"): {"reasoning"},  # the parser expects the marker in the prompt
    ("sglang", "cohere"): {"content"},
    # The parser of another family, because SGLang has none for this reasoning.
    ("sglang", "ernie45"): {"content"},
    ("sglang", "gigachat3"): {"calls", "content"},
    ("sglang", "internlm2"): {"calls", "content"},
    ("sglang", "mimo"): {"calls"},
    ("sglang", "mistral_v3"): {"calls"},
}
"""Known wrong results of engine parsers for our specimens."""


def written(dialect: Dialect, *, reasoning: bool) -> tuple[str, Message]:
    """Return an output with two calls, and with as much text around them as parses back."""
    thoughts = (EXAMPLE.reasoning, None) if reasoning else (None,)
    for thought, content in itertools.product(thoughts, (EXAMPLE.content, None)):
        message = Message(reasoning=thought, content=content, tool_calls=EXAMPLE.tool_calls)
        try:
            text = render(message, dialect)
        except UsageError:
            continue
        read = parse(text, dialect, tools=EXAMPLE_TOOLS, prompt="" if dialect.frame is None else None)
        if calls_of(read) == calls_of(message):
            return text, read
    raise AssertionError(dialect.name)


@cache
def specimens(engine: EngineName) -> tuple[list[str], list[dict[str, Any]], list[Right]]:
    names: list[str] = []
    cases: list[dict[str, Any]] = []
    rights: list[Right] = []
    for name, row in PARSERS.items():
        tool = row.vllm if engine == "vllm" else row.sglang
        reasoning = row.vllm_reasoning if engine == "vllm" else row.sglang_reasoning
        if not tool or (engine, name) in UNTRIED:
            continue
        dialect = get_dialect(name)
        text, read = written(dialect, reasoning=bool(reasoning))
        names.append(name)
        cases.append(case(text, dialect, tool, reasoning))
        calls = [(call.name, json.loads(call.arguments)) for call in read.tool_calls]
        rights.append(Right((read.reasoning or "").strip(), (read.content or "").strip(), calls))
    return names, cases, rights


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_engine_parser_table_matches_the_engines(engine: EngineName) -> None:
    names, cases, rights = specimens(engine)
    plain = [Message(tool_calls=EXAMPLE.tool_calls)]
    crossed = [
        (dialect, parser, render(message, dialect))
        for dialect in list_dialects()
        if (dialect.call or dialect.frame) and dialect.name not in ("harmony_stripped", "harmony")
        for parser in COMMON_PARSERS
        if engine == "vllm" and parser not in (dialect.name, PARSERS[dialect.name].vllm)
        for message in plain
    ]
    guessing = sorted(
        {row.vllm_reasoning if engine == "vllm" else row.sglang_reasoning for row in PARSERS.values()}
    )
    guessing = sorted(
        (ASSUME_OPEN[engine] | set(guessing)) - {"", "hf", "response_template", "openai_gptoss"}
    )
    answer = ask(
        engine,
        [
            *cases,
            *(case(text, dialect, parser, "") for dialect, parser, text in crossed),
            *(case(NOON, None, "", parser) for parser in guessing),
        ],
    )
    assert answer["version"] == VERSIONS[engine]
    rows = [
        *PARSERS.values(),
        *(parsers_for("pythonic", mark) for mark in ("<|header_start|>", "<function_calls>")),
    ]
    rows.append(parsers_for("cohere", "<|START_RESPONSE|>"))
    if engine == "vllm":
        assert {row.vllm for row in rows} | set(COMMON_PARSERS) <= {"", *answer["tools"]}
        assert {row.vllm_reasoning for row in rows} | ASSUME_OPEN["vllm"] <= {"", *answer["reasoning"]}
    else:
        assert {row.sglang for row in rows} <= {"", *answer["tools"]}
        assert {row.sglang_reasoning for row in rows} | ASSUME_OPEN["sglang"] <= {"", *answer["reasoning"]}
    command = server_flags(ServerModel("hermes", "MODEL", "", "x.jinja", has_calls=True, has_reasoning=True))[
        engine
    ].command
    assert set(re.findall(r"--[a-z-]+", command)) <= set(answer["flags"])

    unknown = {
        mark
        for dialect in list_dialects()
        for mark in dialect.family.fingerprint
        if (kind := mark.partition("model_type: ")[2])
        and not any(name.startswith(kind) for name in answer["model_types"])
    }
    assert unknown == ({"model_type: spark2_5"} if engine == "vllm" else set())

    results = iter(answer["results"])
    differences = {
        (engine, name): wrong
        for name, right in zip(names, rights, strict=True)
        if (wrong := differing(right, next(results)))
    }
    assert differences == {key: kinds for key, kinds in SHORTCOMINGS.items() if key[0] == engine}

    misread: dict[tuple[str, str], tuple[str, str]] = {}
    for dialect, parser, text in crossed:
        result = next(results)
        right = parse(text, dialect, tools=EXAMPLE_TOOLS, prompt="" if dialect.frame is None else None)
        calls = [(name, json_value(arguments)) for name, arguments in result.get("calls", ())]
        theirs = "fine" if calls == calls_of(right) else "wrong" if calls else "nothing"
        ours = read_with_parser(parser, dialect, text, right)
        if ours != theirs:
            misread[dialect.name, parser] = (ours, theirs)
    assert not misread

    open_to = {parser for parser in guessing if next(results).get("reasoning") == NOON}
    assert open_to == ASSUME_OPEN[engine]

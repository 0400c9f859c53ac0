"""``ChatTemplate`` renders like Hugging Face Transformers, where that is installed.

``make test-all`` installs Transformers into an environment of its own, because other packages import it where
they find it. The templates are ours and, after ``make templates``, those of real models.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from lab import environments
from paths import TEMPLATES, TESTS
from unspool import UsageError
from unspool.templates import ChatTemplate, ChatTemplateError, normalise_history

PEER = environments.python("transformers")
PYTHON = sys.executable if importlib.util.find_spec("transformers") else PEER if PEER.exists() else None

SYNTHETIC = {
    "filters and globals": (
        "{{ bos_token }}{% for m in messages %}{{ m | tojson }}{{ m.content | upper | trim }}{% endfor %}"
        "{{ tools | tojson(indent=2) }}{{ dict(a=1) }}{{ namespace(x=2).x }}{{ range(3) | list }}"
    ),
    "blocks are trimmed": "{% for m in messages %}\n  {% if 1 %}\n{{ m }}\n  {% endif %}\n{% endfor %}\n",
    "loop controls": "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}x{% endfor %}",
    "generation": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "HTML is no matter": "{{ messages[0].content }}{{ {'a': '<b>&\"é'} | tojson }}",
    "an exception": "{{ raise_exception('No.') }}",
    "undefined": "{{ missing }}|{{ missing.attribute }}",
    "lists stay as they are": "{% set x = [] %}{{ x.append(1) }}",
    "no way into Python": "{{ ''.__class__.__mro__ }}",
    "a syntax error": "{% for m in messages %}",
    "reasoning under other names": (
        "{% for m in messages %}[{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.reasoning }}]"
        "{{ m.content }}{% endfor %}"
    ),
    "no text of the last message": "{% for m in messages %}{{ m.role }}{% endfor %}",
    "a trimmed last message": "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}",
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather, <b>now</b>.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Zürich, say."}},
                "required": ["city"],
            },
        },
    }
]
USER = {"role": "user", "content": "What is the weather like in Zürich & <b>Genf</b>? "}
CALLS = [
    {
        "id": "abcdefgh1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Zürich"}'},
    }
]
HISTORIES: dict[str, list[dict[str, Any]]] = {
    "a question": [USER],
    "an answer": [
        {"role": "system", "content": "Be kind."},
        USER,
        {"role": "assistant", "content": "Fine. "},
    ],
    "a call": [
        USER,
        {"role": "assistant", "content": "Let me see.", "reasoning_content": "Hm.", "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "abcdefgh1", "content": "21 degrees"},
    ],
    "other names of reasoning": [
        USER,
        {"role": "assistant", "content": "Fine.", "reasoning": "Hm."},
        USER,
        {"role": "assistant", "content": "Fine.", "thinking": "Ah."},
    ],
}
VARIABLES: list[tuple[dict[str, Any], list[Any] | None]] = [
    ({}, None),
    ({}, TOOLS),
    ({"enable_thinking": False, "reasoning_effort": "high", "documents": []}, TOOLS),
]


def iter_sources() -> dict[str, str]:
    real = {name: path.read_text("utf-8") for name, path in sorted(TEMPLATES.items())}
    return SYNTHETIC | real


def iter_cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for (name, source), (title, messages) in itertools.product(iter_sources().items(), HISTORIES.items()):
        try:
            template = compile_template(source)
            history = normalise_history(messages, template) if title == "a call" else messages
        except ChatTemplateError:
            history = messages
        for variables, tools in VARIABLES:
            ends: list[tuple[bool, bool]] = [(True, False), (False, False)]
            if history[-1]["role"] == "assistant":
                ends.append((False, True))
            for generation, continued in ends:
                yield (
                    f"{name}: {title}, {variables}, {'tools' if tools else ''} {generation} {continued}",
                    {
                        "template": source,
                        "messages": history,
                        "tools": tools,
                        "variables": variables,
                        "generation": generation,
                        "continued": continued,
                    },
                )


@cache
def compile_template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>")


def render_with_unspool(case: dict[str, Any]) -> dict[str, str]:
    try:
        text = compile_template(case["template"]).render(
            case["messages"],
            case["tools"],
            add_generation_prompt=case["generation"],
            continue_final_message=case["continued"],
            **case["variables"],
        )
    except (ChatTemplateError, UsageError) as error:
        return {"error": str(error)}
    return {"text": text}


@pytest.mark.slow
@pytest.mark.skipif(PYTHON is None, reason="no Transformers: python -m lab.environments transformers")
def test_rendering_matches_transformers() -> None:
    all_cases = list(iter_cases())
    program = [str(PYTHON), str(TESTS / "support" / "transformers_renders.py")]
    text = json.dumps([case for _, case in all_cases])
    done = subprocess.run(program, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(done.stdout)["results"]
    wrong = {}
    for (title, case), theirs in zip(all_cases, results, strict=True):
        mine = render_with_unspool(case)
        if "error" in theirs and any(None in message.values() for message in case["messages"]):
            continue  # since 5.23 Transformers omits variables that are None, but some templates require them
        if mine.get("text") != theirs.get("text"):
            wrong[title] = (mine, theirs)
    assert sum("text" in each for each in results) > len(results) // 2, (
        "fewer cases than expected can be rendered"
    )
    assert not wrong, (len(wrong), len(all_cases), next(iter(wrong.items())))

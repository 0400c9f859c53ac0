"""Dialects as response templates: parsed back by unspool."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lab import response_templates as tool
from lab.response_templates import exported, refusal, rendered, template
from unspool import (
    Dialect,
    UsageError,
    get_dialect,
    list_dialects,
    parse,
)
from unspool.models import ExportError, from_response_template, to_response_template

DIALECTS = exported()
REFUSED = {
    "apertus": "objects with the function name as a key",
    "cohere_cofl": "nested values in tags",
    "command_r": "function names that mean that there is no call",
    "deepseek_v3_2": "values with their types",
    "granite": "reasoning that can open only at the start of an output",
    "harmony": "messages with headers",
    "kimi_k3": "escaped attributes",
    "lfm2": "arguments as Python keywords without escapes",
    "llama3_json": "calls without an opening marker",
    "minimax_append_think": "text before the output that the prompt supplies",
    "minimax_m1": "calls without an opening marker",
    "mistral": "calls without a closing marker",
    "pythonic": "arguments as Python keywords",
}
"""One dialect for each feature that response templates cannot express."""


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_exported_template_is_read_back(dialect: Dialect) -> None:
    again = from_response_template(template(dialect))
    for output in rendered(dialect):
        read = parse(output.text, again, tools=output.tools, prompt=output.seed)
        assert tool._right(read) == output.right, output.text


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_export_passes_on_the_ids_that_it_reads(dialect: Dialect) -> None:
    fields = template(dialect)["fields"].values()
    for field in fields:
        if "transform" in field:
            reads_id = "(?P<id>" in field.get("open_pattern", "")
            assert field["transform"].get("id") == ("{id}" if reads_id else None)


def test_some_exports_read_ids() -> None:
    read = [
        name for name in ("hermes", "kimi_k2", "solar_open") if "(?P<id>" in str(template(get_dialect(name)))
    ]
    assert read == ["kimi_k2", "solar_open"]


@pytest.mark.parametrize("dialect", list_dialects(), ids=lambda dialect: dialect.name)
def test_dialect_is_exported_or_refused_by_name(dialect: Dialect) -> None:
    reason = refusal(dialect)
    if not reason:
        assert json.loads(json.dumps(template(dialect))) == template(dialect)
    else:
        assert reason in REFUSED.values()


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_inexpressible_feature_is_named(name: str, reason: str) -> None:
    with pytest.raises(ExportError, match=re.escape(reason)) as caught:
        to_response_template(name, anchor="x")
    assert isinstance(caught.value, UsageError)
    assert (caught.value.dialect, caught.value.reason) == (name, reason)


@pytest.mark.parametrize(
    ("dialect", "anchor", "pattern"),
    [
        # Without an anchor, the end-of-turn token implies ChatML.
        ("hermes", "", r"<\|im_start\|>assistant\s*"),
        ("hermes", "[|assistant|]", r"\[\|assistant\|\]\s*"),
        ("glm45", "", r"<\|assistant\|>\s*"),
        ("hy_v4:opensource", "", r"<｜hy_Assistant:opensource｜>\s*"),
    ],
)
def test_turn_anchor_is_found(dialect: str, anchor: str, pattern: str) -> None:
    assert to_response_template(dialect, anchor=anchor)["start_anchor_pattern"] == pattern


def test_turn_anchor_is_not_guessed() -> None:
    with pytest.raises(ExportError, match="the start of a turn"):
        to_response_template("longcat")


def test_end_of_reasoning_for_engines_is_a_literal() -> None:
    for dialect in DIALECTS:
        thinking = template(dialect)["fields"].get("thinking")
        if thinking is not None:
            assert thinking.keys() >= {"open", "close"}


def test_object_in_place_of_a_name_is_not_a_call() -> None:
    opener = template(get_dialect("glm45"))["fields"]["tool_calls"]["open_pattern"]
    assert re.search(opener, "<tool_call>now</tool_call>")
    assert not re.search(opener, '<tool_call>{"name": "now"}</tool_call>')


def test_opener_that_prefixes_another_is_left_out() -> None:
    # A reader that has received half of the longer marker would match the shorter one.
    assert template(get_dialect("gemma4"))["fields"]["thinking"]["open"] == "<|channel>thought"


# -- patterns in third-party templates


def _read(**fields: Any) -> Dialect:
    return from_response_template({"start_anchor": "x", "fields": {"content": {}, **fields}})


def test_alternatives_become_separate_templates() -> None:
    dialect = _read(content={"close_pattern": r"\s*(?:<\|im_end\|>|<\|endoftext\|>)"})
    assert dialect.stop == ("<|im_end|>", "<|endoftext|>")


def test_reasoning_has_two_field_names() -> None:
    field = {"open": "<think>", "close": "</think>"}
    assert _read(thinking=field) == _read(reasoning_content=field)


def test_id_around_a_name_is_expressed() -> None:
    dialect = _read(
        tool_calls={
            "open_pattern": r"(?:<s>\s*)?<call>(?P<id>functions\.(?P<name>\w+):(?P<index>\d+))<args>",
            "close": "</call>",
            "content": "json",
            "transform": {"function": {"name": "{name}", "arguments": "{content}"}},
        }
    )
    assert dialect.call == (
        "<call>functions.{name}:{index}<args>{args}</call>",
        "<s>\n<call>functions.{name}:{index}<args>{args}</call>",
    )


@pytest.mark.parametrize("pattern", [r"<a(?!b)>", "(?:<a>", "<a>)", r"(?P<name>a{2})", "(?:a|b)(?:a|b)" * 6])
def test_invalid_response_template_is_refused(pattern: str) -> None:
    from unspool import SpecError

    with pytest.raises(SpecError, match="pattern"):
        _read(thinking={"open_pattern": pattern, "close": "</a>"})

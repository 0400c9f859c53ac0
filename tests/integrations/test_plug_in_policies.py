"""Policies of the plug-ins: defaults of each engine, and ``UNSPOOL_POLICIES``."""

from __future__ import annotations

import pytest

from unspool import Policies, UsageError
from unspool.integrations._plug_in_policies import describe, policies_for

VLLM = Policies(no_tools="drop", whitespace_around_calls="text")


def test_engine_defaults_are_the_engines_behaviour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSPOOL_POLICIES", raising=False)
    assert policies_for("vllm", "hermes") == VLLM
    assert policies_for("sglang", "hermes") == Policies(whitespace_around_calls="text", unknown_tool="drop")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", VLLM),
        (" ; ", VLLM),
        ("unspool", Policies()),
        ("unspool, commit=call", Policies(commit="call")),
        ("vllm", Policies.preset("vllm", no_tools="drop")),
        ("no_tools=text", Policies(whitespace_around_calls="text")),
        ("commit=call; commit=name", VLLM),
        ("hermes: unspool", Policies()),
        ("Qwen/Qwen3-*: unspool", Policies()),
        ("qwen3-8b: unspool", Policies()),
        ("qwen3_coder: unspool; deepseek*: commit=call", VLLM),
    ],
)
def test_variable_applies_to_model_or_dialect(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: Policies
) -> None:
    monkeypatch.setenv("UNSPOOL_POLICIES", value)
    assert policies_for("vllm", "hermes", "Qwen/Qwen3-8B") == expected


def test_entry_for_a_dialect_applies_to_its_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_POLICIES", "hy_v4: unspool; hy_v4:opensource: commit=call")
    assert policies_for("vllm", "hy_v4:opensource") == Policies(commit="call")
    assert policies_for("vllm", "hy_v4") == Policies()


@pytest.mark.parametrize("value", ["vlm", "commit=cal", "comit=call", "other-model: commit=cal"])
def test_invalid_variable_says_what_to_write(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("UNSPOOL_POLICIES", value)
    with pytest.raises(UsageError, match=r"UNSPOOL_POLICIES=.* is invalid: .*; write a preset or name=value"):
        policies_for("vllm", "hermes", "Qwen/Qwen3-8B")


def test_description_names_what_differs_from_the_defaults() -> None:
    assert describe(VLLM) == "whitespace_around_calls=text, no_tools=drop"
    assert describe(Policies()) == "default"

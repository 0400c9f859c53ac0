"""unspool inside vLLM without an engine: registries, classes, and calls of its server.

``python -m lab.environments vllm`` installs it, and ``python -m lab.engines.releases vllm`` fetches the files
of the tested releases; ``python -m lab.engines.vllm`` runs the engine itself.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from lab import ROOT, environments
from lab.engines import releases

DIALECTS = ("hermes", "qwen3_coder", "kimi_k2", "mistral", "gemma4", "harmony")

pytestmark = [
    pytest.mark.skipif(
        not environments.python("vllm").exists(), reason="no vLLM: python -m lab.environments vllm"
    ),
    pytest.mark.skipif(not (ROOT / ".tokenizers" / "node_modules").exists(), reason="make tokenizers"),
    pytest.mark.xdist_group("vllm"),  # these tests share one process
]


@pytest.fixture(scope="module", params=releases.RELEASES["vllm"])
def inside(request: pytest.FixtureRequest) -> Any:
    """Return what the program ``in_vllm`` prints inside a release."""
    version = request.param
    if releases.missing("vllm", version):
        pytest.skip(f"no files of vLLM {version}: python -m lab.engines.releases vllm")
    run = subprocess.run(
        [str(environments.python("vllm")), "-m", "lab.tests.in_vllm"],
        env=releases.environment("vllm", version),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["version"] == version
    return report


def test_registries_list_one_name_and_resolve_all_dialects(inside: Any) -> None:
    for kind in ("tools", "reasoning"):
        assert [name for name in inside[kind] if name.startswith("unspool")] == ["unspool"]
    assert inside["resolved"] == [
        f"UnspoolToolParser_{name}" for name in ("unspool", "hermes", "hermes", "deepseek_r1")
    ]
    assert not inside["unresolved"]


def test_registration_keeps_vllm_names(inside: Any) -> None:
    assert set(inside["before"]) <= set(inside["tools"])
    assert inside["replaced"][""] == {
        "tools": [name for name in inside["tools"] if name.startswith("unspool")],
        "reasoning": [name for name in inside["reasoning"] if name.startswith("unspool")],
        "said": [],
    }


def test_registration_loads_no_parser(inside: Any) -> None:
    assert inside["loaded"] == ["unspool.integrations.vllm._parser_classes"]
    assert inside["said"] == []


def test_release_without_a_registry_is_reported_once(inside: Any) -> None:
    (line,) = inside["unregistrable"]
    assert "unspool" in line
    assert "ReasoningParserManager" in line


def test_release_without_a_class_falls_back_and_logs_once(inside: Any) -> None:
    served = inside["unknown_release"]["served"]
    assert served["unspool_hermes"].startswith("vllm.")
    assert served["unspool_kimi_k2"].startswith("vllm.")
    assert served["reasoning"].startswith("vllm.")
    assert served["both"] == "_Parser"
    (line,) = inside["unknown_release"]["said"]
    assert "StructuredOutputsParams" in line


def test_only_requested_names_are_replaced(inside: Any) -> None:
    classes = inside["replaced"]["hermes,qwen3,nonsense"]
    assert [name for name in classes["tools"] if not name.startswith("unspool")] == ["hermes"]
    assert [name for name in classes["reasoning"] if not name.startswith("unspool")] == ["qwen3"]
    (line,) = classes["said"]
    assert "nonsense" in line
    assert inside["replaced"]["composed"] == "UnspoolParser"


def test_all_replaces_every_dialect_name(inside: Any) -> None:
    names = set(inside["replaced"]["all"]["tools"])
    kept = {"hf", "openai"}
    without_dialect = {"step5", "musespark1x"}  # new in 0.33
    assert kept <= set(inside["before"]) - names <= kept | without_dialect


@pytest.mark.parametrize("name", ["Parser", "ReasoningParser", "ToolParser"])
def test_methods_take_the_arguments_of_vllm_classes(inside: Any, name: str) -> None:
    assert inside["contracts"][name] == []


def test_dialect_comes_from_the_template_and_is_logged(inside: Any) -> None:
    names = inside["detected"]
    assert names["made"] == "UnspoolParser"
    (line,) = names["said"]
    assert "hermes" in line


def test_template_without_a_dialect_is_refused(inside: Any) -> None:
    assert "unspool_DIALECT" in inside["detected"]["refused"]


def test_forced_calls_use_a_structural_tag(inside: Any) -> None:
    assert inside["forced"] == [True, True, False, False]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_streamed_equals_whole(inside: Any, dialect: str) -> None:
    assert inside[f"streams {dialect}"] == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_engine_core_is_told_where_reasoning_ends(inside: Any, dialect: str) -> None:
    ends = inside[f"ends {dialect}"]
    assert "Oslo or Rome" in ends["before"]
    assert dialect == "harmony" or ends["before"].endswith(ends["end"])


def test_grammar_waits_for_the_end_of_reasoning(inside: Any) -> None:
    """This includes a response format after messages; the grammar of a forced call contains the messages."""
    waits = {
        "chat, forced": False,
        "chat, format": False,
        "responses, forced": False,
        "responses, format": False,
    }
    assert inside["begins qwen3_coder"] == waits
    assert inside["begins harmony"] == waits | {"chat, forced": True, "responses, forced": True}


@pytest.mark.parametrize("dialect", ["qwen3_coder", "kimi_k2"])
def test_prompt_decides_whether_reasoning_is_awaited(inside: Any, dialect: str) -> None:
    ends = inside[f"ends {dialect}"]
    assert (ends["prompt"], ends["off"]) == (False, True)


def test_server_holds_only_requested_calls_to_a_grammar(inside: Any) -> None:
    """The default level enforces nothing, and ``function`` enforces the form of calls without schemas."""
    levels = inside["levels"]
    assert levels["default"] == levels["auto"] == "free"
    assert levels["function"] == ("form" if "function" in inside["level names"] else "free")
    assert levels["parameter"] == ("schemas" if "parameter" in inside["level names"] else "free")


def test_finish_reason_is_the_engines(inside: Any) -> None:
    """Before 0.31, streams of vLLM report ``tool_calls`` for any answer with calls."""
    cut = ["length", "length"] if inside["version"] != "0.30.0" else ["length", "tool_calls"]
    assert inside["finish"] == {"call": ["tool_calls", "tool_calls"], "cut": cut, "call at the limit": cut}


def test_explicit_reasoning_is_read_whatever_the_prompt(inside: Any) -> None:
    expected = [["Hm.", "Yes.", []]] * 3
    assert inside["unannounced"] == dict.fromkeys(inside["unannounced"], expected)
    assert len(inside["unannounced"]) == 6


CALLS = [["run_python", '{"code": "1"}']]
MIXED = {
    "text before the output": ["", "<think>Hm.</think>Yes.", []],
    "markers around content": ["Hm.", "Yes.", []],
    "answer tag": ["Hm.", "Yes.", []],
    "end of sentence": ["Hm.", "Yes.", []],
    "our reasoning, their calls": ["Hm.", "", CALLS],
    "their reasoning, our calls": ["Hm.", "", CALLS],
}


def test_mixed_pairs_give_what_our_parser_alone_gives(inside: Any) -> None:
    assert inside["mixed"] == {name: [answer] * 2 for name, answer in MIXED.items()}


def test_forbidden_calls_do_not_leak_into_content(inside: Any) -> None:
    assert inside["forbidden"] == {
        "unspool_hermes": [["", "Yes.\n", []]] * 2,
        "qwen3": [["Yes.\n", "", []]] * 2,  # this parser of vLLM takes all of it for reasoning
    }


@pytest.mark.parametrize("change", ["renamed_attribute", "raising_method", "renamed_arguments"])
def test_changed_release_serves_with_its_own_parsers_and_logs_once(inside: Any, change: str) -> None:
    found = inside["changed"][change]
    assert found["theirs"][0] == "_Parser"
    assert found["theirs"][2] == []  # a server that names none of our parsers is not touched
    assert found["ours"][0] == "_Parser"
    assert found["ours"][1].startswith("vllm.")
    assert found["lines"] == 1

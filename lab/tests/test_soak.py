"""The soak test: its bookkeeping detects faults; a short run is among the slow tests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

pytest.importorskip("anthropic")
pytest.importorskip("ollama")
pytest.importorskip("openai")

from lab import ROOT
from lab.soak.clients import RequestResult, read_chat
from lab.soak.log import ResultLog
from lab.soak.script import FAULTS, HARMLESS, MARK, mark_of, output_of, parse_question, question
from unspool import parse

MARKS = [mark_of(number) for number in range(1, 200)]


def test_client_and_upstream_agree_on_the_script() -> None:
    for mark in MARKS:
        output = output_of(mark)
        message = parse(output.raw, "hermes")
        assert (message.reasoning or "") == output.reasoning
        assert (message.content or "").strip() == output.text
        assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == list(output.calls)
        assert set(MARK.findall(output.raw)) == {mark}
        for fault in FAULTS:
            assert parse_question(f"<|im_start|>user\n{question(mark, fault)}<|im_end|>\n") == (mark, fault)


def answer_to(mark: str) -> RequestResult:
    output = output_of(mark)
    return RequestResult("answered", 200, output.text, output.reasoning, list(output.calls))


def judge(result: RequestResult, *, fault: str = "none", disturbed: bool = False) -> dict[str, int]:
    log = ResultLog()
    if disturbed:
        log.begin("an engine is killed", "vllm")
    log.check_result("chat", result, output_of(MARKS[6]), fault, time.monotonic(), {"vllm"})
    log.check_leak("chat", result, {MARKS[6]})
    return dict(log.counts)


def test_ledger_detects_faults() -> None:
    good = answer_to(MARKS[6])
    assert judge(good) == {}
    assert judge(good, fault="slow") == {}
    assert "unnoticed fault" in judge(good, fault="die")
    assert "different from the model's output" in judge(replace(good, text=good.text[:-1]))
    assert "different from the model's output" in judge(replace(good, calls=[*good.calls, ("search", {})]))
    assert "leaked" in judge(answer_to(MARKS[7]))
    failed = RequestResult("error", 502, good.text[:20], "")
    assert judge(failed, fault="die") == {}
    assert judge(failed, disturbed=True) == {}
    for fault in HARMLESS:
        assert judge(failed, fault=fault) == {"unexplained error": 1}
    assert "different from the model's output" in judge(replace(failed, text="else"), fault="die")
    assert judge(replace(failed, text="xxxx"), fault="huge") == {}
    assert judge(RequestResult("broken"), fault="die") == {"lost": 1}
    assert judge(RequestResult("broken"), disturbed=True) == {}
    assert judge(RequestResult("hung"), disturbed=True) == {"lost": 1}


def test_endless_stream_is_not_an_answer() -> None:
    result = RequestResult()
    read_chat(200, b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n', result)
    assert result.ended == "broken"


@pytest.mark.slow
def test_short_soak_passes() -> None:
    program = [sys.executable, "-m", "lab.soak", "--minutes", "1", "--seed", "1", "--clients", "6"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr

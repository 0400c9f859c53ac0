"""The plug-in for SGLang without SGLang: a modified release, the start of a turn, and the log."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from paths import ROOT
from unspool import Parser
from unspool.dialects._registry import get_dialect
from unspool.integrations import _diagnostic_log
from unspool.integrations.sglang._turn_context import Turn

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'

OTHER = {
    "sglang/__init__.py": "",
    "sglang/srt/__init__.py": "",
    "sglang/srt/function_call/__init__.py": "",
    "sglang/srt/function_call/function_call_parser.py": "class FunctionCallParser: Detectors = {}",
    "sglang/srt/parser/__init__.py": "",
    "sglang/srt/parser/reasoning_parser.py": "class ReasoningParser: DetectorMap = {'qwen3': object}",
    "sglang/srt/entrypoints/__init__.py": "",
    "sglang/srt/entrypoints/openai/__init__.py": "",
    "sglang/srt/entrypoints/openai/serving_chat.py": "class ChatServer: pass",
}


def test_unknown_release_falls_back_with_one_log_line(tmp_path: Path) -> None:
    for name, text in OTHER.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    program = textwrap.dedent(
        """
        import logging
        logging.basicConfig(format="%(levelname)s %(message)s", level="INFO")
        from unspool.integrations.sglang import load
        load()
        from sglang.srt.function_call.function_call_parser import FunctionCallParser
        from sglang.srt.parser.reasoning_parser import ReasoningParser
        from sglang.srt.entrypoints.openai.serving_chat import ChatServer
        print(FunctionCallParser.Detectors, list(ReasoningParser.DetectorMap))
        """
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-c", program],
        text=True,
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path, "UNSPOOL_REPLACE": "all"},
    )
    assert done.stdout == "{} ['qwen3']\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("WARNING unspool was tested with SGLang 0.5.23")


@pytest.mark.parametrize("quoted", ["<think>", CALL[: CALL.index("Oslo")]])
def test_only_the_continued_message_counts(quoted: str) -> None:
    """Where turns begin with plain words, what a user quotes is not part of the turn."""
    prompt = f"User: What is {quoted}\n\nAssistant:"
    parts = [SimpleNamespace(type="text", text="Su"), {"type": "text", "text": "re."}]
    for last, written in (
        ({"role": "assistant", "content": "Sure."}, "Sure."),
        (SimpleNamespace(role="assistant", content=parts), "Sure."),
        ({"role": "assistant", "content": ""}, ""),
        ({"role": "assistant", "content": None}, ""),
    ):
        request = SimpleNamespace(
            messages=[{"role": "user", "content": quoted}, last], continue_final_message=True
        )
        parser = Parser(
            "hermes", **Turn(None, request).parser_start(get_dialect("hermes"), f"{prompt} {written}")
        )
        assert parser.message(parser.feed(" Hello") + parser.finish("stop")).content == " Hello"
    request.continue_final_message = False
    assert Turn(None, request).parser_start(get_dialect("hermes"), prompt) == {"prompt": prompt}


def test_diagnostics_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    diagnostics = _diagnostic_log.DiagnosticLog(logging.getLogger("unspool.test"))
    parser = Parser("hermes")
    with caplog.at_level(logging.INFO, "unspool.test"):
        diagnostics.report(
            "hermes", _diagnostic_log.diagnostics_in(parser.feed("Hi") + parser.finish("stop"))
        )
        assert not caplog.records
        parser = Parser("hermes")
        diagnostics.report(
            "hermes",
            _diagnostic_log.diagnostics_in(parser.feed(CALL.replace('"Oslo"', "Oslo")) + parser.finish()),
        )
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("WARNING", "unspool reads hermes: malformed_call")

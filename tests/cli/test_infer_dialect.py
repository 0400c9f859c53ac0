"""The command ``unspool dialects infer``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unspool import Dialect, get_dialect
from unspool.cli import main
from varied_messages import TOOLS, rendered_outputs


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Return a file with outputs of Pythonic models as JSON lines."""
    file = tmp_path / "outputs.jsonl"
    rows = [{"text": text, "tools": TOOLS} for text, _ in rendered_outputs(get_dialect("pythonic"), 20, 5)]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def test_infer_prints_a_python_module(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects", "infer", str(outputs), "--name", "mine"]) == 0
    page = capsys.readouterr().out
    scope: dict[str, Dialect] = {}
    exec(page, scope)  # noqa: S102 - the source was made here
    assert scope["MINE"].call == get_dialect("pythonic").call
    assert "# The dialect explains 20 of 20 outputs:" in page
    assert page.count("parsed, rendered back, equal") == 20
    assert "same messages: pythonic" in page


def test_infer_reports_outputs_that_are_not_explained(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with outputs.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"text": "<|odd|>now<|/odd|>", "tools": TOOLS}) + "\n")
    assert main(["dialects", "infer", str(outputs)]) == 1
    assert "# line 21: not explained: " in capsys.readouterr().out


def test_infer_prints_json(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects", "infer", str(outputs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["explained"], found["outputs"]) == (20, 20)


def test_infer_reads_tools_and_template_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "outputs.jsonl"
    rows = [{"text": text} for text, _ in rendered_outputs(get_dialect("hermes"), 20, 5)]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS), encoding="utf-8")
    template = tmp_path / "chat_template.jinja"
    template.write_text(
        "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
        '{%- for c in m.tool_calls or [] %}\n<tool_call>\n{"name": "{{ c.function.name }}", '
        '"arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}',
        encoding="utf-8",
    )
    command = ["dialects", "infer", str(file), "--tools", str(tools), "--template", str(template)]
    assert main(command) == 0
    assert "<tool_call>" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1, is not JSON"),
        ('{"text": 1}', "line 1, has no text"),
        ('{"text": "a"}\n\n{"text": "b"}', "line 2, is empty"),
        ("", "there are no outputs"),
    ],
)
def test_infer_refuses_other_files(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "outputs.jsonl"
    file.write_text(text, encoding="utf-8")
    assert main(["dialects", "infer", str(file)]) == 2
    assert why in capsys.readouterr().err


def test_infer_needs_a_file_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects", "infer", "missing.jsonl"]) == 2
    assert "cannot read missing.jsonl" in capsys.readouterr().err

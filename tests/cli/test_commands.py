"""The command line: output, errors, and exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gguf_files import write_gguf
from unspool import Dialect, Parser, UsageError, __version__, list_dialects, parse, render, sample_outputs
from unspool._core.scan import character_runs as _scan
from unspool.cli import demo, main
from unspool.dialects import Section, Writing, dialect_schema, explain
from unspool.models import to_response_template

OUTPUT = 'On it. <tool_call>{"name": "now", "arguments": {"tz": "Europe/Zürich"}}</tool_call>'
NAMES = [dialect.name for dialect in list_dialects()]
CODE = "<function=run><parameter=code>x = 1</parameter><parameter=n>2</parameter></function>"


def run(
    *arguments: str, stdin: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "unspool", *arguments],
        input=stdin.encode(),
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, **(env or {})},
    )


def test_package_runs_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    done = run("explain", "hermes")
    assert (done.returncode, done.stderr) == (0, b"")
    assert main(["explain", "hermes"]) == 0
    assert done.stdout.decode() == capsys.readouterr().out
    refused = run("explain", "no such dialect")
    assert refused.returncode == main(["explain", "no such dialect"]) != 0


@pytest.fixture
def output(tmp_path: Path) -> str:
    file = tmp_path / "output.txt"
    file.write_bytes(OUTPUT.encode())
    return str(file)


# -- parse


def test_parse_prints_the_message(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "--dialect", "hermes", output]) == 0
    message = json.loads(capsys.readouterr().out)
    assert list(message) == ["content", "reasoning", "tool_calls", "diagnostics", "finish_reason"]
    assert message["content"] == "On it."
    assert message["finish_reason"] == "tool_calls"
    (call,) = message["tool_calls"]
    assert call["name"] == "now"
    assert json.loads(call["arguments"]) == {"tz": "Europe/Zürich"}


@pytest.mark.parametrize("file", [(), ("-",)])
def test_parse_reads_standard_input(file: Sequence[str]) -> None:
    done = run("parse", "--dialect", "qwen25", *file, stdin=OUTPUT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tool_calls"][0]["name"] == "now"


def test_parse_accepts_policy_presets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "output.txt"
    output.write_text(f"Hm.\n\n{OUTPUT.partition('On it. ')[2]}", encoding="utf-8")
    for like, content in ((["--policies", "vllm"], "Hm.\n\n"), ([], "Hm.")):
        assert main(["parse", "--dialect", "hermes", *like, str(output)]) == 0
        assert json.loads(capsys.readouterr().out)["content"] == content
    assert main(["parse", "--dialect", "hermes", "--policies", "nobody", str(output)]) == 2
    assert "choose one of vllm" in capsys.readouterr().err


def test_parse_accepts_an_id_seed(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for seed in ("row 17", "row 17", "row 18"):
        assert main(["parse", "--dialect", "hermes", "--ids", seed, output]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]


def test_events_tile_the_input(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "--dialect", "hermes", "--events", output]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["Text", "CallStart", "CallArgs", "CallEnd", "Finish"]
    assert events[0] == {"event": "Text", "channel": "content", "text": "On it. ", "start": 0, "end": 7}
    assert [event["start"] for event in events] == [0, *(event["end"] for event in events[:-1])]
    assert events[-1]["end"] == len(OUTPUT)


def test_events_are_printed_while_input_is_open() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "unspool", "parse", "--dialect", "hermes", "--events"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("Zü".encode()[:2])
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["text"] == "Z"
        process.stdin.write("ü".encode()[1:] + b"rich")  # a chunk may end inside a character
        process.stdin.close()
        assert json.loads(process.stdout.readline())["text"] == "ürich"


def test_line_breaks_are_preserved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "output.txt"
    file.write_bytes(b"a\r\nb\n")
    assert main(["parse", "--dialect", "hermes", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["content"] == "a\r\nb\n"


@pytest.mark.parametrize("wrap", [lambda tools: tools, lambda tools: {"model": "m", "tools": tools}])
def test_tools_give_values_their_types(
    wrap: Callable[[object], object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = tmp_path / "tools.json"
    tools.write_text(
        json.dumps(wrap([{"type": "function", "function": {"name": "run", "parameters": schema}}]))
    )
    text = tmp_path / "output.txt"
    text.write_text(f"<tool_call>{CODE}</tool_call>")
    assert main(["parse", "--dialect", "qwen3_coder", "--tools", str(tools), str(text)]) == 0
    (call,) = json.loads(capsys.readouterr().out)["tool_calls"]
    assert json.loads(call["arguments"]) == {"code": "x = 1", "n": 2}


def test_prompt_decides_the_start_channel() -> None:
    done = run("parse", "--dialect", "hermes", "--prompt", "<think>\n", stdin="hm</think>Hi")
    message = json.loads(done.stdout)
    assert (message["reasoning"], message["content"]) == ("hm", "Hi")


def test_strict_error_is_one_line() -> None:
    broken = '<tool_call>{"name": "now", "arguments": {oops}}</tool_call>'
    done = run("parse", "--dialect", "hermes", "--policies", "strict", stdin=broken)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().startswith("unspool: malformed call at offset 41")
    assert done.stderr.count(b"\n") == 1
    assert json.loads(run("parse", "--dialect", "hermes", stdin=broken).stdout)["diagnostics"]


def test_limited_output_encoding_still_gives_json(output: str) -> None:
    done = run("parse", "--dialect", "hermes", output, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0, done.stderr
    assert json.loads(json.loads(done.stdout)["tool_calls"][0]["arguments"]) == {"tz": "Europe/Zürich"}


def test_lone_surrogate_still_gives_json() -> None:
    escaped = r'<tool_call>{"name": "\ud800", "arguments": {}}</tool_call>'
    done = run("parse", "--dialect", "hermes", stdin=escaped, env={"PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tool_calls"][0]["name"] == "\ud800"


# -- usage errors

HERMES = ["parse", "--dialect", "hermes"]
MISTAKES: dict[str, tuple[list[str], bytes, str]] = {
    "unknown command": (["prase"], b"", "no command 'prase': did you mean parse?"),
    "unknown option": ([*HERMES, "--toolz"], b"", "no option --toolz: did you mean --tools"),
    "one file too many": ([*HERMES, "one", "two"], b"", "unexpected argument: two"),
    "no such form": (["export", "dialect"], b"", "no form 'dialect': did you mean dialects?"),
    "no dialect": (["parse"], b"", "required: --dialect; `unspool dialects` lists them"),
    "no model": (["doctor"], b"", "required: MODEL; a GGUF file, a model directory"),
    "unknown dialect": (["parse", "--dialect", "hermez"], b"", "no dialect 'hermez': did you mean hermes"),
    "unknown dialect in the demo": (["demo", "hermez"], b"", "no dialect 'hermez': did you mean hermes"),
    "unknown dialect to explain": (["explain", "hermez"], b"", "no dialect 'hermez': did you mean hermes"),
    "no such file": ([*HERMES, "none"], b"", "cannot read none: "),
    "a folder": ([*HERMES, "."], b"", "cannot read .: "),
    "not UTF-8": (HERMES, b"ok \xff", "- is not UTF-8: invalid start byte 0xff"),
    "half a character": (HERMES, b"ok \xc3", "- is not UTF-8: unexpected end of data 0xc3"),
    "no such tools": ([*HERMES, "--tools", "none"], b"", "cannot read none: "),
    "tools are not JSON": ([*HERMES, "--tools", "text"], b"", "text is not JSON: "),
    "tools are too deep": ([*HERMES, "--tools", "deep"], b"", "deep is not JSON: "),
    "tools are a number": ([*HERMES, "--tools", "number"], b"", "must contain a list of tools, or an object"),
    "tools are numbers": ([*HERMES, "--tools", "numbers"], b"", "tools[0] is a int"),
    "no such file of tools": ([*HERMES, "--tools", "nothing"], b"", "unspool: cannot read nothing: No such"),
    "tools without names": (
        [*HERMES, "--tools", "nameless"],
        b"",
        "nameless: tools[0] is a function without a",
    ),
    "misspelt policy": ([*HERMES, "--policies", "comit=call"], b"", "did you mean 'commit'?"),
    "option of the encoders": (
        [*HERMES, "--policies", "reasoning_field=both"],
        b"",
        "reasoning_field=both is not a policy of parsers, but an option of the encoders",
    ),
    "model that is not here": (
        ["doctor", "Qwen/Qwen3-8B"],
        b"",
        "suggests the dialect hermes: run `unspool dialects Qwen/Qwen3-8B`",
    ),
    "speed is a word": (["demo", "--speed", "fast"], b"", "invalid number value: 'fast'"),
    "speed is zero": (["demo", "--speed", "0"], b"", "0 is not a positive number"),
    "speed is not a number": (["demo", "--speed", "nan"], b"", "nan is not a positive number"),
}
FILES = {
    "nameless": '[{"nme": "f"}]',
    "text": "not json",
    "number": "5",
    "numbers": "[5]",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_usage_error_is_one_line_with_exit_code_2(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, stdin, message = MISTAKES[mistake]
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    try:
        code: object = main(arguments)
    except SystemExit as exit_:  # argparse exits like this
        code = exit_.code
    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.startswith("unspool")
    assert shown.err.count("\n") == 1


def test_closed_pipe_is_not_an_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "unspool", "demo", "--speed", "1000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


# -- help and other options


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    build = "pure Python" if _scan.__file__.endswith(".py") else "compiled"
    assert run("--version").stdout.decode() == f"unspool {__version__} ({build})\n"
    assert main([]) == 0
    page = capsys.readouterr().out
    assert "watch the parser at work" in page
    assert run("--help").stdout.decode() == page


# -- export


def test_export_of_every_dialect_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "dialects"]) == 0
    dialects = json.loads(capsys.readouterr().out)
    assert [dialect["name"] for dialect in dialects] == NAMES
    assert main(["export", "dialects", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == dialect_schema()


def test_export_writes_a_response_template(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "response-template", "qwen3", "--anchor", "<a>"]) == 0
    assert json.loads(capsys.readouterr().out) == to_response_template("hermes", anchor="<a>")


def test_export_names_what_cannot_be_expressed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "response-template", "harmony"]) == 2
    assert "messages with headers" in capsys.readouterr().err


CHATML = (
    "{%- for message in messages %}<|start|>{{ message.role }}\n{{ message.content }}<|stop|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|start|>assistant\n<longcat_think>\n{% endif %}"
)


def test_export_adds_template_to_a_model_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model's own chat template says where turns begin."""
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({"chat_template": CHATML, "eos_token": "<|stop|>"}), encoding="utf-8")
    command = ["export", "response-template", "longcat", "--into", str(tmp_path)]
    assert main(command) == 0
    assert capsys.readouterr().out == ""
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written.pop("response_template") == to_response_template("longcat", anchor="<|start|>assistant")
    assert written == {"chat_template": CHATML, "eos_token": "<|stop|>"}
    assert main([*command, "--anchor", "<b>"]) == 0
    assert json.loads(capsys.readouterr().out)["start_anchor_pattern"] == r"<\|start\|>assistant\s*"


def test_export_needs_a_tokenizer_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "response-template", "hermes", "--into", str(tmp_path)]) == 2
    assert "tokenizer_config.json" in capsys.readouterr().err


# -- dialects


def test_dialects_are_tab_separated_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == [dialect.name for dialect in list_dialects()]
    assert {len(row) for row in rows} == {6}
    hermes = next(row for row in rows if row[0] == "hermes")
    assert "Qwen2.5" in hermes[1]
    assert hermes[2] == "JSON"
    assert "qwen25" in hermes[3].split(", ")
    assert int(hermes[4]) == len("<|endoftext|>") - 1
    assert "<|im_end|>" in hermes[5].split()


def test_detect_names_the_dialect_of_a_model_that_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "Qwen/Qwen3-8B"]) == 2
    assert "suggests the dialect hermes: run `unspool dialects Qwen/Qwen3-8B`" in capsys.readouterr().err


def test_dialects_are_found_by_model_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects", "qwen3"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["Qwen3", "hermes", "its name contains Qwen3"]
    assert ["Qwen3 Coder", "qwen3_coder", "its name starts with qwen3"] in rows
    assert main(["dialects", "--json", "gpt-oss:20b"]) == 0
    assert [entry["dialect"] for entry in json.loads(capsys.readouterr().out)] == ["harmony"]
    assert main(["dialects", "my-helper"]) == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert "there is no dialect for my-helper" in printed.err
    assert main(["dialects", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == NAMES


def test_explain_names_the_dialect_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "qwen3-8b"]) == 0
    assert capsys.readouterr().out.startswith(
        "qwen3-8b: Qwen3, dialect hermes, because its name contains Qwen3"
    )
    qwen3 = {"asked": "qwen3-8b", "model": "Qwen3", "dialect": "hermes", "why": "its name contains Qwen3"}
    for name, expected in (("qwen3-8b", qwen3), ("qwen25", {**qwen3, "asked": "qwen25"})):
        assert main(["explain", "--json", name]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert (printed["asked"], printed["dialect"]) == (expected["asked"], "hermes")


def test_explain_is_markdown_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "qwen25"]) == 0
    assert capsys.readouterr().out == explain("hermes") + "\n"


def test_cli_imports_only_the_standard_library() -> None:
    probe = "import sys, unspool.cli; print('rich' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", probe], timeout=60) == b"False\n"


# -- the conformance command


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_counts_failed_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.progress import Progress

    from unspool.cli import conformance

    shown: list[str] = []
    monkeypatch.setattr(Progress, "update", lambda *_, description, **__: shown.append(description))
    monkeypatch.setattr(sys, "stderr", Terminal())
    with conformance._progress("peer", 3) as tick:
        assert tick is not None
        for status in ("passed", "failed", "skipped"):
            case = SimpleNamespace(dialect="hermes")
            tick(SimpleNamespace(status=status, case=case))  # type: ignore[arg-type]
    assert shown == ["peer hermes", "peer hermes, 1 failed", "peer hermes, 1 failed"]


# -- the demo command


@pytest.mark.parametrize("name", NAMES)
def test_sample_output_parses_without_diagnostics(name: str) -> None:
    (recording,) = sample_outputs.list_samples([name])
    message = parse(
        recording.output, recording.dialect, tools=sample_outputs.tools(), prompt=recording.prompt
    )
    assert message.diagnostics == ()
    assert message.content or message.tool_calls
    for call in message.tool_calls:
        json.loads(call.arguments)


def test_sample_output_file_belongs_to_a_dialect() -> None:
    files = [file.name for file in sample_outputs.sample_folder().iterdir()]
    names = {name.removesuffix(".toml") for name in files if name.endswith(".toml")}
    assert names
    assert names <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_sample_output_display_agrees_with_the_parse(name: str) -> None:
    (recording,) = sample_outputs.list_samples([name])
    show = demo.Show(recording)
    for _ in show.play():
        # The parser's count includes text that it keeps from the prompt.
        assert show.pending <= show.parser.pending
    assert show.pending == 0
    message = parse(
        recording.output, recording.dialect, tools=sample_outputs.tools(), prompt=recording.prompt
    )
    assert show.raw == recording.output
    assert (show.reasoning or None, show.content or None) == (message.reasoning, message.content)
    assert [(call.name, call.arguments) for call in show.calls] == [
        (call.name, call.arguments) for call in message.tool_calls
    ]
    assert {call.status for call in show.calls} <= {"complete"}
    assert show.finish_reason == message.finish_reason


def test_sample_output_leaves_out_what_a_dialect_lacks() -> None:
    silent = Dialect("silent", call=("<call>{envelope}</call>",), reasoning=())
    assert sample_outputs._rendered_sample(silent).output == render(
        replace(sample_outputs.STANDARD, reasoning=None), silent
    )
    first = Dialect(
        "first",
        section=(Section("{calls}", only_at_start=True),),
        call=("{envelope}",),
        writing=Writing(between_calls=";"),
        reasoning=(),
    )
    assert "forecasts" not in sample_outputs._rendered_sample(first).output
    assert len(parse(sample_outputs._rendered_sample(first).output, first).tool_calls) == 3
    talker = Dialect("talker")
    assert (
        parse(sample_outputs._rendered_sample(talker).output, talker).reasoning
        == sample_outputs.STANDARD.reasoning
    )


def test_demo_shows_every_dialect_and_ends() -> None:
    done = run("demo")
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    titles = {line.partition(": ")[0] for line in done.stdout.decode().splitlines()}
    assert set(NAMES) <= titles


def test_demo_shows_the_chosen_dialect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "qwen25", "--plain", "--speed", "inf"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("hermes: ")
    assert (
        lines[2]
        == "  reasoning  Is Oslo or Rome warmer over the next three days? I need both forecasts, and they"
    )
    assert '  call       get_weather {"city": "Rome", "days": 3}' in lines
    assert lines[-1].endswith("held back, finish_reason tool_calls")


def test_demo_shows_diagnostics() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {oops}}</tool_call><tool_call>{"name": "f", "arg'
    out = io.StringIO()
    demo.play_plain([sample_outputs.SampleOutput(Parser("hermes").dialect, text, "Two mistakes.")], out, 1e9)
    assert "  note       malformed_call: expected a string key or '}'\n" in out.getvalue()
    assert "(malformed)\n" in out.getvalue()
    assert "(truncated)\n" in out.getvalue()
    assert out.getvalue().endswith("finish_reason length\n")


# -- escaping of untrusted text

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\u202egpj\u2069"
ESCAPED = r"\u001b]0;owned\u0007\u001b[2J\u009b31m\u007f"


def assert_escaped(shown: str) -> None:
    for character in "\x1b\x07\x9b\x7f\r\u202e\u2069":
        assert character not in shown
    assert ESCAPED in shown
    assert shown.endswith("\n")


@pytest.mark.parametrize("command", ["doctor", "detect"])
def test_control_characters_of_a_template_are_escaped(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_bytes(f"{{{{ raise_exception({json.dumps(HOSTILE)}) }}}}".encode())
    assert main([command, str(path)]) == 2
    assert_escaped(capsys.readouterr().err)


def test_control_characters_of_a_file_name_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / HOSTILE
    path.mkdir()
    (path / "tokenizer_config.json").write_text("{")
    assert main(["doctor", str(path)]) == 2
    assert_escaped(capsys.readouterr().err)


@pytest.fixture
def hostile_weights(tmp_path: Path) -> str:
    pytest.importorskip("gguf")
    return str(write_gguf(tmp_path / "model.gguf", None, architecture=HOSTILE))


def test_control_characters_of_weights_are_escaped(
    hostile_weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("doctor", "detect"):
        main([command, hostile_weights])
        page = capsys.readouterr().out
        assert_escaped(page)
        assert page.count("\n") > 5


def test_escaped_json_is_equal_json(hostile_weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["detect", hostile_weights, "--json"])
    printed = capsys.readouterr().out
    assert_escaped(printed)
    assert any(HOSTILE in text for text in iter_strings(json.loads(printed)))


def iter_strings(value: object) -> Iterator[str]:
    """Return all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from iter_strings(member)


def test_control_characters_are_escaped_on_a_terminal(hostile_weights: str) -> None:
    pytest.importorskip("rich")
    shown = run_in_terminal("detect", hostile_weights, keys=[], code=1)
    for sequence in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\x7f", "\u202e", "\u2069"):
        assert sequence not in shown
    assert r"\u001b[2J" in shown
    assert "\x1b[1" in shown  # our own headings stay bold


# -- output to a terminal


def run_in_terminal(
    *arguments: str, keys: Sequence[tuple[str, bytes]], env: dict[str, str] | None = None, code: int = 0
) -> str:
    """Return what the command writes to a terminal; press each key when its text has appeared."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "unspool", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30", **(env or {})},
    )
    os.close(theirs)
    written = b""
    waiting = list(keys)
    seen = 0
    until = time.monotonic() + 60
    with closing(os.fdopen(ours, "r+b", buffering=0)):
        while time.monotonic() < until:
            ready, _, _ = select.select([ours], [], [], 0.05)
            if ready:
                try:
                    portion = os.read(ours, 1 << 16)
                except OSError:  # Linux raises this when the other end is closed
                    break
                if not portion:
                    break
                written += portion
            if waiting and (at := written.find(waiting[0][0].encode(), seen)) >= 0:
                seen = at + len(waiting[0][0])
                os.write(ours, waiting.pop(0)[1])
        status = process.wait(10)
    assert status == code, written.decode(errors="replace")
    assert not waiting
    return written.decode(errors="replace")


def test_live_demo_waits_for_a_key_between_outputs() -> None:
    pytest.importorskip("rich")
    shown = run_in_terminal(
        "demo",
        "hermes",
        "harmony",
        keys=[
            ("enter skips", b"x"),
            ("enter skips", b"\n"),
            ("enter: next", b"\n"),
            ("2/2", b" "),
            ("enter ends", b"\n"),
        ],
    )
    assert "model output" in shown
    assert "held back" in shown


def test_live_demo_quits_on_q() -> None:
    pytest.importorskip("rich")
    assert "2/2" not in run_in_terminal("demo", "hermes", "harmony", keys=[("1/2", b"q")])


def test_plain_demo_does_not_wait() -> None:
    assert "finish_reason" in run_in_terminal("demo", "hermes", "--plain", "--speed", "10000", keys=[])


def test_dialect_table_is_printed_on_a_terminal() -> None:
    pytest.importorskip("rich")
    assert "hermes" in run_in_terminal("dialects", keys=[])


def test_explain_is_formatted_on_a_terminal() -> None:
    pytest.importorskip("rich")
    shown = run_in_terminal("explain", "hermes", keys=[])
    assert "As the model writes it" in shown
    assert "##" not in shown


@pytest.fixture
def without_rich(tmp_path: Path) -> dict[str, str]:
    """Return an environment without rich."""
    (tmp_path / "rich.py").write_text("raise ImportError")
    # Keep the existing path: the tests may run against a build that is found there.
    places = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, places))}


def test_dialect_list_is_plain_without_rich(without_rich: dict[str, str]) -> None:
    shown = run_in_terminal("dialects", keys=[], env=without_rich)
    assert re.search(r"dialect +models +calls", shown)
    assert re.search(r"hermes  +\S", shown)
    assert "# hermes" in run_in_terminal("explain", "hermes", keys=[], env=without_rich)


def test_live_demo_without_rich_explains_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(UsageError, match=r"pip install 'unspool\[cli\]', or use --plain"):
        demo.play_live(sample_outputs.list_samples(["hermes"]), 60)


def test_live_demo_marks_pending_text() -> None:
    rich_console = pytest.importorskip("rich.console")
    show = demo.Show(sample_outputs.list_samples(["hermes"])[0])
    steps = show.play()
    while not (show.pending and show.reasoning):
        next(steps)
    pending = show.raw[show.decided :]
    console = rich_console.Console(
        file=io.StringIO(), width=100, height=24, force_terminal=True, color_system="standard"
    )
    console.print(demo.screen(show, "1/1", "hint"), height=24)
    shown = console.file.getvalue()
    assert f"\x1b[30;43m{pending.strip()}" in shown
    assert f" {len(pending)} held back " in shown
    assert show.parser.mode in shown

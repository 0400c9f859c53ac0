"""Running the suite: external programs, the command line, the pytest plug-in, and minimising."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from test_suite import LosesCalls, Sabotage

from unspool import UsageError
from unspool.cli import main
from unspool.conformance import (
    DeltaMessage,
    InProcess,
    Program,
    Request,
    TestCase,
    cases,
    json_schema,
)
from unspool.conformance._chunkings import Chunks
from unspool.conformance._compare import CLASSES
from unspool.conformance._shrink import shrink
from unspool.conformance.parser_interface import (
    ParserFailed,
    UnspoolSession,
    Unsupported,
    load_factory,
    unspool_adapter,
)
from unspool.conformance.result_file_format import FORMAT, MAX_CHARACTERS, abbreviate, merge_results
from unspool.conformance.runner import BATCH, Runner, run_suite, to_json

jsonschema = pytest.importorskip("jsonschema")


def case_of(scenario: str, dialect: str = "hermes") -> TestCase:
    case = next(cases([dialect], [scenario]))
    assert isinstance(case, TestCase)
    return case


# -- external programs

PROGRAM = """
import json, os, sys
from unspool.conformance.parser_interface import Request, UnspoolSession

def say(message):
    print(json.dumps(message), flush=True)

dialects = {"hermes": {"tool_parser": "x"}}
say({"hello": {"parser": "reference", "version": "1", "dialects": dialects, "choices": True}})
for line in sys.stdin:
    r = json.loads(line)
    def session():
        request = r["dialect"], tuple(r["tools"]), r["tool_choice"], r["start"], r["prompt"]
        return UnspoolSession(Request(*request, r["mode"] == "stream"))
    text = "".join(r.get("chunks") or r["choices"][0])
    if "Paris" in text and "DIE" in os.environ:
        sys.exit(3)
    if "Paris" in text and "HANG" in os.environ:
        continue
    if "Paris" in text and "CHATTER" in os.environ:
        print("loading weights ...", flush=True)
        continue
    if "Paris" in text and "RAISE" in os.environ:
        say({"id": r["id"], "error": "KeyError: 'name'"})
        continue
    if "Paris" in text and "REFUSE" in os.environ:
        say({"id": r["id"], "unsupported": "not Paris"})
        continue
    if "Paris" in text and "NONSENSE" in os.environ:
        say({"id": r["id"], "deltas": 5})
        continue
    def run(chunks):
        one = session()
        deltas = [[d.to_json() for d in one.feed(chunk)] for chunk in chunks]
        deltas.append([d.to_json() for d in one.finish(r["finish_reason"])])
        return {"deltas": [d or None for d in deltas], "finish_reason": one.finish_reason}
    if "choices" in r:
        say({"id": r["id"], "choices": [run(chunks) for chunks in r["choices"]]})
    else:
        say({"id": r["id"], **run(r["chunks"])})
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, "utf-8")
    runner = Program([sys.executable, str(file)])
    yield runner
    runner.close()


def test_program_may_write_carriage_returns_inside_a_line() -> None:
    line = '{"hello":\r{"parser": "returns", "version": "2",\r"dialects": {}}}\r\n'
    code = f"import sys; sys.stdout.reconfigure(newline=''); print({line!r}, end='', flush=True); input()"
    program = Program([sys.executable, "-c", code])
    try:
        assert program.identity().name == "returns"
    finally:
        program.close()


def test_program_runs_the_suite(program: Program) -> None:
    identity = program.identity()
    assert (identity.name, identity.version) == ("reference", "1")
    chosen = ["order/reasoning-text-call*", "guided/required: one call", "choices", "arguments/text: emoji"]
    report = run_suite(program, scenarios=chosen, chunkings=(BATCH, "whole", "tokens"))
    assert {result.case.dialect for result in report.results} == {"hermes"}
    assert report.counts.keys() == {"passed"}
    assert len(report.results) > 10


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("DIE", "the program exited with code 3"),
        ("HANG", "no answer within 0.5 s"),
        ("CHATTER", "expected a line of JSON, got 'loading weights"),
        ("RAISE", "KeyError: 'name'"),
        ("NONSENSE", "the answer does not match the protocol"),
    ],
)
def test_failing_program_is_an_error_and_the_run_continues(
    program: Program, fault: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fault, "1")
    program._limit = 0.5 if fault == "HANG" else 60
    chunks = ["Hello"]
    with pytest.raises(ParserFailed, match=error.replace("(", r"\(")):
        program.answer(case_of("order/call"), [[case_of("order/call").model_output]], streaming=True)
    program._limit = 60
    assert program.answer(case_of("order/text"), [chunks], streaming=True)[0].deltas


def test_program_may_refuse_a_case(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSE", "1")
    result = Runner(program, ("whole",)).check(case_of("order/call"))
    assert (result.status, result.reason) == ("unsupported", "not Paris")


def test_program_error_is_the_result(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAISE", "1")
    result = Runner(program, ("whole",), minimise=False).check(case_of("order/call"))
    assert (result.status, result.difference) == ("failed", "error")
    assert result.worst is not None
    assert result.worst.error == "KeyError: 'name'"


def test_program_that_reads_one_choice_can_say_so(tmp_path: Path) -> None:
    file = tmp_path / "simple.py"
    file.write_text('print(\'{"hello": {"parser": "x"}}\', flush=True)\ninput()\n', "utf-8")
    simple = Program([sys.executable, str(file)])
    try:
        with pytest.raises(Unsupported, match="several choices"):
            simple.answer(case_of("choices/2: text"), [["a"], ["a"]], streaming=True)
    finally:
        simple.close()


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (["/nonexistent/parser"], "cannot run /nonexistent/parser"),
        ([sys.executable, "-c", "print('{}', flush=True)"], "the first line must be"),
    ],
)
def test_program_without_a_greeting_is_an_error(command: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Program(command).identity()


def test_program_that_exits_at_once_is_an_error() -> None:
    with pytest.raises(ParserFailed, match="code 5"):
        Program([sys.executable, "-c", "import sys; sys.exit(5)"]).identity()


# -- factories


def test_factory_is_named_by_module_and_attribute() -> None:
    assert load_factory("unspool.conformance.parser_interface:UnspoolSession") is UnspoolSession
    for path, complaint in (
        ("unspool.conformance.parser_interface", "package.module:name"),
        ("nowhere.at_all:factory", "cannot load"),
        ("unspool.conformance.parser_interface:nothing", "cannot load"),
        ("unspool.conformance.parser_interface:__name__", "not callable"),
    ):
        with pytest.raises(UsageError, match=complaint):
            load_factory(path)


# -- results


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    chosen = {
        "dialects": ["hermes", "qwen3_coder"],
        "scenarios": ["order", "guided"],
        "chunkings": (BATCH, "whole"),
    }
    reports = [
        run_suite(unspool_adapter(), **chosen),  # type: ignore[arg-type]
        run_suite(InProcess(LosesCalls, "lossy", "2", ["hermes"]), **chosen),  # type: ignore[arg-type]
    ]
    report: dict[str, Any] = json.loads(json.dumps(to_json(reports)))
    return report


def test_results_have_the_documented_fields(results: dict[str, Any]) -> None:
    assert results["format"] == FORMAT
    assert results["chunkings"] == ["batch", "whole"]
    assert [(p["name"], list(p["dialects"])) for p in results["parsers"]][1] == ("lossy", ["hermes"])
    assert [dialect["name"] for dialect in results["dialects"]] == ["hermes", "qwen3_coder"]
    assert {group["name"] for group in results["groups"]} >= {"order", "guided"}
    schema = jsonschema.Draft202012Validator(json_schema())
    for key, case in results["cases"].items():
        assert schema.is_valid(case)
        assert key == f"{case['dialect']}:{case['scenario_name']}"
    for entry in results["results"]:
        assert entry["case"] in results["cases"]
        assert entry["class"] in CLASSES
        assert set(entry["chunkings"].values()) <= set(CLASSES)
        assert entry["status"] in {"passed", "failed", "xfailed", "unsupported"}
        if entry["status"] == "failed":
            assert entry["class"] != "match"
            assert entry["diff"]
            assert "".join(entry["chunks"]) == results["cases"][entry["case"]]["model_output"]


def test_cells_count_every_case(results: dict[str, Any]) -> None:
    cells = {(c["parser"], c["dialect"], c["group"]): c for c in results["cells"]}
    assert cells.keys() == {
        *(
            ("unspool", dialect, group)
            for dialect in ("hermes", "qwen3_coder")
            for group in ("order", "guided")
        ),
        *(("lossy", "hermes", group) for group in ("order", "guided")),
    }
    for (parser, dialect, group), cell in cells.items():
        listed = [
            entry
            for entry in results["results"]
            if (entry["parser"], entry["dialect"], entry["group"]) == (parser, dialect, group)
        ]
        for status in ("failed", "xfailed", "unsupported"):
            assert cell[status] == sum(entry["status"] == status for entry in listed)
        assert sum(cell["classes"].values()) == cell["passed"] + cell["failed"] + cell["xfailed"]
        assert cell["sample"] in {entry["case"] for entry in listed if entry["status"] == "passed"}
    assert cells["lossy", "hermes", "order"]["failed"] > 0
    assert cells["unspool", "hermes", "order"]["failed"] == 0


def test_every_missing_scenario_has_a_reason(results: dict[str, Any]) -> None:
    assert results["inapplicable"] == [] or all(one["reason"] for one in results["inapplicable"])


def test_results_of_several_runs_can_be_merged(results: dict[str, Any]) -> None:
    first = run_suite(unspool_adapter(), dialects=["glm45"], scenarios=["order"], chunkings=("whole",))
    alone = json.loads(json.dumps(to_json([first])))
    both = merge_results([results, alone])
    assert sorted(parser["name"] for parser in both["parsers"]) == ["lossy", "unspool"]
    assert {cell["dialect"] for cell in both["cells"] if cell["parser"] == "unspool"} == {"glm45"}
    assert {dialect["name"] for dialect in both["dialects"]} == {"hermes", "qwen3_coder", "glm45"}
    assert {entry["case"] for entry in both["results"]} <= both["cases"].keys()
    with pytest.raises(UsageError, match="format 99"):
        merge_results([{"format": 99}])


def test_long_texts_are_abbreviated() -> None:
    short = abbreviate({"a": ["x" * 10_000, 1, None]})["a"]
    assert len(short[0]) < MAX_CHARACTERS + 60
    assert "8000 characters" in short[0]
    assert short[1:] == [1, None]


# -- minimising


class DislikesUmlauts(Sabotage):
    """Loses the text of an argument that contains an é."""

    def spoil(self, delta: DeltaMessage) -> list[DeltaMessage]:
        if any("é" in (call.arguments or "") for call in delta.tool_calls):
            return []
        return [delta]


def test_failing_case_is_minimised() -> None:
    case = case_of("arguments/text: accents")
    runner = Runner(InProcess(DislikesUmlauts, "unspool"), ("whole",))
    result = runner.check(case)
    assert result.status == "failed"
    assert result.minimal is not None
    small, chunks = result.minimal
    assert len(small.model_output) < len(case.model_output)
    assert "é" in small.model_output
    assert small.expected_tool_calls[0].function.arguments in ('{"content": "é"}', '{"path": "é"}')
    assert chunks == (small.model_output,)
    assert runner.run_case(small, "whole", chunks).difference == result.difference


class CutsMarkers(UnspoolSession):
    """Loses the rest if a chunk ends inside the opening marker."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.text = ""
        self.lost = False

    def feed(self, chunk: str) -> list[DeltaMessage]:
        self.text += chunk
        self.lost = self.lost or self.text.endswith("<tool_")
        return [] if self.lost else super().feed(chunk)


def test_chunks_are_joined_while_the_case_fails() -> None:
    runner = Runner(InProcess(CutsMarkers, "unspool"), ("characters",))
    result = runner.check(case_of("order/text-call"))
    assert result.minimal is not None
    small, chunks = result.minimal
    assert len(chunks) == 2
    assert chunks[0].endswith("<tool_")
    assert "".join(chunks) == small.model_output
    assert runner.run_case(small, "characters", chunks).status == "failed"


def test_minimising_has_a_limit() -> None:
    case = case_of("arguments/text: accents")
    tried: list[Chunks] = []

    def fails(_: TestCase, chunks: Chunks) -> bool:
        tried.append(chunks)
        return True

    shrink(case, "characters", tuple(case.model_output), fails, max_runs=25)
    assert 0 < len(tried) <= 25


def test_passing_case_is_not_minimised() -> None:
    case = case_of("order/text-call")
    chunks = tuple(case.model_output)
    assert shrink(case, "characters", chunks, lambda *_: False) == (case, chunks)


# -- the command line


def run(*arguments: str) -> int:
    return main(["conformance", *arguments])


def test_run_prints_and_writes_results(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    code = run(
        "run", "--dialect", "hermes", "--scenario", "duplicates", "--chunking", "whole", "--json", str(file)
    )
    assert code == 0
    printed = capsys.readouterr().out
    assert "unspool" in printed
    assert "7 passed" in printed
    report = json.loads(file.read_text("utf-8"))
    assert report["chunkings"] == ["whole"]
    assert report["cells"][0]["passed"] == 7


def test_failure_gives_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(
        "run",
        "--factory",
        "test_suite:CallsFirst",
        "--dialect",
        "hermes",
        "--scenario",
        "order/text-call",
    )
    assert code == 1
    printed = capsys.readouterr().out
    assert "hermes: order/text-call: order" in printed
    assert "rule: " in printed
    assert "test_suite:CallsFirst" in printed


def test_lone_surrogate_can_be_written(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "report.html"
    chosen = ["--dialect", "hermes", "--scenario", "order/text", "--chunking", "whole"]
    out = ["--json", str(results), "--html", str(page)]
    assert run("run", *chosen, "--factory", "test_suite:HalvesPairs", *out) == 1
    assert "\ud83d" in json.loads(results.read_text("ascii"))["results"][0]["actual"]["content"]
    assert page.read_text("utf-8")


def test_program_can_be_given_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, "utf-8")
    command = f"'{sys.executable}' '{file}'"
    assert run("run", "--command", command, "--scenario", "order/text", "--chunking", "whole") == 0
    assert "reference 1 - 1 passed" in capsys.readouterr().out


def test_report_covers_several_parsers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one, two, both = (tmp_path / name for name in ("one.json", "two.json", "both.json"))
    chosen = ["--dialect", "hermes", "--scenario", "duplicates", "--chunking", "whole"]
    assert run("run", *chosen, "--json", str(one)) == 0
    assert run("run", *chosen, "--factory", "test_suite:LosesText", "--json", str(two)) == 0
    assert run("report", str(one), str(two), "--json", str(both)) == 0
    report = json.loads(both.read_text("utf-8"))
    assert len(report["parsers"]) == 2
    capsys.readouterr()
    assert run("report", str(one)) == 2
    assert "--html or --json" in capsys.readouterr().err
    assert run("report", str(tmp_path / "none.json"), "--json", str(both)) == 2


def test_list_show_and_export_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--scenario", "empty", "--dialect", "hermes") == 0
    listed = capsys.readouterr().out
    assert "empty/reasoning\n" in listed
    assert "hermes: calls have no section" in listed
    assert run("show", "--scenario", "order/text-call", "--dialect", "hermes", "--dialect", "xlam") == 0
    shown = capsys.readouterr().out
    assert "| Let me see." in shown
    assert "calls count only if no text precedes them" in shown
    assert run("export", "--dialect", "hermes", "--scenario", "order") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [TestCase.from_json(json.loads(line)).group for line in lines] == ["order"] * len(lines)
    assert run("export", "--schema") == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "--chunking", "slices"], "unknown chunking 'slices'"),
        (["run", "--dialect", "nobody"], "no dialect 'nobody'"),
        (["run", "--scenario", "nothing"], "no scenario matches nothing"),
        (["run", "--factory", "nowhere"], "package.module:name"),
        (["run", "--command", "/nonexistent/parser"], "cannot run"),
    ],
)
def test_usage_errors_are_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


# -- the pytest plug-in

TINY = '''
"""A parser for Hermes that knows calls and text, and nothing else."""

import json
import re

CALL = re.compile(r"\\n?<tool_call>\\n(.*?)\\n</tool_call>", re.DOTALL)


class Session:
    def __init__(self, request):
        self.text = ""

    def feed(self, chunk):
        self.text += chunk
        return []

    def finish(self, reason):
        content = CALL.sub("", self.text)
        deltas = [{"content": content}] if content else []
        for index, found in enumerate(CALL.findall(self.text)):
            call = json.loads(found)
            arguments = json.dumps(call["arguments"], ensure_ascii=False)
            deltas.append({"tool_calls": [{"index": index, "name": call["name"], "arguments": arguments}]})
        return deltas


def factory(request):
    return Session(request)


factory.name = "tiny"
factory.dialects = ["hermes"]
'''
OWN_TEST = """
import tiny


def test_mine():
    assert tiny.factory.name == "tiny"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a user's project."""
    (tmp_path / "tiny.py").write_text(TINY, "utf-8")
    (tmp_path / "test_tiny.py").write_text(OWN_TEST, "utf-8")
    (tmp_path / "pyproject.toml").write_text(
        dedent("""
            [tool.pytest.ini_options]
            pythonpath = ["."]
            filterwarnings = ["error"]
        """),
        "utf-8",
    )
    return tmp_path


def run_pytest(project: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *("-p", "unspool.conformance.pytest_plugin"),
            *arguments,
        ],
        cwd=project,
        env={**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def test_pytest_plugin_adds_nothing_without_its_option(project: Path) -> None:
    code, printed = run_pytest(project)
    assert code == 0
    assert "1 passed" in printed


def test_pytest_plugin_runs_the_suite(project: Path) -> None:
    code, printed = run_pytest(
        project,
        "--unspool-conformance=tiny:factory",
        "--unspool-scenario=duplicates/twice*",
        "--unspool-scenario=standard/3 parallel calls: two functions",
        "--unspool-chunking=batch",
        "--unspool-chunking=characters",
        "-vv",
    )
    assert "test_tiny.py::test_mine PASSED" in printed
    assert "hermes::standard/3 parallel calls: two functions PASSED" in printed
    assert "duplicates/twice after reasoning FAILED" in printed
    assert "reasoning: 'The user wants" in printed
    assert "output: " in printed
    assert code == 1


def test_pytest_plugin_selects_cases(project: Path) -> None:
    code, printed = run_pytest(
        project,
        "--unspool-conformance=tiny:factory",
        "--unspool-dialect=hermes",
        "--unspool-scenario=duplicates/twice",
        "--unspool-chunking=whole",
    )
    assert code == 0
    assert "2 passed" in printed


@pytest.mark.parametrize("wrong", ["--unspool-conformance=nowhere:factory", "--unspool-scenario=nothing"])
def test_pytest_plugin_explains_failures(project: Path, wrong: str) -> None:
    code, printed = run_pytest(project, "--unspool-conformance=tiny:factory", wrong)
    assert code == 4
    assert "cannot load 'nowhere:factory'" in printed or "no scenario matches nothing" in printed

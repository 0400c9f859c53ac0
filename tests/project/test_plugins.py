"""Dialects of other packages: entry points make them available by name.

``examples/own_dialect`` is such a package. The tests put it where installers put packages, a directory on
the path with the files and their ``.dist-info``, and use it from a separate process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from paths import ROOT

PLUGIN = ROOT / "examples" / "own_dialect"
GROUP = "unspool.dialects"
OUTPUT = '<preen>Hm.</preen>Hello! <squawk get_cracker>{"n": 1}</squawk>'


def install(target: Path, name: str, version: str, entry_points: dict[str, str]) -> None:
    """Write the metadata that an installer writes."""
    info = target / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[{GROUP}]", *(f"{key} = {value}" for key, value in entry_points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a directory in which the package is installed."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(PLUGIN / "unspool_parrot", tmp_path / "unspool_parrot")
    install(tmp_path, project["name"], project["version"], project["entry-points"][GROUP])
    return tmp_path


def python(code: str, path: Path | None) -> subprocess.CompletedProcess[str]:
    return execute(["-c", code], path)


def execute(arguments: list[str], path: Path | None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    # Keep the existing path: the tests may run against a build that is found there.
    places = [str(path or ""), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    return subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment,
    )


PARSE = f"""
import sys, unspool
message = unspool.parse({OUTPUT!r}, sys.argv[1] if len(sys.argv) > 1 else "parrot")
print(message.reasoning, message.content, message.tool_calls[0].name, message.tool_calls[0].arguments)
"""


@pytest.mark.parametrize("name", ["parrot", "Parrot", "polly"])
def test_installed_dialect_parses_by_name(name: str, installed: Path) -> None:
    done = execute(["-c", PARSE, name], installed)
    assert done.stderr == ""
    assert done.stdout == 'Hm. Hello! get_cracker {"n": 1}\n'


def test_installed_dialect_streams_and_renders(installed: Path) -> None:
    done = python(
        f"""
import unspool
parser = unspool.Parser("parrot")
folding = parser.fold()
for character in {OUTPUT!r}:
    folding.feed(parser.feed(character))
folding.feed(parser.finish())
message = folding.message
again = unspool.parse(unspool.render(message, "parrot"), "parrot")
assert (again.reasoning, again.content) == (message.reasoning, message.content) == ("Hm.", "Hello!")
assert [call.arguments for call in again.tool_calls] == ['{{"n": 1}}']
""",
        installed,
    )
    assert done.returncode == 0, done.stderr


def test_installed_dialect_is_known_to_the_cli(installed: Path) -> None:
    listed = execute(["-m", "unspool", "dialects"], installed)
    assert "parrot\tNorwegian Blue\tJSON\tpolly\t" in listed.stdout
    parsed = execute(["-m", "unspool", "parse", "--dialect", "parrot"], installed, OUTPUT)
    assert json.loads(parsed.stdout)["tool_calls"][0]["name"] == "get_cracker"
    shown = execute(["-m", "unspool", "demo", "parrot"], installed)
    assert '  call       get_weather {"city": "Oslo", "days": 3}\n' in shown.stdout


@pytest.mark.parametrize(
    ("name", "text", "call"),
    [
        ("magpie", "Look!\n@@calls\nsteal get_worm [\n  - depth: 3;\n]\n@@end", "get_worm"),
        ("tawny_owl", ' to=catch<|says|>{"prey": "mouse"}<|end|>', "catch"),
    ],
)
def test_all_dialects_of_a_package_are_installed(name: str, text: str, call: str, installed: Path) -> None:
    parsed = execute(["-m", "unspool", "parse", "--dialect", name], installed, text)
    assert [each["name"] for each in json.loads(parsed.stdout)["tool_calls"]] == [call], parsed.stderr
    planned = python(f"import unspool; print(unspool.plan({name!r}, {{}}).start)", installed)
    assert planned.stdout.strip(), planned.stderr


def test_own_tests_of_the_package_pass(installed: Path) -> None:
    done = execute(["-m", "pytest", "-q", "-p", "no:cacheprovider", str(PLUGIN / "tests")], installed)
    assert done.returncode == 0, done.stdout + done.stderr


def test_name_is_unknown_without_the_package() -> None:
    done = python(PARSE, None)
    assert done.returncode == 1
    assert "UnknownDialect: no dialect 'parrot'" in done.stderr


def test_entry_points_load_on_demand(installed: Path) -> None:
    done = python("import sys, unspool; print('unspool_parrot' in sys.modules)", installed)
    assert done.stdout == "False\n"


DECLARATIONS = """
from unspool import Dialect

A = Dialect("parrot_a", call=("<a>{envelope}</a>",), request="hermes")
B = Dialect("parrot_b", call=("<b>{envelope}</b>",), request="hermes")
PAIR = [A, B]
NOTHING = 5

def both():
    yield from PAIR
"""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("flock:A", ["parrot_a"]),
        ("flock", ["parrot_a", "parrot_b"]),
        ("flock:PAIR", ["parrot_a", "parrot_b"]),
        ("flock:both", ["parrot_a", "parrot_b"]),
    ],
)
def test_entry_point_may_be_a_dialect_list_or_function(value: str, name: list[str], tmp_path: Path) -> None:
    (tmp_path / "flock.py").write_text(DECLARATIONS)
    install(tmp_path, "flock", "1", {"flock": value})
    listing = "import unspool; print(*[d.name for d in unspool.list_dialects() if 'parrot' in d.name])"
    done = python(listing, tmp_path)
    assert done.stdout.split() == name, done.stderr


ASK_AT_ONCE = """
import sys, threading, unspool

names = sys.argv[1:]
barrier = threading.Barrier(len(names))
answers = {}

def ask(number, name):
    barrier.wait()
    try:
        answers[number] = unspool.get_dialect(name).name
    except unspool.UnspoolError as error:
        answers[number] = repr(error)

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=ask, args=each) for each in enumerate(names)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*[answers[number] for number in range(len(names))])
"""


@pytest.mark.parametrize(
    "names", [["hermes"] * 8, ["parrot"] * 8, ["hermes", "parrot", "harmony", "polly"] * 2]
)
def test_concurrent_first_lookups_all_succeed(names: list[str], installed: Path) -> None:
    done = execute(["-c", ASK_AT_ONCE, *names], installed)
    assert done.stdout.split() == ["parrot" if name == "polly" else name for name in names], done.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise RuntimeError('no GPU\\nat all')", "RuntimeError: no GPU"),
        ("def f(:", "SyntaxError: "),
        ("raise SystemExit('the licence expired')", "SystemExit: the licence expired"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("class Odd(BaseException):\n    __str__ = None\nraise Odd", "Odd: no reason given"),
        ("def make():\n    yield from ()\n    raise ValueError('late')", "ValueError: late"),
        ("make = 5", "TypeError: "),
    ],
)
def test_entry_point_that_raises_is_reported_and_left_out(code: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "vandal.py").write_text(code)
    (tmp_path / "flock.py").write_text(DECLARATIONS)
    install(tmp_path, "vandal-dialects", "1", {"broken": "vandal:make"})
    install(tmp_path, "flock", "1", {"flock": "flock"})
    wanted = ("hermes", "parrot_a")
    listing = f"import unspool; print(*[d.name for d in unspool.list_dialects() if d.name in {wanted}])"
    done = python(listing, tmp_path)
    assert done.stdout.split() == ["hermes", "parrot_a"], done.stderr
    warning = f"the dialect 'broken' (vandal:make) of vandal-dialects cannot be loaded: {message}"
    assert warning in done.stderr
    assert "Update or uninstall vandal-dialects" in done.stderr


def test_interrupt_while_loading_an_entry_point_propagates(tmp_path: Path) -> None:
    (tmp_path / "vandal.py").write_text("raise KeyboardInterrupt")
    install(tmp_path, "vandal", "1", {"broken": "vandal"})
    done = python("import unspool; unspool.list_dialects(); print('went on')", tmp_path)
    assert "KeyboardInterrupt" in done.stderr
    assert done.stdout == ""


REGISTERS_ITSELF = """
import threading
from unspool import Dialect, register

A = register(Dialect("parrot_a", call=("<a>{envelope}</a>",), request="hermes"))
spec = Dialect("b", call=("<b>{envelope}</b>",), request="hermes")
another = threading.Thread(target=register, args=[spec])
another.start()
another.join()
"""


def test_package_may_register_from_any_thread(tmp_path: Path) -> None:
    (tmp_path / "flock.py").write_text(REGISTERS_ITSELF)
    install(tmp_path, "flock", "1", {"flock": "flock"})
    done = python(
        "import unspool; print(unspool.get_dialect('parrot_a').name, unspool.get_dialect('b').name)", tmp_path
    )
    assert done.stdout.split() == ["parrot_a", "b"], done.stderr

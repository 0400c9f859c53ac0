"""Templates run in processes of their own with limits of time and memory."""

from __future__ import annotations

import ast
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool import UnspoolError, detect
from unspool.models.detection import template_probe as probe
from unspool.templates import (
    ChatTemplate,
    ChatTemplateError,
    ChatTemplateLimit,
    NoRenderer,
    _render_pool,
)
from unspool.templates._jinja_environment import RenderMode, environment
from unspool.templates._render_job import HEADER, KINDS, READY, RenderJob, TemplateRunner
from unspool.templates._render_pool import RenderPool

USER = {"role": "user", "content": "Hi"}
LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks the kernel of Linux")


def job(source: str, *, mode: RenderMode = "plain", seconds: float = 10.0, **variables: Any) -> RenderJob:
    return RenderJob(
        source,
        mode,
        variables,
        marked=False,
        length=10**6,
        seconds=seconds,
        megabytes=64,
        seconds_left=seconds,
    )


@pytest.fixture
def one() -> Iterator[RenderPool]:
    """Return a pool with one process."""
    pool = RenderPool(1)
    yield pool
    pool.close()


def worker_pid(one: RenderPool) -> int:
    return one._idle[0]._process.pid


def run(script: str) -> str:
    """Return what a program in a separate interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- templates that exhaust time or memory

DOUBLING = "{% set n = namespace(x=START) %}{% for i in range(99) %}{% set n.x = STEP %}{% endfor %}"


def doubling_loop(start: str, step: str) -> str:
    return DOUBLING.replace("START", start).replace("STEP", step)


NOT_INTERRUPTED = (
    "{% set n = namespace(a=[], b=[]) %}"
    "{% for i in range(99) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}"
)
"""One comparison of two lists with 2 ** 99 elements each: Python handles no signal in between."""

BOMBS = {
    "loops without calls": "{% set r = range(99999) %}"
    "{% for i in r %}{% for j in r %}{% set x = i %}{% endfor %}{% endfor %}",
    "strings added": doubling_loop("'x'", "n.x + n.x"),
    "lists": doubling_loop("[1]", "n.x + n.x"),
    "numbers": doubling_loop("7", "n.x * n.x"),
    "format": "{{ '%1000000000d' | format(1) }}",
    "ljust": "{{ 'x'.ljust(10 ** 9) }}",
    "replace": "{{ ('x' * 9999) | replace('x', 'y' * 99999) }}",
    "range": "{{ range(10 ** 9) | list }}",
    "not interrupted": NOT_INTERRUPTED,
}


@pytest.mark.parametrize("name", BOMBS)
def test_template_bomb_is_stopped_and_next_rendering_works(name: str) -> None:
    with pytest.raises(ChatTemplateLimit):
        ChatTemplate(BOMBS[name], max_seconds=0.1, max_megabytes=64).render([USER])
    assert ChatTemplate("{{ messages[0].content }}").render([USER]) == "Hi"


@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
        "{% if 1 %}" * 999 + "{% endif %}" * 999,
        "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
        "{{ " + "9" * 9999 + " }}",
        "x" * ((1 << 20) + 1),
    ],
    ids=["brackets", "conditions", "loops", "digits", "length"],
)
def test_template_that_does_not_compile_is_refused(source: str) -> None:
    with pytest.raises(ChatTemplateError):
        ChatTemplate(source)


def test_timeout_names_the_line() -> None:
    with pytest.raises(ChatTemplateLimit, match=r"longer than 0\.1 seconds") as caught:
        ChatTemplate("\n\n" + BOMBS["loops without calls"], max_seconds=0.1).render([USER])
    assert caught.value.line == 3


def test_capabilities_are_not_guessed_from_probes_that_time_out() -> None:
    source = "{% if tools %}" + BOMBS["loops without calls"] + "{% endif %}{{ messages[0].content }}"
    with pytest.raises(ChatTemplateLimit):
        _ = ChatTemplate(source, max_seconds=0.1).capabilities


def test_template_bomb_is_not_detected_as_another_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_RENDER_TIMEOUT", 0.1)
    source = "{{ messages[0].content }}{% if messages | length > 1 %}" + NOT_INTERRUPTED + "{% endif %}"
    with pytest.raises(UnspoolError, match=r"longer than 0\.1 seconds"):
        detect({"chat_template": source})


def test_every_use_of_a_template_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    source = probe.TemplateProbe("{{ messages[0].content }}", {})
    monkeypatch.setattr(source, "_spent", probe._TOTAL_TIMEOUT)
    with pytest.raises(ChatTemplateLimit):
        source.conversation(USER)


# -- equality with rendering in this process

VALUES: dict[str, Any] = {
    "tuple": ((), (1, ("a",))),
    "numbers": [10**40, -1, 1.5, float("inf"), True, None],
    "keys": {1: "a", None: "b", (1, 2): "c", 1.5: "d"},
    "text": "é \0 \ud800 🎉",
}
CASES = [
    "{{ tuple }}{{ numbers }}{{ keys }}",
    "{{ text }}",
    "{% for key, value in keys.items() %}{{ key }}={{ value }}{% endfor %}",
    "{{ numbers | tojson }}",
    "\n{{ raise_exception('Roles must alternate!') }}",
    "\n{{ nothing.at_all }}",
    "\n{{ 1 // 0 }}",
    "\n{{ tuple.append(1) }}",
    "\n{% if %}",
    "{{ range(10 ** 9) }}",
    "{{ lipsum(n=1) | length > 0 }}{{ [1] | random }}{{ {'a': [1]} | pprint }}{{ 'a b' | wordwrap(1) }}",
    "{{ strftime_now('%Y') }}",
    "{% set x = [1] %}{{ x.append(2) }}{{ x }}",
    "{{ nothing + 'x' }}",
]


@pytest.mark.parametrize("mode", ["plain", "probing", "lenient"])
@pytest.mark.parametrize("source", CASES)
def test_result_equals_rendering_without_process(source: str, mode: RenderMode) -> None:
    job_ = job(source, mode=mode, **VALUES)
    assert _render_pool.render(job_)[:3] == TemplateRunner().run(job_)[:3]


def test_every_filter_and_test_works_without_file_access() -> None:
    sandbox = environment("plain")
    sources = [f"{{{{ x | {name} }}}}" for name in sandbox.filters if name != "random"]
    sources += [f"{{{{ x is {name} }}}}" for name in sandbox.tests if name.isidentifier()]
    here, there = TemplateRunner(), RenderPool(1)
    for source in sources:
        for value in ("<b>a www.example.com</b>", 1.5, [1, [2]], {"a": 1}):
            one = job(source, x=value)
            answers = [re.sub("0x[0-9a-f]+", "", str(where(one)[:3])) for where in (here.run, there.render)]
            assert answers[0] == answers[1], source
    there.close()


def test_templates_render_in_process_where_processes_are_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_render_pool, "_pool", None)
    assert ChatTemplate("{{ messages[0].content }}").render([USER]) == "Hi"
    for bomb in (
        "{% for i in range(9999) %}{% for i in range(9999) %}{{ i }}{% endfor %}{% endfor %}",
        "{{ range(10 ** 9) }}",
    ):
        with pytest.raises(ChatTemplateLimit):
            ChatTemplate(bomb, max_seconds=0.1).render([USER])


@pytest.mark.parametrize(
    ("name", "value"),
    [("executable", "/usr/bin/uwsgi"), ("executable", ""), ("platform", "emscripten")],
)
def test_programs_that_cannot_start_processes_are_detected(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert _render_pool._has_processes()
    monkeypatch.setattr(sys, name, value)
    assert not _render_pool._has_processes()


def test_a_process_loads_next_to_nothing_of_ours() -> None:
    """The process must start quickly; importing the whole package would take three times as long."""
    folder = Path(_render_pool.__file__).parent
    names = ("_render_process", "_render_job", "_jinja_environment", "_render_limits")
    for name in names:
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert (node.level, node.module) in {(1, name) for name in names}


def test_template_is_not_compiled_in_this_process() -> None:
    script = """
import sys
from unspool.templates import ChatTemplate
print(ChatTemplate("{{ messages }}").render([]), "jinja2" in sys.modules)
"""
    assert run(script) == "[] False\n"


# -- crashes and shutdown of processes


def test_killed_process_is_replaced(one: RenderPool) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        assert one.render(job("1")).text == "1"
        before = worker_pid(one)
        os.kill(before, number)
        assert one.render(job("2")).text == "2"
        assert worker_pid(one) != before


def test_hung_process_is_replaced(monkeypatch: pytest.MonkeyPatch, one: RenderPool) -> None:
    monkeypatch.setattr(_render_pool, "_GRACE", 0.0)
    one.render(job("1"))
    os.kill(worker_pid(one), signal.SIGSTOP)
    assert one.render(job("2", seconds=0.05)).kind == "limit"
    assert one.render(job("3")).text == "3"


def test_idle_process_is_reused(one: RenderPool) -> None:
    one.render(job("1"))
    before = worker_pid(one)
    for source in ("2", "{% if %}", "{{ 1 // 0 }}", "{{ raise_exception('') }}", "{{ x.y.z }}"):
        one.render(job(source))
    assert worker_pid(one) == before


@LINUX
def test_grown_process_is_discarded() -> None:
    script = (
        "from unspool.templates import _render_process as process; process.MAX_GROWTH = -1; process.main()"
    )
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen([sys.executable, "-c", script], stdin=theirs.fileno()):
        ours.sendall(job("1").encode())
        assert ours.recv(len(READY), socket.MSG_WAITALL) == READY
        assert HEADER.unpack(ours.recv(HEADER.size, socket.MSG_WAITALL))[1]


@pytest.mark.parametrize(
    "sent",
    [
        HEADER.pack(len(KINDS), 0, -1, 0, 0),
        HEADER.pack(0, 0, -1, 0, 1 << 31),
        HEADER.pack(0, 0, -1, float("nan"), 0),
        HEADER.pack(0, 0, -1, 0, 2) + b"\xff\xff",
        HEADER.pack(0, 0, -1, 0, 2) + b"x",
        b"",
    ],
    ids=["kind", "size", "seconds", "text", "short", "nothing"],
)
def test_invalid_reply_discards_the_process(one: RenderPool, sent: bytes) -> None:
    one.render(job("1"))
    child = one._idle[0]
    child._socket.close()
    child._socket, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        assert one.render(job("2")).text == "2"  # a new process renders this one
    assert child._process.returncode is not None


FORKING = """
import os
from unspool.templates import ChatTemplate

def sockets():
    with os.scandir("/proc/self/fd") as found:
        return sum("socket:" in os.readlink(entry.path) for entry in found)

def right(name):
    asked = [f"{name} {number}" for number in range(50)]
    return asked == [template.render([{"role": "user", "content": text}]) for text in asked]

template = ChatTemplate("{{ messages[0].content }}")
here = sockets()
children = []
for name in "ab":
    child = os.fork()
    if not child:
        os._exit(0 if sockets() == 0 and right(name) else 1)
    children.append(child)
print(here, right("c"), [os.waitpid(child, 0)[1] for child in children])
"""


@LINUX
def test_forked_processes_do_not_share_renderers() -> None:
    assert run(FORKING) == "1 True [0, 0]\n"


@LINUX
def test_no_process_or_file_is_left() -> None:
    script = f"""
import os, sys
from unspool.templates import ChatTemplate, ChatTemplateError, _render_pool
ChatTemplate("")
before = len(os.listdir("/proc/self/fd"))
for bomb in {[BOMBS["loops without calls"], NOT_INTERRUPTED, BOMBS["ljust"]]!r} * 2:
    try:
        ChatTemplate(bomb, max_seconds=0.05).render([])
    except ChatTemplateError:
        pass
ChatTemplate("")
print(len(os.listdir("/proc/self/fd")) - before)
_render_pool._pool.close()
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no children")
"""
    assert run(script) == "0\nno children\n"


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="asks the kernel of Linux")
@pytest.mark.parametrize(
    "source", ["idle", BOMBS["loops without calls"], NOT_INTERRUPTED], ids=["idle", "loop", "C"]
)
def test_render_process_ends_with_its_parent(source: str) -> None:
    script = f"""
import sys, threading
from unspool.templates import _render_pool
from unspool.templates._render_job import RenderJob
_render_pool._pool.render(RenderJob("1", "plain", {{}}, False, 99, 9.0, 64, 9.0))
print(_render_pool._pool._idle[0]._process.pid, flush=True)
sys.stdin.readline()
if {source!r} != "idle":
    bomb = RenderJob({source!r}, "plain", {{}}, False, 99, 0.2, 64, 0.2)
    threading.Thread(target=_render_pool._pool.render, args=(bomb,), daemon=True).start()
    while _render_pool._pool._idle:
        pass
print("busy", flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        watched = os.pidfd_open(int(program.stdout.readline()))
        try:
            program.stdin.write(b"\n")
            program.stdin.flush()
            program.stdout.readline()
            program.kill()
            assert select.select([watched], [], [], 30)[0]
        finally:
            os.close(watched)


@LINUX
def test_render_process_gets_no_secrets(monkeypatch: pytest.MonkeyPatch, one: RenderPool) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    one.render(job("1"))
    about = Path(f"/proc/{worker_pid(one)}")
    assert b"secret" not in (about / "environ").read_bytes()
    assert sorted(link.name for link in (about / "fd").iterdir()) == ["0", "1", "2", "3"]
    assert {str((about / "fd" / name).readlink()) for name in "123"} == {"/dev/null", f"{about}/statm"}
    limits = (about / "limits").read_text()
    for name in ("Max open files", "Max file size", "Max processes"):
        (line,) = [line for line in limits.splitlines() if line.startswith(name)]
        assert line.removeprefix(name).split()[:2] == ["0", "0"]


def test_failure_to_start_a_process_is_reported(monkeypatch: pytest.MonkeyPatch, one: RenderPool) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(NoRenderer, match="cannot start"):
        one.render(job("1"))
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(NoRenderer, match="did not start"):
        one.render(job("1"))
    monkeypatch.undo()
    assert one.render(job("1")).text == "1"


def test_client_templates_use_their_own_processes() -> None:
    def process() -> int:
        _render_pool.render(job("1"))
        used = _render_pool._isolated.get() or _render_pool._pool
        assert used is not None
        return used._idle[-1]._process.pid

    usual = process()
    with _render_pool.isolated_renderer():
        theirs = process()
        assert theirs == process() != usual
        priorities = [os.getpriority(os.PRIO_PROCESS, one) for one in (usual, theirs)]
        assert priorities[0] < priorities[1] or priorities[0] >= 10  # a higher nice value is a lower priority
    with _render_pool.isolated_renderer():
        assert process() not in (theirs, usual)
    assert process() == usual


# -- the queue


def test_waiting_for_a_process_counts_towards_the_timeout(
    monkeypatch: pytest.MonkeyPatch, one: RenderPool
) -> None:
    one._enter(0.0)
    monkeypatch.setattr(_render_pool, "_GRACE", 0.0)
    with pytest.raises(NoRenderer, match="try again"):
        one.render(job("1", seconds=0.01))
    one._leave()
    assert one.render(job("1")).text == "1"


def test_waiters_are_served_in_order(one: RenderPool) -> None:
    one._enter(0.0)
    served: list[int] = []

    def wait(number: int) -> None:
        one._enter(1e9)
        served.append(number)
        one._leave()

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        while len(one._waiting) <= number:
            os.sched_yield()
    one._leave()
    for thread in threads:
        thread.join()
    assert served == [0, 1, 2, 3, 4]


def test_threads_render_concurrently() -> None:
    template = ChatTemplate("{{ messages[0].content }}")
    wrong: list[str] = []

    def work(name: int) -> None:
        for number in range(20):
            text = f"{name} {number}"
            if template.render([{"role": "user", "content": text}]) != text:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

"""Each extra works when it is installed alone, and its absence is reported with its name."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import pytest
from test_readme import blocks

from paths import ROOT
from unspool import UsageError
from unspool.testing import check_dialect, messages

INSTALL = ROOT / "requirements" / "install"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def page(name: str) -> str:
    """Return the Python of a page of the documentation."""
    return "\n".join(block.code for block in blocks(ROOT / "docs" / name))


@dataclass(frozen=True)
class Use:
    """A use of one or more extras."""

    extras: tuple[str, ...]
    program: str
    output: str = ""
    """Text that the program must print."""
    message: str = ""
    """Text that it must print if nothing but unspool is installed."""
    environment: dict[str, str] = field(default_factory=dict)


TOKENIZER = """
    from pathlib import Path
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["Hello"], trainer)
    tokenizer.save("tokenizer.json")
"""
TRANSPORT = """
import LIBRARY
from unspool.integrations.LIBRARY import Transport

call = '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>'
choice = {"index": 0, "message": {"role": "assistant", "content": call}, "finish_reason": "stop"}
server = LIBRARY.MockTransport(lambda request: LIBRARY.Response(200, json={"choices": [choice]}))
client = LIBRARY.Client(transport=Transport("hermes", server))
tool = {"type": "function", "function": {"name": "get_weather"}}
body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}
answer = client.post("http://server/v1/chat/completions", json=body).json()
print(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"])
"""
USES = {
    "httpx": Use(("httpx",), TRANSPORT.replace("LIBRARY", "httpx"), "get_weather"),
    "httpx2": Use(("httpx2",), TRANSPORT.replace("LIBRARY", "httpx2"), "get_weather"),
    "none": Use((), "from unspool.cli import main; main(['demo', 'hermes'])", "get_weather"),
    "cli": Use(
        ("cli",),
        """
        from unspool.cli.demo import Show, play_live, screen
        from unspool.sample_outputs import list_samples

        try:
            from rich.console import Console
        except ImportError:
            play_live(list_samples(["hermes"]), 1)
        show = Show(list_samples(["hermes"])[0])
        list(show.play())
        Console(width=120, height=40).print(screen(show, "1/1", "q quits"))
        """,
        "get_weather",
        "pip install 'unspool[cli]'",
    ),
    "tokenizers": Use(
        ("tokenizers",),
        TOKENIZER
        + """
    from unspool.models.sources.load_tokenizer import load_tokenizer
    from unspool.tokens import label_tokens

    tokenizer = load_tokenizer(Path("tokenizer.json"))
    print(label_tokens(tokenizer.encode("Hello").ids, "hermes", tokenizer=tokenizer).message.content)
    """,
        "Hello",
    ),
    "mistral": Use(
        ("mistral",),
        """
        from pathlib import Path
        import mistral_common
        from unspool.models.sources.load_tokenizer import load_tokenizer
        from unspool.tokens import label_tokens

        file = Path("tekken.json")
        file.symlink_to(Path(mistral_common.__file__).parent / "data" / "tekken_240911.json")
        tokenizer = load_tokenizer(file)
        ids = tokenizer.encode("Hello", bos=False, eos=False)
        print(label_tokens(ids, "mistral", tokenizer=tokenizer).message.content)
        """,
        "Hello",
    ),
    "template": Use(
        ("template",),
        """
        from unspool.templates import ChatTemplate

        template = ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}")
        print(template.render([{"role": "user", "content": "Hello"}]))
        """,
        "user: Hello",
        "pip install 'unspool[template]'",
    ),
    "rollouts page": Use(("template", "tokenizers"), page("rollouts.md")),
    "batch page": Use(("batch",), page("batch.md")),
    "batch of token ids": Use(
        ("batch", "tokenizers"),
        TOKENIZER
        + """
    import json
    import pyarrow.parquet
    from unspool.cli import main

    Path("in.jsonl").write_text(json.dumps({"ids": tokenizer.encode("Hello").ids}))
    assert not main("batch --dialect hermes --token-ids ids --tokenizer . --labels in.jsonl out".split())
    (part,) = Path("out").glob("*.parquet")
    print(pyarrow.parquet.read_table(part).to_pylist())
    """,
        "'content': 'Hello'",
    ),
    "batch command": Use(
        ("batch",),
        """
        from pathlib import Path
        from unspool.cli import main

        Path("in.jsonl").write_text('{"text": "Hello"}')
        assert not main("batch --dialect hermes in.jsonl out".split())
        """,
        message="pip install 'unspool[batch]'",
    ),
    "gateway": Use(
        ("gateway",),
        """
        import json, subprocess, sys
        from urllib.request import urlopen

        command = [sys.executable, "-m", "unspool", "serve", "--upstream", "chat", "--dialect", "hermes"]
        command += ["--url", "http://127.0.0.1:9", "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            line = server.stderr.readline()
            print(line)
            try:
                print("status", urlopen(json.loads(line)["url"] + "/v1/models").status)
            finally:
                server.terminate()
        """,
        "status 200",
        "pip install 'unspool[gateway]'",
    ),
    "ray": Use(
        ("ray",),
        (ROOT / "examples" / "batch_ray.py").read_text(encoding="utf-8"),
        "'ok': True",
        environment={"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0"},
    ),
    "dialects page": Use(("testing",), page("dialects.md"), message="pip install 'unspool[testing]'"),
}


def run(python: Path, use: Use, folder: Path) -> tuple[int, str]:
    folder.mkdir()
    program = folder / "program.py"
    program.write_text(dedent(use.program), encoding="utf-8")
    done = subprocess.run(
        [python, "-I", program],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **use.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=280,
    )
    return done.returncode, done.stdout


def environment(folder: Path, *requirements: str, pinned: bool) -> Path:
    """Create an environment, and return its interpreter."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    constraints = ("-c", str(ROOT / "requirements" / "test.txt")) if pinned else ()
    subprocess.run([INSTALL, python, "-q", *constraints, *requirements], check=True, timeout=280)
    return python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    environment = {name: value for name, value in os.environ.items() if name != "UNSPOOL_COMPILE"}
    subprocess.run([sys.executable, "-m", "pip", "-q", *build], check=True, env=environment, timeout=280)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with nothing but unspool."""
    return environment(tmp_path_factory.mktemp("bare") / "env", str(wheel), pinned=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", USES)
def test_extra_works_alone(wheel: Path, tmp_path: Path, name: str) -> None:
    use = USES[name]
    requirement = f"{wheel}[{','.join(use.extras)}]" if use.extras else str(wheel)
    python = environment(tmp_path / "env", requirement, pinned="ray" not in use.extras)
    code, printed = run(python, use, tmp_path / "run")
    assert code == 0, printed
    assert use.output in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, use in USES.items() if use.message])
def test_missing_extra_is_named(bare: Path, tmp_path: Path, name: str) -> None:
    code, printed = run(bare, USES[name], tmp_path / "run")
    assert code != 0
    assert USES[name].message in printed


def test_every_extra_has_a_use() -> None:
    assert {extra for use in USES.values() for extra in use.extras} == PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize("call", [check_dialect, messages])
def test_laws_without_hypothesis_name_the_extra(call: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.testing._round_trip_law.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'unspool\[testing\]'"):
        call("hermes")  # type: ignore[operator]

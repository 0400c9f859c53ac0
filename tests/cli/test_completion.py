"""Shell completion offers the same words in every installed shell."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unspool import list_dialects
from unspool.cli import command_line, completion
from unspool.cli.help import commands

NAMES = [dialect.name for dialect in list_dialects()]
CASES: dict[str, set[str]] = {
    "unspool de": {"demo", "detect"},
    "unspool do": {"doctor"},
    "unspool conformance re": {"report"},
    "unspool export ": {"dialects", "response-template"},
    "unspool parse --dialect qwen3_": {name for name in NAMES if name.startswith("qwen3_")},
    "unspool explain kimi_k": {name for name in NAMES if name.startswith("kimi_k")},
    "unspool explain hy_v": {name for name in NAMES if name.startswith("hy_v")},
    "unspool demo hermes glm": {name for name in NAMES if name.startswith("glm")},
    "unspool conformance run --dialect harm": {name for name in NAMES if name.startswith("harm")},
    "unspool parse --dialect hermes --policies s": {"sglang"},
    "unspool batch --format jsonl.": {"jsonl.gz", "jsonl.zst"},
    "unspool parse --po": {"--policies"},
    "unspool serve --li": {"--list-settings"},
    "unspool parse --dialect hermes --tools too": {"tools.json"},
    "unspool parse --dialect hermes too": {"tools.json"},
    "unspool serve --model-dir mo": {"models/"},
    "unspool completion z": {"zsh"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the working directory of the shell."""
    (tmp_path / "tools.json").write_text("[]")
    (tmp_path / "models").mkdir()
    for shell in ("bash", "zsh", "fish"):
        (tmp_path / f"script.{shell}").write_text(completion.script(shell, command_line()))
    return tmp_path


def find_shell(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    return path


def complete_in_bash(typed: str, folder: Path) -> set[str]:
    """Complete as bash does, with ``=`` as a word of its own."""
    words = [word for word in re.split(r"(=)|[ ]", typed) if word is not None]
    script = """
        source script.bash
        compopt() { :; }  # not in a completion that a key began
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _unspool
        for word in "${COMPREPLY[@]}"; do [[ -d $word ]] && word="$word/"; printf '%s\\n' "$word"; done
    """
    command = [find_shell("bash"), "--norc", "-c", script, "bash", *words]
    return set(subprocess.check_output(command, cwd=folder, text=True, timeout=60).split())


def complete_in_fish(typed: str, folder: Path) -> set[str]:
    script = "source script.fish; complete -C $argv[1]"
    environment = os.environ | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    command = [find_shell("fish"), "--no-config", "-c", script, typed]
    printed = subprocess.check_output(command, cwd=folder, env=environment, text=True, timeout=60)
    return {line.partition("\t")[0] for line in printed.splitlines()}


def complete_in_zsh(typed: str, folder: Path) -> set[str]:
    """Complete at a real prompt: return the listed words, or the completed word."""
    return zsh_prompt(find_shell("zsh"), folder, typed)


def zsh_prompt(zsh: str, folder: Path, typed: str) -> set[str]:
    """Return every match that is added when the Tab key is pressed."""
    pty = pytest.importorskip("pty")
    (folder / "setup.zsh").write_text(
        "autoload -Uz compinit && compinit -u -d $PWD/dump\n"
        "source script.zsh\n"
        "compadd() {\n"
        '    builtin compadd "$@" || return\n'
        "    (( ${@[(I)-[OAD]]} )) && return\n"  # the caller only asks whether there is a match
        "    local -a matched\n"
        '    builtin compadd -O matched "$@"; print -l -- $matched >> found\n'
        "}\n"
        "done_() { zle complete-word; print -r -- DONE >> found; exit }\n"
        "zle -N done_\n"
        "bindkey '^T' done_\n"
        "print READY\n"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [zsh, "-f", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=os.environ | {"ZDOTDIR": str(folder), "TERM": "dumb", "PS1": ""},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        os.write(ours, b"source setup.zsh\n")
        written, sent, until = b"", False, time.monotonic() + 60
        while time.monotonic() < until:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    written += os.read(ours, 1 << 16)
                except OSError:  # Linux raises this when the other end is closed
                    break
            if not sent and b"READY\r" in written:
                os.write(ours, typed.encode() + b"\x14")
                sent = True
            if process.poll() is not None:
                break
        process.kill()
    os.close(ours)
    words = (folder / "found").read_text().split()
    assert words[-1] == "DONE", written.decode(errors="replace")
    return {f"{match}/" if (folder / match).is_dir() else match for match in words[:-1]}


SHELLS = {"bash": complete_in_bash, "fish": complete_in_fish, "zsh": complete_in_zsh}


@pytest.mark.parametrize("typed", CASES)
@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_commands_options_and_files(shell: str, typed: str, folder: Path) -> None:
    assert SHELLS[shell](typed, folder) == CASES[typed]


def test_bash_completes_after_an_equals_sign(folder: Path) -> None:
    assert complete_in_bash("unspool parse --dialect=harm", folder) == {"harmony", "harmony_stripped"}
    assert complete_in_bash("unspool parse --dialect=", folder) == set(NAMES)


@pytest.mark.parametrize("shell", SHELLS)
def test_script_has_every_command_and_option(shell: str) -> None:
    written = completion.script(shell, command_line())
    for path, parser in commands(command_line()):
        assert path.split()[-1] in written
        for action in parser._actions:
            for name in action.option_strings:
                in_fish_words = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                assert (in_fish_words if shell == "fish" else name) in written


def test_completion_script_is_loaded_on_demand() -> None:
    probe = "import sys, unspool.cli; print('unspool.cli.completion' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", probe], text=True, timeout=60) == "False\n"

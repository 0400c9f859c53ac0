"""Generator of completion scripts for bash, zsh and fish from the declared commands and options.

Existing packages are not suitable: shtab does not support fish, argcomplete starts Python whenever the user
presses Tab, and each of them would be a dependency for a single command.  The generated scripts do not start
a program; they contain the names of the dialects.  The completions of an argument depend on its metavar or
its choices.

Each script does three things: it determines the command that was typed so far, completes the subcommands,
options and arguments of this command, and completes the values of options.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from ..dialects import list_dialects
from ..policies import PRESETS
from .help import EXAMPLES, commands

Kind: TypeAlias = Literal["files", "folders", "words", "nothing"]

_FILES: Final = {"FILE", "MODEL", "IN"}
_FOLDERS: Final = {"DIR", "OUT"}


class Values(NamedTuple):
    """Possible completions of an argument or an option's value."""

    kind: Kind
    words: tuple[str, ...] = ()


class Option(NamedTuple):
    """An option of a command."""

    names: tuple[str, ...]
    help: str
    values: Values | None
    """The completions of the option's value; None if the option takes no value."""


class Command(NamedTuple):
    """A command such as ``unspool parse``, or ``unspool`` itself."""

    path: str
    """The full command, starting with ``unspool``."""
    help: str
    subcommands: tuple[str, ...]
    options: tuple[Option, ...]
    arguments: Values


def script(shell: str, root: argparse.ArgumentParser) -> str:
    """Return the completion script for a shell."""
    writers: dict[str, Callable[[list[Command]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    found = [
        _command(root.prog, root),
        *(_command(f"{root.prog} {path}", one) for path, one in commands(root)),
    ]
    return "\n".join(writers[shell](found)) + "\n"


# -- commands and options


def _command(path: str, parser: argparse.ArgumentParser) -> Command:
    options: list[Option] = []
    arguments = Values("nothing")
    subcommands: tuple[str, ...] = ()
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to list what was declared
        values = None if action.nargs == 0 else _values(action)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            subcommands = tuple(action.choices)
        elif action.option_strings:
            options.append(
                Option(tuple(action.option_strings), (action.help or "").partition(" (")[0], values)
            )
        elif (
            values is not None and arguments.kind != "files"
        ):  # if one argument takes files, file names are completed for all arguments
            arguments = values
    _, _, name = path.partition(" ")
    help_text = EXAMPLES[name][0].what if name else ""
    return Command(path, help_text, subcommands, tuple(options), arguments)


def _values(action: argparse.Action) -> Values:
    if action.choices:
        return Values("words", tuple(map(str, action.choices)))
    match action.metavar:
        case "DIALECT":
            return Values("words", tuple(dialect.name for dialect in list_dialects()))
        case "ENGINE":
            return Values("words", PRESETS)
        case str(name) if name in _FILES:
            return Values("files")
        case str(name) if name in _FOLDERS:
            return Values("folders")
    return Values("nothing")


# -- bash


def _bash(found: list[Command]) -> Iterator[str]:
    yield "# bash completion for unspool; written by `unspool completion bash`"
    yield "_unspool() {"
    yield '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '    local path=unspool word options="" kind="" words=""'
    yield '    [[ $current == "=" ]] && current=""  # --option=value is three words'
    yield '    [[ $previous == "=" ]] && previous="${COMP_WORDS[COMP_CWORD-2]}"'
    yield '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield f'        case "$path $word" in {_paths(found, " | ")}) path="$path $word" ;; esac'
    yield "    done"
    yield '    case "$path" in'
    for one in found:
        arguments = Values("words", one.subcommands) if one.subcommands else one.arguments
        names = " ".join(name for option in one.options for name in option.names)
        yield f'        "{one.path}") options="{names}" {_bash_values(arguments)} ;;'
    yield "    esac"
    yield '    case "$path $previous" in'
    for one in found:
        for option in one.options:
            if option.values is not None:
                places = " | ".join(f'"{one.path} {name}"' for name in option.names)
                yield f'        {places}) options="" {_bash_values(option.values)} ;;'
    yield "    esac"
    yield '    [[ $current == -* ]] && kind=words words="$options"'
    yield "    case $kind in"
    yield '        files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;'
    yield '        folders) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;'
    yield '        words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;'
    yield "        *) COMPREPLY=() ;;"
    yield "    esac"
    yield "}"
    yield "complete -F _unspool unspool"


def _bash_values(values: Values) -> str:
    return f'kind={values.kind} words="{" ".join(values.words)}"'


def _paths(found: list[Command], between: str) -> str:
    """Return shell patterns that match all subcommands."""
    return between.join(f'"{one.path}"' for one in found[1:])


# -- zsh


def _zsh(found: list[Command]) -> Iterator[str]:
    yield "#compdef unspool"
    yield "# zsh completion for unspool; written by `unspool completion zsh`"
    for one in found:
        yield f"{_function(one.path)}() {{"
        options = [_zsh_option(option) for option in one.options]
        if one.subcommands:
            below = [
                next(two for two in found if two.path == f"{one.path} {name}") for name in one.subcommands
            ]
            yield "    local state line"
            yield "    local -a commands=("
            for two in below:
                yield f"        {shlex.quote(f'{two.path.split()[-1]}:{_plain(two.help)}')}"
            yield "    )"
            yield f"    _arguments -C {' '.join(options)} '1: :->command' '*:: :->rest'"
            yield "    case $state in"
            yield "        command) _describe command commands ;;"
            yield "        rest)"
            yield "            case $line[1] in"
            for two in below:
                yield f"                {two.path.split()[-1]}) {_function(two.path)} ;;"
            yield "            esac ;;"
            yield "    esac"
        else:
            options.append(shlex.quote(f"*:argument:{_zsh_values(one.arguments)}"))
            yield f"    _arguments {' '.join(options)}"
        yield "}"
    yield "# Read by the shell itself, or as a file of fpath, which is called when it is first needed."
    yield 'if [[ $funcstack[1] == _unspool ]]; then _unspool "$@"; else compdef _unspool unspool; fi'


def _function(path: str) -> str:
    return "_" + path.replace(" ", "_").replace("-", "_")


def _zsh_option(option: Option) -> str:
    help_text = _plain(option.help)
    after = "" if option.values is None else f":value:{_zsh_values(option.values)}"
    exclusive = f"({' '.join(option.names)})"
    return " ".join(shlex.quote(f"{exclusive}{name}[{help_text}]{after}") for name in option.names)


def _zsh_values(values: Values) -> str:
    words = " ".join(values.words).replace(":", "\\:")  # in names such as hy_v3:opensource
    actions = {
        "files": "_files",
        "folders": "_files -/",
        "words": f"({words})",
        "nothing": " ",
    }
    return actions[values.kind]


def _plain(text: str) -> str:
    """Replace characters that have a special meaning in zsh."""
    return text.translate(str.maketrans("[]:\\", "()  "))


# -- fish


def _fish(found: list[Command]) -> Iterator[str]:
    yield "# fish completion for unspool; written by `unspool completion fish`"
    yield "function __unspool_at"
    yield "    set -l path unspool"
    yield "    for word in (commandline -opc)[2..-1]"
    yield '        switch "$path $word"'
    yield f"            case {_paths(found, ' ')}"
    yield '                set path "$path $word"'
    yield "        end"
    yield "    end"
    yield '    test "$path" = "$argv"'
    yield "end"
    yield "complete -c unspool -f"
    for one in found:
        here = f"complete -c unspool -n {shlex.quote(f'__unspool_at {one.path}')}"
        for name in one.subcommands:
            help_text = next(two.help for two in found if two.path == f"{one.path} {name}")
            yield f"{here} -a {name} -d {_fish_quoted(help_text)}"
        if not one.subcommands and one.arguments.kind != "nothing":
            yield f"{here} {_fish_values(one.arguments)}"
        for option in one.options:
            flags = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
            )
            after = "" if option.values is None else f" -r {_fish_values(option.values)}"
            yield f"{here} {flags}{after} -d {_fish_quoted(option.help)}"


def _fish_values(values: Values) -> str:
    ways = {
        "files": "-F",
        "folders": "-f -a '(__fish_complete_directories)'",
        "words": f"-f -a {_fish_quoted(' '.join(values.words))}",
        "nothing": "-f",
    }
    return ways[values.kind]


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

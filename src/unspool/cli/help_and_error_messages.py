"""Help and error messages of the command line.

``unspool --help`` fits on one screen and has an example for every command.  The help of each command ends
with more examples.  The tests parse every example as a command line.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn


class Example(NamedTuple):
    """An example command line with a description."""

    line: str
    what: str


EXAMPLES: Final[Mapping[str, tuple[Example, ...]]] = {
    "demo": (
        Example("unspool demo", "watch the parser at work"),
        Example("unspool demo hermes --speed 10", "one dialect, slowly"),
    ),
    "serve": (
        Example("unspool serve qwen3:8b", "serve a model with the usual APIs"),
        Example("unspool serve ~/models/Qwen3-8B-Q4_K_M.gguf", "run a GGUF file in this process"),
        Example("unspool serve http://127.0.0.1:8000 --port 9000", "in front of a running server"),
    ),
    "detect": (
        Example("unspool detect model.gguf", "find the dialect of a model"),
        Example("unspool detect path/to/model --json", "a model directory, as JSON"),
    ),
    "doctor": (
        Example("unspool doctor path/to/model", "check the setup, print server flags"),
        Example("unspool doctor qwen3:8b", "check an Ollama model"),
    ),
    "dialects": (
        Example("unspool dialects", "list all dialects and their models"),
        Example("unspool dialects qwen3", "list the dialects of Qwen3 models"),
        Example("unspool dialects infer outputs.jsonl", "declare a new format from outputs"),
    ),
    "dialects list": (Example("unspool dialects list qwen3", "list the dialects of Qwen3 models"),),
    "dialects infer": (
        Example("unspool dialects infer outputs.jsonl", "print a declaration, and proof per output"),
        Example(
            "unspool dialects infer outputs.jsonl --template chat_template.jinja --name mine",
            "use the model's chat template, too",
        ),
    ),
    "explain": (
        Example("unspool explain kimi_k2", "show the format of a dialect"),
        Example("unspool explain qwen3-8b", "find the dialect by a model's name"),
    ),
    "parse": (
        Example("unspool parse --dialect hermes output.txt", "print the message as JSON"),
        Example("my-model | unspool parse --dialect hermes --events", "print events as they arrive"),
        Example(
            "unspool parse --dialect hermes --tools tools.json output.txt",
            "convert values to the types in the tools",
        ),
    ),
    "batch": (
        Example("unspool batch --dialect hermes logs/ out/", "parse files of outputs"),
        Example("unspool batch --dialect hermes --to glm45 in.jsonl out/", "convert to another dialect"),
    ),
    "export": (Example("unspool export response-template hermes", "describe a dialect to tokenizers"),),
    "export response-template": (
        Example("unspool export response-template hermes", "print the response template"),
        Example("unspool export response-template hermes --into path/to/model", "write it into a tokenizer"),
    ),
    "export dialects": (Example("unspool export dialects", "print all declarations as JSON"),),
    "conformance": (Example("unspool conformance run --dialect hermes", "test this or another parser"),),
    "conformance run": (
        Example("unspool conformance run --dialect hermes --scenario order", "run a part of the suite"),
        Example(
            "unspool conformance run --command ./my-parser --html report.html",
            "test another parser, and write a page",
        ),
        Example("unspool conformance run --command './mine --json'", "test a program that speaks JSON lines"),
    ),
    "conformance report": (
        Example(
            "unspool conformance report vllm.json sglang.json --html report.html",
            "compare two runs on one page",
        ),
    ),
    "conformance list": (Example("unspool conformance list --dialect harmony", "list its scenarios"),),
    "conformance show": (
        Example("unspool conformance show --dialect glm45 --scenario order", "print cases to read"),
    ),
    "conformance export": (Example("unspool conformance export > cases.jsonl", "print cases as JSON lines"),),
}
"""Examples, keyed by command; the first example of each command also appears in ``unspool --help``."""

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Try it": ("demo",),
    "Serve a model": ("serve",),
    "Inspect models and dialects": ("detect", "doctor", "dialects", "explain"),
    "Parse an output": ("parse",),
    "Data and training": ("batch",),
    "Extend and check": ("export", "conformance"),
}
"""Commands, keyed by topic."""

_SCREEN: Final = 80
"""Assumed width of the terminal, in columns."""
_NEXT: Final = {
    "--dialect": "`unspool dialects` lists them, `unspool detect MODEL` finds the dialect of a model",
    "MODEL": "a GGUF file, a model directory, a chat template or a model's name",
}
"""Hints for error messages about missing arguments, keyed by the argument's name."""


def front_page() -> str:
    """Return the output of ``unspool --help``."""
    width = max(len(EXAMPLES[name][0].line) for names in GROUPS.values() for name in names)
    lines = [
        "unspool parses the raw output of language models into reasoning, content and",
        "tool calls.  A dialect is the output format of a family of models.",
        "Each line below is an example; `unspool COMMAND --help` lists options and more.",
    ]
    for group, names in GROUPS.items():
        lines += ["", group]
        lines += [f"  {line:{width}}  {what}" for line, what in (EXAMPLES[name][0] for name in names)]
    lines += ["", f"  {'unspool --version':{width}}  print version and kind of build"]
    return "\n".join(lines) + "\n"


class CommandParser(argparse.ArgumentParser):
    """Argument parser whose error messages have one line and suggest a fix."""

    default_command = ""
    """Subcommand to run if the arguments name none."""

    def format_help(self) -> str:
        """Return the front page for ``unspool --help``, or argparse's help for a subcommand."""
        return super().format_help() if " " in self.prog else front_page()

    def error(self, message: str) -> NoReturn:
        """Print an error message and exit with code 2."""
        _, missing, names = message.partition("arguments are required: ")
        for name in names.split(", ") if missing else ():
            message += f"; {_NEXT[name]}" if name in _NEXT else ""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; for an unknown option, print an error that suggests similar options."""
        if self.default_command and args is not None:
            args = self._with_command(list(args))
        found, rest = super().parse_known_args(args, namespace)
        if rest and rest[0].startswith("-"):
            self.error(
                f"no option {rest[0]}{_suggestion(rest[0].partition('=')[0], self._option_string_actions)}"
            )
        if rest:
            self.error(f"unexpected argument: {rest[0]}")
        return found, rest

    def _with_command(self, args: list[str]) -> list[str]:
        """Return the arguments with the default command in front, if they name no other command."""
        actions = [a for a in self._actions if isinstance(a, argparse._SubParsersAction)]  # noqa: SLF001
        known = {"-h", "--help", *(name for action in actions for name in action.choices)}
        return args if args and args[0] in known else [self.default_command, *args]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001
            kind = str(action.metavar).lower()
            raise argparse.ArgumentError(
                None, f"no {kind} {value!r}{_suggestion(value, list(action.choices))}"
            )
        super()._check_value(action, value)


def _suggestion(word: str, words: Sequence[str] | Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(word, words, n=2, cutoff=0.5)
    return f": did you mean {' or '.join(near)}?" if near else ""


def describe(root: argparse.ArgumentParser) -> None:
    """Prepare the help of every command: add the examples, and unindent the description."""
    for path, parser in commands(root):
        parser.description = "\n".join(map(str.strip, (parser.description or "").strip().split("\n")))
        shown = EXAMPLES[path]
        width = max(len(example.line) for example in shown)
        beside = [f"  {line:{width}}  {what}" for line, what in shown]
        below = [text for line, what in shown for text in (f"  {line}", f"      {what}")]
        lines = ["examples:", *(beside if max(map(len, beside)) <= _SCREEN else below)]
        parser.epilog = "\n".join([*lines, *(["", parser.epilog] if parser.epilog else [])])
        parser.formatter_class = argparse.RawDescriptionHelpFormatter


def commands(root: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the path (such as ``export dialects``) and the argument parser of every subcommand."""
    for action in root._actions:  # noqa: SLF001 - argparse has no public list of its actions
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, parser in action.choices.items():
                yield f"{path} {name}".strip(), parser
                yield from commands(parser, f"{path} {name}")

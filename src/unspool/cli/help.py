"""What the command line says about itself: an example for every command, and what to do after a mistake.

``unspool --help`` is a page of examples by whom they are for; every command's
own help ends with its examples.  The tests read each of them as a command line.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn


class Example(NamedTuple):
    """A line that works as it stands, once the files and models in it are there."""

    line: str
    what: str


EXAMPLES: Final[Mapping[str, tuple[Example, ...]]] = {
    "demo": (
        Example("unspool demo", "watch outputs being parsed"),
        Example("unspool demo hermes --speed 10", "one dialect, slowly"),
    ),
    "serve": (
        Example("unspool serve qwen3:8b", "the APIs that agents speak"),
        Example("unspool serve ~/models/Qwen3-8B-Q4_K_M.gguf", "a file, in this process"),
        Example("unspool serve http://127.0.0.1:8000 --port 9000", "before a server that runs"),
    ),
    "detect": (
        Example("unspool detect model.gguf", "which dialect a model speaks"),
        Example(
            "unspool detect path/to/model --json", "a directory with tokenizer_config.json; for programs"
        ),
    ),
    "doctor": (
        Example("unspool doctor path/to/model", "what does not fit; what to set"),
        Example("unspool doctor qwen3:8b", "an Ollama model"),
    ),
    "dialects": (
        Example("unspool dialects", "all of them, with their models"),
        Example("unspool dialects qwen3", "those of models of that name"),
    ),
    "explain": (
        Example("unspool explain kimi_k2", "how a dialect is written"),
        Example("unspool explain qwen3-8b", "which dialect a model of that name speaks"),
    ),
    "parse": (
        Example("unspool parse --dialect hermes output.txt", "the message, as JSON"),
        Example("my-model | unspool parse --dialect hermes --events", "what is decided, as it is written"),
        Example(
            "unspool parse --dialect hermes --tools tools.json output.txt", "values as the tools type them"
        ),
    ),
    "batch": (
        Example("unspool batch --dialect hermes in.parquet out/", "a million outputs, as a table"),
        Example(
            "unspool batch --dialect hermes --to glm45 in.jsonl out/", "the same messages in another dialect"
        ),
    ),
    "export": (Example("unspool export response-template hermes", "for transformers, vLLM, SGLang"),),
    "export response-template": (
        Example("unspool export response-template hermes", "print it"),
        Example("unspool export response-template hermes --into path/to/model", "into its tokenizer"),
    ),
    "export dialects": (Example("unspool export dialects", "every declaration, as JSON"),),
    "conformance": (Example("unspool conformance run --dialect hermes", "this or another parser, tested"),),
    "conformance run": (
        Example("unspool conformance run --dialect hermes --scenario order", "a part of it"),
        Example("unspool conformance run --parser vllm --html report.html", "another parser, as a page"),
        Example("unspool conformance run --command './mine --json'", "a program that speaks JSON lines"),
    ),
    "conformance report": (
        Example("unspool conformance report vllm.json sglang.json --html report.html", "one page of both"),
    ),
    "conformance list": (Example("unspool conformance list --dialect harmony", "what can be asked of it"),),
    "conformance show": (
        Example("unspool conformance show --dialect glm45 --scenario order", "cases, for people"),
    ),
    "conformance export": (Example("unspool conformance export > cases.jsonl", "cases, for programs"),),
    "completion": (
        Example('eval "$(unspool completion bash)"', "the Tab key; bash, zsh or fish"),
        Example("unspool completion zsh > ~/.zfunc/_unspool", "for good, where ~/.zfunc is in fpath"),
        Example("unspool completion fish > ~/.config/fish/completions/unspool.fish", "for good"),
    ),
}
"""By command; the first of each stands on the front page."""

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Try it": ("demo",),
    "Serve a model": ("serve",),
    "Find out about a model": ("detect", "doctor", "dialects", "explain"),
    "Parse an output": ("parse",),
    "Data and training": ("batch",),
    "Extend and check": ("export", "conformance", "completion"),
}
"""Whom the commands are for."""

_SCREEN: Final = 80
"""Columns that everybody has."""
_NEXT: Final = {
    "--dialect": "`unspool dialects` lists them, `unspool detect MODEL` finds a model's",
    "MODEL": "a GGUF file, a model directory, a chat template or a model's name",
    "SHELL": "bash, zsh or fish",
}
"""What to give, where it was not given."""


def front_page() -> str:
    """What ``unspool --help`` prints."""
    width = max(len(EXAMPLES[name][0].line) for names in GROUPS.values() for name in names)
    lines = [
        "unspool takes the raw output of language models apart: reasoning, content, tool",
        "calls.  How a family of models writes these is its dialect.",
        "Every line below is an example; `unspool COMMAND --help` has more, and options.",
    ]
    for group, names in GROUPS.items():
        lines += ["", group]
        lines += [f"  {line:{width}}  {what}" for line, what in (EXAMPLES[name][0] for name in names)]
    lines += ["", f"  {'unspool --version':{width}}  and whether it is compiled"]
    return "\n".join(lines) + "\n"


class CommandParser(argparse.ArgumentParser):
    """Reports a mistake in one line that says what to do."""

    def format_help(self) -> str:
        """The front page; for a command what argparse makes of it."""
        return super().format_help() if " " in self.prog else front_page()

    def error(self, message: str) -> NoReturn:
        """End with the message."""
        _, missing, names = message.partition("arguments are required: ")
        for name in names.split(", ") if missing else ():
            message += f"; {_NEXT[name]}" if name in _NEXT else ""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what a command does not have here, where it is known what it has."""
        found, rest = super().parse_known_args(args, namespace)
        if rest and rest[0].startswith("-"):
            self.error(f"no option {rest[0]}{_meant(rest[0].partition('=')[0], self._option_string_actions)}")
        if rest:
            self.error(f"one argument too many: {rest[0]}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001
            kind = str(action.metavar).lower()
            raise argparse.ArgumentError(None, f"no {kind} {value!r}{_meant(value, list(action.choices))}")
        super()._check_value(action, value)


def _meant(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(word, known, n=2, cutoff=0.5)
    return f": did you mean {' or '.join(near)}?" if near else ""


def describe(root: argparse.ArgumentParser) -> None:
    """Give every command its examples."""
    for path, parser in commands(root):
        shown = EXAMPLES[path]
        width = max(len(example.line) for example in shown)
        beside = [f"  {line:{width}}  {what}" for line, what in shown]
        below = [text for line, what in shown for text in (f"  {line}", f"      {what}")]
        lines = ["examples:", *(beside if max(map(len, beside)) <= _SCREEN else below)]
        parser.epilog = "\n".join([*lines, *(["", parser.epilog] if parser.epilog else [])])
        parser.formatter_class = argparse.RawDescriptionHelpFormatter


def commands(root: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command below a parser, by its words."""
    for action in root._actions:  # noqa: SLF001 - argparse has no other way to ask what was declared
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, parser in action.choices.items():
                yield f"{path} {name}".strip(), parser
                yield from commands(parser, f"{path} {name}")

"""Help texts: every command has an example, and every example can be typed."""

from __future__ import annotations

import re
import shlex

import pytest

from unspool.cli import command_line
from unspool.cli.help_and_error_messages import EXAMPLES, GROUPS, Example, commands, front_page

COMMANDS = dict(commands(command_line()))


def test_every_command_has_examples_in_the_overview() -> None:
    assert set(EXAMPLES) == set(COMMANDS)
    placed = [name for names in GROUPS.values() for name in names]
    assert sorted(placed) == sorted(path for path in COMMANDS if " " not in path)
    for name in placed:
        assert EXAMPLES[name][0].line in front_page()


@pytest.mark.parametrize(
    ("path", "example"),
    [(path, example) for path, examples in EXAMPLES.items() for example in examples],
    ids=lambda value: value.line if isinstance(value, Example) else None,
)
def test_examples_can_be_typed(path: str, example: Example) -> None:
    typed = re.search(r"(?:^|\| |\$\()unspool ([^)>]*)", example.line)
    assert typed is not None
    words = shlex.split(typed[1])
    assert " ".join(words).startswith(path)
    assert callable(command_line().parse_args(words).run)


@pytest.mark.parametrize("path", COMMANDS)
def test_command_help_ends_with_examples(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args([*path.split(), "--help"])
    assert ended.value.code == 0
    page = capsys.readouterr().out
    assert page.startswith(f"usage: unspool {path}")
    for example in EXAMPLES[path]:
        assert f"  {example.line}" in page.partition("examples:")[2]
    assert COMMANDS[path].description


def test_overview_fits_a_terminal() -> None:
    lines = front_page().splitlines()
    assert len(lines) <= 35
    assert max(map(len, lines)) <= 80

"""A page for every dialect, and one that lists them: what ``unspool explain`` knows."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from unspool import Dialect, list_dialects
from unspool._core.explain_dialect import hold_back, kind
from unspool._core.render.example_output import example
from unspool.dialects import explain, state_diagram

from . import states

FOLDER: Final = "dialect"
_DIAGRAM: Final = re.compile(r"```mermaid\n.*?```", re.DOTALL)


def write(target: Path, *, playground: bool) -> None:
    """Write the pages and their pictures; with links to the playground, where that is built."""
    folder = target / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    dialects = list_dialects()
    (folder / "index.md").write_text("\n".join(_list(dialects)), encoding="utf-8")
    for dialect in dialects:
        (folder / f"{dialect.name}.md").write_text(
            page(dialect) + (door(dialect) if playground else ""), encoding="utf-8"
        )
        picture = states.picture(dialect.name, state_diagram(dialect))
        (folder / f"{dialect.name}.svg").write_text(picture, encoding="utf-8")


def page(dialect: Dialect) -> str:
    """Return the page of one dialect."""
    drawn = f"![What leads from one state of {dialect.name} to another]({dialect.name}.svg)"
    text = _DIAGRAM.sub(lambda _: drawn, explain(dialect))
    return (
        f"{text}\n"
        "A box is a state of the output and lists what leads out of it. "
        "[How an output becomes a message](../architecture.md#modes) says what the states are, "
        "[request decisions by model family](../truth-table.md) says what a request needs.\n"
    )


def door(dialect: Dialect) -> str:
    """Return a link that opens the dialect's example in the playground."""
    text, _ = example(dialect)
    shown = json.dumps({"text": text, "dialect": dialect.name}).encode()
    address = urlsafe_b64encode(shown).decode().rstrip("=")
    place = f"../playground/index.html#j={address}"
    return f'\n<p><a href="{place}">Step through this example in the playground</a></p>\n'


def _list(dialects: Sequence[Dialect]) -> Iterator[str]:
    yield "# Every dialect"
    yield ""
    yield (
        f"The {len(dialects)} dialects that are built in, and the models that write each. Is yours not "
        "there by name? `unspool detect` finds out from a model's chat template, and says why: "
        "[which dialect is it?](../doctor.md#which-dialect-is-it)"
    )
    yield ""
    yield "| dialect | models | calls are | held back of prose, at most | also called |"
    yield "|---|---|---|---|---|"
    for dialect in dialects:
        yield (
            f"| [{dialect.name}]({dialect.name}.md) | {dialect.family.models} | {kind(dialect)} "
            f"| {hold_back(dialect)} | {', '.join(dialect.family.aliases)} |"
        )
    yield ""
    yield "```{toctree}"
    yield ":hidden:"
    yield ""
    yield from (dialect.name for dialect in dialects)
    yield "```"
    yield ""

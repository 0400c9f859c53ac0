"""The rooms: nobody imports from above, and the picture shows the house as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rooms
from rooms import Import


def test_nobody_imports_from_beside_or_above() -> None:
    assert list(rooms.violations(rooms.imports(rooms.SOURCE))) == []


def test_the_picture_is_up_to_date() -> None:
    assert list(rooms.outdated()) == [], "make rooms draws it anew"


def test_the_page_names_files_that_are_there() -> None:
    _, _, page = rooms.PAGE.read_text(encoding="utf-8").partition("## Where to change what")
    named = [name for name in re.findall(r"`([\w/.]+)`", page) if "/" in name or name.endswith(".py")]
    assert len(named) > 20
    assert not [
        name for name in named if not any((root / name).exists() for root in (rooms.SOURCE, rooms.ROOT))
    ]


def test_every_room_says_what_it_is() -> None:
    for room in rooms.rooms(rooms.SOURCE):
        assert room.what.endswith("."), room.name


@pytest.mark.parametrize(
    ("importer", "imported", "said"),
    [
        ("events", "parser", "but _core/ends is above _core/values"),
        ("dialects/_declaration", "_core/schema/tools", "but _core/schema is beside _core/words"),
        ("gateway/app", "cli/__init__", "but cli is above gateway"),
        ("testing", "__init__", "but unspool is above testing"),
    ],
)
def test_what_breaks_the_order_is_said(importer: str, imported: str, said: str) -> None:
    (message,) = rooms.violations([Import(importer, imported, "types")])
    assert message == f"{importer} imports {imported} for its types, {said}"


HOUSE = {
    "__init__.py": "from .cli import main",
    "cli/__init__.py": """
from __future__ import annotations
from typing import TYPE_CHECKING
import json
from .. import _version
from ..wire import chat
from . import demo
if TYPE_CHECKING:
    from ..gateway.app import App
else:
    import unspool.testing as t
def main() -> None:
    from ..grammar import Grammar
    class Inner:
        def method(self) -> None:
            import unspool.events
""",
    "cli/demo.py": "",
    "wire/__init__.py": "",
    "wire/chat.py": "from .._core.values.events import Text as T",
    "gateway/__init__.py": "",
    "gateway/app.py": "",
    "grammar/__init__.py": "",
    "testing.py": "",
    "_version.py": "",
    "_core/__init__.py": "",
    "_core/values/__init__.py": "",
    "events.py": "",
}


def test_every_kind_of_import_is_seen(tmp_path: Path) -> None:
    for name, text in HOUSE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert set(rooms.imports(tmp_path)) == {
        Import("__init__", "cli/__init__", "always"),
        Import("cli/__init__", "_version", "always"),
        Import("cli/__init__", "wire/chat", "always"),
        Import("cli/__init__", "cli/demo", "always"),
        Import("cli/__init__", "gateway/app", "types"),
        Import("cli/__init__", "testing", "always"),
        Import("cli/__init__", "grammar/__init__", "late"),
        Import("cli/__init__", "events", "late"),
        Import("wire/chat", "events", "always"),
    }


def test_what_follows_is_not_drawn() -> None:
    found = [
        Import("cli/demo", "wire/chat", "always"),
        Import("wire/chat", "events", "always"),
        Import("cli/demo", "events", "always"),
        Import("_core/token_ids/reader", "dialects/_declaration", "types"),
        Import("dialects/_declaration", "errors", "always"),
        Import("_core/token_ids/reader", "errors", "always"),
    ]
    assert rooms.edges(found) == {
        ("cli", "wire"): True,
        ("wire", "_core/values"): True,
        ("_core/tokens", "_core/words"): False,
        ("_core/tokens", "_core/values"): True,  # an import for types brings nothing along
        ("_core/words", "_core/values"): True,
    }


def test_a_module_without_a_room_is_refused() -> None:
    with pytest.raises(SystemExit, match="attic/box is in no room"):
        rooms.room_of("attic/box")

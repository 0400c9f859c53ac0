"""Pictures are drawn from the library's own data, for every dialect."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from xml.etree import ElementTree as ET

import pytest

from unspool import get_dialect, list_dialects
from unspool.dialects import explain, state_diagram
from website import dialects, states, stream


def test_stream_picture_is_up_to_date() -> None:
    written = stream.PICTURE.read_text(encoding="utf-8")
    assert written == stream.picture(list(stream.rows())), "run python -m website.stream --write, in tools"


def test_stream_picture_matches_the_page() -> None:
    rows = list(stream.rows())
    assert "".join(row.chunk for row in rows) == "".join(stream.CHUNKS)
    assert [row.held for row in rows] == [0, 5, 1, 5, 26, 0, 0, 0]
    assert all(row.kinds and len(row.kinds) == len(row.chunk) for row in rows)


@pytest.mark.parametrize("name", [dialect.name for dialect in list_dialects()])
def test_state_diagram_shows_states_and_transitions(name: str) -> None:
    diagram = state_diagram(name)
    drawn = ET.fromstring(states.picture(name, diagram))  # noqa: S314 - our own
    edges = states.edges(diagram)
    texts = {"".join(text.itertext()) for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {state.replace("_", " ") for state in edges} <= texts
    lines = [path for path in drawn.iter("{http://www.w3.org/2000/svg}path") if path.get("class") == "edge"]
    assert len(lines) == 1 + sum(map(len, edges.values()))
    boxes = list(states.boxes(edges).values())
    for box in boxes:
        assert not [
            other.state
            for other in boxes
            if other is not box and other.column == box.column and box.top <= other.top < box.top + box.height
        ]


def test_dialect_page_is_its_explanation() -> None:
    page = dialects.page(get_dialect("hermes"))
    before, _, _ = explain("hermes").partition("```mermaid")
    assert page.startswith(before)
    assert "](hermes.svg)" in page
    assert "mermaid" not in page


def test_dialect_page_opens_on_its_example() -> None:
    address = dialects.door(get_dialect("kimi_k2")).split("#j=")[1].split('"')[0]
    opened = json.loads(urlsafe_b64decode(address + "=" * (-len(address) % 4)))
    assert opened["dialect"] == "kimi_k2"
    assert opened["text"] in explain("kimi_k2")

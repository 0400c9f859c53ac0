"""The link check finds faults of a built site, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from website import links

INDEX = '<a href="b.html#here">b</a> <a href="https://a.test/">away</a> <img src="data:image/png;base64,AA">'
OTHER = '<h1 id="here">b</h1><style>p { background: url("a.png") }</style><script src="play/run.js"></script>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "play").mkdir()
    for name, text in {
        "index.html": INDEX,
        "b.html": OTHER + '<a href="play/">play</a>',
        "a.png": "",
        "play/index.html": '<script src="https://elsewhere.test/x.js"></script>',
        "play/run.js": "",
        "look.css": "p { background: url(a.png) }",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_valid_site_has_no_findings(site: Path) -> None:
    assert list(links.broken(site, apart=("play",))) == []


@pytest.mark.parametrize(
    ("page", "more", "message"),
    [
        ("b.html", '<a href="c.html">c</a>', "b.html: c.html leads nowhere"),
        ("b.html", '<a href="index.html#gone">c</a>', "b.html: index.html#gone has no such anchor"),
        ("b.html", '<a href="#gone">c</a>', "b.html: #gone has no such anchor"),
        ("b.html", '<a href="../c.html">c</a>', "b.html: ../c.html leads nowhere"),
        ("b.html", '<img src="c.png">', "b.html: c.png leads nowhere"),
        ("b.html", '<img srcset="a.png, c.png 2x">', "b.html: c.png leads nowhere"),
        ("b.html", '<script src="//cdn.test/x.js"></script>', "b.html loads //cdn.test/x.js from elsewhere"),
        ("b.html", '<link href="https://fonts.test/x">', "b.html loads https://fonts.test/x from elsewhere"),
        (
            "b.html",
            "<style>@import 'https://f.test/x';</style>",
            "b.html loads https://f.test/x from elsewhere",
        ),
        ("look.css", "q { src: url(https://f.test/x) }", "look.css loads https://f.test/x from elsewhere"),
        ("lost.html", "", "lost.html is reached from nowhere"),
    ],
)
def test_broken_links_are_reported(site: Path, page: str, more: str, message: str) -> None:
    with (site / page).open("a", encoding="utf-8") as file:
        file.write(more)
    assert list(links.broken(site, apart=("play",))) == [message]

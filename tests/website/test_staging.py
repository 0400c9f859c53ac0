"""Pages of the repository as pages of the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from paths import ROOT
from website import navigation, staging
from website.staging import DeadLink, Staging

GENERATED = {"dialect/index", "api/index", "examples"}


def test_navigation_has_every_page_once() -> None:
    pages = [staging.place_of(page) for page in staging.pages(ROOT)]
    assert sorted(navigation.pages()) == sorted([*pages, *GENERATED]), (
        "a page of docs needs a place in the navigation: tools/website/navigation.py"
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("docs/a.md", "docs/b.md", "docs/plot.svg", "README.md", "CHANGELOG.md", "examples/try.py"):
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "repository"


@pytest.mark.parametrize(
    ("page", "written", "expected"),
    [
        ("docs/a.md", "[b](b.md#part)", "[b](b.md#part)"),
        ("docs/a.md", "[`b`](b.md), `[x](y)`", "[`b`](b.md), `[x](y)`"),
        (
            "docs/a.md",
            "[here](#part) [there](https://a.test/x.md)",
            "[here](#part) [there](https://a.test/x.md)",
        ),
        ("docs/a.md", "[news](../CHANGELOG.md)", "[news](changelog.md)"),
        (
            "docs/a.md",
            "![plot](plot.svg) [it](../examples/try.py)",
            "![plot](plot.svg) [it](files/examples/try.py)",
        ),
        ("CHANGELOG.md", "[a](docs/a.md)", "[a](a.md)"),
        ("docs/a.md", "[start](../README.md) [all](../examples)", "[start](index.md) [all](examples.md)"),
        ("docs/a.md", "```\n[x](y)\n```\n[b](b.md)", "```\n[x](y)\n```\n[b](b.md)"),
    ],
)
def test_links_lead_to_the_same_file(page: str, written: str, expected: str, repository: Path) -> None:
    assert Staging(repository, repository).rewritten(page, written) == expected


def test_dead_link_names_its_place(repository: Path) -> None:
    with pytest.raises(DeadLink, match=r"docs/a.md:3: c.md is not there"):
        Staging(repository, repository).rewritten("docs/a.md", "one\n\n[c](c.md)")


def test_picture_exists_for_each_theme(repository: Path) -> None:
    written = (
        '<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="plot.svg">\n'
        '  <img alt="A plot" src="plot.svg">\n</picture>\n'
    )
    text = Staging(repository, repository).rewritten("docs/a.md", written)
    assert text.count("```{image} plot.svg") == 2
    assert ":class: only-light\n:alt: A plot" in text
    assert ":class: only-dark\n:alt: A plot" in text


def test_linked_files_are_staged(repository: Path, tmp_path: Path) -> None:
    (repository / "docs" / "a.md").write_text("[it](../examples/try.py) ![plot](plot.svg)")
    Staging(repository, tmp_path / "pages").run()
    staged = {path.relative_to(tmp_path / "pages").as_posix() for path in (tmp_path / "pages").rglob("*.*")}
    assert staged == {"a.md", "b.md", "changelog.md", "examples.md", "plot.svg", "files/examples/try.py"}

"""What the site has, in the order in which people look for it."""

from __future__ import annotations

from typing import Final

START: Final = "index"
NAVIGATION: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "By task",
        (
            "leaks",
            "coming-from",
            "recipes",
            "own-engine",
            "dialects",
            "rollouts",
            "training",
            "batch",
        ),
    ),
    (
        "Use it",
        ("library", "examples", "gateway", "engines", "doctor", "policies", "promises", "refusals"),
    ),
    (
        "Look it up",
        ("dialect/index", "api/index", "dialect-fields", "truth-table", "rulings", "changelog"),
    ),
    (
        "See for yourself",
        ("playground", "conformance", "peers", "agents", "speed", "security"),
    ),
    (
        "Work on it",
        ("contributing", "architecture", "release", "fuzzing", "security-policy"),
    ),
)
"""Captions and the pages below them, by their place on the site and without a suffix."""


def pages() -> list[str]:
    """Every page that can be reached from the start."""
    return [START, *(page for _, pages in NAVIGATION for page in pages)]


def trees() -> str:
    """Return the navigation as Sphinx ``toctree`` directives for the end of the start page."""
    return "\n".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n:maxdepth: 2\n\n" + "\n".join(pages) + "\n```"
        for caption, pages in NAVIGATION
    )

"""HTML and terminal views of tokens."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from unspool import UsageError
from unspool.tokens import label_tokens, to_ansi, to_html
from vocabularies import bytes_for

TEXT = "<think>é <b>&amp;\n</think>Yes<|im_end|>"


class Page(HTMLParser):
    """The text of a page's tokens, and what the page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.titles: list[str] = []
        self.loads: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.loads += [value for key in ("src", "href") if (value := attributes.get(key))]
        self._inside = tag == "p" or (self._inside and tag != "ul")
        if tag == "span" and attributes.get("title"):
            self.titles.append(attributes["title"] or "")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts.append(data)


def test_html_shows_every_token_and_loads_nothing() -> None:
    tokenizer = bytes_for("hermes")
    ids = tokenizer.encode(TEXT)
    shown = Page()
    shown.feed(
        to_html([*ids, -100], label_tokens([*ids, -100], "hermes", tokenizer=tokenizer).labels, tokenizer)
    )
    assert len(shown.titles) == len(ids) + 1
    assert "".join(shown.texts).strip() == TEXT.replace("é", "é·").replace("\n", "⏎") + "·"
    assert shown.loads == []
    assert shown.titles[-2:] == [f"{tokenizer.markers['<|im_end|>']}: end of turn", "-100: padding"]


def test_terminal_shows_every_token() -> None:
    tokenizer = bytes_for("hermes")
    ids = tokenizer.encode(TEXT)
    shown = to_ansi(ids, label_tokens(ids, "hermes", tokenizer=tokenizer).labels, tokenizer)
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert plain.startswith(TEXT.replace("é", "é·").replace("\n", "⏎\n"))
    assert "reasoning" in plain.splitlines()[-1]


def test_labels_of_other_ids_are_an_error() -> None:
    with pytest.raises(UsageError, match="one label for each id"):
        to_html([65], b"", bytes_for("hermes"))

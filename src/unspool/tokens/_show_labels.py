"""Coloured display of labelled tokens in a terminal or on an HTML page."""

import html as _html
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from .._core.token_ids.detokenizer import Detokenizer
from .._core.token_ids.labels import LABEL_MASK, Label, LabelFlag
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, as_tokenizer
from ..errors import UsageError
from ._label_tokens import Ids, as_ids

_WORDS: Final = {
    Label.CONTEXT: "not the model's",
    Label.CONTENT: "content",
    Label.REASONING: "reasoning",
    Label.NAME: "name of a call",
    Label.ARGUMENTS: "arguments",
    Label.CALL: "markup of a call",
    Label.MARKUP: "other markup",
    Label.END: "end of turn",
    Label.PADDING: "padding",
}
_FLAGS: Final = {LabelFlag.SHARED: ("and the next part", "s"), LabelFlag.BROKEN: ("broken", "b")}
"""Description and CSS class of each flag."""
# Background colours, in the order of the labels: colour numbers for terminals, and pairs of hue and
# saturation for the HTML page.
_ANSI: Final = (238, 22, 54, 94, 24, 60, 240, 88, 234)
_HUES: Final = ((0, 0), (130, 55), (275, 50), (30, 75), (205, 65), (240, 35), (0, 0), (0, 60), (0, 0))
_BEGUN: Final = "·"
"""Symbol for a token whose bytes all belong to a character of an earlier token."""


def pieces(ids: Ids, labels: bytes, tokenizer: AnyTokenizer) -> Iterator[tuple[int, str, int]]:
    """Yield each id, the characters that begin in its token, and the label of the token."""
    known = as_ids(ids)
    if len(known) != len(labels):
        raise UsageError(f"got {len(known)} ids and {len(labels)} labels: pass one label for each id")
    there = [
        id for id, label in zip(known, labels, strict=True) if id >= 0 or label & LABEL_MASK != Label.PADDING
    ]
    decoder = Detokenizer(as_tokenizer(tokenizer), {})
    widths = decoder.measure()
    text = decoder.decode(there)
    ends = accumulate(widths)
    spans = zip(ends, widths, strict=True)
    for id, label in zip(known, labels, strict=True):
        if id < 0 and label & LABEL_MASK == Label.PADDING:
            yield id, "", label
        else:
            end, width = next(spans)
            yield id, text[end - width : end], label


def to_ansi(ids: Ids, labels: bytes, tokenizer: AnyTokenizer) -> str:
    """Return text that shows the tokens in a terminal, with a legend.

    The colour of a token shows its label, and tokens of broken calls are underlined.
    """
    out: list[str] = []
    for _, text, label in pieces(ids, labels, tokenizer):
        style = f"48;5;{_ANSI[label & LABEL_MASK]}" + (";4" if label & LabelFlag.BROKEN else "")
        shown = (text or _BEGUN).replace("\n", "⏎\x1b[0m\n")
        out.append(f"\x1b[{style}m{shown}\x1b[0m")
    legend = [
        f"\x1b[48;5;{_ANSI[label]}m {words} \x1b[0m {count}" for label, words, count in _counted(labels)
    ]
    return "".join(out) + "\n\n" + "  ".join(legend) + "\n"


def to_html(ids: Ids, labels: bytes, tokenizer: AnyTokenizer, *, title: str = "Tokens") -> str:
    """Return a self-contained HTML page that shows the tokens in colour, with a tooltip for each token."""
    body: list[str] = []
    for id, text, label in pieces(ids, labels, tokenizer):
        kind = Label(label & LABEL_MASK)
        flags = [flag for flag in LabelFlag if label & flag]
        title_text = ", ".join((f"{id}: {_WORDS[kind]}", *(_FLAGS[flag][0] for flag in flags)))
        classes = " ".join((f"t{int(kind)}", *(_FLAGS[flag][1] for flag in flags)))
        shown = _html.escape(text or _BEGUN).replace("\n", "⏎<br>")
        body.append(f'<span class="{classes}" title="{_html.escape(title_text, quote=True)}">{shown}</span>')
    legend = "".join(
        f'<li><span class="t{int(label)}">{words}</span> {count}</li>'
        for label, words, count in _counted(labels)
    )
    heading = _html.escape(title)
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{heading}</title>\n<style>{_style()}</style>\n<h1>{heading}</h1>\n<ul>{legend}</ul>\n"
        f"<p>{''.join(body)}</p>\n</html>\n"
    )


def _counted(labels: bytes) -> list[tuple[Label, str, int]]:
    counts = Counter(label & LABEL_MASK for label in labels)
    return [(label, _WORDS[label], counts[label]) for label in Label if counts[label]]


def _style() -> str:
    light = "".join(f".t{n}{{background:hsl({h} {s}% 84%)}}" for n, (h, s) in enumerate(_HUES))
    dark = "".join(f".t{n}{{background:hsl({h} {s}% 26%)}}" for n, (h, s) in enumerate(_HUES))
    return (
        "body{font:1rem/1.9 ui-monospace,monospace;margin:1rem auto;max-width:60rem;padding:0 1rem;"
        "color:#111;background:#fff}p{overflow-wrap:anywhere;white-space:pre-wrap}"
        "ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 1.2rem}"
        "span{border-radius:2px;padding:.1rem 0;outline:1px solid #8883}li span{padding:.1rem .4rem}"
        ".b{text-decoration:underline wavy #c00}.s{outline:1px dashed currentColor}"
        f"{light}@media(prefers-color-scheme:dark){{body{{color:#eee;background:#111}}{dark}}}"
    )

"""Syntax checker for GBNF grammars."""

from __future__ import annotations

import re
from typing import Final

_RULE: Final = re.compile(r"([a-zA-Z0-9-]+) ::= (.*)")
_TOKEN: Final = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\(?:["\\nrt]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}))*")'
    r"|(?P<set>\[\^?(?:[^\]\\\n]|\\(?:[\]\[\\nrt^-]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}))*\])"
    r"|(?P<rule>[a-zA-Z0-9-]+)"
    r"|(?P<count>[*+?]|\{\d+(?:,\d*)?\})"
    r"|(?P<bracket>[()])"
    r"|(?P<bar>\|)"
    r"|(?P<blank> +)"
)


def check(text: str) -> None:
    """Raise ``AssertionError`` if a text is not a grammar, or refers to an undefined rule."""
    bodies: dict[str, list[str]] = {}
    for line in text.splitlines():
        found = _RULE.fullmatch(line)
        assert found is not None, f"not a rule: {line!r}"
        assert found[1] not in bodies, f"duplicate rule {found[1]}"
        bodies[found[1]] = list(_references(found[2]))
    assert "root" in bodies, "no root"
    for name, used in bodies.items():
        for each in used:
            assert each in bodies, f"{name} refers to the undefined rule {each}"


def _references(body: str) -> list[str]:
    out: list[str] = []
    at = depth = 0
    counts = False
    while at < len(body):
        token = _TOKEN.match(body, at)
        assert token is not None, f"not GBNF: {body[at:]!r}"
        at = token.end()
        if token["count"]:
            assert counts, f"repetition without an operand: {body[:at]!r}"
        if token["bracket"]:
            depth += 1 if token["bracket"] == "(" else -1
            assert depth >= 0, f"unmatched closing bracket: {body[:at]!r}"
        if token["rule"]:
            out.append(token["rule"])
        counts = bool(token["text"] or token["set"] or token["rule"] or token["bracket"] == ")")
    assert depth == 0, f"unclosed bracket: {body!r}"
    return out

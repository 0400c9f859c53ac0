"""A reader of GBNF that knows no more than its syntax: whether a grammar of ours is one."""

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
    """Raise ``AssertionError`` if a text is no grammar, or names a rule that it does not have."""
    bodies: dict[str, list[str]] = {}
    for line in text.splitlines():
        found = _RULE.fullmatch(line)
        assert found is not None, f"no rule: {line!r}"
        assert found[1] not in bodies, f"two rules {found[1]}"
        bodies[found[1]] = list(_references(found[2]))
    assert "root" in bodies, "no root"
    for name, used in bodies.items():
        for each in used:
            assert each in bodies, f"{name} uses {each}, which is not there"


def _references(body: str) -> list[str]:
    out: list[str] = []
    at = depth = 0
    counts = False
    while at < len(body):
        token = _TOKEN.match(body, at)
        assert token is not None, f"no GBNF: {body[at:]!r}"
        at = token.end()
        if token["count"]:
            assert counts, f"what is repeated? {body[:at]!r}"
        if token["bracket"]:
            depth += 1 if token["bracket"] == "(" else -1
            assert depth >= 0, f"a bracket that nobody opened: {body[:at]!r}"
        if token["rule"]:
            out.append(token["rule"])
        counts = bool(token["text"] or token["set"] or token["rule"] or token["bracket"] == ")")
    assert depth == 0, f"a bracket is open: {body!r}"
    return out

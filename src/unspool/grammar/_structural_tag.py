"""Writer of structural tags, a format of xgrammar that vLLM and SGLang also accept.

Structural tags can express JSON schemas and text up to a marker directly.  Values in
other notations are embedded as GBNF.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ._gbnf import to_gbnf
from ._nodes import (
    AnyText,
    Chars,
    Dispatch,
    Exact,
    Named,
    Node,
    OneOf,
    Repeat,
    SchemaValue,
    Separated,
    Seq,
    TextUpTo,
    strip_prefix,
)

Format: TypeAlias = dict[str, Any]


def to_structural_tag(root: Node) -> Format:
    """Return the structural tag of a grammar."""
    return {"type": "structural_tag", "format": _format(root)}


def _format(node: Node) -> Format:
    if isinstance(node, Named):
        return _format(node.node)
    if isinstance(node, Exact):
        return {"type": "const_string", "value": node.text}
    if isinstance(node, SchemaValue) and node.notation == "json":
        return {"type": "json_schema", "json_schema": node.schema, **_excludes(node.without)}
    if isinstance(node, TextUpTo):
        return _tag("", {"type": "any_text", **_excludes(node.without)}, node.end)
    if isinstance(node, AnyText):
        return {"type": "any_text", **_excludes(node.without)}
    if isinstance(node, Dispatch):
        return {
            "type": "dispatch",
            "rules": [[node.trigger, _format(strip_prefix(node.then, node.trigger))]],
            "loop": False,
            **_excludes(tuple(other for other in node.without if node.trigger not in other)),
        }
    if isinstance(node, Seq):
        return _sequence(node)
    if isinstance(node, OneOf):
        return {"type": "or", "elements": [_format(option) for option in node.options]}
    if isinstance(node, Separated):
        return _many(node)
    if isinstance(node, Repeat) and not isinstance(node.item, Chars):
        return _repeat(node)
    return {"type": "grammar", "grammar": to_gbnf(node)}


def _excludes(without: tuple[str, ...]) -> Format:
    return {"excludes": list(without)} if without else {}


def _tag(begin: str, content: Format, end: str) -> Format:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _sequence(node: Seq) -> Format:
    parts = node.parts
    if len(parts) == 2 and isinstance(parts[0], Exact) and isinstance(parts[1], SchemaValue):
        return _tag(parts[0].text, _format(parts[1]), "")
    if len(parts) > 2 and isinstance(parts[0], Exact) and isinstance(parts[-1], Exact):
        return _tag(parts[0].text, _format(Seq(parts[1:-1])), parts[-1].text)
    elements: list[Format] = []
    for part in parts:
        last = elements[-1] if elements else {}
        if isinstance(part, TextUpTo) and last.get("type") == "const_string":
            elements[-1] = {**_format(part), "begin": last["value"]}
        else:
            elements.append(_format(part))
    if len(elements) == 1:
        return elements[0]
    return {"type": "sequence", "elements": elements} if elements else {"type": "const_string", "value": ""}


def _many(node: Separated) -> Format:
    """Return the tag for one or more repetitions of a node, with a separator between them."""
    item = _format(node.item)
    tags = [
        tag if tag["type"] == "tag" else _tag("", tag, "")
        for tag in (item["elements"] if item["type"] == "or" else [item])
    ]
    return {"type": "tags_with_separator", "tags": tags, "separator": node.separator, "at_least_one": True}


def _repeat(node: Repeat) -> Format:
    content = _format(node.item)
    if (node.least, node.most) == (0, 1):
        return {"type": "optional", "content": content}
    if node.most is None and node.least < 2:
        return {"type": ("star", "plus")[node.least], "content": content}
    return {
        "type": "repeat",
        "min": node.least,
        "max": -1 if node.most is None else node.most,
        "content": content,
    }

"""Structural tags, the format of xgrammar that vLLM and SGLang take.

JSON schemas and text up to a marker stay what they are; other notations are
embedded as grammars.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from .gbnf import gbnf
from .ir import (
    Chars,
    Choice,
    Dispatch,
    Free,
    Many,
    Named,
    Node,
    Repeat,
    Seq,
    Text,
    UpTo,
    Value,
    strip_prefix,
)

Format: TypeAlias = dict[str, Any]


def structural_tag(root: Node) -> Format:
    """The structural tag that asks for this."""
    return {"type": "structural_tag", "format": _format(root)}


def _format(node: Node) -> Format:
    if isinstance(node, Named):
        return _format(node.node)
    if isinstance(node, Text):
        return {"type": "const_string", "value": node.text}
    if isinstance(node, Value) and node.notation == "json":
        return _json(node)
    if isinstance(node, UpTo):
        return _tag("", {"type": "any_text", **_excludes(node.without)}, node.end)
    if isinstance(node, Free):
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
    if isinstance(node, Choice):
        return {"type": "or", "elements": [_format(option) for option in node.options]}
    if isinstance(node, Many):
        return _many(node)
    if isinstance(node, Repeat) and not isinstance(node.item, (Chars, Choice)):
        return _repeat(node)
    return {"type": "grammar", "grammar": gbnf(node)}


def _json(node: Value) -> Format:
    out: Format = {"type": "json_schema", "json_schema": node.schema}
    return {**out, **_excludes(node.without)}


def _excludes(without: tuple[str, ...]) -> Format:
    return {"excludes": list(without)} if without else {}


def _tag(begin: str, content: Format, end: str) -> Format:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _sequence(node: Seq) -> Format:
    elements: list[Format] = []
    for part in node.parts:
        last = elements[-1] if elements else {}
        if isinstance(part, UpTo) and last.get("type") == "const_string":
            elements[-1] = {**_format(part), "begin": last["value"]}
        else:
            elements.append(_format(part))
    if not elements:
        return {"type": "const_string", "value": ""}
    if len(elements) > 1 and elements[0]["type"] == "const_string":
        closed = elements[-1]["type"] == "const_string"
        if closed or (len(elements) == 2 and elements[1]["type"] in ("json_schema", "grammar")):
            return _as_tag(elements)
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def _as_tag(elements: list[Format]) -> Format:
    """What begins with text, as a tag."""
    end = elements[-1]["value"] if elements[-1]["type"] == "const_string" else ""
    inner = elements[1 : len(elements) - bool(end)]
    content = inner[0] if len(inner) == 1 else {"type": "sequence", "elements": inner}
    return _tag(elements[0]["value"], content, end)


def _many(node: Many) -> Format:
    """Calls one after the other."""
    item = _format(node.item)
    tags = [tag if tag["type"] == "tag" else _tag("", tag, "") for tag in item.get("elements", [item])]
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

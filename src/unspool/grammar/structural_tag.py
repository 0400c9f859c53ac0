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
    optional,
    seq,
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
            "type": "triggered_tags",
            "triggers": [node.trigger],
            "tags": [_tag(node.trigger, _format(strip_prefix(node.then, node.trigger)), "")],
            "stop_after_first": True,
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
    parts = node.parts
    if not parts:
        return {"type": "const_string", "value": ""}
    begin = parts[0].text if isinstance(parts[0], Text) else ""
    end = parts[-1].text if isinstance(parts[-1], Text) and len(parts) > 1 else ""
    inner = parts[bool(begin) : len(parts) - bool(end)]
    if begin and len(inner) == 1 and isinstance(inner[0], (Value, Many)) or len(inner) == 1 and begin and end:
        return _tag(begin, _format(inner[0]), end)
    elements: list[Format] = []
    for part in parts:
        last = elements[-1] if elements else {}
        if isinstance(part, UpTo) and last.get("type") == "const_string":
            elements[-1] = {**_format(part), "begin": last["value"]}
        else:
            elements.append(_format(part))
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": elements}


def _many(node: Many) -> Format:
    item = _format(node.item)
    tags = item["elements"] if item["type"] == "or" else [item]
    if all(tag["type"] == "tag" for tag in tags):
        return {
            "type": "tags_with_separator",
            "tags": tags,
            "separator": node.separator,
            "at_least_one": True,
        }
    more = {"type": "star", "content": _format(seq(node.separator, node.item))}
    return {"type": "sequence", "elements": [item, more]}


def _repeat(node: Repeat) -> Format:
    content = _format(node.item)
    if (node.least, node.most) == (0, 1):
        return {"type": "optional", "content": content}
    if node.most is None and node.least < 2:
        return {"type": ("star", "plus")[node.least], "content": content}
    return {"type": "repeat", "min": node.least, "max": -1 if node.most is None else node.most, "content": content}


__all__ = ["optional", "structural_tag"]

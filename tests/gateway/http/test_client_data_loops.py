"""Loops over client data neither decode stored or nested JSON nor copy what they have collected."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from paths import ROOT

GATEWAY: Final = ROOT / "src" / "unspool" / "gateway"
_DECODERS: Final = ("decode", "decoded", "loads")
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_STATEMENTS: Final = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)

REVIEWED: Final = {
    "message += '; use /v1/responses for custom tools'": "the loop ends with this error",
    "data += encoder.feed(choice, events)": "one delta per choice",
    "data += portion": "a bytearray, or the start of an upstream's error",
    "key.decode()": "a header",
    "value.decode('latin-1')": "a header",
    "decoded(row.data)": "stored rows, whose sizes were added to the size of the request",
    "decoded(data)": "each stored item once, after all references to it were counted",
    "msgspec.json.decode(line)": "a message between supervisor and worker",
    "json.loads(payload)": "an event of the quickstart's own request",
    "msgspec.json.decode(payload, type=msgspec.Raw)": "an event of the upstream",
    "payload.decode()": "an event of the upstream",
    "msgspec.json.decode(line, type=ReplayedOutput)": "a recording",
    "msgspec.json.decode(payload)": "a recording",
}
"""Each expression that decodes or concatenates in a loop, and why clients cannot make the work large."""


def find_work_in_loops(code: str) -> Iterator[str]:
    """Yield the expressions in loops that decode, or that build a text from its old value and more."""
    tree = ast.parse(code)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    texts = _names_of_texts(tree)
    for node in ast.walk(tree):
        if _decodes(node) or _copies(node, texts):
            outer: ast.AST = node
            while outer in parents and not isinstance(outer, _FUNCTIONS):
                inner, outer = outer, parents[outer]
                if isinstance(outer, _LOOPS) and inner is not getattr(outer, "iter", None):
                    yield ast.unparse(node)
                    break


def _names_of_texts(tree: ast.AST) -> set[str]:
    """Return the names that are assigned a text somewhere."""
    return {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and (
            isinstance(node.value, ast.JoinedStr)
            or isinstance(getattr(node.value, "value", None), str | bytes)
        )
        for target in node.targets
    }


def _decodes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in _DECODERS


def _copies(node: ast.AST, texts: set[str]) -> bool:
    if not isinstance(node, _STATEMENTS) or node.value is None:
        return False
    target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and target in texts
    joined = isinstance(node.value, ast.JoinedStr) or (
        isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add)
    )
    return joined and any(ast.unparse(part) == target for part in ast.walk(node.value))


def test_loops_over_client_data_are_reviewed() -> None:
    found = {
        code: path for path in GATEWAY.rglob("*.py") for code in find_work_in_loops(path.read_text("utf-8"))
    }
    new = {code: path for code, path in found.items() if code not in REVIEWED}
    assert not new, "count the work before the loop, then add the expression to REVIEWED"
    assert REVIEWED.keys() == found.keys(), "remove what is not in the gateway any more"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("for item in items:\n    out.append(json.loads(item))", ["json.loads(item)"]),
        ("[decoded(row) for row in rows]", ["decoded(row)"]),
        ("text = ''\nfor item in items:\n    text += item", ["text += item"]),
        (
            "for item in items:\n    turn['text'] = f\"{turn['text']}{item}\"",
            ["turn['text'] = f\"{turn['text']}{item}\""],
        ),
        ("for item in items:\n    out = out + [item]", ["out = out + [item]"]),
        ("for item in json.loads(items):\n    out.append(item)", []),
        ("for item in items:\n    size += len(item)", []),
    ],
)
def test_work_in_loops_is_found(code: str, found: list[str]) -> None:
    assert list(find_work_in_loops(code)) == found

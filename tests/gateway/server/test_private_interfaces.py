"""Undocumented parts of uvicorn and aiohttp that the gateway uses exist in the newest allowed release."""

from __future__ import annotations

import ast
import inspect
import tomllib
from importlib.metadata import version

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

import aiohttp
from packaging.requirements import Requirement
from packaging.version import Version
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paths import ROOT
from unspool.gateway.server import connection_limits
from unspool.gateway.upstreams import http_client

EXTRA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENTS = {one.name: one for one in map(Requirement, EXTRA["optional-dependencies"]["gateway"])}
PROTOCOL_METHODS = {
    "connection_made": ["self", "transport"],
    "connection_lost": ["self", "exc"],
    "on_message_begin": ["self"],
    "on_header": ["self", "name", "value"],
    "on_headers_complete": ["self"],
    "on_body": ["self", "body"],
    "on_message_complete": ["self"],
    "on_response_complete": ["self"],
    "timeout_keep_alive_handler": ["self"],
    "_unset_keepalive_if_required": ["self"],
}
"""Methods of uvicorn's protocol that the gateway's protocol calls or overrides, with their parameters."""
PROTOCOL_ATTRIBUTES = {
    "connections",
    "cycle",
    "flow",
    "headers",
    "loop",
    "parser",
    "pipeline",
    "scope",
    "transport",
    "url",
}


@pytest.mark.parametrize("name", ["uvicorn", "aiohttp"])
def test_requirement_allows_no_release_newer_than_the_tested_one(name: str) -> None:
    installed = Version(version(name))
    following = f"{installed.major}.{installed.minor + 1}"
    assert f"<{following}" in str(REQUIREMENTS[name].specifier).split(",")
    assert installed in REQUIREMENTS[name].specifier
    assert following not in REQUIREMENTS[name].specifier


@pytest.mark.parametrize("name", PROTOCOL_METHODS)
def test_uvicorn_protocol_has_its_methods(name: str) -> None:
    parameters = inspect.signature(getattr(HttpToolsProtocol, name)).parameters
    assert list(parameters) == PROTOCOL_METHODS[name]


def test_uvicorn_protocol_has_its_attributes() -> None:
    source = "".join(
        inspect.getsource(getattr(HttpToolsProtocol, name)) for name in ("__init__", "on_message_begin")
    )
    assert [name for name in sorted(PROTOCOL_ATTRIBUTES) if f"self.{name}" not in source] == []
    # No other attribute is used: every attribute of the subclass is its own, or is listed above.
    tree = ast.parse(inspect.getsource(connection_limits.GatewayProtocol))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    own = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    } | vars(connection_limits.GatewayProtocol).keys()
    assert used - own <= PROTOCOL_ATTRIBUTES | PROTOCOL_METHODS.keys()


def test_aiohttp_has_its_private_methods() -> None:
    assert list(inspect.signature(aiohttp.BaseConnector._get).parameters) == ["self", "key", "traces"]
    assert list(inspect.signature(aiohttp.StreamReader._read_nowait).parameters) == ["self", "n"]
    source = inspect.getsource(aiohttp.BaseConnector)
    assert "await self._get(" in source
    # Nothing else in the client is private.
    tree = ast.parse(inspect.getsource(http_client))
    names = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }
    assert names == {"_get", "_read_nowait"}

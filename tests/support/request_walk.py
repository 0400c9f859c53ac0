"""Requests to every API of a gateway with very large fields, and a meter for the work they cause.

The fields come from the gateway's source.  A body with a type has the fields of the type.  For a body that is
read by hand, they are the keys and kinds that appear in the code of its module.  So new fields are tested
without being listed here.

Work is counted, not timed: executed lines of the package, allocated bytes, and the elements and characters
that built-in methods scan.  Everything runs in one thread, so the counts belong to the request, and the
longest step of the event loop can be measured.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import tracemalloc
from asyncio.events import Handle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from inspect import getsource
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

import msgspec
import pytest

import unspool
from unspool.gateway.http.thread_pools import WorkerPool

PACKAGE: Final = str(Path(unspool.__file__).parent)
_SCANS: Final = frozenset(
    name
    for type_ in (str, bytes, bytearray, list)
    for name in dir(type_)
    if not name.startswith(("_", "is", "append", "pop", "clear", "startswith", "endswith", "removeprefix"))
)
"""Methods of built-in types whose cost depends on the length of the object."""

_LARGE: Final = 512
"""Bytes of an allocation that counts; lines account for smaller ones."""
_STRING: Final = 100
"""Characters of a string per element of a list of the same size."""


# -- measurement


@dataclass(frozen=True)
class Work:
    """Amount of work."""

    lines: int = 0
    allocated: int = 0
    scanned: int = 0

    def __sub__(self, other: Work) -> Work:
        return Work(self.lines - other.lines, self.allocated - other.allocated, self.scanned - other.scanned)

    def each(self) -> dict[str, int]:
        return {"lines": self.lines, "bytes allocated": self.allocated, "elements scanned": self.scanned}


class Meter:
    """Meter for the work of one thread."""

    def __init__(self) -> None:
        self.lines = self.allocated = self.scanned = 0
        self.pooled = Work()
        """Part of the work that runs in worker pools."""
        self.longest = Work()
        """Maximum work of each kind in one step of the event loop."""
        self._current = 0

    def now(self) -> Work:
        self._sample()
        return Work(self.lines, self.allocated, self.scanned)

    def _sample(self) -> None:
        current, peak = tracemalloc.get_traced_memory()
        if peak - self._current > _LARGE:
            self.allocated += peak - self._current
        tracemalloc.reset_peak()
        self._current = current

    def _line(self, _: FrameType, event: str, __: object) -> Any:
        if event == "line":
            self.lines += 1
            self._sample()
        return self._line

    def _called(self, frame: FrameType, _: str, __: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in _SCANS and frame.f_code.co_filename.startswith(PACKAGE):
            with suppress(TypeError):
                self.scanned += len(called.__self__)

    def _lane(self, work: Callable[[], Any]) -> Any:
        before = self.now()
        try:
            return work()
        finally:
            spent = self.now() - before
            self.pooled = Work(*(a + b for a, b in zip(_tuple(self.pooled), _tuple(spent), strict=True)))

    def _step(self, run: Callable[[], None]) -> None:
        before, pooled = self.now(), self.pooled
        run()
        spent = self.now() - before - (self.pooled - pooled)
        self.longest = Work(*map(max, _tuple(self.longest), _tuple(spent)))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the work inside the block."""
        meter, handle = self, Handle._run

        async def lane(_: WorkerPool, __: str, work: Any, *args: Any, **more: Any) -> Any:
            return meter._lane(lambda: work(*args, **more))

        async def thread(work: Any, *args: Any, **more: Any) -> Any:
            return meter._lane(lambda: work(*args, **more))

        patch = pytest.MonkeyPatch()
        patch.setattr(WorkerPool, "run", lane)
        patch.setattr(asyncio, "to_thread", thread)
        patch.setattr(Handle, "_run", lambda one: meter._step(lambda: handle(one)))
        tracemalloc.start()
        self._current = tracemalloc.get_traced_memory()[0]
        tracing, profiling = sys.gettrace(), sys.getprofile()
        sys.setprofile(self._profile)
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(tracing)
            sys.setprofile(profiling)
            tracemalloc.stop()
            patch.undo()


def _tuple(work: Work) -> tuple[int, int, int]:
    return work.lines, work.allocated, work.scanned


# -- requests, without sockets


@dataclass(frozen=True)
class Answered:
    """Response, and the work it took."""

    status: int
    body: bytes
    sent: int
    """Size of the request in bytes."""
    work: Work
    longest: Work

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(app: Any, method: str, path: str, body: object = None, *, measure: bool = True) -> Answered:
    """Send a request to an ASGI application, and measure its work."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8765),
        "http_version": "1.1",
        "scheme": "http",
    }
    parts = [data[at : at + (1 << 16)] for at in range(0, len(data), 1 << 16)] or [b""]
    messages = iter(enumerate(parts, 1))
    status = 0
    out: list[bytes] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)  # like a socket, deliver one part at a time
        number, part = next(messages, (0, b""))
        if not number:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": part, "more_body": number < len(parts)}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        out.append(message.get("body", b""))

    meter = Meter()
    if not measure:
        await app(scope, receive, send)
        return Answered(status, b"".join(out), len(data), Work(), Work())
    with meter.running():
        await asyncio.create_task(app(scope, receive, send))
        work = meter.now()
    return Answered(status, b"".join(out), len(data), work, meter.longest)


# -- values of a given size


def small(type_: msgspec.inspect.Type) -> Any:
    """Return the smallest value of a type."""
    match type_:
        case msgspec.inspect.UnionType():
            return small(next(one for one in type_.types if not isinstance(one, msgspec.inspect.NoneType)))
        case msgspec.inspect.Metadata():
            return small(type_.type)
        case msgspec.inspect.StructType():
            fields = {field.encode_name: small(field.type) for field in type_.fields if field.required}
            # The name of a tag is usually also the name of the field that holds its value.
            named = {field.encode_name: field.type for field in type_.fields[1:2]}
            if fields.get("type") == "x" and named:
                fields |= {"type": next(iter(named)), **{name: small(one) for name, one in named.items()}}
            return fields
        case msgspec.inspect.ListType():
            return [small(type_.item_type)] * (type_.min_length or 1)
        case msgspec.inspect.DictType():
            return {}
        case msgspec.inspect.LiteralType():
            return type_.values[0]
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return 1
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.NoneType():
            return None
        case _:
            return "x"


def large(type_: msgspec.inspect.Type, size: int) -> Iterator[tuple[str, Any]]:
    """Yield values of a type with ``size`` elements in one place, each with the path of that place."""
    match type_:
        case msgspec.inspect.UnionType():
            for one in type_.types:
                yield from large(one, size)
        case msgspec.inspect.Metadata():
            yield from large(type_.type, size)
        case msgspec.inspect.StructType():
            base = small(type_)
            for field in type_.fields:
                for place, value in large(field.type, size):
                    yield f".{field.encode_name}{place}", {**base, field.encode_name: value}
        case msgspec.inspect.ListType():
            item = type_.item_type
            yield "[n]", [distinct(small(item), number) for number in range(size)]
            for place, value in large(item, 3):
                yield f"[n]{place}", [distinct(value, number) for number in range(size)]
            for place, value in large(item, size):
                yield f"[0]{place}", [value]
        case msgspec.inspect.DictType() | msgspec.inspect.AnyType():
            yield from anything(size)
        case msgspec.inspect.StrType():
            yield "", "x" * _STRING * size
        case _:
            return


def anything(size: int) -> Iterator[tuple[str, Any]]:
    """Yield large values for a field of any type."""
    part = {"type": "text", "text": "x"}
    yield " string", "x" * _STRING * size
    yield " strings", [f"x{number}" for number in range(size)]
    yield " parts", [dict(part) for _ in range(size)]
    yield " members", {f"x{number}": "x" for number in range(size)}
    deep: Any = part
    for _ in range(min(size, 100)):
        deep = [deep]
    yield " depth", deep


def distinct(value: Any, number: int) -> Any:
    """Return a copy of a value with unique ids and names."""
    if not isinstance(value, dict):
        return value
    return {
        key: f"{one}{number}"
        if isinstance(one, str) and (key.endswith("id") or key == "name")
        else distinct(one, number)
        for key, one in value.items()
    }


# -- kinds and keys in the code that reads untyped objects


@cache
def kinds_of(*modules: ModuleType) -> list[str]:
    """Return the strings that ``match`` statements and comparisons of kinds use in these modules."""
    kinds: dict[str, None] = {}
    for module in modules:
        tree = ast.parse(getsource(module))
        for node in ast.walk(tree):
            if isinstance(node, ast.match_case):
                for inner in ast.walk(node.pattern):
                    if isinstance(inner, ast.MatchValue) and isinstance(inner.value, ast.Constant):
                        kinds[str(inner.value.value)] = None
            if isinstance(node, ast.Compare) and all(
                isinstance(one, ast.In | ast.Eq | ast.NotIn | ast.NotEq) for one in node.ops
            ):
                left = ast.unparse(node.left)
                if left in ("kind", "role") or left.endswith((".get('type')", "['type']", ".type")):
                    for inner in node.comparators:
                        kinds |= dict.fromkeys(_strings(inner, module))
    return list(kinds)


@cache
def keys_of(*modules: ModuleType) -> list[str]:
    """Return the keys with which these modules read objects."""
    keys: dict[str, None] = {}
    for module in modules:
        for node in ast.walk(ast.parse(getsource(module))):
            key: ast.expr | None = None
            if isinstance(node, ast.Subscript):
                key = node.slice
            elif (
                isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".get", ".pop")) and node.args
            ):
                key = node.args[0]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("string_at"):
                key = node.args[1]
            for inner in (key.body, key.orelse) if isinstance(key, ast.IfExp) else (key,):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    keys[inner.value] = None
    return list(keys)


def _strings(node: ast.expr, module: ModuleType) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, ast.Name):
        table = getattr(module, node.id, ())
        if isinstance(table, tuple | list | dict | frozenset):
            yield from (one for one in table if isinstance(one, str))
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for one in node.elts:
            yield from _strings(one.value if isinstance(one, ast.Starred) else one, module)

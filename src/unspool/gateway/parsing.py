"""``/v1/parse``: an output in, its message and events out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

import msgspec

from .._core.ends.parser import Parser
from .._core.values.errors import MalformedOutput, UnspoolError
from .._core.values.events import Event
from .._core.values.policies import Policies
from .._core.words.dialect import Dialect
from .._models.detect import detect
from ..wire import ChatStream
from .body import checked
from .failure import invalid
from .model import Model, find_dialect


class ParseBody(msgspec.Struct):
    """What is to be parsed."""

    text: str | None = None
    chunks: list[str] | None = None
    """The pieces that the text came in."""
    dialect: str = "auto"
    """auto: told by ``chat_template``, else that of the gateway's model."""
    chat_template: str | None = None
    tools: list[dict[str, Any]] | None = None
    prompt: str | None = None
    policies: dict[str, str] | None = None
    strict: bool = False
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None = None


def parse_body(body: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """The answer to a request to parse."""
    shape = checked(body, ParseBody)
    if (shape.text is None) == (shape.chunks is None):
        raise invalid("give either text or chunks", "text")
    dialect, evidence = _dialect(shape, model)
    chunks = [shape.text] if shape.text is not None else shape.chunks or []
    try:
        parser = Parser(
            dialect,
            tools=shape.tools,
            prompt=shape.prompt,
            policies=Policies.chosen(shape.policies) if shape.policies else None,
            strict=shape.strict,
        )
    except UnspoolError as error:
        told = str(error)
        named = [name for name in ("tools", "prompt", "policies", "strict") if name in told]
        raise invalid(told, named[0] if named else "policies") from error
    fold = parser.fold()
    listed: list[dict[str, Any]] = []
    try:
        for number, chunk in enumerate(chunks):
            events = parser.feed(chunk)
            fold.push(events)
            listed += [_event(event, number) for event in events]
        events = parser.finish(shape.finish_reason)
        fold.push(events)
        listed += [_event(event, len(chunks)) for event in events]
        message = fold.message()
    except MalformedOutput as error:
        raise invalid(str(error), "text", error.kind) from error
    return {
        "dialect": parser.dialect.name,
        "evidence": evidence,
        "message": ChatStream(parser).message(message),
        "finish_reason": message.finish_reason,
        "parts": [{"kind": type(part).__name__, **asdict(part)} for part in message.parts],
        "problems": [asdict(problem) for problem in message.problems],
        "events": listed,
    }


def _dialect(shape: ParseBody, model: Model) -> tuple[str | Dialect, list[str]]:
    if shape.dialect != "auto":
        return find_dialect(shape.dialect), [f"The request names {shape.dialect}."]
    if shape.chat_template is None:
        return find_dialect(model.dialect) if isinstance(model.dialect, str) else model.dialect, [
            f"This gateway's model, {model.name}, writes it."
        ]
    try:
        found = detect({"chat_template": shape.chat_template})
    except UnspoolError as error:
        raise invalid(str(error), "chat_template") from error
    if found.dialect is None:
        raise invalid(f"the template does not tell the dialect: {found.evidence[0]}", "chat_template")
    return found.dialect, list(found.evidence)


def _event(event: Event, chunk: int) -> dict[str, Any]:
    own: tuple[str, ...] = getattr(event, "__match_args__", ())
    fields = {name: getattr(event, name) for name in (*own, "start", "end")}
    return {"event": type(event).__name__, **fields, "chunk": chunk}

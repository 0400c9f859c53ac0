"""A note as JSON: in a line, and whole, with its raw text read once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ...errors import MalformedOutput, UnspoolError
from ...policies import Policies
from ...wire import ChatStream
from ..generation.reader import Reader
from ..http.errors import Failure
from ..http.json_decoding import VALUES
from ..upstreams.base import Delta
from .request_log import Raw, RequestRecord

if TYPE_CHECKING:
    from ...message import Message
    from ...planning import Plan

_DEFAULTS: Final = Policies()


def line(note: RequestRecord) -> dict[str, Any]:
    """A request in a line."""
    return {
        "id": note.id,
        "at": note.at,
        "path": note.path,
        "api": note.api,
        "model": note.model,
        "dialect": "" if note.plan is None else note.plan.dialect.name,
        "stream": note.stream,
        "running": note.ended is None,
        "status": note.status,
        "error": note.error,
        "code": note.code,
        "gone": note.gone,
        "first": _since(note.first, note),
        "seconds": _since(note.ended, note),
        "deltas": note.deltas,
        "characters": sum(len(raw.text()) for raw in note.raws.values()),
        "tools": note.many_tools,
    }


def _since(moment: float | None, note: RequestRecord) -> float | None:
    return None if moment is None else round(moment - note.began, 4)


def whole(note: RequestRecord) -> dict[str, Any]:
    """All that is kept of a request; a request that goes on has no message yet."""
    tools: Any = [] if note.tools is None else VALUES.decode(note.tools)
    missing = bool(note.many_tools) and note.tools is None and note.plan is not None
    plan = None if note.plan is None or missing else note.plan.with_tools(tools)
    return {
        **line(note),
        "choices": [
            {"index": index, **_choice(raw, plan if note.ended is not None else None, ids=note.reads_ids)}
            for index, raw in sorted(note.raws.items())
        ],
        "cut": note.cut,
        "offered": tools,
        "left_out": list(_left_out(note)),
        "plan": None if note.plan is None else planned(note),
    }


def planned(note: RequestRecord) -> dict[str, Any]:
    """What was decided about a request, why, and what the upstream was told of it."""
    plan = note.plan
    assert plan is not None  # noqa: S101 - the caller has looked
    return {
        "dialect": plan.dialect.name,
        "reads": plan.reads.name,
        "why": dict(plan.why),
        "warnings": list(plan.warnings),
        "settings": {
            "skip_special_tokens": plan.skip_special_tokens,
            "reasoning": plan.reasoning,
            "start": plan.start,
            "tool_output": plan.tool_output,
            "constraint": plan.constraint.kind,
            "eos": list(plan.eos),
            "strip": plan.strip,
        },
        "policies": {
            name: chosen
            for name, chosen in asdict(note.policies).items()
            if chosen != getattr(_DEFAULTS, name)
        },
        "told": note.told,
        "prompt": note.prompt,
        "prompt_length": note.prompt_length,
    }


def _choice(raw: Raw, plan: Plan | None, *, ids: bool) -> dict[str, Any]:
    """What the upstream wrote, and what it was read as."""
    told = {"raw": raw.text(), "apart": [_apart(piece) for piece in raw.all() if isinstance(piece, Delta)]}
    if plan is None:
        return told
    try:
        reader, message = read(raw, plan, ids=ids)
        return {
            **told,
            "message": ChatStream(reader.planned).message(message),
            "finish_reason": message.finish_reason,
            "diagnostics": [diagnostic.to_dict() for diagnostic in message.diagnostics],
        }
    except (Failure, MalformedOutput, UnspoolError) as error:
        return {**told, "unread": str(error)}


def read(raw: Raw, plan: Plan, *, ids: bool) -> tuple[Reader, Message]:
    """The message of what the upstream wrote."""
    reader = Reader(plan, ids=ids)
    fold = reader.planned.fold()
    for delta in _deltas(raw, ids=ids):
        fold.push(reader.feed(delta))
    if raw.finish is None:  # the upstream was lost, or nobody wanted to hear the rest
        fold.push(reader.parser.finish())
    return reader, fold.message()


def _deltas(raw: Raw, *, ids: bool) -> Iterator[Delta]:
    """The pieces as deltas again."""
    if ids and raw.ids:
        yield Delta(0, raw.text(), token_ids=list(raw.ids))
    else:
        for piece in raw.all():
            yield Delta(0, piece) if isinstance(piece, str) else piece
    if raw.finish is not None:
        yield Delta(0, "", finish=raw.finish, stopped_by=raw.stopped_by)


def _apart(piece: Delta) -> dict[str, Any]:
    """What the upstream has told apart by itself."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in piece.calls]
    return {"reasoning": piece.reasoning, "calls": calls}


def _left_out(note: RequestRecord) -> Iterator[str]:
    """What is not kept, and why."""
    if note.cut:
        yield "The output is longer than what is kept of it: this is its beginning."
    if note.large:
        yield "The request is too large for its prompt and its tools to be kept."
    elif note.many_tools and note.tools is None:
        yield "The tools are too large to be kept, and without them the output cannot be read again."
    if note.prompt is not None and note.prompt_length > len(note.prompt):
        yield f"The prompt has {note.prompt_length:,} characters: this is its end."

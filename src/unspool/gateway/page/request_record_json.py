"""Conversion of request records to JSON: short summaries, and complete records with parsed output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from ...errors import MalformedOutput, UnspoolError
from ...message import Message
from ...planning import Plan
from ...policies import Policies
from ...wire import Delta
from ..generation.planned_choice_reader import Reader
from ..http.failure import Failure
from ..http.json_decoding import VALUES
from .request_log import RawOutput, RequestRecord

_DEFAULT_POLICIES: Final = Policies()


def summarize(record: RequestRecord) -> dict[str, Any]:
    """Return the summary of a record for the page's list of requests."""
    return {
        "id": record.id,
        "at": record.time,
        "path": record.path,
        "api": record.api,
        "model": record.model,
        "dialect": "" if record.plan is None else record.plan.dialect.name,
        "stream": record.stream,
        "running": record.finished_at is None,
        "status": record.status,
        "error": record.error,
        "code": record.code,
        "gone": record.disconnected,
        "first": _seconds_until(record.first_delta_at, record),
        "seconds": _seconds_until(record.finished_at, record),
        "deltas": record.deltas,
        "characters": sum(len(output.text()) for output in record.outputs.values()),
        "tools": record.tool_count,
    }


def _seconds_until(moment: float | None, record: RequestRecord) -> float | None:
    return None if moment is None else round(moment - record.started_at, 4)


def record_to_dict(record: RequestRecord) -> dict[str, Any]:
    """Return a complete record as a dictionary; a running request has no message yet."""
    tools: Any = [] if record.tools is None else VALUES.decode(record.tools)
    lacks_tools = bool(record.tool_count) and record.tools is None and record.plan is not None
    plan = None
    if record.plan is not None and not lacks_tools and record.finished_at is not None:
        plan = record.plan.with_tools(tools)
    return {
        **summarize(record),
        "choices": [
            {"index": index, **_choice_to_dict(output, plan, reads_ids=record.reads_ids)}
            for index, output in sorted(record.outputs.items())
        ],
        "cut": record.truncated,
        "offered": tools,
        "left_out": list(_omissions(record)),
        "plan": None if record.plan is None else plan_to_dict(record),
    }


def plan_to_dict(record: RequestRecord) -> dict[str, Any]:
    """Return a request's plan, the reasons for the plan, and the body that was sent to the upstream."""
    plan = record.plan
    assert plan is not None  # noqa: S101 - the callers have looked
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
            name: value
            for name, value in asdict(record.policies).items()
            if value != getattr(_DEFAULT_POLICIES, name)
        },
        "told": record.upstream_body,
        "prompt": record.prompt,
        "prompt_length": record.prompt_length,
    }


def _choice_to_dict(output: RawOutput, plan: Plan | None, *, reads_ids: bool) -> dict[str, Any]:
    """Return the raw output of a choice and, if there is a plan, the message parsed from it."""
    raw = {
        "raw": output.text(),
        "apart": [_parsed_by_upstream(piece) for piece in output.pieces() if isinstance(piece, Delta)],
    }
    if plan is None:
        return raw
    try:
        _, message = parse_again(output, plan, reads_ids=reads_ids)
        return {
            **raw,
            "message": message.to_chat(broken="poison"),
            "finish_reason": message.finish_reason,
            "diagnostics": [diagnostic.to_dict() for diagnostic in message.diagnostics],
        }
    except (Failure, MalformedOutput, UnspoolError) as error:
        return {**raw, "unread": str(error)}


def parse_again(output: RawOutput, plan: Plan, *, reads_ids: bool) -> tuple[Reader, Message]:
    """Parse the raw output of a choice again; return the reader and the message."""
    reader = Reader(plan, ids=reads_ids)
    builder = reader.planned.fold()
    for delta in _deltas(output, reads_ids=reads_ids):
        builder.feed(reader.feed(delta))
    if output.finish is None:  # the connection to the upstream was lost, or the client disconnected
        builder.feed(reader.parser.finish())
    return reader, builder.message


def _deltas(output: RawOutput, *, reads_ids: bool) -> Iterator[Delta]:
    """Yield the raw output of a choice as deltas, as the upstream sent them."""
    if reads_ids and output.ids:
        yield Delta(0, output.text(), token_ids=list(output.ids))
    else:
        for piece in output.pieces():
            yield Delta(0, piece) if isinstance(piece, str) else piece
    if output.finish is not None:
        yield Delta(0, "", finish=output.finish, stopped_by=output.stopped_by)


def _parsed_by_upstream(piece: Delta) -> dict[str, Any]:
    """Return the reasoning and the tool calls that the upstream parsed itself."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in piece.calls]
    return {"reasoning": piece.reasoning, "calls": calls}


def _omissions(record: RequestRecord) -> Iterator[str]:
    """Yield a sentence for each part of the request that is missing from the record."""
    if record.truncated:
        yield "The output is too long to be stored; this is its beginning."
    if record.large:
        yield "The request is so large that its prompt and its tools are not stored."
    elif record.tool_count and record.tools is None:
        yield "The tools are too large to be stored, and without them the output cannot be parsed again."
    if record.prompt is not None and record.prompt_length > len(record.prompt):
        yield f"The prompt has {record.prompt_length:,} characters; only its end is stored."

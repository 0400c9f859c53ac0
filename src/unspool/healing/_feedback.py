"""Messages that tell a model which of its calls could not be run, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias, get_args

from .._core.schema.mismatch import find_mismatches
from .._core.schema.tools import Tools, as_tools
from ..dialects import Dialect, find
from ..errors import ArgumentsError, UsageError
from ..events import Diagnostic
from ..message import BrokenCall, Message, Part, TextPart, ToolCall
from ..parser import Parser, ToolList
from ..templates import MALFORMED_KEY
from ._neutralise import neutralise

Api: TypeAlias = Literal["chat", "messages", "responses"]

MAX_QUOTED: Final = 2000
"""Maximum number of characters that the messages quote from all calls of the output in total."""
_EXCERPT: Final = 80
"""Maximum number of characters to quote before an error."""
_NOT_RUN: Final = "This call was not run, because another call has an error. Repeat this call, too."
"""Result for a call that has no error."""
_MAX_NAMES: Final = 20
"""Maximum number of tool names in a message."""
_FAULTS: Final = ("malformed_call", "truncated_call", "cut_head", "unknown_tool")
"""Kinds of diagnostics about calls that the message may not contain; such calls cannot have a result."""


def feedback(
    message: Message, dialect: str | Dialect, tools: ToolList | None, *, api: Api = "chat"
) -> list[dict[str, Any]]:
    """Return the messages to append to a conversation, so that the model corrects its calls.

    The first message is the failed turn.  The next messages are the results of the calls or, if the turn
    contains no calls, a user message.  Each result says what is wrong: a syntax error (with its position), a
    tool that does not exist (with similar names), or an argument that does not fit the schema.  The list is
    empty if all calls can be run.

    All APIs require arguments to be an object, so the arguments of a broken call become an object with their
    text under the key ``malformed_arguments``.  At most 2,000 characters of the broken calls are quoted.
    Neither the quotations nor the text of the turn contain control tokens or markers of the dialect; the
    arguments of complete calls stay as they are.

    :param message: the model's output, from ``parse``, ``Message.from_chat`` or a similar method.
    :param dialect: the dialect of the model.
    :param tools: the tools of the request; None if they are not known.
    :param api: the API of the conversation: ``chat``, ``messages`` or ``responses``.

    >>> from unspool import parse
    >>> tools = [{"name": "get_weather", "parameters": {}}]
    >>> text = '<tool_call>{"name": "get_wether", "arguments": {}}</tool_call>'
    >>> turn, result = feedback(parse(text, "hermes"), "hermes", tools)
    >>> print(result["content"])
    There is no tool named "get_wether". Did you mean "get_weather"?
    """
    if api not in get_args(Api):
        raise UsageError(f"api={api!r}: choose one of {', '.join(get_args(Api))}")
    writer = _Writer(message, find(dialect), as_tools(tools))
    if not writer.has_faults:
        return []
    turn = Message(parts=writer.turn())
    results = writer.results()
    if api == "responses":
        return _as_items(turn, results, writer.general)
    if api == "messages":
        return _as_blocks(turn, results, writer.general)
    out: list[dict[str, Any]] = [turn.to_chat()] if turn.parts else []
    out += [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results]
    return out if results else [*out, {"role": "user", "content": writer.general}]


def _as_blocks(turn: Message, results: list[tuple[str, str]], general: str) -> list[dict[str, Any]]:
    blocks = [
        {"type": "tool_result", "tool_use_id": id, "is_error": True, "content": text} for id, text in results
    ]
    content = turn.to_messages()
    out: list[dict[str, Any]] = [{"role": "assistant", "content": content}] if content else []
    return [*out, {"role": "user", "content": blocks or [{"type": "text", "text": general}]}]


def _as_items(turn: Message, results: list[tuple[str, str]], general: str) -> list[dict[str, Any]]:
    items = turn.to_responses()
    items += [{"type": "function_call_output", "call_id": id, "output": text} for id, text in results]
    if results:
        return items
    content = [{"type": "input_text", "text": general}]
    return [*items, {"type": "message", "role": "user", "content": content}]


class _Writer:
    """Writer of the turn and the results for one message."""

    def __init__(self, message: Message, dialect: Dialect, tools: Tools) -> None:
        self._message = message
        self._dialect = dialect
        self._tools = tools
        self._calls = [part for part in message.parts if not isinstance(part, TextPart)]
        self._broken = [call for call in self._calls if _is_broken(call)]
        unannounced = list(self._unannounced())
        # Split the limit on quoted text evenly: half for arguments in the turn, half for excerpts in the
        # results.
        self._share = MAX_QUOTED // 2 // max(1, len(self._broken) + len(unannounced))
        self._faults = [self._fault(call) for call in self._calls]
        self.general = self._plain(" ".join([self._describe(each) for each in unannounced]))
        """Description of the faults that do not belong to any call of the turn; empty if there are no such
        faults."""

    @property
    def has_faults(self) -> bool:
        """True if the model must correct anything."""
        return any(self._faults) or bool(self.general)

    def turn(self) -> list[Part]:
        """Return the parts of the failed turn, in a form that every API accepts."""
        return [self._sendable(part) for part in self._message.parts]

    def results(self) -> list[tuple[str, str]]:
        """Return the id and the result of each call."""
        results = []
        for call, fault in zip(self._calls, self._faults, strict=True):
            results.append((call.id, self._plain(fault) or _NOT_RUN))
        if results and self.general:
            results[-1] = (results[-1][0], f"{results[-1][1]} {self.general}")
        return results

    def _plain(self, text: str) -> str:
        return neutralise(text, self._dialect)

    def _sendable(self, part: Part) -> Part:
        if isinstance(part, TextPart):
            return TextPart(part.channel, self._plain(part.text))
        name = self._plain(part.name)
        if not _is_broken(part):
            return ToolCall(part.id, name, part.arguments or "{}")
        text = self._plain(part.arguments[: self._share])[: self._share]
        return ToolCall(part.id, name, json.dumps({MALFORMED_KEY: self._plain(text)}, ensure_ascii=False))

    def _fault(self, call: ToolCall | BrokenCall) -> str:
        """Return the description of a call's fault; empty if the call can be run."""
        if self._tools.known and not self._tools.declares(call.name):
            return self._unknown(call.name)
        if isinstance(call, BrokenCall):
            return self._syntax(call.name, call.status, call.raw, call.arguments)
        try:
            call.args  # noqa: B018 - raises an error for arguments that cannot be read
        except ArgumentsError:
            return self._syntax(call.name, "malformed", "", call.arguments)
        mismatches = list(find_mismatches(self._tools, call.name, call.arguments))
        if not mismatches:
            return ""
        what = f"The arguments of {_quoted(call.name)} do not fit its schema."
        return f"{what} {_sentences(mismatches)} Write the call again with corrected arguments."

    def _unknown(self, name: str) -> str:
        names = list(self._tools.names)
        missing = f"There is no tool named {_quoted(name[:_EXCERPT])}."
        if not names:
            return f"{missing} There are no tools; answer in text."
        close = get_close_matches(name, names, n=3)
        if close:
            return f"{missing} Did you mean {_listed(close, 'or')}?"
        more = " and others" if len(names) > _MAX_NAMES else ""
        known = _listed(names[:_MAX_NAMES], "and")
        return f"{missing} The tools are {known}{more}."

    def _syntax(self, name: str, status: str, raw: str, arguments: str) -> str:
        """Describe a syntax error and its position."""
        call = f"The call of {_quoted(name[:_EXCERPT])}"
        if status == "truncated":
            return (
                f"{call} is incomplete, because the output ended after {self._end_of(raw or arguments)}. "
                "Write the whole call again; if it is long, make its arguments shorter or use several calls."
            )
        detail, at, text = self._locate(raw, arguments)
        place = ""
        if at:
            within = "call" if raw else "arguments"
            place = f" at character {at} of the {within}, after {self._end_of(text[:at])}"
        return f"{call} is malformed: {detail}{place}. Write the whole call again, without this error."

    def _end_of(self, text: str) -> str:
        """Return the last characters of a text, quoted."""
        length = min(_EXCERPT, self._share)
        return _quoted(self._plain(text[-length:])[-length:])

    def _locate(self, raw: str, arguments: str) -> tuple[str, int, str]:
        """Return an error's description, the error's offset, and the text that contains the error."""
        if raw:
            # The diagnostics of a message do not contain the place of the error, so parse the call again.
            parser = Parser(self._dialect, tools=self._tools)
            for event in parser.feed(raw) + parser.finish():
                if isinstance(event, Diagnostic) and event.kind == "malformed_call":
                    return event.detail, event.start, raw
            kept = (each.detail for each in self._message.diagnostics if each.raw == raw)
            return next(kept, "the syntax is wrong"), 0, raw
        try:
            json.loads(arguments)
        except json.JSONDecodeError as error:
            return error.msg[:1].lower() + error.msg[1:], error.pos, arguments
        except (ValueError, RecursionError):
            return "the arguments are not valid JSON", 0, arguments
        return "the arguments are not an object", 0, arguments

    def _unannounced(self) -> Iterable[Diagnostic]:
        """Yield the diagnostics of calls that the message does not contain."""
        raws = {call.raw for call in self._calls if isinstance(call, BrokenCall)}
        names = {call.name for call in self._calls}
        for each in self._message.diagnostics:
            announced = each.detail in names if each.kind == "unknown_tool" else each.raw in raws
            if each.kind in _FAULTS and not announced:
                yield each

    def _describe(self, fault: Diagnostic) -> str:
        if fault.kind == "unknown_tool":
            return self._unknown(fault.detail)
        quote = _quoted(self._plain(fault.raw[: self._share])[: self._share])
        if fault.kind == "malformed_call":
            fault_text = f"A tool call is malformed: {fault.detail}. It begins with {quote}."
        else:
            fault_text = f"The output ended inside a tool call that begins with {quote}."
        return f"{fault_text} Write the whole call again."


def _is_broken(call: ToolCall | BrokenCall) -> bool:
    """Return whether a call's arguments are not an object."""
    if isinstance(call, BrokenCall):
        return True
    try:
        call.args  # noqa: B018 - raises an error for arguments that cannot be read
    except ArgumentsError:
        return True
    return False


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _listed(names: list[str], last: str) -> str:
    """Return names as text: ``"a", "b" or "c"``."""
    quoted = [_quoted(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def _sentences(texts: list[str]) -> str:
    return " ".join([f"{text[:1].upper()}{text[1:]}." for text in texts])

"""Conversion of a message to the text that a model would write.

The text is made from the dialect's templates.  If there are several templates for the same part, such as a
call, the first one is used, because it is the form that the model itself writes.  The text is then parsed as
a check.  If ``parse(render(message, dialect), dialect)`` does not return the same message, ``render`` raises
an error.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...dialects._registry import find
from ...dialects.parse_templates import (
    Attributes,
    Placeholder,
    parse_template,
    placeholders,
    split_at,
    template_text,
)
from ...errors import UsageError
from ...message import BrokenCall, Message, Part, TextPart, ToolCall
from ..arguments.json_value import array_items, json_kind, object_members
from .arguments import encode_arguments, python_literal
from .round_trip import difference

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect, Frame, Route
    from ...parser import ToolList

# Map from the first character of a JSON value to an index into ``Habits.type_words``.  A value that begins
# with any other character is a number.
_TYPES = {'"': 0, "t": 2, "f": 2, "n": 3, "[": 4, "{": 5}


def render(message: Message, dialect: str | Dialect, *, check: bool = True) -> str:
    r"""Return the text that the model would have written for this message.

    The text is parsed as a check.  If the result differs from the message, a ``UsageError`` describes the
    part that changed.  Such a part may be prose that contains a marker, or text before a call in a dialect
    whose calls must come first.

    >>> render(Message(tool_calls=[ToolCall(name="now")]), "hermes")
    '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'

    :param message: the message; of a message in the format of an API, ``Message.from_chat(message)`` or one
        of its siblings.
    :param check: whether to check the text.  If False, parsing the text may return a different message.
    """
    if isinstance(dialect, (Message, Mapping)):
        raise UsageError("the arguments are swapped: call render(message, dialect)")
    check_message(message)
    spec = find(dialect)
    text, wrong = render_checked(spec, message, prove=check)
    if wrong:
        raise UsageError(
            f"dialect {spec.name!r} cannot express this message: when the text is parsed again, {wrong}; "
            "pass check=False to render it anyway"
        )
    return text


def render_checked(
    spec: Dialect, message: Message, *, prove: bool, tools: ToolList | None = None
) -> tuple[str, str]:
    """Return a message's text, and a description of the first part that changes when the text is parsed.

    The description is an empty string if no part changes.

    :param prove: whether to check the text by parsing it.
    :param tools: tools for this check; None: tools that are generated from the calls of the message.
    """
    parts = message.parts
    writer = _FrameWriter(spec, spec.frame) if spec.frame is not None else _Writer(spec)
    text = writer.write(parts)
    if not prove:
        return text, ""
    # By default the parser turns a malformed call into text, so the check expects this text instead of the
    # call.
    read = [TextPart(part.channel, part.text) if isinstance(part, BrokenCall) else part for part in parts]
    return text, difference(spec, text, read, writer.ids, tools)


def check_message(message: object) -> None:
    """Raise ``UsageError`` if this is no ``Message``, with the function that makes one of it."""
    if isinstance(message, Message):
        return
    advice = ""
    if isinstance(message, Mapping) or hasattr(message, "model_dump"):
        made = "message" if isinstance(message, Mapping) else "message.model_dump()"
        advice = f": for an assistant message of Chat Completions, pass Message.from_chat({made})"
    elif isinstance(message, (list, tuple)):
        advice = ": pass one assistant message; Message.from_messages() and from_responses() take lists"
    elif isinstance(message, str):
        advice = ": to render text, pass Message(text)"
    raise UsageError(f"render() takes a Message, got {type(message).__name__}{advice}")


class _Writer:
    """Writer of messages in a dialect without headers: calls are in sections, and text is in wrappers."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.out: list[str] = []
        self.index = 0
        self.follows_content = False
        """True if the last part was content without a wrapper."""
        self.ids: set[str] = set()
        """Call ids that the text contains."""

    def write(self, parts: Sequence[Part]) -> str:
        at = 0
        while at < len(parts):
            part = parts[at]
            if isinstance(part, ToolCall):
                end_of_run = at
                while end_of_run < len(parts) and isinstance(parts[end_of_run], ToolCall):
                    end_of_run += 1
                self.calls([part for part in parts[at:end_of_run] if isinstance(part, ToolCall)])
                at = end_of_run
                continue
            if isinstance(part, TextPart):
                self.text(part)
            else:
                self.out.append(part.text)
            at += 1
        return "".join(self.out).removeprefix(self.dialect.habits.echo)

    def text(self, part: TextPart) -> None:
        wrappers = self.dialect.reasoning if part.channel == "reasoning" else self.dialect.content
        if wrappers:
            before, _, after = split_at(parse_template(wrappers[0]), "text")
            opening = "".join(piece.text for piece in before if not isinstance(piece, Placeholder))
            if part.channel == "reasoning" and self.follows_content and not self.out[-1].endswith("\n"):
                # After content, an opening marker is recognised only at the beginning of a line.
                opening = f"\n{opening}"
            self.out += [opening, part.text, "".join(piece.text for piece in after)]
        elif part.channel == "reasoning":
            raise UsageError(f"dialect {self.dialect.name!r} cannot express reasoning: leave it out")
        else:
            self.out.append(part.text)
        self.follows_content = part.channel == "content" and bool(part.text) and not wrappers

    def calls(self, calls: Sequence[ToolCall]) -> None:
        before, _, after = split_at(parse_template(self.dialect.section[0]), "calls")
        opening = "".join(piece.text for piece in before)
        writing = self.dialect.writing
        last = self.out[-1] if self.out else ""
        if last and not last[-1:].isspace():
            self.out.append(writing.before_calls)
        closing = "".join(piece.text for piece in after)
        separator = writing.between_calls
        if writing.section_per_call:
            separator = closing + separator + opening
        self.out += [opening, separator.join(self.call(call) for call in calls), closing]
        self.follows_content = False

    def call(self, call: ToolCall) -> str:
        dialect = self.dialect
        if not dialect.call:
            raise UsageError(f"dialect {dialect.name!r} cannot express tool calls")
        number = self.index + dialect.habits.first_index
        fields = {"name": self.name(call), "id": call.id, "index": str(number), "_": ""}
        template = dialect.call[0]
        _, payload, _ = split_at(parse_template(template), "args", "envelope", "params", "code")
        if payload is not None:
            fields[payload.field] = self.payload(payload, call)
        self.index += 1
        return self.fill(template, fields)

    def name(self, call: ToolCall) -> str:
        form = self.dialect.names.forms[0]
        if form.count("{name}") > 1:  # templates that repeat the name are only for parsing
            return call.name
        return form.replace("{index}", str(self.index)).replace("{name}", call.name)

    def payload(self, placeholder: Placeholder, call: ToolCall) -> str:
        dialect = self.dialect
        arguments = call.arguments.strip() or "{}"
        if placeholder.field == "params":
            return "".join(self.param(key, value) for key, value in _members(call))
        notation = "code" if placeholder.field == "code" else placeholder.notation or dialect.args
        if placeholder.field == "envelope":
            keys = dialect.envelope
            if keys.keyed:
                members = {call.name: arguments}
            else:
                values = {
                    "name": (keys.name_keys[0], json.dumps(call.name, ensure_ascii=False)),
                    "args": (keys.args_keys[0], arguments),
                    "id": (keys.id_keys[0], json.dumps(call.id, ensure_ascii=False)),
                }
                members = dict(values[part] for part in keys.order)
                if "id" in keys.order:
                    self.ids.add(call.id)
            text = ", ".join(
                f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in members.items()
            )
            return python_literal("{" + text + "}") if notation == "python" else "{" + text + "}"
        return encode_arguments(notation, arguments, dialect)

    def param(self, key: str, value: str, template: str = "") -> str:
        is_string = value.startswith('"')
        body = json.loads(value) if is_string else value
        if self.dialect.habits.nested:
            body = self.nested(value, body)
        fields = {
            "key": key,
            "value": body,
            "string": "true" if is_string else "false",
            "type": self.dialect.habits.type_words[_TYPES.get(value[0], 1)],
        }
        return self.fill(template or self.dialect.param[0], fields)

    def nested(self, value: str, body: str) -> str:
        """Return the text for a value: parameters for an object or array, and ``body`` for a scalar."""
        members = object_members(value)
        if members is not None:
            return "".join(self.param(key, member) for key, member in members)
        items = array_items(value)
        if items is None:
            return body
        unnamed = [template for template in self.dialect.param if "key" not in placeholders(template)]
        key = self.dialect.habits.list_key
        if items and not (key or unnamed):
            raise UsageError(
                f"dialect {self.dialect.name!r} cannot express an array in a parameter: declare "
                "habits=Habits(nested=True, list_key=...), or a param template without {key}"
            )
        return "".join(self.param(key, item, "" if key else unnamed[0]) for item in items)

    def fill(self, template: str, fields: dict[str, str]) -> str:
        out: list[str] = []
        for piece in parse_template(template):
            if isinstance(piece, Placeholder):
                out.append(self.field(fields, piece.field))
            elif isinstance(piece, Attributes):
                for attribute, field in piece.fields.items():
                    value = self.field(fields, field)
                    out.append(
                        f' {attribute}="{html.escape(value) if self.dialect.habits.unescape else value}"'
                    )
            else:
                out.append(piece.text)
        return "".join(out)

    def field(self, fields: dict[str, str], name: str) -> str:
        if name == "id":
            self.ids.add(fields[name])
        return fields[name]


class _FrameWriter(_Writer):
    """Writer of messages in a dialect with headers: each part becomes a message with its own header."""

    def __init__(self, dialect: Dialect, frame: Frame) -> None:
        super().__init__(dialect)
        self.frame = frame
        self.end = frame.ends[0] if frame.ends else ""

    def write(self, parts: Sequence[Part]) -> str:
        for part in parts:
            if isinstance(part, ToolCall):
                self.framed_call(part)
            elif isinstance(part, BrokenCall):
                self.out.append(part.text)
            else:
                self.message(self.route(part.channel), {}, part.text, self.end)
        text = "".join(self.out)
        return text.removeprefix(self.dialect.prompt.start)

    def framed_call(self, call: ToolCall) -> None:
        route = self.route("{args}", "{params}", "{calls}")
        number = self.index + self.dialect.habits.first_index
        fields = {"name": call.name, "id": call.id, "index": str(number)}
        if route.into == "{calls}":
            before, _, after = split_at(parse_template(self.dialect.section[0]), "calls")
            body = "".join(
                [*(piece.text for piece in before), self.call(call), *(piece.text for piece in after)]
            )
        else:
            body = self.payload(Placeholder(route.into.strip("{}"), ""), call)
            self.index += 1
        self.message(route, fields, body, self.dialect.habits.call_end or self.end)

    def message(self, route: Route, fields: dict[str, str], body: str, end: str) -> None:
        header = self.fill(route.header, fields)
        self.out += [template_text(self.frame.open[0]), header, self.frame.sep, body, end]

    def route(self, *into: str) -> Route:
        for route in self.frame.routes:
            if route.into in into and route.header:
                return route
        part = "tool calls" if into[0].startswith("{") else into[0]
        raise UsageError(f"dialect {self.dialect.name!r} cannot express {part}")


def _members(call: ToolCall) -> list[tuple[str, str]]:
    """Return the arguments of a call as pairs of a key and the JSON text of its value."""
    members = object_members(call.arguments.strip() or "{}")
    if members is None:
        kind = json_kind(call.arguments)
        found = "not JSON" if not kind else f"a JSON value that begins with {kind}"
        raise UsageError(
            f"arguments of {call.name!r} must be a JSON object to be written as parameters, got {found}"
        )
    return members

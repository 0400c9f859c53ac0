"""Property test that parsing a rendered message returns the message, with a strategy for such messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NoReturn

from .._core.render.message import render
from ..dialects import CONTROL_TOKEN, Dialect, find
from ..dialects.parse_templates import (
    PAYLOADS,
    Attributes,
    Placeholder,
    literals,
    only_at_start,
    parse_template,
    split_at,
)
from ..errors import UsageError
from ..message import Message, ToolCall
from ..parser import parse
from ..policies import Policies

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
from ._parser_runs import ModelOutput, ParseRun, ToolList, markers


@dataclass(frozen=True, slots=True)
class SampleMessage:
    """Message that a dialect can express, and tools that declare the functions that the message calls."""

    message: Message
    tools: tuple[dict[str, Any], ...]


def assert_round_trip(
    dialect: str | Dialect, sample: SampleMessage | Message, tools: ToolList | None = None
) -> str:
    """Assert that ``parse(render(message))`` returns the message without diagnostics; return the rendering.

    If the dialect writes arguments as JSON, their text must be unchanged. Otherwise only their
    value must be unchanged, including types and the order of keys.
    """
    spec = find(dialect)
    message, tools = (sample.message, sample.tools) if isinstance(sample, SampleMessage) else (sample, tools)
    text = render(message, spec, check=False)
    if _has_call_start_in_value(spec, message):
        return text
    got = parse(text, spec, tools=tools)
    if any(diagnostic.kind == "late_id" for diagnostic in got.diagnostics):
        # An id after the arguments can be used only with commit=call.  By default, the call is reported
        # before its id is known.
        got = parse(text, spec, tools=tools, policies=Policies(commit="call"))

    def fail(what: str, expected: object, found: object) -> NoReturn:
        why = f"{what}\n    expected: {expected!r}\n    got:      {found!r}"
        ParseRun(spec, ModelOutput(text, tools), [text], [], None, []).fail("round trip", why)

    if got.diagnostics:
        fail("diagnostics", (), got.diagnostics)
    for field in ("reasoning", "content"):
        if getattr(got, field) != getattr(message, field):
            fail(field, getattr(message, field), getattr(got, field))
    capabilities = MessageCapabilities(spec)
    for expected, found in zip_longest(message.tool_calls, got.tool_calls):
        if expected is None or found is None or expected.name != found.name:
            fail("calls", message.tool_calls, got.tool_calls)
        if not capabilities.same_arguments(expected.arguments, found.arguments):
            fail(f"arguments of {expected.name}", expected.arguments, found.arguments)
        if expected.id and expected.id in text and expected.id != found.id:
            fail(f"id of {expected.name}", expected.id, found.id)
    finish = "tool_calls" if message.tool_calls else "stop"
    if got.finish_reason != finish:
        fail("finish_reason", finish, got.finish_reason)
    # ``render`` checks the round trip, too.
    return render(message, spec)


def _has_call_start_in_value(spec: Dialect, message: Message) -> bool:
    """Return whether an argument between tags contains the start of a call.

    Such an argument cannot be read back, because the start of a call may end a value.
    """
    found = [literals(parse_template(template)) for template in (spec.call if spec.param else ())]
    openers = [literal.strip() for own in found for literal in own[:1]]
    return any(opener in call.arguments for call in message.tool_calls for opener in openers)


class MessageCapabilities:
    """Capabilities of a dialect, which determine the messages that can be generated for it."""

    def __init__(self, spec: Dialect) -> None:
        self.spec = spec
        frame = spec.frame
        routes = [route for route in frame.routes if route.header] if frame is not None else []
        into = {route.into for route in routes}
        self.reasoning = bool(spec.reasoning) if frame is None else "reasoning" in into
        self.content = frame is None or "content" in into
        self.calls = bool(spec.call) if frame is None else any(i.startswith("{") for i in into)
        template = spec.call[0] if spec.call else ""
        for route in routes:
            if route.into in ("{args}", "{params}"):
                template = route.into
        self.template = template
        _, payload, _ = split_at(parse_template(template), *PAYLOADS)
        self.payload = payload.field if payload is not None else ""
        self.notation = (payload.notation if payload is not None else "") or spec.args
        self.typed = self.payload == "params"
        self.verbatim = self.payload in ("args", "envelope") and self.notation == "json"
        self.reserved = {
            *spec.habits.null_calls,
            *(w for route in routes for w in route.when),
            *(w for route in routes for value in route.when.values() for w in re.split(r"[.\s]", value)),
        }
        """Names that have a special meaning in the dialect, and cannot be names of functions."""
        nameless = self.payload == "code" and "{name}" not in template
        self.fixed = spec.names.fixed or ("python" if nameless else "")
        """Name of the only function that the dialect can call; empty if it can call any function."""
        self.anchored = only_at_start(spec.section[0])
        """True if the parser recognises calls only without content before them."""
        self.plain_keys = not self.verbatim
        """True if argument names must be identifiers."""
        self.markers = markers(spec)

    def same_arguments(self, expected: str, found: str) -> bool:
        """Return whether the arguments of two calls are equal; the values 1, 1.0, "1" and true all differ."""
        if self.verbatim:
            return expected == found
        # In ``bare`` notation, templates sort keys, so the order of keys may differ.
        by_name = self.notation == "bare"
        return _canonical_arguments(expected, by_name=by_name) == _canonical_arguments(found, by_name=by_name)

    def openers(self) -> set[str]:
        """Return the single characters, such as ``{``, that may start a call in the middle of text."""
        found: set[str] = set()
        for section in self.spec.section:
            before, _, _ = split_at(parse_template(section), "calls")
            opening = "".join(
                piece.text for piece in before if not isinstance(piece, Placeholder | Attributes)
            ).strip()
            if len(opening) == 1:
                found.add(opening)
            elif not opening and only_at_start(section):
                found.update("{[(")
        return found


def _canonical_arguments(arguments: str, *, by_name: bool) -> str:
    return json.dumps(json.loads(arguments), sort_keys=by_name)


def require_hypothesis() -> None:
    """Raise ``UsageError`` if hypothesis is not installed."""
    if find_spec("hypothesis") is None:
        raise UsageError("generating messages needs hypothesis: pip install 'unspool[testing]'")


def messages(dialect: str | Dialect, *, max_calls: int = 3) -> SearchStrategy[SampleMessage]:
    """Return a hypothesis strategy for messages that a dialect can express.

    The messages have reasoning, content and parallel calls, with text in any script. The strings in arguments
    contain quotes, newlines and markers. Other values are numbers of any size, nested values and empty
    values. The messages obey these rules:

    - reasoning does not start with newlines and does not end with whitespace;
    - content does not start with whitespace if there is reasoning or a call, and does not end
      with whitespace before calls;
    - if a dialect requires calls at the start of the output, there is no content before calls;
    - content and reasoning do not contain complete markers of the dialect;
    - strings between tags do not contain a closing tag followed by text that may also follow a parameter,
      such as ``</parameter><parameter=``, because the parser would end the string at this tag.

    :raises UsageError: if hypothesis is not installed.
    """
    require_hypothesis()
    return _MessageStrategies(MessageCapabilities(find(dialect))).samples(max_calls)


class _MessageStrategies:
    """Hypothesis strategies for the messages of a dialect; each strategy is built only once."""

    def __init__(self, capabilities: MessageCapabilities) -> None:
        from hypothesis import strategies as st

        self.capabilities = capabilities
        self.words = st.text(st.characters(codec="utf-8"), max_size=8)
        self.numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**40), 10**40)
        self.strings = self._strings()
        self.prose = self._prose()
        self.anything = st.recursive(
            st.none() | st.booleans() | self.numbers | self.strings,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(self.strings, inner, max_size=3),
            max_leaves=5,
        )
        self.values: dict[str, SearchStrategy[Any]] = {
            "string": self.strings,
            "integer": st.integers() | st.integers(-(10**40), 10**40),
            "number": self.numbers,
            "boolean": st.booleans(),
            "null": st.none(),
            "array": st.lists(self.anything, max_size=3),
            "object": st.dictionaries(self.strings, self.anything, max_size=3),
        }
        """Strategies for values, keyed by type or by the JSON text of a schema."""

    def samples(self, max_calls: int) -> SearchStrategy[SampleMessage]:
        from hypothesis import strategies as st

        capabilities, spec = self.capabilities, self.capabilities.spec
        reasoning = self.prose.map(lambda text: text.lstrip("\r\n").rstrip()).filter(bool)
        trimmed = self.prose.map(str.strip).filter(bool)
        verbatim = self.prose.filter(bool)
        tool_lists = self._tools()

        @st.composite
        def samples(draw: Callable[[SearchStrategy[Any]], Any]) -> SampleMessage:
            tools: tuple[dict[str, Any], ...] = draw(tool_lists) if capabilities.calls else ()
            calls = [self._call(draw, tools) for _ in range(draw(st.integers(0, max_calls)))] if tools else []
            reasoning_text = draw(st.none() | reasoning) if capabilities.reasoning else None
            content = None
            if capabilities.content and not (calls and capabilities.anchored):
                content = draw(st.none() | trimmed if calls or reasoning_text is not None else verbatim)
                content = content and spec.habits.echo + content
            with_ids = tuple(
                replace(call, id=spec.id_format.new(call.name, index)) for index, call in enumerate(calls)
            )
            declared = tuple({"type": "function", "function": tool} for tool in tools)
            return SampleMessage(Message(content, reasoning_text, with_ids), declared)

        return samples()

    def _prose(self) -> SearchStrategy[str]:
        """Return a strategy for text that does not contain complete markers."""
        from hypothesis import strategies as st

        capabilities = self.capabilities
        openers = capabilities.openers()
        words = ("Hello", "the tool", " ", "\n", "\n\n", ". ", "é", "天気", "🙂", "`x`", '"', "a < b", "{}")
        pieces = [marker[:at] for marker in capabilities.markers for at in range(1, len(marker))]
        atoms = st.sampled_from(words) | self.words
        if pieces:
            atoms |= st.sampled_from(pieces)

        def is_prose(text: str) -> bool:
            # The end of the text must not form a marker together with the text after it.
            whole = any((text + marker).find(marker) < len(text) for marker in capabilities.markers)
            return not whole and not CONTROL_TOKEN.search(text) and not openers & set(text)

        return st.lists(atoms, max_size=6).map("".join).filter(is_prose)

    def _strings(self) -> SearchStrategy[str]:
        """Return a strategy for strings that may contain markers, quotes and escapes."""
        from hypothesis import strategies as st

        capabilities = self.capabilities
        samples = ["Paris", "a b", "\n", " ", "\\n", "é", "東京", "🙂", "5", "null", "", ", ", *"\"'\\{}[]"]
        words = self.words
        quoted = [marker for marker in capabilities.markers if capabilities.spec.values.quote not in marker]
        if capabilities.typed:
            # A closing tag is data if the text after it cannot follow a parameter, so append `` x``.
            quoted = [f"{marker} x" for marker in quoted]
        if capabilities.notation == "loose":
            # In a notation without escapes, a quote may end the string.
            samples = [text for text in samples if not set(text) & set("\"'\\")]
            words = words.filter(lambda text: not set(text) & set("\"'\\"))
        atoms = st.sampled_from(samples) | words
        # In dialects with nested tags, an opening parameter tag inside a value is markup.
        if capabilities.spec.habits.nested:
            heads = [param.partition("{")[0].split(" ")[0] for param in capabilities.spec.param]
            quoted = [marker for marker in quoted if not marker.startswith(tuple(heads))]
        if quoted:
            atoms |= st.sampled_from(quoted)
        return st.lists(atoms, max_size=4).map("".join)

    def _tools(self) -> SearchStrategy[tuple[dict[str, Any], ...]]:
        """Return a strategy for lists of functions with typed parameters, as requests declare them."""
        from hypothesis import strategies as st

        capabilities = self.capabilities
        names = st.sampled_from(("get_weather", "now", "write-file", "f"))
        names |= st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,12}", fullmatch=True)
        if capabilities.fixed:
            names = st.just(capabilities.fixed)
        types = ["string", "integer", "number", "boolean", "null"]
        if not capabilities.spec.habits.nested:
            types += ["array", "object"]
        schemas: SearchStrategy[dict[str, Any]] = st.recursive(
            st.sampled_from(types).map(lambda type_: {"type": type_}),
            lambda inner: (
                inner.map(lambda items: {"type": "array", "items": items})
                | self._properties(inner, plain=True).map(lambda p: {"type": "object", "properties": p})
            ),
            max_leaves=4,
        )
        parameters = self._properties(schemas, plain=capabilities.plain_keys).map(
            lambda properties: {"type": "object", "properties": properties}
        )
        functions: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
            {"name": names.filter(lambda name: name not in capabilities.reserved), "parameters": parameters}
        )
        return st.lists(functions, min_size=1, max_size=3, unique_by=lambda tool: tool["name"]).map(tuple)

    def _properties(
        self, schemas: SearchStrategy[dict[str, Any]], *, plain: bool
    ) -> SearchStrategy[dict[str, dict[str, Any]]]:
        from hypothesis import strategies as st

        keys = st.sampled_from(("city", "n", "name", "arguments", "file_path", "x1", "id"))
        if self.capabilities.spec.habits.unescape:
            keys |= st.sampled_from(("a&b", 'say "hi"', "x<y", "&quot;"))
        return st.dictionaries(keys if plain else keys | self.words.filter(bool), schemas, max_size=4)

    def _call(self, draw: Callable[[SearchStrategy[Any]], Any], tools: Sequence[dict[str, Any]]) -> ToolCall:
        from hypothesis import strategies as st

        tool = draw(st.sampled_from(tools))
        if self.capabilities.payload == "code":
            return ToolCall("", tool["name"], json.dumps({"code": draw(self.prose).strip()}))
        properties: dict[str, dict[str, Any]] = tool["parameters"]["properties"]
        chosen = {key: schema for key, schema in properties.items() if draw(st.booleans())}
        arguments = {key: draw(self._value(schema)) for key, schema in chosen.items()}
        layouts: tuple[dict[str, Any], ...] = (
            {},
            {"ensure_ascii": False},
            {"separators": (",", ":")},
            {"indent": 1},
        )
        return ToolCall("", tool["name"], json.dumps(arguments, **draw(st.sampled_from(layouts))))

    def _value(self, schema: Mapping[str, Any]) -> SearchStrategy[Any]:
        """Return a strategy for values that satisfy a schema."""
        from hypothesis import strategies as st

        if len(schema) == 1:
            return self.values[schema["type"]]
        key = json.dumps(schema)
        if key not in self.values:
            if "items" in schema:
                self.values[key] = st.lists(self._value(schema["items"]), max_size=3)
            else:
                members = {name: self._value(member) for name, member in schema["properties"].items()}
                self.values[key] = st.fixed_dictionaries({}, optional=members)
        return self.values[key]

r"""Conversion of a response template (the format description of Hugging Face tokenizers) to a dialect.

A tokenizer may have a ``response_template`` that describes the output format of its model.  Unlike a dialect,
a response template may contain regular expressions.  The expressions that tokenizers use consist of literals,
whitespace, alternatives and named groups.  Each alternative becomes one template with placeholders.  Any
other expression raises an error when the template is loaded, not when a request arrives.  The reverse
conversion is in ``to_response_template.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NoReturn

from ...dialects import UNSWITCHED, Dialect, Envelope, Family, RequestFacts, Values, Writing, is_control_token
from ...dialects.parse_templates import PLACEHOLDERS, escaped
from ...errors import SpecError

_KEYS: Final = {"version", "defaults", "start_anchor", "start_anchor_pattern", "fields"}
_FIELD_KEYS: Final = {
    "open", "open_pattern", "close", "close_pattern", "content", "content_args",
    "repeats", "join", "optional", "transform", "transform_each",
}  # fmt: skip
THINKING: Final = "thinking"
CONTENT: Final = "content"
CALLS: Final = "tool_calls"
_FIELD_NAMES: Final = {THINKING: THINKING, "reasoning_content": THINKING, CONTENT: CONTENT, CALLS: CALLS}
"""Mapping from the field names in response templates to canonical names; reasoning has two names."""
_TOKEN: Final = re.compile(
    r"(?P<space>\\s[*+?]?|\\n[*+?]|\n[*+?])"
    r"|(?P<placeholder>\(\?P<(?P<name>\w+)>(?:\[\^?(?:\\.|[^\]])*\]|\\.|\.)[*+]\??\))"
    r"|(?P<skipped>\[\^?(?:\\.|[^\]])*\][*+])"
    r"|(?P<end>\\Z|\$)"
    r"|(?P<open>\((?:\?:|\?=|\?P<\w+>))"
    r"|\\(?P<escaped>.)"
    r"|(?P<plain>[^\\()\[\]{}.*+?|^$])",
    re.DOTALL,
)
_MAX_ALTERNATIVES: Final = 64
"""Maximum number of templates into which one regular expression may expand."""
_FACTS: Final = RequestFacts(
    calls_special=True, forced=("native",), eos=(), thinking=replace(UNSWITCHED, special=True)
)
_FIRST_PLACEHOLDER: Final = 0xF0000
_PLACEHOLDERS: Final = {chr(_FIRST_PLACEHOLDER + i): f"{{{name}}}" for i, name in enumerate(PLACEHOLDERS)}
"""Placeholders by private-use code points, which stand for them while a pattern is converted."""
_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?:\.(\w+))?\}")


def from_response_template(template: Mapping[str, object], name: str = "response_template") -> Dialect:
    r"""Return the dialect that a response template describes.

    >>> dialect = from_response_template({
    ...     "start_anchor": "<|im_start|>assistant\n",
    ...     "fields": {
    ...         "thinking": {"open": "<think>", "close": "</think>"},
    ...         "content": {},
    ...         "tool_calls": {
    ...             "open": "<tool_call>", "close": "</tool_call>", "content": "json",
    ...             "transform": {"function": {"name": "{content.name}", "arguments": "{content.arguments}"}},
    ...         },
    ...     },
    ... })
    >>> dialect.call
    ('<tool_call>{envelope}</tool_call>',)
    """
    return _Translation(template, name).dialect()


class _Translation:
    """Conversion of one response template."""

    def __init__(self, template: Mapping[str, object], name: str) -> None:
        self.name = name
        self.check_keys("the template", template, _KEYS)
        if template.get("version", 1) != 1:
            self.fail(f"version {template['version']!r} is not supported; use version 1")
        if "start_anchor" not in template and "start_anchor_pattern" not in template:
            self.fail("start_anchor is missing; it must be the start of the model's turn in the prompt")
        fields = template.get("fields")
        fields = fields if isinstance(fields, Mapping) else {}
        if not fields:
            self.fail("fields is missing or empty")
        self.fields: dict[str, Mapping[str, object]] = {}
        for key, field in fields.items():
            if key not in _FIELD_NAMES or not isinstance(field, Mapping):
                self.fail(f"field {key!r}: expected {', '.join(_FIELD_NAMES)}, each an object")
            self.check_keys(f"field {key!r}", field, _FIELD_KEYS)
            self.fields[_FIELD_NAMES[key]] = field
        bare = [key for key, field in self.fields.items() if not self.markers(field, "open")]
        if len(bare) > 1:
            self.fail(f"fields {' and '.join(bare)} have no opener; at most one field may have none")

    def fail(self, why: str) -> NoReturn:
        raise SpecError(f"response template {self.name!r}: {why}")

    def check_keys(self, where: str, value: Mapping[str, object], known: set[str]) -> None:
        unknown = sorted(set(value) - known)
        if unknown:
            self.fail(f"{where} has unknown keys: {', '.join(unknown)}")

    def markers(self, field: Mapping[str, object], which: str) -> list[str]:
        """Return the opening or closing markers of a field as templates."""
        value = field.get(which, ())
        texts = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
        found = [escaped(str(text)) for text in texts]
        pattern = field.get(f"{which}_pattern")
        if isinstance(pattern, str):
            found += [marker.strip() for marker in self.templates(pattern)]
        return list(dict.fromkeys(found))

    def templates(self, pattern: str) -> list[str]:
        """Convert a regular expression to templates, one for each alternative."""
        found, at = self.alternatives(pattern, 0)
        if at < len(pattern):
            self.refuse(pattern, at)
        return [escaped(each, _PLACEHOLDERS) for each in found]

    def alternatives(self, pattern: str, at: int) -> tuple[list[str], int]:
        """Read alternatives such as ``a|b`` from an offset on; return their templates and the end offset."""
        found: list[str] = []
        while True:
            branch, at = self.sequence(pattern, at)
            found += branch
            if not pattern.startswith("|", at):
                return list(dict.fromkeys(found)), at
            at += 1

    def sequence(self, pattern: str, at: int) -> tuple[list[str], int]:
        """Read one alternative from an offset on; return its templates and its end offset."""
        found = [""]
        while at < len(pattern) and pattern[at] not in "|)":
            token = _TOKEN.match(pattern, at)
            if token is None:
                self.refuse(pattern, at)
            atoms, at = [self.atom(token)], token.end()
            if token["open"]:
                atoms, at = self.alternatives(pattern, at)
                if not pattern.startswith(")", at):
                    self.refuse(pattern, at)
                at += 1
                if token["open"] == "(?=":
                    atoms = [""]  # text in a lookahead is not part of the marker
                elif pattern.startswith("?", at):
                    atoms, at = ["", *atoms], at + 1
            found = [before + atom for before in found for atom in atoms]
            if len(found) > _MAX_ALTERNATIVES:
                self.fail(f"pattern {pattern!r} has more than {_MAX_ALTERNATIVES} alternatives")
        return found, at

    def atom(self, token: re.Match[str]) -> str:
        if token["space"]:
            return "\n"
        if token["placeholder"] or token["skipped"]:
            name = token["name"] or "_"
            if name not in PLACEHOLDERS:
                self.fail(f"group {name!r} is not known: use one of {', '.join(PLACEHOLDERS)}")
            return chr(_FIRST_PLACEHOLDER + PLACEHOLDERS.index(name))
        return token["escaped"] or token["plain"] or ""

    def refuse(self, pattern: str, at: int) -> NoReturn:
        self.fail(
            f"pattern {pattern!r} cannot be converted (at {pattern[at:]!r}): "
            "use literals, \\s*, \\n?, (?:a|b) and named groups"
        )

    def dialect(self) -> Dialect:
        thinking = self.fields.get(THINKING, {})
        content = self.fields.get(CONTENT, {})
        calls = self.fields.get(CALLS, {})
        stops = [
            stop for stop in self.markers(content, "close") if stop and not self.markers(content, "open")
        ]
        section, call, param, keys = self.calls(calls) if calls else (("{calls}",), (), (), {})
        return Dialect(
            name=self.name,
            family=Family("tokenizers that carry a response template"),
            request=_FACTS,
            reasoning=self.wrappers(thinking),
            content=self.wrappers(content),
            section=section,
            call=call,
            param=param,
            # Markers that close content are never part of the message.  Those that look like special tokens
            # also end the turn.
            stop=tuple(stop for stop in stops if is_control_token(stop) and "{" not in stop),
            drop=tuple(stop for stop in stops if not is_control_token(stop) or "{" in stop),
            **keys,  # type: ignore[arg-type]
        )

    def wrappers(self, field: Mapping[str, object]) -> tuple[str, ...]:
        closers = self.markers(field, "close")
        return tuple(
            f"{opener}{{text}}{closer}" for opener in self.markers(field, "open") for closer in closers
        )

    def calls(
        self, field: Mapping[str, object]
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], dict[str, object]]:
        """Return the section, call and param templates, and the values of the dialect's other call fields."""
        openers = self.markers(field, "open")
        closers = self.markers(field, "close") or [""]
        if not openers:
            self.fail("tool_calls needs an opener")
        kind = field.get("content", "text")
        arguments = field.get("content_args", {})
        arguments = arguments if isinstance(arguments, Mapping) else {}
        named = any("{name}" in opener for opener in openers)
        param: tuple[str, ...] = ()
        keys: dict[str, object] = {}
        if kind == "json":
            payload = "{args}" if named else "{envelope}"
            keys["envelope"] = self.envelope(field)
            if arguments.get("unquoted_keys"):
                keys["args"] = "bare"
            delimiters = arguments.get("string_delims")
            if delimiters is not None:
                keys["values"] = Values(quote=self.quote(delimiters))
        elif kind == "xml-inline":
            payload = "{params}"
            pattern = arguments.get("tag_pattern")
            if not isinstance(pattern, str):
                self.fail("xml-inline needs content_args.tag_pattern")
            param = tuple(f"{each}\n" for each in self.templates(pattern))
        else:
            self.fail(f"content {kind!r} of tool_calls is not supported; use json or xml-inline")
        if "transform_each" in field:
            return (
                tuple(f"{opener}[{{calls}}]{closer}" for opener in openers for closer in closers),
                (payload,),
                param,
                {**keys, "writing": Writing(between_calls=", ")},
            )
        templates = tuple(f"{opener}\n{payload}{closer}" for opener in openers for closer in closers)
        if payload != "{params}":
            templates = tuple(template.replace("\n" + payload, payload) for template in templates)
        return ("{calls}",), templates, param, keys

    def quote(self, delimiters: object) -> str:
        """Return the opening delimiter in the first pair of string delimiters."""
        pair = delimiters[0] if isinstance(delimiters, list) and delimiters else None
        quote = pair[0] if isinstance(pair, list) and pair else None
        if not isinstance(quote, str) or not quote:
            self.fail(f"string_delims is {delimiters!r}: expected a list of pairs of strings")
        return quote

    def envelope(self, field: Mapping[str, object]) -> Envelope:
        """Return the keys of a JSON call's name and arguments, which the field's transform contains."""
        transform = field.get("transform", field.get("transform_each", {}))
        function = transform.get("function", transform) if isinstance(transform, Mapping) else {}
        envelope = Envelope()
        if isinstance(function, Mapping):
            for part in ("name", "arguments"):
                match = _PLACEHOLDER.fullmatch(str(function.get(part, "")))
                key = (match[2] or match[1]) if match is not None else part
                if key not in ("content", part) and part == "name":
                    envelope = replace(envelope, name_keys=(key, part))
                elif key not in ("content", part):
                    envelope = replace(envelope, args_keys=(key, part))
        return envelope

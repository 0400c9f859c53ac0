r"""Conversion of a dialect to a response template (the format description of Hugging Face tokenizers).

A response template consists of regions.  Each region has an opening marker (opener), a closing marker
(closer) and a reader for the text between them.  Consequences for the conversion:

* Text outside all regions is content; engines remove the closers that the content field declares.  So the
  markers of sections, answers and the end of the turn are all declared as closers of content.
* A region ends at the first occurrence of its closer, so every call must have a closer of its own.
* Engines find the end of reasoning by comparing tokens, so reasoning markers are literals without
  whitespace.
* The opener of a call includes the whitespace before it; otherwise the newline between two calls would be
  content.
* Only the start of a pattern can be optional.  Engines accept a match as soon as the required part of the
  pattern has matched, so text that matches an optional part at the end would become content.

The result covers the form in which a dialect renders a message, not every form that the dialect can parse:
only the first call, section and param templates are used.  If a response template cannot express a
dialect, :class:`ExportError` is raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from ...dialects import Dialect, find, split_at_control_tokens
from ...dialects.parse_templates import (
    PAYLOADS,
    Attributes,
    LineFeed,
    Literal,
    Piece,
    Placeholder,
    Space,
    has_placeholder,
    only_at_start,
    parse_template,
    reading_pieces,
    split_at,
    text_around,
)
from ...errors import UsageError
from ..detection.template_probe import QUESTION, TemplateProbe
from ..sources import read_source
from ..sources.read_files import read_json
from .from_response_template import CALLS, CONTENT, THINKING

_CHATML_STOP: Final = "<|im_end|>"
_CHATML_TURN: Final = "<|im_start|>assistant"
_NOTATIONS: Final = {
    "python": "arguments as Python keywords",
    "loose": "arguments as Python keywords without escapes",
}
_TYPED: Final = ("type", "string")
"""Names of the template placeholders that stand for the type of a parameter's value."""


class ExportError(UsageError):
    """Error for a dialect that a response template cannot express."""

    __module__ = "unspool.models"

    def __init__(self, dialect: str, reason: str) -> None:
        self.dialect = dialect
        """The name of the dialect."""
        self.reason = reason
        """The part of the dialect that a response template cannot express."""
        super().__init__(f"a response template cannot express {dialect}: {reason}")


def to_response_template(dialect: Dialect | str, *, anchor: str = "") -> dict[str, Any]:
    r"""Convert a dialect to a response template for ``tokenizer_config.json``.

    Transformers, vLLM (parser ``hf``) and SGLang (parser ``response_template``) use response templates.

    :param anchor: the text in the prompt that starts the model's turn, such as ``<|im_start|>assistant``;
        required for a dialect whose chat templates start turns in different ways.
    :raises ExportError: if a response template cannot express the dialect.

    >>> template = to_response_template("hermes")
    >>> template["fields"]["tool_calls"]["open_pattern"]
    '\\s*<tool_call>\\s*'
    >>> to_response_template("pythonic")
    Traceback (most recent call last):
    unspool.models.ExportError: a response template cannot express pythonic: arguments as Python keywords
    """
    return _Conversion(find(dialect)).template(anchor)


def install_template(dialect: Dialect | str, directory: Path, *, anchor: str = "") -> object:
    """Write a response template into a model's ``tokenizer_config.json``; return the previous one.

    If the dialect does not declare how a turn starts, the start is taken from the model's chat template.
    """
    file = directory / "tokenizer_config.json"
    config = read_json(file)
    chosen = to_response_template(dialect, anchor=anchor or _turn_start(directory, find(dialect)))
    before = config.get("response_template")
    text = json.dumps({**config, "response_template": chosen}, ensure_ascii=False, indent=2)
    file.write_text(text + "\n", encoding="utf-8")
    return before


def _turn_start(directory: Path, dialect: Dialect) -> str:
    """Return the text with which the chat template starts the model's turn, without a reasoning opener."""
    model = read_source(directory)
    probe = TemplateProbe(model.template, model.tokens)
    question, prompt = probe.conversation(QUESTION), probe.prompt()
    start = prompt.removeprefix(question) if prompt.startswith(question) else ""
    openers = [text_around(template, "text")[0].strip() for template in dialect.reasoning]
    for opener in filter(None, openers):
        start = start.partition(opener)[0]
    return start.strip()


class _Conversion:
    """Conversion of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def fail(self, reason: str) -> NoReturn:
        raise ExportError(self.dialect.name, reason)

    def template(self, anchor: str) -> dict[str, Any]:
        dialect = self.dialect
        self.check()
        fields: dict[str, Any] = {}
        if dialect.reasoning:
            fields[THINKING] = self.thinking()
        dropped: list[str] = []
        if dialect.call:
            fields[CALLS], dropped = self.calls()
        fields[CONTENT] = self.content(dropped)
        return {
            "version": 1,
            "defaults": {"role": "assistant"},
            "start_anchor_pattern": self.anchor(anchor),
            "fields": fields,
        }

    def check(self) -> None:
        dialect, names, habits = self.dialect, self.dialect.names, self.dialect.habits
        for found, reason in (
            (dialect.frame, "messages with headers"),
            (dialect.habits.echo, "text before the output that the prompt supplies"),
            (names.fixed, "calls without a function name"),
            (habits.null_calls, "function names that mean that there is no call"),
            (habits.nested, "nested values in tags"),
            (habits.unescape, "escaped attributes"),
        ):
            if found:
                self.fail(reason)

    def anchor(self, anchor: str) -> str:
        anchors = [anchor] if anchor else list(self.dialect.prompt.ends)
        if not anchors and _CHATML_STOP in self.dialect.stop[:1]:
            anchors = [_CHATML_TURN]
        if not anchors:
            self.fail("the start of a turn, which depends on the chat template: pass anchor= or --anchor")
        # The anchor also matches whitespace after the start of the turn.  Otherwise engines would treat this
        # whitespace as content, and assume that the answer has started.
        return _either(anchors) + r"\s*"

    # -- text

    def thinking(self) -> dict[str, Any]:
        found = [template for template in self.dialect.reasoning if not only_at_start(template)]
        if self.dialect.reasoning[0] not in found:
            self.fail("reasoning that can open only at the start of an output")
        wrappers = [text_around(template, "text") for template in found if not has_placeholder(template, "_")]
        openers, closers = ([wrapper[side].strip() for wrapper in wrappers] for side in (0, 1))
        # Leave out each opener that is a prefix of another opener, because it would match too early.
        openers = [
            each for each in openers if not any(other != each and other.startswith(each) for other in openers)
        ]
        return {"open": _literals(openers), "close": _literals(closers), "content": "text"}

    def content(self, dropped: Iterable[str]) -> dict[str, Any]:
        """Return the field of the response template for content.

        Its closers are the markers that engines must remove from the content.
        """
        dialect = self.dialect
        patterns = [*dropped]
        for template in dialect.content:
            opener, closer = text_around(template, "text")
            patterns += [_pattern(parse_template(part.strip())) for part in (opener, closer)]
        patterns += map(re.escape, dialect.stop)
        for template in dialect.drop:
            patterns.append(_pattern(parse_template(template.strip())))
        unique = sorted(dict.fromkeys(filter(None, patterns)), key=len, reverse=True)
        closing = {"close_pattern": rf"\s*(?:{'|'.join(unique)})\s*"} if unique else {}
        return {**closing, "content": "text"}

    # -- calls

    def calls(self) -> tuple[dict[str, Any], list[str]]:
        """Return the response template's field for calls, and the patterns of other markers to remove."""
        dialect = self.dialect
        before, _, after = split_at(reading_pieces(dialect.section[0]), "calls")
        array = self.array(before, after)
        if array is not None:
            return array, []
        head, payload, tail = split_at(reading_pieces(dialect.call[0]), *PAYLOADS)
        if payload is None or payload.field == "code":
            self.fail("calls that are raw code")
        if dialect.writing.section_per_call:
            head, tail = (*before, *head), (*tail, *after)
        head, tail = _solid(head, end=False), _solid(tail)
        field = self.payload(payload)
        if not _marker(head):
            self.fail("calls without an opening marker")
        if not _marker(tail):
            self.fail("calls without a closing marker")
        around = (_marker(before), _marker(after)) if not dialect.writing.section_per_call else ("", "")
        opener = self.opener(head, field)
        field["open_pattern"] = r"\s*" + (rf"(?:{around[0]}\s*)?" if around[0] else "") + opener
        field |= _closing(tail)
        return field, [around[1]] if around[1] else []

    def array(self, before: Sequence[Piece], after: Sequence[Piece]) -> dict[str, Any] | None:
        """Return the field for calls if the dialect writes calls as a JSON list; otherwise None."""
        opener = "".join(piece.text for piece in before).strip()
        closer = "".join(piece.text for piece in after).strip()
        if not (opener.endswith("[") and closer.startswith("]")):
            return None
        _, payload, _ = split_at(parse_template(self.dialect.call[0]), *PAYLOADS)
        if payload is None or payload.field != "envelope":
            self.fail(_NOTATIONS.get(self.dialect.args, "a list of calls that is not JSON"))
        self.json(payload)
        opener, closer = opener[:-1].rstrip(), closer[1:].lstrip()
        if not opener:
            self.fail("calls without an opening marker")
        if not closer:
            self.fail("calls without a closing marker")
        return {
            "open_pattern": r"\s*" + _pattern(parse_template(opener)),
            **_closing(parse_template(closer)),
            "content": "json",
            "transform": self.transform("{%s}"),
            "transform_each": True,
        }

    def payload(self, payload: Placeholder) -> dict[str, Any]:
        """Return the keys and values that tell engines how to read the text between a call's markers."""
        if payload.field == "params":
            return {
                "repeats": True,
                "content": "xml-inline",
                "content_args": {"tag_pattern": self.param()},
                "transform": _call("{name}", "{content}"),
            }
        arguments = self.json(payload)
        transform = (
            self.transform("{content.%s}") if payload.field == "envelope" else _call("{name}", "{content}")
        )
        return {
            "repeats": True,
            "content": "json",
            **({"content_args": arguments} if arguments else {}),
            "transform": transform,
        }

    def json(self, payload: Placeholder) -> dict[str, Any]:
        """Return the options for the engines' JSON reader."""
        notation = payload.notation or self.dialect.args
        if notation in _NOTATIONS:
            self.fail(_NOTATIONS[notation])
        if notation == "bare":
            quote = self.dialect.values.quote
            return {"unquoted_keys": True, "string_delims": [[quote, quote]]}
        return {}

    def transform(self, path: str) -> dict[str, Any]:
        envelope = self.dialect.envelope
        if envelope.keyed:
            self.fail("objects with the function name as a key")
        return _call(path % envelope.name_keys[0], path % envelope.args_keys[0])

    def param(self) -> str:
        """Return the pattern of a parameter.

        If several of the dialect's ``param`` templates differ from the first only in whitespace, the longest
        of these templates is used.
        """
        first = self.dialect.param[0]
        alike = [each for each in self.dialect.param if "".join(each.split()) == "".join(first.split())]
        pieces = reading_pieces(max(alike, key=len).strip(), exact="value")
        placeholders = [piece.field for piece in pieces if isinstance(piece, Placeholder)]
        placeholders += [
            field for piece in pieces if isinstance(piece, Attributes) for field in piece.fields.values()
        ]
        if {*_TYPED} & {*placeholders}:
            self.fail("values with their types")
        return _pattern(pieces)

    def opener(self, head: Sequence[Piece], field: dict[str, Any]) -> str:
        """Return the pattern of a call's opener, which captures the call's name and id in groups."""
        form = self.dialect.names.forms[0]
        named = "name" in _groups(head)
        if named and form != "{name}":
            at = next(
                i for i, piece in enumerate(head) if isinstance(piece, Placeholder) and piece.field == "name"
            )
            refined = _pattern(parse_template(form), before=_after(head[at + 1 :], "{"))
            if "{index}" in form:
                refined = f"(?P<id>{refined})"
            front, back = head[:at], head[at + 1 :]
            pattern = _pattern(front) + refined + _pattern(back)
        else:
            pattern = _pattern(head, before=_payload_start(self.dialect, field))
        if "(?P<id>" in pattern:
            field["transform"] = {"id": "{id}", **field["transform"]}
        return pattern


# -- patterns


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def _literals(texts: Sequence[str]) -> str | list[str]:
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else unique


def _either(texts: Sequence[str]) -> str:
    found = "|".join(map(re.escape, texts))
    return found if len(texts) == 1 else f"(?:{found})"


def _closing(tail: Sequence[Piece]) -> dict[str, Any]:
    """Return the closer of a region: a literal if possible (engines prefer literals), otherwise a pattern."""
    if len(tail) == 1 and len(split_at_control_tokens(tail[0].text)) == 1:
        return {"close": tail[0].text}
    return {"close_pattern": _pattern(tail)}


def _solid(pieces: Sequence[Piece], *, end: bool = True) -> tuple[Piece, ...]:
    """Remove whitespace pieces from the start of a template and, unless ``end`` is false, from its end."""
    kept = list(pieces)
    while kept and isinstance(kept[0], Space | LineFeed):
        del kept[0]
    while end and kept and isinstance(kept[-1], Space | LineFeed):
        del kept[-1]
    return tuple(kept)


def _marker(pieces: Sequence[Piece]) -> str:
    """Return the pattern of a marker without outer whitespace; empty if the marker contains no literal."""
    return _pattern(_solid(pieces)) if any(isinstance(piece, Literal) for piece in pieces) else ""


def _groups(pieces: Iterable[Piece]) -> set[str]:
    return {piece.field for piece in pieces if isinstance(piece, Placeholder)} | {
        field for piece in pieces if isinstance(piece, Attributes) for field in piece.fields.values()
    }


def _payload_start(dialect: Dialect, field: dict[str, Any]) -> str:
    """Return the first character after a function name: the first character of the call's payload."""
    if field["content"] == "json":
        return "{"
    return dialect.param[0].strip()[:1]


def _after(pieces: Iterable[Piece], default: str) -> str:
    """Return the first character of the first literal, or ``default`` if there is no literal."""
    return next((piece.text[0] for piece in pieces if isinstance(piece, Literal | Attributes)), default)


def _pattern(pieces: Sequence[Piece], before: str = "") -> str:
    """Convert the pieces of a template to a regular expression.

    :param before: the character that follows the text; needed if the template ends with a placeholder.
    """
    return "".join(_regexes(pieces, before))


def _regexes(pieces: Sequence[Piece], before: str) -> Iterator[str]:
    for i, piece in enumerate(pieces):
        match piece:
            case Literal():
                yield r"\s*".join(map(re.escape, split_at_control_tokens(piece.text)))
            case Space():
                yield r"\s*"
            case LineFeed():
                yield r"\n?"
            case Attributes():
                for key, field in piece.fields.items():
                    yield rf' {key}="(?P<{field}>[^"]*)"'
            case Placeholder() if piece.field == "value":
                yield "(?P<value>.*?)"
            case Placeholder() if piece.field == "index":
                yield r"(?P<index>\d+)"
            case Placeholder() if piece.field == "_":
                yield f"[^{re.escape(_after(pieces[i + 1 :], before))}]*"
            case Placeholder():
                # A name must not contain a brace or a quote, which start an object or a string.
                end = "".join(sorted({*_after(pieces[i + 1 :], before), *'{"'}))
                yield rf"(?P<{piece.field}>[^\s{re.escape(end)}]+)"

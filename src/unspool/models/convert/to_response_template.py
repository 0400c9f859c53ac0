r"""A dialect as a response template, the other direction of ``response_template``.

The form has regions: what opens one, what closes it, and how its text is read.
What follows from that:

* Text outside of regions is the content, and what closes it vanishes.  So the
  markers of a section, of an answer, of the end of a turn and other furniture
  are all closers of the content.
* A region ends at the first closer, so a call needs one of its own.
* Engines find the end of reasoning by its tokens, so its markers are literals,
  without the white space around them; openers of calls swallow theirs, or the
  line break between two calls would be content.
* An optional piece may stand only at the beginning of a pattern: the form's
  readers decide as soon as the rest matches, and what comes later is content.

Only what a dialect writes is said, not all that it reads: of calls, sections
and parameters the first template.  What cannot be said is an :class:`ExportError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from ...dialects._declaration import Dialect
from ...dialects._registry import facts_of, find
from ...dialects._request_facts import ANY
from ...dialects._templates import (
    PAYLOADS,
    Attributes,
    Hole,
    LineFeed,
    Literal,
    Piece,
    Space,
    parse_template,
    reading_pieces,
    split_at,
    split_marks,
    tokens_apart,
)
from ...errors import UsageError
from ..detect.template_probe import QUESTION, TemplateProbe
from ..sources import read_source
from ..sources.text_files import read_json
from .from_response_template import CALLS, CONTENT, THINKING

_CHATML_STOP: Final = "<|im_end|>"
_CHATML_TURN: Final = "<|im_start|>assistant"
_NOTATIONS: Final = {
    "python": "arguments as Python keywords",
    "loose": "arguments as Python keywords without escapes",
}
_TYPED: Final = ("type", "string")
"""Holes that say what a value is."""


class ExportError(UsageError):
    """A dialect has something that the form has no words for."""

    __module__ = "unspool"

    def __init__(self, dialect: str, reason: str) -> None:
        self.dialect = dialect
        """Its name."""
        self.reason = reason
        """What cannot be said, in words."""
        super().__init__(f"{dialect} cannot be said as a response template: {reason}")


def to_response_template(dialect: Dialect | str, *, anchor: str = "") -> dict[str, Any]:
    r"""The response template that a dialect amounts to, for ``tokenizer_config.json``.

    transformers, vLLM (``hf``) and SGLang (``response_template``) read it.

    :param anchor: what a turn of the model begins with in the prompt, for dialects that are spoken
        under many chat templates: ``<|im_start|>assistant``.
    :raises ExportError: if the form has no words for what the dialect writes.

    >>> template = to_response_template("hermes")
    >>> template["fields"]["tool_calls"]["open_pattern"]
    '\\s*<tool_call>\\s*'
    >>> to_response_template("pythonic")
    Traceback (most recent call last):
    unspool.ExportError: pythonic cannot be said as a response template: arguments as Python keywords
    """
    return _Writing(find(dialect)).template(anchor)


def install_template(dialect: Dialect | str, directory: Path, *, anchor: str = "") -> object:
    """Put the template of a dialect into a model's ``tokenizer_config.json``; what stood there before.

    Where the dialect does not say what a turn begins with, the model's chat template does.
    """
    file = directory / "tokenizer_config.json"
    config = read_json(file)
    chosen = to_response_template(dialect, anchor=anchor or _turn(directory, find(dialect)))
    before = config.get("response_template")
    text = json.dumps({**config, "response_template": chosen}, ensure_ascii=False, indent=2)
    file.write_text(text + "\n", encoding="utf-8")
    return before


def _turn(directory: Path, dialect: Dialect) -> str:
    """What the chat template writes for the model to go on from, up to what opens reasoning."""
    model = read_source(directory)
    probe = TemplateProbe(model.template, model.tokens)
    asked, prompt = probe.conversation(QUESTION), probe.prompt()
    seeded = prompt.removeprefix(asked) if prompt.startswith(asked) else ""
    openers = [split_marks(template)[1].partition("{text}")[0].strip() for template in dialect.reasoning]
    for opener in filter(None, openers):
        seeded = seeded.partition(opener)[0]
    return seeded.strip()


class _Writing:
    """One template being written."""

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
        furniture: list[str] = []
        if dialect.call:
            fields[CALLS], furniture = self.calls()
        fields[CONTENT] = self.content(furniture)
        return {
            "version": 1,
            "defaults": {"role": "assistant"},
            "start_anchor_pattern": self.anchor(anchor),
            "fields": fields,
        }

    def check(self) -> None:
        dialect, names, values = self.dialect, self.dialect.names, self.dialect.values
        for found, reason in (
            (dialect.frame, "messages whose headers say what they are"),
            (dialect.prompt.echo, "text that is put before the output"),
            (names.fixed, "calls that do not say their function"),
            (names.null_calls, "functions that mean no call"),
            (values.nested, "values that are made of values"),
            (values.unescape, "escaped attributes"),
            (dialect.after_calls == "drop", "text that vanishes behind calls"),
        ):
            if found:
                self.fail(reason)

    def anchor(self, given: str) -> str:
        known = [given] if given else [prompt for prompt in facts_of(self.dialect).prompts if prompt != ANY]
        if not known and _CHATML_STOP in self.dialect.stop[:1]:
            known = [_CHATML_TURN]
        if not known:
            self.fail("where a turn begins, which many chat templates say in many ways: give the anchor")
        # The white space belongs to the anchor: as content it would tell engines that the answer has begun.
        return _either(known) + r"\s*"

    # -- text

    def thinking(self) -> dict[str, Any]:
        found = [split_marks(template) for template in self.dialect.reasoning]
        if "^" in found[0][0]:
            self.fail("reasoning that opens only where an output begins")
        wrappers = [
            body.partition("{text}") for marks, body in found if "^" not in marks and "{_}" not in body
        ]
        openers, closers = ([wrapper[side].strip() for wrapper in wrappers] for side in (0, 2))
        # What another opener begins with would be taken for all of it.
        openers = [
            each for each in openers if not any(other != each and other.startswith(each) for other in openers)
        ]
        return {"open": _literals(openers), "close": _literals(closers), "content": "text"}

    def content(self, furniture: Iterable[str]) -> dict[str, Any]:
        """Between other regions; whatever closes it vanishes."""
        dialect = self.dialect
        patterns = [*furniture]
        for template in dialect.content:
            opener, _, closer = split_marks(template)[1].partition("{text}")
            patterns += [_pattern(parse_template(part.strip())) for part in (opener, closer)]
        patterns += map(re.escape, dialect.stop)
        for template in dialect.drop:
            if not {"text", "calls"} & {
                piece.field for piece in parse_template(template) if isinstance(piece, Hole)
            }:
                patterns.append(_pattern(parse_template(template.strip())))
        unique = sorted(dict.fromkeys(filter(None, patterns)), key=len, reverse=True)
        closing = {"close_pattern": rf"\s*(?:{'|'.join(unique)})\s*"} if unique else {}
        return {**closing, "content": "text"}

    # -- calls

    def calls(self) -> tuple[dict[str, Any], list[str]]:
        """The field of calls, and markers around them that vanish."""
        dialect = self.dialect
        section = split_marks(dialect.section[0])[1]
        before, _, after = split_at(reading_pieces(section), "calls")
        array = self.array(before, after)
        if array is not None:
            return array, []
        head, payload, tail = split_at(reading_pieces(dialect.call[0]), *PAYLOADS)
        if payload is None or payload.field == "code":
            self.fail("calls that are raw code")
        if dialect.section_per_call:
            head, tail = (*before, *head), (*tail, *after)
        head, tail = _solid(head, end=False), _solid(tail)
        field = self.payload(payload)
        if not _marker(head):
            self.fail("calls without a marker in front of them")
        if not _marker(tail):
            self.fail("calls that nothing ends")
        around = (_marker(before), _marker(after)) if not dialect.section_per_call else ("", "")
        opener = self.opener(head, field)
        field["open_pattern"] = r"\s*" + (rf"(?:{around[0]}\s*)?" if around[0] else "") + opener
        field |= _closing(tail)
        return field, [around[1]] if around[1] else []

    def array(self, before: Sequence[Piece], after: Sequence[Piece]) -> dict[str, Any] | None:
        """A section that is a list of objects, if it is one."""
        opener = "".join(piece.text for piece in before).strip()
        closer = "".join(piece.text for piece in after).strip()
        if not (opener.endswith("[") and closer.startswith("]")):
            return None
        _, payload, _ = split_at(parse_template(self.dialect.call[0]), *PAYLOADS)
        if payload is None or payload.field != "envelope":
            self.fail(_NOTATIONS.get(self.dialect.args, "a list of calls that is no JSON"))
        self.json(payload)
        opener, closer = opener[:-1].rstrip(), closer[1:].lstrip()
        if not opener:
            self.fail("calls without a marker in front of them")
        if not closer:
            self.fail("calls that nothing ends")
        return {
            "open_pattern": r"\s*" + _pattern(parse_template(opener)),
            **_closing(parse_template(closer)),
            "content": "json",
            "transform": self.transform("{%s}"),
            "transform_each": True,
        }

    def payload(self, payload: Hole) -> dict[str, Any]:
        """How a region is read, and what becomes of it."""
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

    def json(self, payload: Hole) -> dict[str, Any]:
        """What the form's JSON reader must be told."""
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
            self.fail("objects whose key is the function's name")
        return _call(path % envelope.name_keys[0], path % envelope.args_keys[0])

    def param(self) -> str:
        """What finds a parameter; of templates that differ in white space only, the one that has most."""
        first = self.dialect.param[0]
        alike = [each for each in self.dialect.param if "".join(each.split()) == "".join(first.split())]
        pieces = reading_pieces(max(alike, key=len).strip(), exact="value")
        holes = [piece.field for piece in pieces if isinstance(piece, Hole)]
        holes += [
            field for piece in pieces if isinstance(piece, Attributes) for field in piece.fields.values()
        ]
        if {*_TYPED} & {*holes}:
            self.fail("values that say what type they are")
        return _pattern(pieces)

    def opener(self, head: Sequence[Piece], field: dict[str, Any]) -> str:
        """What opens a call, with groups for its name and id."""
        form = split_marks(self.dialect.names.forms[0])[1]
        named = "name" in _groups(head)
        if named and form != "{name}":
            at = next(i for i, piece in enumerate(head) if isinstance(piece, Hole) and piece.field == "name")
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
    """What ends a region: engines prefer to know it as a literal."""
    if len(tail) == 1 and len(tokens_apart(tail[0].text)) == 1:
        return {"close": tail[0].text}
    return {"close_pattern": _pattern(tail)}


def _solid(pieces: Sequence[Piece], *, end: bool = True) -> tuple[Piece, ...]:
    """Pieces without the white space at their beginning, and at their end."""
    kept = list(pieces)
    while kept and isinstance(kept[0], Space | LineFeed):
        del kept[0]
    while end and kept and isinstance(kept[-1], Space | LineFeed):
        del kept[-1]
    return tuple(kept)


def _marker(pieces: Sequence[Piece]) -> str:
    """The pattern of a marker; empty if there is no literal in it."""
    return _pattern(_solid(pieces)) if any(isinstance(piece, Literal) for piece in pieces) else ""


def _groups(pieces: Iterable[Piece]) -> set[str]:
    return {piece.field for piece in pieces if isinstance(piece, Hole)} | {
        field for piece in pieces if isinstance(piece, Attributes) for field in piece.fields.values()
    }


def _payload_start(dialect: Dialect, field: dict[str, Any]) -> str:
    """The character that a payload begins with, which no name holds."""
    if field["content"] == "json":
        return "{"
    return dialect.param[0].strip()[:1]


def _after(pieces: Iterable[Piece], default: str) -> str:
    """The character that follows."""
    return next((piece.text[0] for piece in pieces if isinstance(piece, Literal | Attributes)), default)


def _pattern(pieces: Sequence[Piece], before: str = "") -> str:
    """Pieces as a regular expression; ``before``: the character that comes behind them."""
    return "".join(_regexes(pieces, before))


def _regexes(pieces: Sequence[Piece], before: str) -> Iterator[str]:
    for i, piece in enumerate(pieces):
        match piece:
            case Literal():
                yield r"\s*".join(map(re.escape, tokens_apart(piece.text)))
            case Space():
                yield r"\s*"
            case LineFeed():
                yield r"\n?"
            case Attributes():
                for key, field in piece.fields.items():
                    yield rf' {key}="(?P<{field}>[^"]*)"'
            case Hole() if piece.field == "value":
                yield "(?P<value>.*?)"
            case Hole() if piece.field == "index":
                yield r"(?P<index>\d+)"
            case Hole() if piece.field == "_":
                yield f"[^{re.escape(_after(pieces[i + 1 :], before))}]*"
            case Hole():
                # An object in the place of a name is none.
                end = "".join(sorted({*_after(pieces[i + 1 :], before), *'{"'}))
                yield rf"(?P<{piece.field}>[^\s{re.escape(end)}]+)"

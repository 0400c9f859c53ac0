"""Reader of the corpus: model outputs with their expected results.  ``corpus/README.md`` describes the files.

A file is a list of cases.  A case is a heading, header lines, the model's text, and the expected result.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from paths import TESTS

CORPUS = TESTS / "corpus"
WORDS = {"dialect", "finish", "reasoning_parser", "start", "variant"}
JSONS = {"prefix", "response_template", "template_kwargs"}
CHOICES = {
    "start": {"content", "detect", "header", "idle", "reasoning", "response", "think"},
    "finish": {"length", "stop"},
}
INVISIBLE = {"Cc", "Cf", "Co", "Cs", "Mc", "Me", "Mn", "Zl", "Zp", "Zs"}


class CorpusError(ValueError):
    """Invalid corpus file; the message starts with file and line."""


@dataclass(frozen=True)
class Call:
    """Expected call."""

    name: str
    text: str | None = None  # exact arguments; None if only their value matters
    value: Any = None  # value of the arguments; None for a truncated call
    cut: bool = False  # the output ends inside the call; `text` is what a stream has sent by then
    id: str | None = None  # id that the model wrote

    def accepts(self, arguments: str) -> bool:
        """Return whether arguments equal the text, or the value in its key order if only that matters."""
        if self.text is not None:
            return arguments == self.text
        return json.dumps(json.loads(arguments)) == json.dumps(self.value)


@dataclass(frozen=True)
class Vector:
    """Case of the corpus."""

    dialect: str
    title: str
    file: str  # path below `corpus`
    line: int  # line of the heading
    raw: str
    content: str | None
    reasoning: str | None
    calls: tuple[Call, ...]
    start: str = "content"  # channel in which the output starts
    finish: str | None = None
    tools: tuple[dict[str, Any], ...] | None = None  # None if unknown
    tool_choice: Any = None
    variant: str | None = None  # version of the dialect, or suffix of its markers
    prefix: str | None = None  # end of the prompt
    response_template: dict[str, Any] | None = None
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    reasoning_parser: str | None = None  # engines' name of the dialect's reasoning parser
    policies: dict[str, str] = field(default_factory=dict)  # policies under which the result holds

    def __str__(self) -> str:
        return f"{self.dialect}: {self.title}"


class _File:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_bytes().decode().split("\n")
        self.next = 0  # index of the next line
        self.line = 0  # line number for error messages

    def fail(self, message: str) -> NoReturn:
        raise CorpusError(f"{self.path}:{self.line}: {message}")

    def json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            self.fail(f"{error}: {text}")

    def block(self, fence: str) -> list[str]:
        try:
            end = self.lines.index(fence, self.next)
        except ValueError:
            self.fail("the block is never closed")
        body, self.next = self.lines[self.next : end], end + 1
        return body

    def vectors(self) -> list[Vector]:
        cases: list[dict[str, Any]] = []
        while self.next < len(self.lines):
            line, self.next = self.lines[self.next], self.next + 1
            self.line = self.next
            if line.startswith("## "):
                cases.append({"title": line[3:].strip(), "line": self.line})
            elif not cases or not line or line.startswith(">"):
                continue  # introduction or remark
            else:
                if opener := re.fullmatch(r"(```+)(raw|json-string|expected)", line):
                    read = {"raw": self.raw, "json-string": self.json_string, "expected": self.expected}
                    new = read[opener[2]](self.block(opener[1]))
                elif header := re.fullmatch(r"(\w+): (.+)", line):
                    new = {header[1]: self.header(header[1], header[2])}
                else:
                    self.fail(f"neither a header nor a block: {line}")
                if duplicates := cases[-1].keys() & new.keys():
                    self.fail(f"duplicate {', '.join(sorted(duplicates))}")
                cases[-1] |= new
        for case in cases:
            self.line = case["line"]
            if missing := {"raw", "content", "reasoning"} - case.keys():
                self.fail(f"no {', '.join(sorted(missing))}")
        file = self.path.relative_to(CORPUS).as_posix()
        return [Vector(**{"dialect": self.path.parent.name, "file": file} | case) for case in cases]

    def header(self, key: str, text: str) -> Any:
        if key in WORDS and text in CHOICES.get(key, {text}):
            return text
        if key in JSONS or (key == "tool_choice" and text.startswith("{")):
            return self.json(text)
        if key == "tool_choice":
            return text
        if key == "policies" and re.fullmatch(r"\w+=\w+(, \w+=\w+)*", text):
            return dict(re.findall(r"(\w+)=(\w+)", text))
        if key != "tools":
            self.fail(f"unknown header or invalid value: {key}: {text}")
        tools = self.json((CORPUS / "tools.json").read_text("utf-8") if text == "xml" else text)
        return tuple({"type": "function", "function": {"name": t}} if type(t) is str else t for t in tools)

    def raw(self, body: list[str]) -> dict[str, Any]:
        text = "\n".join(body)
        if problem := find_invisible(text):
            self.fail(f"{problem}: write the text as json-string")
        return {"raw": text}

    def json_string(self, body: list[str]) -> dict[str, Any]:
        text = ""
        for line in body:
            self.line += 1
            if not isinstance(part := self.json(line), str):
                self.fail(f"not a JSON string: {line}")
            text += part
        return {"raw": text}

    def expected(self, body: list[str]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        calls: list[dict[str, Any]] = []
        for line in body:
            self.line += 1
            key, _, rest = line.partition(": ")
            name, _, text = rest.partition(" ")
            if key in {"content", "reasoning"} and key not in fields:
                fields[key] = self.json(rest)
            elif key == "call":
                calls.append({"name": name, "value": self.json(text)})
            elif key in {"call-text", "cut"}:
                text = self.json(text) if text.startswith('"') else text
                value = self.json(text) if key == "call-text" else None
                calls.append({"name": name, "text": text, "value": value, "cut": key == "cut"})
            elif key == "id" and calls and "id" not in calls[-1]:
                calls[-1]["id"] = rest
            else:
                self.fail(f"not a line of an expected result: {line}")
        return fields | {"calls": tuple(Call(**call) for call in calls)}


def find_invisible(text: str) -> str | None:
    """Describe the characters of a text that a reader could miss or an editor could change."""
    if text != text.strip() or any(line[-1:].isspace() for line in text.split("\n")):
        return "whitespace at either end of the text or at the end of a line"
    hidden = {c for c in text if c not in "\n " and unicodedata.category(c) in INVISIBLE}
    return "invisible " + ", ".join(f"U+{ord(c):04X}" for c in sorted(hidden)) if hidden else None


@cache
def _all() -> tuple[Vector, ...]:
    vectors: dict[str, Vector] = {}
    for path in sorted(CORPUS.glob("*/*.md")):
        for vector in _File(path).vectors():
            first = vectors.setdefault(str(vector), vector)
            if first is not vector:
                raise CorpusError(f"{path}:{vector.line}: same title as {first.file}:{first.line}: {vector}")
    return tuple(vectors.values())


def load(dialect: str | None = None) -> list[Vector]:
    """Return the vectors of one dialect, or of all."""
    return [vector for vector in _all() if dialect in {None, vector.dialect}]


def dialects() -> list[str]:
    """Return the names of all dialects that have vectors."""
    return sorted({vector.dialect for vector in _all()})

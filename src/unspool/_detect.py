"""Detection: which dialect does a model speak, by its own chat template.

The template is made to render a conversation in which the assistant calls
tools, and every dialect parses that turn back.  The ones that recover it
exactly can read the model; among them, the one that would have written the
turn just so, and whose furniture the template contains, is the model's own.
No list of fingerprints decides: where one is needed to tell families apart that
write alike, it stands with the dialect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ._errors import UsageError
from ._explain import _grammar
from ._message import Message, Part, TextPart, ToolCall
from ._parser import parse
from ._registry import list_dialects
from ._render import render
from .template import ChatTemplate, ChatTemplateError, normalise_history

if TYPE_CHECKING:
    from ._dialect import Dialect

_SCHEMAS: Final = {
    "get_weather": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "find_place": {"query": {"type": "string"}, "near": {"type": "string"}},
}
TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Call {name}.",
            "parameters": {"type": "object", "properties": properties, "required": list(properties)},
        },
    }
    for name, properties in _SCHEMAS.items()
]
_CALLS: Final = (
    ToolCall("abcdefgh1", "get_weather", '{"city": "Zürich", "days": 3}'),
    ToolCall("abcdefgh2", "find_place", '{"near": "the lake", "query": "a \\"quiet\\" café"}'),
)
_CONTENT: Final = "Canary content."
_THOUGHT: Final = "Canary thought."
_ASKED: Final[dict[str, object]] = {"role": "user", "content": "What is the weather like?"}


@dataclass(frozen=True, slots=True)
class Detection:
    """What was found out about a template."""

    dialect: Dialect | None
    """The dialect, or None if the template renders no calls that any dialect reads."""
    renders_calls: bool
    """Whether the template writes tool calls at all."""
    renders_reasoning: bool
    """Whether the template writes reasoning of earlier turns."""
    confidence: float
    """From 0 to 1: how far the dialect is ahead of the next one."""
    evidence: tuple[str, ...]
    """What speaks for it, a sentence each."""
    runners_up: tuple[str, ...]
    """Other dialects that read the turn, the likelier first."""
    turn: str = ""
    """The turn that the template rendered."""
    inferred: bool = False
    """The dialect is not one of the registry's: it was inferred from renderings."""


def detect(source: object) -> Detection:
    """The dialect of a chat template, a tokenizer configuration or a model directory.

    :param source: the template's text; the mapping of ``tokenizer_config.json``;
        or a path to either, or to a directory that holds them.
    """
    template, tokens = load_template(source)
    return _Detector(ChatTemplate(template, **tokens)).result()  # type: ignore[arg-type]


def load_template(source: object) -> tuple[str, dict[str, str]]:
    """The text of a chat template, and the special tokens it needs."""
    if isinstance(source, Mapping):
        return _from_config(source)
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source and len(source) < 4096):
        path = Path(source)
        if path.is_dir():
            return _from_directory(path)
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            return _from_config(json.loads(text)) if path.suffix == ".json" else (text, {})
        if isinstance(source, Path):
            raise UsageError(
                f"{source} does not exist: give a chat template, tokenizer_config.json or a model directory"
            )
    if isinstance(source, str):
        if "{" not in source:
            raise UsageError(
                f"{source[:80]!r} is neither a path nor a chat template: "
                "a template is Jinja text with {{ }} or {% %}"
            )
        return source, {}
    raise UsageError(
        f"detect() takes a chat template, a tokenizer configuration or a path, got {type(source).__name__}"
    )


def _from_directory(path: Path) -> tuple[str, dict[str, str]]:
    config: dict[str, object] = {}
    if (path / "tokenizer_config.json").is_file():
        config = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8"))
    for name in ("chat_template.jinja", "chat_template.json"):
        if (path / name).is_file():
            text = (path / name).read_text(encoding="utf-8")
            config["chat_template"] = text if name.endswith("jinja") else json.loads(text)["chat_template"]
            break
    if "chat_template" not in config:
        raise UsageError(
            f"{path} has no chat template: expected chat_template.jinja, chat_template.json "
            "or the field chat_template in tokenizer_config.json"
        )
    return _from_config(config)


def _from_config(config: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, Mapping)}
        template = named.get("tool_use") or named.get("default")
    if not isinstance(template, str):
        raise UsageError("the tokenizer configuration has no chat_template")
    tokens: dict[str, str] = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        token = config.get(name)
        token = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(token, str):
            tokens[name] = token
    return template, tokens


class _Detector:
    """One template being examined."""

    def __init__(self, template: ChatTemplate) -> None:
        self.template = template

    def result(self) -> Detection:
        wants = self.template.wants
        if wants.calls == "none":
            return Detection(
                dialect=None,
                renders_calls=False,
                renders_reasoning=bool(wants.reasoning),
                confidence=1.0,
                evidence=("This template renders no tool calls.",),
                runners_up=(),
            )
        found: list[_Candidate] = []
        for calls in (_CALLS, _CALLS[:1]):
            for content in (_CONTENT, None):
                turn = self.turn(calls, content)
                if not turn:
                    continue
                message = Message(content=content, tool_calls=tuple(calls))
                found = [c for c in self.candidates(turn, message) if c.exact]
                if found:
                    return self.choose(found, turn)
        return Detection(
            dialect=None,
            renders_calls=True,
            renders_reasoning=bool(wants.reasoning),
            confidence=0.0,
            evidence=("The template renders tool calls, but no dialect reads them.",),
            runners_up=(),
            turn=self.turn(_CALLS[:1], None),
        )

    def turn(self, calls: Iterable[ToolCall], content: str | None) -> str:
        """The assistant's turn as the template writes it."""
        try:
            one, other = (
                self.render([_ASKED, _assistant(calls, content, mark)]) for mark in ("first", "second")
            )
            prompt = self.render([_ASKED], add_generation_prompt=True)
        except ChatTemplateError:
            return ""
        if content is None:
            return one[_safe_start(one, prompt) :]
        at = one.find(_CONTENT)
        del other
        return one[at:] if at >= 0 else ""

    def render(self, messages: list[dict[str, object]], *, add_generation_prompt: bool = False) -> str:
        history = normalise_history(messages, self.template)
        return self.template.render(history, TOOLS, add_generation_prompt=add_generation_prompt)

    def candidates(self, turn: str, message: Message) -> Iterator[_Candidate]:
        for dialect in list_dialects():
            if dialect.call or dialect.frame is not None:
                yield _Candidate(dialect, turn, message, self.template.source)

    def choose(self, found: list[_Candidate], turn: str) -> Detection:
        found.sort(key=lambda candidate: candidate.score, reverse=True)
        best = found[0]
        behind = found[1].score if len(found) > 1 else (0, 0.0)
        return Detection(
            dialect=best.dialect,
            renders_calls=True,
            renders_reasoning=bool(self.template.wants.reasoning),
            confidence=1.0 if best.score > behind else 0.5,
            evidence=tuple(best.evidence()),
            runners_up=tuple(candidate.dialect.name for candidate in found[1:6]),
            turn=turn,
        )


class _Candidate:
    """A dialect, and what speaks for it."""

    def __init__(self, dialect: Dialect, turn: str, message: Message, source: str) -> None:
        self.dialect = dialect
        read = parse(turn, dialect, tools=TOOLS, prompt="" if dialect.frame is None else None)
        self.exact = _same(read, message)
        """The dialect recovers the message from the turn."""
        self.clean = self.exact and not read.problems
        self.writes = self.exact and _would_write(dialect, message, turn)
        """It would have written the turn just so."""
        literals = _furniture(dialect)
        self.known = [literal for literal in literals if literal in source]
        """Its furniture that the template contains."""
        self.share = len(self.known) / len(literals) if literals else 0.0
        self.marked = sum(mark in source for mark in dialect.fingerprint)

    @property
    def score(self) -> tuple[int, float]:
        """What is certain counts before what is likely."""
        sure = (
            4 * bool(self.marked)
            + 2 * self.clean
            + self.writes
            - 4 * bool(self.dialect.fingerprint and not self.marked)
        )
        return (sure, self.share + 0.01 * len(self.known))

    def evidence(self) -> Iterator[str]:
        yield f"{self.dialect.name} recovers the calls that the template rendered, exactly."
        if self.writes:
            yield "It would have written that turn just so."
        if self.known:
            yield f"The template contains its markers {', '.join(self.known[:6])}."
        if self.marked:
            yield f"The template contains what tells the family: {', '.join(self.dialect.fingerprint)}."


def _assistant(calls: Iterable[ToolCall], content: str | None, mark: str) -> dict[str, object]:
    del mark
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ],
    }


def _safe_start(text: str, prompt: str) -> int:
    """Where two renderings part, but never inside a marker."""
    at = 0
    while at < min(len(text), len(prompt)) and text[at] == prompt[at]:
        at += 1
    if at == len(prompt):
        return at
    # The prompt went on with something else, perhaps with markup that begins alike.
    border = max(text.rfind(mark, 0, at) for mark in ("\n", ">", "]"))
    return border + 1 if border >= 0 else at


def _same(read: Message, message: Message) -> bool:
    calls = [(call.name, _value(call.arguments)) for call in read.tool_calls]
    wanted = [(call.name, _value(call.arguments)) for call in message.tool_calls]
    return calls == wanted and (read.content or "").strip() == (message.content or "")


def _value(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _would_write(dialect: Dialect, message: Message, turn: str) -> bool:
    parts: list[Part] = [TextPart("content", message.content)] if message.content else []
    try:
        written = render(dialect, Message(parts=(*parts, *message.tool_calls)))
    except UsageError:
        return False
    return turn.strip().startswith(written.strip())


def _furniture(dialect: Dialect) -> list[str]:
    """Markers that have nothing to do with calls: they tell families apart that write calls alike."""
    grammar = _grammar(dialect)
    found = {
        literal.strip() for literal in (*dialect.stop, *dialect.turn, *dialect.drop) if "{" not in literal
    }
    for wrapper in grammar.inside:
        found.update(step.text for step in wrapper.steps if step.text)
    return sorted(literal for literal in found if len(literal) > 1)

"""Detection: which dialect does a model speak, by its own chat template.

The template is made to render a conversation in which the assistant calls
tools, and every dialect parses that turn back.  The ones that recover it
exactly can read the model; among them, the one that would have written the
turn just so, and whose furniture the template contains, is the model's own.
No list of fingerprints decides: where one is needed to tell families apart that
write alike, it stands with the dialect, and a family that has one and lacks it
here loses to one that needs none.

Where no dialect reads the turn, one is inferred (``infer.py``); where there is no
template, something else may tell (``guess.py``).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ..._core.render.example import calls_of
from ..._core.render.message import render
from ...chat_templates import ChatTemplate, ChatTemplateError, normalise_history
from ...dialects._declaration import Dialect
from ...dialects._registry import combined, find, get_dialect, list_dialects
from ...dialects._request_facts import (
    MODEL,
    NO_REASONING,
    SWITCHES,
    UNSWITCHED,
    Answer,
    RequestFacts,
)
from ...dialects._templates import is_control, split_marks
from ...errors import SpecError, UsageError
from ...message import Message, Part, TextPart, ToolCall
from ...parser import Parser, parse
from ..convert.from_response_template import from_response_template
from ..sources import Source, read_source
from .infer_dialect import infer
from .markers import call_markers, furniture
from .probe_messages import FLAT_TOOLS, TOOLS, Writing
from .result import Begins, Detection, Reasoning
from .template_probe import ASKED, Probe, as_dict
from .without_template import guess

_CALLS: Final = (
    ToolCall("abcdefgh1", "get_weather", '{"city": "Zürich", "days": 3}'),
    ToolCall("abcdefgh2", "find_place", '{"near": "the lake", "query": "a \\"quiet\\" café"}'),
)
_CONTENT: Final = "Canary content."
_THOUGHT: Final = "Canary thought."
_SWITCHES: Final[Mapping[str, tuple[object, ...]]] = {
    "enable_thinking": (True, False),
    "thinking": (True, False),
    "reasoning": (True, False),
    "add_thoughts": (True, False),
    "thinking_mode": ("enabled", "disabled", "thinking", "chat"),
    "reasoning_effort": ("high", "low", "none", "no_think"),
    "thinking_effort": ("high", "none"),
    "reasoning_strength": ("high", "low"),
    "thinking_budget": (0, 512),
}
"""Variables by which templates are told to reason, and what to try them with."""
WITHOUT_TOOLS: Final = "Requests without tools"
_OPENS_THINKING: Final = re.compile(
    r"(?:<\|?(?:\w+:|start_)?think(?:ing)?(?::\w+)?\|?>|\[think\]|◁think▷)$", re.IGNORECASE
)
"""What opens reasoning in any family."""


def detect(
    source: object, *, tokenizer: object | None = None, dialects: Iterable[Dialect] | None = None
) -> Detection:
    """The dialect of a model, by its chat template.

    A dialect that had to be inferred comes with a warning: it reads what the
    template writes, which need not be all that the model writes.

    :param source: the template's text; the mapping of ``tokenizer_config.json``; a path
        to either, to a directory that holds them, to a GGUF file or a Modelfile; the name
        of a model in the Hugging Face cache or of Ollama; the address of a running server;
        ``-`` for standard input.  Text that holds ``{{``, ``{%`` or a line break is a
        template; give a ``Path`` where a path looks like a template.
    :param tokenizer: selects the variant of the dialect that its vocabulary calls for; by default
        that of a GGUF file.
    :param dialects: the dialects to choose from; by default all that are registered.
    """
    found = detect_dialect(read_source(source), tokenizer=tokenizer, dialects=dialects)
    if found.inferred:
        warnings.warn(
            "no dialect reads what this chat template writes, so one was inferred from it: "
            "check Detection.declaration, and register it under a name of its own",
            UserWarning,
            stacklevel=2,
        )
    return found


def detect_dialect(
    model: Source, *, tokenizer: object | None = None, dialects: Iterable[Dialect] | None = None
) -> Detection:
    """As ``detect``, without the warning."""
    candidates = list_dialects() if dialects is None else tuple(dialects)
    found = _Examination(model, candidates).result() if model.template else guess(model, candidates)
    tokenizer = model.vocabulary if tokenizer is None else tokenizer
    if tokenizer is not None and found.dialect is not None and not found.inferred:
        variant = find(found.dialect, tokenizer)
        if variant is not found.dialect:
            why = f"The vocabulary calls for the variant {variant.name}."
            return replace(found, dialect=variant, evidence=(*found.evidence, why))
    return found


# -- the examination


class _Examination:
    """One template being examined."""

    def __init__(self, model: Source, dialects: Sequence[Dialect]) -> None:
        self.model = model
        self.dialects = dialects
        self.template = Probe(model.template, model.tokens)
        self.check()
        self.wants = self.template.wants
        self.haystack = f"{model.template}\nmodel_type: {model.model_type}\n"
        """Where fingerprints are looked for."""
        self.prompt = self.template.prompt()

    def check(self) -> None:
        """Refuse a template that does not write even a question of the user's."""
        try:
            asked = normalise_history([ASKED], self.template)
            try:
                text = self.template.render(asked)
            except ChatTemplateError:
                text = self.template.render(asked, FLAT_TOOLS)  # some cannot do without tools
        except ChatTemplateError as error:
            raise UsageError(
                f"the chat template of {self.model.origin} renders no conversation: {error.reason}. "
                "Check that it is the template of a chat model, and complete"
            ) from error
        if str(ASKED["content"]) not in text:
            raise UsageError(
                f"the chat template of {self.model.origin} leaves out what the user says: "
                "it is not the template of a chat, or it expects messages in another form"
            )

    def result(self) -> Detection:
        found = self.spoken()
        roles = ", ".join(sorted(self.wants.only_parts))
        if not roles:
            return found
        why = f"It takes content as a list of parts only, from these roles: {roles}."
        return replace(found, evidence=(*found.evidence, why))

    def spoken(self) -> Detection:
        if self.wants.calls == "none":
            return self.without_calls()
        turn = ""
        for writing, message in self.turns():
            found = [c for c in self.candidates(writing, message) if c.exact]
            if found:
                return self.choose(found, writing)
            if all(call.name in writing.turn for call in message.tool_calls):
                turn = turn or writing.turn
        return self.unread(turn)

    def turns(self) -> Iterator[tuple[Writing, Message]]:
        """Turns with calls, what is hardest to read first."""
        counts = (2, 1) if self.wants.calls == "many" else (1,)
        contents = (_CONTENT, None) if self.wants.beside else (None,)
        for count in counts:
            for content in contents:
                message = Message(content=content, tool_calls=_CALLS[:count])
                writing = self.template.write(message)
                if content is not None:
                    # From the content on: what stands before it is of no interest here.
                    at = writing.turn.find(content)
                    if at < 0:
                        continue
                    writing = Writing(writing.prompt + writing.turn[:at], writing.turn[at:], writing.rest)
                if writing.turn:
                    yield writing, message

    def candidates(self, writing: Writing, message: Message) -> Iterator[_Candidate]:
        for dialect in self.dialects:
            if dialect.call or dialect.frame is not None:
                yield _Candidate(dialect, writing.turn, message, self.haystack)

    def choose(self, found: list[_Candidate], writing: Writing) -> Detection:
        found.sort(key=lambda candidate: candidate.score, reverse=True)
        best = found[0]
        evidence: list[str] = []
        for _, name in best.dialect.family.variants:
            variant = next((each for each in found if each.dialect.name == name), None)
            if variant is not None:
                evidence.append(f"Of the forms that {best.dialect.name} knows, the template writes this one.")
                found.remove(variant)
                best, found = variant, [variant, *found]
                break
        dialect, reasoning, remarks = self.reasoning(best.dialect)
        return Detection(
            dialect=dialect,
            renders_calls=True,
            renders_reasoning=bool(self.wants.reasoning),
            confidence=_confidence(found, sure=bool(evidence)),
            evidence=(*best.evidence(), *evidence, *remarks),
            runners_up=tuple(candidate.dialect.name for candidate in found[1:6]),
            reasoning=reasoning,
            turn=writing.turn,
            prompt=self.prompt,
            warnings=tuple(self.warnings()),
        )

    def without_calls(self) -> Detection:
        """The template has no place for calls."""
        hint = self.hint()
        dialect, reasoning, remarks = self.reasoning(None)
        evidence = ["This template renders no tool calls."]
        if hint is not None:
            evidence.append(
                f"Its text speaks of those of {hint.name}, so its models may write them all the same: "
                f"use that dialect, and put earlier calls into the history as content."
            )
        return Detection(
            dialect=dialect,
            renders_calls=False,
            renders_reasoning=bool(self.wants.reasoning),
            confidence=1.0,
            evidence=(*evidence, *remarks),
            runners_up=(),
            reasoning=reasoning,
            prompt=self.prompt,
            hint="" if hint is None else hint.name,
            warnings=tuple(self.warnings()),
        )

    def hint(self) -> Dialect | None:
        """The dialect whose calls the template speaks of, though it renders none."""
        ranked: list[tuple[int, int, Dialect]] = []
        for dialect in self.dialects:
            marks = [mark for mark in dialect.family.fingerprint if mark in self.haystack]
            markers = call_markers(dialect)
            spoken_of = bool(markers) and all(marker in self.model.template for marker in markers)
            if marks or spoken_of:
                ranked.append((2 * bool(marks) + spoken_of, len(dialect.family.aliases), dialect))
        return max(ranked, key=lambda each: each[:2])[2] if ranked else None

    def unread(self, turn: str) -> Detection:
        """No dialect reads the calls: perhaps one can be inferred."""
        own = self.response_template()
        if own is not None:
            return own
        inferred = infer(self.template.write, many=self.wants.calls == "many")
        dialect = None if inferred is None else inferred.dialect
        evidence = ["The template renders tool calls, but no dialect reads them."]
        evidence += ["None could be inferred either."] if inferred is None else inferred.evidence
        _, reasoning, remarks = self.reasoning(dialect, combine=False)
        if dialect is not None:
            dialect = replace(dialect, request=_facts(dialect, reasoning))
        return Detection(
            dialect=dialect,
            renders_calls=True,
            renders_reasoning=bool(self.wants.reasoning),
            confidence=0.0 if inferred is None else inferred.confidence,
            evidence=(*evidence, *remarks),
            runners_up=(),
            reasoning=reasoning,
            turn=turn,
            prompt=self.prompt,
            inferred=dialect is not None,
            warnings=tuple(self.warnings()),
        )

    def response_template(self) -> Detection | None:
        """The dialect that the tokenizer itself describes, if it does."""
        given = self.model.config.get("response_template")
        if not isinstance(given, Mapping):
            return None
        try:
            dialect = from_response_template(given)
        except SpecError:
            return None
        for writing, message in self.turns():
            candidate = _Candidate(dialect, writing.turn, message, self.haystack)
            if candidate.exact:
                chosen = self.choose([candidate], writing)
                why = "The tokenizer brings a response template, and that is the dialect it describes."
                return replace(chosen, evidence=(*chosen.evidence, why))
        return None

    def warnings(self) -> Iterator[str]:
        """What Transformers, which is stricter than a probe, does not render."""
        template = ChatTemplate(self.model.template, **self.model.tokens)  # type: ignore[arg-type]
        kinds: dict[str, list[Mapping[str, object]]] = {
            WITHOUT_TOOLS: [ASKED],
            "requests with tools": [ASKED],
        }
        if self.wants.calls != "none":
            kinds["histories with calls"] = [ASKED, as_dict(Message(tool_calls=_CALLS[:1]), "")]
        reasons: dict[str, list[str]] = {}
        for kind, messages in kinds.items():
            tools = None if kind == WITHOUT_TOOLS else FLAT_TOOLS
            try:
                template.render(normalise_history(messages, self.template), tools)
            except ChatTemplateError as error:
                reason = " ".join(error.reason.split()).rstrip(".")
                reasons.setdefault(reason, []).append(kind)
        for reason, failed in reasons.items():
            which = "any request" if len(failed) == len(kinds) else " and ".join(failed)
            yield f"{which[0].upper()}{which[1:]}: Transformers cannot render the template ({reason})."

    # -- reasoning

    def reasoning(
        self, dialect: Dialect | None, *, combine: bool = True
    ) -> tuple[Dialect | None, Reasoning, list[str]]:
        """The dialect (combined with another's reasoning where it needs that), and what was found."""
        message, writing = self.thought()
        remarks: list[str] = []
        if message is not None and not _reads_thought(dialect, writing, message):
            other = self.reasoning_reader(dialect, writing, message) if combine else None
            if other is not None:
                remarks.append(f"Its reasoning is that of {other.name.rpartition('+')[2]}.")
                dialect = other
        found = self.seed(dialect)
        if found is None and combine:
            other = self.seed_reader(dialect)
            if other is not None:
                remarks.append(f"Its reasoning is that of {other.name.rpartition('+')[2]}.")
                dialect = other
                found = self.seed(other)
        seed, begins = found or ("", "content")
        read = message is None or _reads_thought(dialect, writing, message)
        opener, closer = _around(dialect, writing) if message is not None else (seed.strip(), "")
        reasoning = Reasoning(
            key=self.wants.reasoning if message is not None else "",
            opener=opener,
            closer=closer,
            seed=seed,
            begins=begins,
            switches=tuple(self.switches()),
            read=read and found is not None,
        )
        remarks += _reasoning_remarks(reasoning, dialect)
        return dialect, reasoning, remarks

    def thought(self) -> tuple[Message | None, Writing]:
        """A turn with reasoning, if the template writes any."""
        calls = _CALLS[:1] if self.wants.calls != "none" else ()
        for content in (None, _CONTENT) if calls else (_CONTENT,):
            message = Message(reasoning=_THOUGHT, content=content, tool_calls=calls)
            writing = self.template.write(message) if self.wants.reasoning else Writing("", "", "")
            if _THOUGHT in writing.turn:
                return message, writing
        return None, Writing("", "", "")

    def reasoning_reader(self, dialect: Dialect | None, writing: Writing, message: Message) -> Dialect | None:
        """The dialect with the reasoning of another that reads this."""
        for pair in self.combinations(dialect):
            if _reads_thought(pair, writing, message):
                return pair
        return None

    def seed_reader(self, dialect: Dialect | None) -> Dialect | None:
        return next((each for each in self.combinations(dialect) if self.seed(each) is not None), None)

    def combinations(self, dialect: Dialect | None) -> Iterator[Dialect]:
        """The dialect with the reasoning of others, of those that most engines know first."""
        base = get_dialect("passthrough") if dialect is None else dialect
        if base.frame is not None:
            return
        known = (each for each in self.dialects if each.reasoning and each.frame is None)
        for other in sorted(known, key=lambda each: len(each.family.reasoning_aliases), reverse=True):
            if other.reasoning != base.reasoning:
                yield combined(base, other)

    def seed(self, dialect: Dialect | None) -> tuple[str, Begins] | None:
        """What the prompt ends with that opens reasoning, and where an output begins.

        None: the prompt ends with a marker of reasoning that the dialect does not know.
        """
        begins = "content" if dialect is None else _begins(dialect, self.prompt)
        text = self.prompt.rstrip()
        if dialect is not None and begins == "reasoning":
            openers = (split_marks(each)[1].partition("{text}")[0].strip() for each in dialect.reasoning)
            opener = max((each for each in openers if text.endswith(each)), key=len, default="")
            return self.prompt[len(text) - len(opener) :], begins
        if begins == "content" and _OPENS_THINKING.search(text):
            return None
        return "", begins

    def switches(self) -> Iterator[str]:
        """The variables that make a difference to the prompt."""
        for name, values in _SWITCHES.items():
            if re.search(rf"\b{name}\b", self.model.template) is None:
                continue
            for value in values:
                if self.template.prompt(**{name: value}) != self.prompt:
                    yield name
                    break


def _around(dialect: Dialect | None, writing: Writing) -> tuple[str, str]:
    """What stands around the thought: the dialect's markers, or whatever is nearest."""
    turn, _, after = writing.turn.partition(_THOUGHT)
    before = (writing.prompt + turn).rstrip()
    for template in () if dialect is None else dialect.reasoning:
        opener, _, closer = split_marks(template)[1].partition("{text}")
        if before.endswith(opener.strip()) and after.lstrip().startswith(closer.strip()):
            return opener.strip(), closer.strip()
    near = re.match(r"\s*(<[^<>]+>|\[[^\[\]\s]+\]|[^<\[]+)", after)
    return turn.strip().rpartition("\n")[2], near[1].strip() if near else ""


def _begins(dialect: Dialect, prompt: str) -> Begins:
    """Where an output after this prompt begins, as the parser sees it."""
    for event in Parser(dialect, prompt=prompt).feed("x"):
        channel = getattr(event, "channel", "")
        if channel in ("content", "reasoning"):
            return "reasoning" if channel == "reasoning" else "content"
    return "header" if dialect.prompt.start else "content"


def _reads_thought(dialect: Dialect | None, writing: Writing, message: Message) -> bool:
    if dialect is None:
        return False
    read = parse(writing.turn, dialect, tools=TOOLS, prompt=writing.prompt)
    if (read.reasoning or "").strip() != message.reasoning:
        return False
    return not message.tool_calls or not dialect.call or calls_of(read) == calls_of(message)


def _reasoning_remarks(reasoning: Reasoning, dialect: Dialect | None) -> Iterator[str]:
    if reasoning.key:
        where = "a part of the content" if reasoning.key == "parts" else reasoning.key
        between = f", between {reasoning.opener} and {reasoning.closer}" if reasoning.closer else ""
        yield f"It writes the reasoning of earlier turns, from {where}{between}."
    if reasoning.seed:
        yield f"A prompt ends with {reasoning.seed!r}, so that the output begins inside reasoning."
    if reasoning.switches:
        yield f"Reasoning is switched by {', '.join(reasoning.switches)}."
    if reasoning and not reasoning.read:
        name = "No dialect" if dialect is None else f"{dialect.name} does not"
        yield f"{name} read{'s' if dialect is None else ''} its reasoning."


def _facts(dialect: Dialect, reasoning: Reasoning) -> RequestFacts:
    """What a request must know of an inferred dialect, where in doubt what does no harm."""
    switches = tuple(name for name in reasoning.switches if name in SWITCHES)
    thinking = NO_REASONING
    if dialect.reasoning:
        special: Answer = "yes" if is_control(dialect.reasoning[0]) else "no"
        thinking = replace(UNSWITCHED, special=special, switches=switches)
        if reasoning.seed:
            thinking = replace(thinking, default="on" if switches else "always", seed=reasoning.seed)
    return RequestFacts(
        calls_special="yes",
        answers_special="yes" if dialect.content else "no",
        forced=("native", "json"),
        eos=dialect.stop[:1] or (MODEL,),
        thinking=thinking,
    )


# -- candidates


_GUESSES: Final = ("missing_opener", "slip", "unnamed_call")
"""Notes of calls that are read although they are not written as the dialect writes them."""


class _Candidate:
    """A dialect, and what speaks for it."""

    def __init__(self, dialect: Dialect, turn: str, message: Message, haystack: str) -> None:
        self.dialect = dialect
        own = replace(dialect, also_accepts=())  # that it reads other families' calls says nothing
        read = parse(turn, own, tools=TOOLS, prompt="" if dialect.frame is None else None)
        said = (read.content or "").strip() == (message.content or "")
        guessed = any(diagnostic.kind in _GUESSES for diagnostic in read.diagnostics)
        self.exact = said and calls_of(read) == calls_of(message) and not guessed
        """The dialect recovers the message from the turn."""
        self.clean = self.exact and not read.diagnostics
        self.writes = self.exact and _would_write(dialect, message, turn)
        """It would have written the turn just so."""
        around = furniture(dialect)
        self.known = [literal for literal in around if literal in haystack]
        """Its furniture that the template contains."""
        self.share = len(self.known) / len(around) if around else 0.0
        self.marks = [mark for mark in dialect.family.fingerprint if mark in haystack]
        """What tells the family, as far as the template contains it."""

    @property
    def sure(self) -> int:
        """What is certain."""
        missing = bool(self.dialect.family.fingerprint) and not self.marks
        return 4 * bool(self.marks) + 2 * self.clean + self.writes - 4 * missing

    @property
    def score(self) -> tuple[int, int, float, int]:
        """What is certain counts before what is likely; in the end, what more engines have a name for."""
        names = len(self.dialect.family.aliases) + len(self.dialect.family.reasoning_aliases)
        return (self.sure, len(self.marks), self.share + 0.01 * len(self.known), names)

    def evidence(self) -> Iterator[str]:
        yield f"{self.dialect.name} recovers the calls that the template rendered, exactly."
        if self.writes:
            yield "It would have written that turn just so."
        if self.known:
            yield f"The template contains its markers {', '.join(self.known[:6])}."
        if self.marks:
            yield f"It also contains what tells the family: {', '.join(map(repr, self.marks))}."


def _confidence(found: Sequence[_Candidate], *, sure: bool) -> float:
    """How far the first is ahead of the second."""
    best = found[0]
    alone = 1.0 if best.clean and best.writes else 0.95
    if len(found) == 1 or sure:
        return alone
    second = found[1]
    if best.sure > second.sure:
        return 0.95 if best.marks or best.writes else 0.9
    return 0.8 if best.score[:-1] > second.score[:-1] else 0.6


def _would_write(dialect: Dialect, message: Message, turn: str) -> bool:
    parts: list[Part] = [TextPart("content", message.content)] if message.content else []
    try:
        written = render(dialect, Message(parts=(*parts, *message.tool_calls)), check=False)
    except UsageError:
        return False
    return turn.strip().startswith(written.strip())

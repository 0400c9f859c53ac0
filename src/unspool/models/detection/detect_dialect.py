"""Detection of a model's dialect from its chat template.

How it works:

1. The template renders a conversation in which the assistant calls tools (``template_probe.py``).
2. Every dialect parses the assistant's turn.  A dialect that recovers the calls exactly is a candidate.
3. The candidate with the highest score wins (``_Candidate.score``).  The score is higher if the candidate
   renders the same text as the template, and if the template contains the candidate's markers for
   reasoning, content and other text.

Some model families render calls in the same way.  The declaration of such a family has a fingerprint: text
that its chat templates contain.  A family whose fingerprint is missing from the template loses to a family
that declares no fingerprint.

If no dialect can parse the turn, ``infer_dialect_from_template.py`` derives a dialect from the template.
If there is no chat template, ``without_template.py`` uses the model's name and its Go template.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..._core.compile_cache import compiled_dialect
from ..._core.read_prompt_end import output_start, relevant_tail
from ..._core.render.example_output import calls_of
from ..._core.render.message import render
from ...dialects import (
    NO_REASONING,
    SWITCHES,
    UNSWITCHED,
    Dialect,
    RequestFacts,
    combined,
    find,
    get_dialect,
    is_control_token,
    list_dialects,
)
from ...dialects.parse_templates import template_text, text_around
from ...errors import SpecError, UsageError
from ...message import Message, Part, TextPart, ToolCall
from ...parser import parse
from ...templates import ChatTemplate, ChatTemplateError, normalise_history
from ..convert.from_response_template import from_response_template
from ..sources import Source, find_source, read_source, read_template
from ..sources.running_server import is_url
from ..sources.source import is_template
from .identifying_markers import call_markers, other_markers
from .infer_dialect_from_template import infer_dialect
from .probe_tools import FLAT_TOOLS, TOOLS, RenderedTurn
from .result import Begins, Detection, Reasoning
from .template_probe import QUESTION, TemplateProbe, message_dict
from .without_template import detect_without_template

_CALLS: Final = (
    ToolCall("abcdefgh1", "get_weather", '{"city": "Zürich", "days": 3}'),
    ToolCall("abcdefgh2", "find_place", '{"near": "the lake", "query": "a \\"quiet\\" café"}'),
)
_CONTENT: Final = "Canary content."
_REASONING: Final = "Canary thought."
_SWITCH_VALUES: Final[Mapping[str, tuple[object, ...]]] = {
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
"""Template variables that turn reasoning on or off, with values to try."""
WITHOUT_TOOLS: Final = "Requests without tools"
_REASONING_OPENER: Final = re.compile(
    r"(?:<\|?(?:\w+:|start_)?think(?:ing)?(?::\w+)?\|?>|\[think\]|◁think▷)$", re.IGNORECASE
)
"""Pattern that matches the reasoning opener of any model family at the end of a prompt."""


def detect(
    template: str | Mapping[str, object],
    *,
    tokenizer: object | None = None,
    dialects: Iterable[Dialect] | None = None,
) -> Detection:
    """Detect the dialect of a model from the text of its chat template.

    This function opens no files or connections.  For files and model names, use
    :func:`~unspool.models.detect_model`; for servers, :func:`~unspool.models.detect_server`.

    If no registered dialect can parse the template's calls, a dialect is inferred from the template, and a
    ``UserWarning`` is emitted.  An inferred dialect parses everything that the template renders, but the
    model may write other forms, too.

    :param template: the text of a chat template, or the contents of ``tokenizer_config.json`` (or a mapping).
    :param tokenizer: the tokenizer whose vocabulary selects the variant of the dialect.
    :param dialects: the dialects to choose from; by default, all registered dialects.
    """
    if not isinstance(template, (str, Mapping)):
        raise UsageError(
            f"detect() takes the text of a chat template, not {type(template).__name__}: "
            "unspool.models.detect_model() takes a path"
        )
    return _warned(detect_dialect(read_template(template), tokenizer=tokenizer, dialects=dialects))


def detect_model(
    source: str | Path, *, tokenizer: object | None = None, dialects: Iterable[Dialect] | None = None
) -> Detection:
    """Detect the dialect of a model from its files, as :func:`detect` does from a template.

    :param source: a path to a chat template, a ``tokenizer_config.json``, a model directory, a GGUF file or a
        Modelfile; or the name of a model in the Hugging Face cache or in Ollama.
    :param tokenizer: the tokenizer whose vocabulary selects the variant of the dialect; by default, the
        vocabulary of the GGUF file if there is one.
    """
    if is_url(str(source)):
        raise UsageError(f"{source} is the address of a server: call unspool.models.detect_server()")
    if not isinstance(source, Path):
        source = str(source)
        if source == "-" or is_template(source):
            raise UsageError("detect_model() takes a path or a model's name: call detect() for a template")
    found = read_source(source) if isinstance(source, Path) else find_source(source)
    return _warned(detect_dialect(found, tokenizer=tokenizer, dialects=dialects))


def detect_server(
    url: str, *, tokenizer: object | None = None, dialects: Iterable[Dialect] | None = None
) -> Detection:
    """Detect the dialect of the model on a running server, as :func:`detect` does from a template.

    :param url: address of the server, such as ``http://127.0.0.1:8000``.
    """
    if not is_url(url):
        raise UsageError(f"{url!r} is not a server address: pass an address such as http://127.0.0.1:8000")
    return _warned(detect_dialect(find_source(url), tokenizer=tokenizer, dialects=dialects))


def _warned(detection: Detection) -> Detection:
    """Return the detection; first emit a ``UserWarning`` if its dialect was inferred."""
    if detection.inferred:
        warnings.warn(
            "no registered dialect reads what this chat template renders, so one was inferred from it: "
            "check Detection.declaration, and register it under a name of its own",
            UserWarning,
            stacklevel=3,
        )
    return detection


def detect_dialect(
    model: Source, *, tokenizer: object | None = None, dialects: Iterable[Dialect] | None = None
) -> Detection:
    """Detect the dialect of a source, as ``detect`` does, but emit no warnings."""
    candidates = list_dialects() if dialects is None else tuple(dialects)
    if model.template:
        detection = _TemplateDetection(model, candidates).result()
    else:
        detection = detect_without_template(model, candidates)
    tokenizer = model.vocabulary if tokenizer is None else tokenizer
    if tokenizer is not None and detection.dialect is not None and not detection.inferred:
        variant = find(detection.dialect, tokenizer)
        if variant is not detection.dialect:
            why = f"The vocabulary calls for the variant {variant.name}."
            return replace(detection, dialect=variant, evidence=(*detection.evidence, why))
    return detection


# -- by the template


class _TemplateDetection:
    """Detection from one chat template."""

    def __init__(self, model: Source, dialects: Sequence[Dialect]) -> None:
        self.model = model
        self.dialects = dialects
        self.template = TemplateProbe(model.template, model.tokens)
        self.check_template()
        self.wants = self.template.capabilities
        self.haystack = f"{model.template}\nmodel_type: {model.model_type}\n"
        """Text that is searched for fingerprints and markers."""
        self.prompt = self.template.prompt()

    def check_template(self) -> None:
        """Raise an error if the template cannot render a question from the user."""
        try:
            question = normalise_history([QUESTION], self.template)
            try:
                text = self.template.render(question)
            except ChatTemplateError:
                text = self.template.render(question, FLAT_TOOLS)  # some templates fail without tools
        except ChatTemplateError as error:
            raise UsageError(
                f"the chat template of {self.model.origin} does not render a conversation: {error.reason}. "
                "Check that it is complete, and that it is the template of a chat model"
            ) from error
        if str(QUESTION["content"]) not in text:
            raise UsageError(
                f"the chat template of {self.model.origin} leaves out the user's message: "
                "check that it is a chat template for messages with role and content"
            )

    def result(self) -> Detection:
        """Detect the dialect, and note the roles for which the template accepts content only as a list."""
        detection = self.detect()
        roles = ", ".join(sorted(self.wants.roles_with_parts_only))
        if not roles:
            return detection
        why = f"For these roles, the template accepts content only as a list of parts: {roles}."
        return replace(detection, evidence=(*detection.evidence, why))

    def detect(self) -> Detection:
        """Detect the dialect from the first of the ``turns`` that at least one dialect parses exactly."""
        if self.wants.calls == "none":
            return self.without_calls()
        unread_turn = ""
        for rendered, message in self.turns():
            exact = [c for c in self.candidates(rendered, message) if c.exact]
            if exact:
                return self.choose(exact, rendered)
            if all(call.name in rendered.turn for call in message.tool_calls):
                unread_turn = unread_turn or rendered.turn
        return self.unread(unread_turn)

    def turns(self) -> Iterator[tuple[RenderedTurn, Message]]:
        """Yield rendered turns that contain calls, each with its message; the hardest to parse comes first.

        A turn with content and two calls is harder to parse than a turn with one call.
        """
        counts = (2, 1) if self.wants.calls == "many" else (1,)
        contents = (_CONTENT, None) if self.wants.content_before_calls else (None,)
        for count in counts:
            for content in contents:
                message = Message(content=content, tool_calls=_CALLS[:count])
                rendered = self.template.render_turn(message)
                if content is not None:
                    # Move text before the content, such as an empty reasoning block, to the prompt, because a
                    # dialect that cannot parse this text may still be the right one.
                    at = rendered.turn.find(content)
                    if at < 0:
                        continue
                    prompt = rendered.prompt + rendered.turn[:at]
                    rendered = RenderedTurn(prompt, rendered.turn[at:], rendered.rest)
                if rendered.turn:
                    yield rendered, message

    def candidates(self, rendered: RenderedTurn, message: Message) -> Iterator[_Candidate]:
        for dialect in self.dialects:
            if dialect.call or dialect.frame is not None:
                yield _Candidate(dialect, rendered.turn, message, self.haystack)

    def choose(self, candidates: list[_Candidate], rendered: RenderedTurn) -> Detection:
        """Return the detection for the best candidate's dialect.

        If a variant of the best dialect also parses the turn, the variant wins, because it is more
        specific.
        """
        candidates.sort(key=lambda candidate: candidate.score, reverse=True)
        best = candidates[0]
        evidence: list[str] = []
        for _, name in best.dialect.family.variants:
            variant = next((each for each in candidates if each.dialect.name == name), None)
            if variant is not None:
                evidence.append(f"Of the variants of {best.dialect.name}, the template renders this one.")
                candidates.remove(variant)
                best, candidates = variant, [variant, *candidates]
                break
        dialect, reasoning, remarks = self.reasoning(best.dialect)
        return Detection(
            dialect=dialect,
            renders_calls=True,
            renders_reasoning=bool(self.wants.reasoning_key),
            confidence=_confidence(candidates, certain=bool(evidence)),
            evidence=(*best.evidence(), *evidence, *remarks),
            runners_up=tuple(candidate.dialect.name for candidate in candidates[1:6]),
            reasoning=reasoning,
            turn=rendered.turn,
            prompt=self.prompt,
            warnings=tuple(self.warnings()),
        )

    def without_calls(self) -> Detection:
        """Return the detection for a template that renders no tool calls."""
        hint = self.hint()
        dialect, reasoning, remarks = self.reasoning(None)
        evidence = ["This template renders no tool calls."]
        if hint is not None:
            evidence.append(
                f"Its text mentions the calls of {hint.name}, so its models may write them anyway: "
                f"use that dialect, and put earlier calls into the history as content."
            )
        return Detection(
            dialect=dialect,
            renders_calls=False,
            renders_reasoning=bool(self.wants.reasoning_key),
            confidence=1.0,
            evidence=(*evidence, *remarks),
            runners_up=(),
            reasoning=reasoning,
            prompt=self.prompt,
            hint="" if hint is None else hint.name,
            warnings=tuple(self.warnings()),
        )

    def hint(self) -> Dialect | None:
        """Return the dialect whose call markers or fingerprint appear in the template's source code, if any.

        The source code may mention calls that the template does not render.
        """
        ranked: list[tuple[int, int, Dialect]] = []
        for dialect in self.dialects:
            marks = [mark for mark in dialect.family.fingerprint if mark in self.haystack]
            markers = call_markers(dialect)
            mentioned = bool(markers) and all(marker in self.model.template for marker in markers)
            if marks or mentioned:
                ranked.append((2 * bool(marks) + mentioned, len(dialect.family.aliases), dialect))
        return max(ranked, key=lambda each: each[:2])[2] if ranked else None

    def unread(self, turn: str) -> Detection:
        """Infer a dialect for calls that no registered dialect can parse, and return the detection."""
        own = self.response_template()
        if own is not None:
            return own
        inferred = infer_dialect(self.template.render_turn, parallel=self.wants.calls == "many")
        dialect = None if inferred is None else inferred.dialect
        evidence = ["The template renders tool calls, but no registered dialect reads them."]
        evidence += (
            ["No dialect could be inferred from this template, either."]
            if inferred is None
            else inferred.evidence
        )
        _, reasoning, remarks = self.reasoning(dialect, combine=False)
        if dialect is not None:
            dialect = replace(dialect, request=_request_facts(dialect, reasoning))
        return Detection(
            dialect=dialect,
            renders_calls=True,
            renders_reasoning=bool(self.wants.reasoning_key),
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
        """Detect the dialect from the tokenizer's response template.

        Return None if there is no response template, or if it cannot parse the calls.
        """
        template = self.model.config.get("response_template")
        if not isinstance(template, Mapping):
            return None
        try:
            dialect = from_response_template(template)
        except SpecError:
            return None
        for rendered, message in self.turns():
            candidate = _Candidate(dialect, rendered.turn, message, self.haystack)
            if candidate.exact:
                detection = self.choose([candidate], rendered)
                why = "The tokenizer has a response template, which describes this dialect."
                return replace(detection, evidence=(*detection.evidence, why))
        return None

    def warnings(self) -> Iterator[str]:
        """Yield warnings about kinds of requests with which Transformers cannot render the template."""
        template = ChatTemplate(self.model.template, **self.model.tokens)  # type: ignore[arg-type]
        kinds: dict[str, list[Mapping[str, object]]] = {
            WITHOUT_TOOLS: [QUESTION],
            "requests with tools": [QUESTION],
        }
        if self.wants.calls != "none":
            kinds["histories with calls"] = [QUESTION, message_dict(Message(tool_calls=_CALLS[:1]), "")]
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
        """Return the dialect, the template's ``Reasoning``, and sentences to add to the evidence.

        A dialect that cannot parse the template's reasoning is combined with the reasoning format of
        another dialect.
        """
        message, rendered = self.turn_with_reasoning()
        remarks: list[str] = []
        if message is not None and not _reads_reasoning(dialect, rendered, message):
            other = self.with_readable_reasoning(dialect, rendered, message) if combine else None
            if other is not None:
                remarks.append(f"Its reasoning has the format of {other.name.rpartition('+')[2]}.")
                dialect = other
        start = self.output_start(dialect)
        if start is None and combine:
            other = self.with_known_seed(dialect)
            if other is not None:
                remarks.append(f"Its reasoning has the format of {other.name.rpartition('+')[2]}.")
                dialect = other
                start = self.output_start(other)
        seed, begins = start or ("", "content")
        read = message is None or _reads_reasoning(dialect, rendered, message)
        opener, closer = _reasoning_markers(dialect, rendered) if message is not None else (seed.strip(), "")
        reasoning = Reasoning(
            key=self.wants.reasoning_key if message is not None else "",
            opener=opener,
            closer=closer,
            seed=seed,
            begins=begins,
            switches=tuple(self.switches()),
            read=read and start is not None,
        )
        remarks += _reasoning_remarks(reasoning, dialect)
        return dialect, reasoning, remarks

    def turn_with_reasoning(self) -> tuple[Message | None, RenderedTurn]:
        """Return a message with reasoning, and the turn that the template renders for that message.

        The message is None if the template renders no reasoning.
        """
        calls = _CALLS[:1] if self.wants.calls != "none" else ()
        for content in (None, _CONTENT) if calls else (_CONTENT,):
            message = Message(reasoning=_REASONING, content=content, tool_calls=calls)
            nothing = RenderedTurn("", "", "")
            rendered = self.template.render_turn(message) if self.wants.reasoning_key else nothing
            if _REASONING in rendered.turn:
                return message, rendered
        return None, RenderedTurn("", "", "")

    def with_readable_reasoning(
        self, dialect: Dialect | None, rendered: RenderedTurn, message: Message
    ) -> Dialect | None:
        """Return the first of the ``combinations`` that can parse the reasoning in a turn."""
        for combination in self.combinations(dialect):
            if _reads_reasoning(combination, rendered, message):
                return combination
        return None

    def with_known_seed(self, dialect: Dialect | None) -> Dialect | None:
        """Return the first of the ``combinations`` that declares the prompt's reasoning opener."""
        return next(
            (each for each in self.combinations(dialect) if self.output_start(each) is not None), None
        )

    def combinations(self, dialect: Dialect | None) -> Iterator[Dialect]:
        """Yield combinations of this dialect with the reasoning format of each other dialect.

        The reasoning formats that most engines support come first.
        """
        base = get_dialect("passthrough") if dialect is None else dialect
        if base.frame is not None:
            return
        others = (each for each in self.dialects if each.reasoning and each.frame is None)
        for other in sorted(others, key=lambda each: len(each.family.reasoning_aliases), reverse=True):
            if other.reasoning != base.reasoning:
                yield combined(base, other)

    def output_start(self, dialect: Dialect | None) -> tuple[str, Begins] | None:
        """Return the reasoning opener at the end of the prompt, and the channel in which an output begins.

        The opener is empty if the prompt does not open reasoning.  Return None if the prompt ends with a
        reasoning opener that the dialect does not declare.
        """
        begins = "content" if dialect is None else _start_channel(dialect, self.prompt)
        text = self.prompt.rstrip()
        if dialect is not None and begins == "reasoning":
            openers = (text_around(each, "text")[0].strip() for each in dialect.reasoning)
            opener = max((each for each in openers if text.endswith(each)), key=len, default="")
            return self.prompt[len(text) - len(opener) :], begins
        if begins == "content" and _REASONING_OPENER.search(text):
            return None
        return "", begins

    def switches(self) -> Iterator[str]:
        """Yield the names of the reasoning variables that change the prompt of this template."""
        for name, values in _SWITCH_VALUES.items():
            if re.search(rf"\b{name}\b", self.model.template) is None:
                continue
            for value in values:
                if self.template.prompt(**{name: value}) != self.prompt:
                    yield name
                    break


def _reasoning_markers(dialect: Dialect | None, rendered: RenderedTurn) -> tuple[str, str]:
    """Return the texts before and after the reasoning in a rendered turn: its opener and closer.

    If the dialect's reasoning markers surround the reasoning, these markers are returned.  Otherwise the
    opener is guessed as the rest of the line before the reasoning, and the closer as the first tag or text
    after it.
    """
    turn, _, after = rendered.turn.partition(_REASONING)
    before = (rendered.prompt + turn).rstrip()
    for template in () if dialect is None else dialect.reasoning:
        opener, closer = text_around(template, "text")
        if before.endswith(opener.strip()) and after.lstrip().startswith(closer.strip()):
            return opener.strip(), closer.strip()
    near = re.match(r"\s*(<[^<>]+>|\[[^\[\]\s]+\]|[^<\[]+)", after)
    return turn.strip().rpartition("\n")[2], near[1].strip() if near else ""


def _start_channel(dialect: Dialect, prompt: str) -> Begins:
    """Return the channel in which the parser starts to read an output after this prompt."""
    start = output_start(dialect, relevant_tail(prompt, compiled_dialect(dialect)))
    if start == "reasoning" or start == "content":  # noqa: PLR1714 - `in` narrows no type
        return start
    return "header" if dialect.prompt.start else "content"


def _reads_reasoning(dialect: Dialect | None, rendered: RenderedTurn, message: Message) -> bool:
    """Return whether parsing a turn with a dialect recovers all reasoning and all calls of the turn."""
    if dialect is None:
        return False
    parsed = parse(rendered.turn, dialect, tools=TOOLS, prompt=rendered.prompt)
    if (parsed.reasoning or "").strip() != message.reasoning:
        return False
    return not message.tool_calls or not dialect.call or calls_of(parsed) == calls_of(message)


def _reasoning_remarks(reasoning: Reasoning, dialect: Dialect | None) -> Iterator[str]:
    if reasoning.key:
        where = "a part of the content" if reasoning.key == "parts" else reasoning.key
        between = f", between {reasoning.opener} and {reasoning.closer}" if reasoning.closer else ""
        yield f"The template renders the reasoning of earlier turns, from {where}{between}."
    if reasoning.seed:
        yield f"A prompt ends with {reasoning.seed!r}, so the output begins inside reasoning."
    if reasoning.switches:
        yield f"These template variables switch reasoning: {', '.join(reasoning.switches)}."
    if reasoning and not reasoning.read:
        yield (
            "No dialect reads the template's reasoning."
            if dialect is None
            else f"{dialect.name} does not read the template's reasoning."
        )


def _request_facts(dialect: Dialect, reasoning: Reasoning) -> RequestFacts:
    """Return request facts for an inferred dialect; unknown facts have the safest values."""
    switches = tuple(each for name in reasoning.switches for each in SWITCHES if each == name)
    thinking = NO_REASONING
    if dialect.reasoning:
        special = is_control_token(template_text(dialect.reasoning[0]))
        thinking = replace(UNSWITCHED, special=special, switches=switches)
        if reasoning.seed:
            thinking = replace(thinking, default="on" if switches else "always", seed=reasoning.seed)
    return RequestFacts(
        calls_special=True,
        answers_special=bool(dialect.content),
        forced=("native", "json"),
        eos=dialect.stop[:1],
        thinking=thinking,
    )


# -- candidates


_REPAIRS: Final = ("missing_opener", "slip", "unnamed_call")
"""Kinds of diagnostics that report a repair: the call did not have the dialect's format."""


class _Candidate:
    """A dialect that may be the right one, and the evidence for it."""

    def __init__(self, dialect: Dialect, turn: str, message: Message, haystack: str) -> None:
        self.dialect = dialect
        own = replace(dialect, also_accepts=())  # calls of other families are not evidence for this dialect
        parsed = parse(turn, own, tools=TOOLS, prompt="" if dialect.frame is None else None)
        same_content = (parsed.content or "").strip() == (message.content or "")
        repaired = any(diagnostic.kind in _REPAIRS for diagnostic in parsed.diagnostics)
        self.exact = same_content and calls_of(parsed) == calls_of(message) and not repaired
        """True if parsing the turn with the dialect recovers the message without repairing a call."""
        self.clean = self.exact and not parsed.diagnostics
        """True if the turn is parsed exactly and without any diagnostics."""
        self.renders_same = self.exact and _renders_same(dialect, message, turn)
        """True if the dialect and the template render the message identically."""
        markers = other_markers(dialect)
        self.markers = [marker for marker in markers if marker in haystack]
        """The dialect's non-call markers that occur in the template."""
        self.share = len(self.markers) / len(markers) if markers else 0.0
        """The fraction of the dialect's non-call markers that occur in the template, from 0 to 1."""
        self.marks = [mark for mark in dialect.family.fingerprint if mark in haystack]
        """The fingerprint texts of the dialect's family that occur in the template."""

    @property
    def certainty(self) -> int:
        """Points for three kinds of evidence: a fingerprint, parsing without diagnostics, equal renderings.

        A family whose fingerprint is missing from the template loses points.
        """
        missing = bool(self.dialect.family.fingerprint) and not self.marks
        return 4 * bool(self.marks) + 2 * self.clean + self.renders_same - 4 * missing

    @property
    def score(self) -> tuple[int, int, float, int]:
        """Sort key; its most important criterion comes first.

        The criteria are the certainty, the number of matching fingerprint texts, the share of matching
        markers, and the number of aliases of the family.
        """
        names = len(self.dialect.family.aliases) + len(self.dialect.family.reasoning_aliases)
        return (self.certainty, len(self.marks), self.share + 0.01 * len(self.markers), names)

    def evidence(self) -> Iterator[str]:
        """Yield the evidence for this dialect, one sentence at a time."""
        yield f"{self.dialect.name} recovers exactly the calls that the template rendered."
        if self.renders_same:
            yield f"{self.dialect.name} would render the turn in the same way."
        if self.markers:
            yield f"The template contains markers of {self.dialect.name}: {', '.join(self.markers[:6])}."
        if self.marks:
            yield f"The template contains text that only this family has: {', '.join(map(repr, self.marks))}."


def _confidence(candidates: Sequence[_Candidate], *, certain: bool) -> float:
    """Return a confidence from 0 to 1, based on how clearly the first candidate beats the second.

    :param certain: True if the first candidate is certainly better, so that the second one is ignored.
    """
    best = candidates[0]
    alone = 1.0 if best.clean and best.renders_same else 0.95
    if len(candidates) == 1 or certain:
        return alone
    second = candidates[1]
    if best.certainty > second.certainty:
        return 0.95 if best.marks or best.renders_same else 0.9
    return 0.8 if best.score[:-1] > second.score[:-1] else 0.6


def _renders_same(dialect: Dialect, message: Message, turn: str) -> bool:
    """Return whether the dialect and the template render the message identically."""
    parts: list[Part] = [TextPart("content", message.content)] if message.content else []
    try:
        text = render(Message(parts=(*parts, *message.tool_calls)), dialect, check=False)
    except UsageError:
        return False
    return turn.strip().startswith(text.strip())

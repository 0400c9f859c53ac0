"""Next prompt of a multi-turn conversation: the sampled ids, followed by a suffix.

Encoding the whole conversation again could change sampled ids, for two reasons.  The tokenizer may split the
same text into other tokens than the model did, and the template may format arguments differently.  So this
module keeps the sampled ids.  To find the suffix, it renders a conversation in which a placeholder replaces
the text of the model's last turn, followed by the new messages.  The rendered text after the placeholder is
the suffix.

This module never guesses.  The ids do not show everything about the conversation, for instance its system
message or the tools of the request.  So the module renders one conversation for each possibility.  If the
suffixes of these conversations differ, it returns the reason instead of a prompt.

The suffix is encoded separately.  This is safe only if the suffix begins with a special token, because
tokenizers never merge text across a special token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from .._core.token_ids.detokenizer import Detokenizer, restore
from .._core.token_ids.tokenizer_adapters import Encoder, as_encoder, assign_code_points, substitute
from ..errors import UsageError
from ..templates import PROBED_TOOL, ChatMessage, ChatTemplate, ChatTemplateError, as_chat
from ..templates.prefix_stability import (
    QUESTION,
    ConversationRenderer,
    Difference,
    ExtendedConversation,
    ProbeCall,
    ReasoningMarkers,
    find_reasoning_markers,
    first_difference,
    make_message,
    make_round,
    make_turn,
)
from ._label_tokens import as_ids

if TYPE_CHECKING:
    from .._core.token_ids.tokenizer_adapters import AnyTokenizer
    from ._label_tokens import Ids

_NAMES: Final = ("unspool_first", "unspool_other")
_IDS: Final = ("unspool0", "unspool1")
"""Prefixes of placeholder call ids.  A prefix and one digit have nine characters, as Mistral requires."""


@dataclass(frozen=True, slots=True)
class Extension:
    """Next prompt, or the reason why a next prompt cannot keep the sampled ids."""

    ids: list[int] | None
    """The next prompt, which consists of the previous ids and ``suffix``; None if there is no prompt."""
    suffix: list[int] = field(default_factory=list)
    """The ids to append to the previous ids."""
    why: str = ""
    """The reason why there is no prompt, as a sentence.

    If there is no prompt, encode the whole conversation again, and do not train on the ids that changed.
    """
    difference: Difference | None = None
    """The first difference between two rendered texts, if ``why`` is that they differ."""

    def __bool__(self) -> bool:
        return self.ids is not None


def extend(
    previous_ids: Ids,
    new_messages: Iterable[object],
    template: ChatTemplate | str,
    tokenizer: AnyTokenizer,
    *,
    messages: Iterable[object] | None = None,
    tools: Iterable[object] | None = None,
    **variables: object,
) -> Extension:
    """Return the prompt for the model's next turn, after new messages.

    The prompt begins with ``previous_ids``.  If encoding the whole conversation again leaves these ids
    unchanged, the prompt is equal to that encoding.

    :param previous_ids: all ids of the conversation so far: prompts, outputs and suffixes.  The ids end with
        the model's last output, with or without the end of its turn.
    :param new_messages: the messages after that output: results of calls, or a message from the user.
    :param template: the chat template, or its source text.
    :param tokenizer: a tokenizer that can encode text.
    :param messages: the messages of the conversation so far, with or without the model's last turn.  With
        these messages, the function checks the prompt in the ids, and does not have to try several possible
        conversations.
    :param tools: the tools of the request; ``[]`` if it had no tools, None if they are unknown.
    :param variables: additional template variables, such as ``enable_thinking``.
    """
    ids = as_ids(previous_ids)
    new = as_chat(new_messages)
    if not ids or not new:
        raise UsageError(
            "new_messages is empty: pass at least one message"
            if not new
            else "previous_ids is empty: pass the ids of the conversation so far"
        )
    if any(message.get("role") == "assistant" for message in new):
        return Extension(
            None, why="new_messages contains a turn of the model, but its output is already in previous_ids."
        )
    if isinstance(template, str):
        template = ChatTemplate(template)
    known = None if messages is None else as_chat(messages)
    offered = None if tools is None else list(tools)
    try:
        return _Extender(ids, new, template, as_encoder(tokenizer), known, offered, variables).extension()
    except _NoExtension as reason:
        return Extension(None, why=reason.why, difference=reason.difference)


class _NoExtension(Exception):
    def __init__(self, why: str, difference: Difference | None = None) -> None:
        self.why = why
        self.difference = difference


def _rejection(error: ChatTemplateError | None) -> _NoExtension:
    reason = "without a reason" if error is None else error.reason.strip().rstrip(".")
    return _NoExtension(f"The template rejects the conversation: {reason}.")


class _Conversation(NamedTuple):
    """One of the possible conversations that would explain the ids (a variant)."""

    history: Sequence[ChatMessage]
    turn: ChatMessage
    tools: Sequence[object] | None
    depends: str
    """This variant's assumption about the conversation, for error messages; empty for the basic variant."""


_Preceding: TypeAlias = Literal["question", "result", "either"]


class _LastTurn(NamedTuple):
    """Facts about the model's last turn; they can be derived from the ids."""

    text: str
    lead: str | None
    """The empty reasoning block before the answer, or an empty string if there is no block.

    The value is None if the turn contains reasoning.
    """
    turns_before: bool
    """True if the conversation contains earlier turns of the model."""
    reasoned_before: bool
    """True if an earlier turn of the model contains reasoning."""
    preceded_by: _Preceding
    """Kind of message before the turn: ``question``, or ``result`` for the result of a call.

    ``either`` means that the model's turns begin in the same way after both kinds.
    """


@dataclass(frozen=True, slots=True)
class _Extender:
    """Computation of the next prompt for one conversation."""

    ids: list[int]
    new: Sequence[ChatMessage]
    template: ChatTemplate
    tokenizer: Encoder
    messages: Sequence[ChatMessage] | None
    tools: Sequence[object] | None
    variables: Mapping[str, Any]

    def extension(self) -> Extension:
        last_turn = self.last_turn()
        found: ExtendedConversation | None = None
        refusal: ChatTemplateError | None = None
        for conversation in self.conversations(last_turn):
            renderer = ConversationRenderer(self.template, conversation.tools or None, self.variables)
            try:
                each = renderer.extend(
                    conversation.history,
                    conversation.turn,
                    self.new,
                    lead=last_turn.lead,
                    turn_start=last_turn.text,
                )
            except ChatTemplateError as error:
                refusal = refusal or error
                continue
            if found is None:
                found = each
            self.check(each, found, conversation.depends)
        if found is None:
            raise _rejection(refusal)
        return self.joined(last_turn.text, found, calls=bool(self.called()))

    def check(self, each: ExtendedConversation, first: ExtendedConversation, depends: str) -> None:
        end = list(self.tokenizer.encode(each.end.strip()))
        difference = each.difference(closed=self.ids[-len(end) :] == end)
        unless = f" if {depends}: pass messages= to avoid this ambiguity" if depends else ""
        if difference is not None:
            raise _NoExtension(
                f"The template would change text that the ids already contain{unless}.", difference
            )
        if each.rest != first.rest:
            raise _NoExtension(
                f"The template writes different text after the model's turn{unless}.",
                first_difference(first.rest, each.rest),
            )

    # -- facts that the ids show

    def last_turn(self) -> _LastTurn:
        marks = find_reasoning_markers(self.template)
        headers = self.headers()
        code_points = assign_code_points([*headers.values(), *(marks[:2] if marks else ())], self.tokenizer)
        text = Detokenizer(self.tokenizer, code_points).decode(self.ids)
        places: list[tuple[int, _Preceding]] = []
        turns = 0
        for preceded_by, header in headers.items():
            coded = substitute(header, code_points)
            turns += text.count(coded)
            if coded in text:
                places.append((text.rfind(coded) + len(coded), preceded_by))
        if not places:
            shown = " or ".join(map(repr, headers.values()))
            raise _NoExtension(
                f"The ids contain no turn of the model: in this template, such a turn begins with {shown}."
            )
        start, preceded_by = max(places)
        back = {char: token for token, char in code_points.items()}
        lead, reasoned_before = _reasoning(text[:start], text[start:], marks, code_points)
        lead = None if lead is None else restore(lead, back)
        last = restore(text[start:], back)
        if not last.removeprefix(lead or "").strip():
            raise _NoExtension("The ids end with a prompt: the model has written nothing after it.")
        return _LastTurn(last, lead, turns > 1, reasoned_before, preceded_by)

    def headers(self) -> dict[_Preceding, str]:
        """Return the texts that begin the model's turns, keyed by the kind of the preceding message."""
        wants = self.template.capabilities
        renderer = ConversationRenderer(self.template, self.tools or None, self.variables)
        question = [make_message(wants, "user", QUESTION)]
        try:
            first = renderer.header(question)
        except ChatTemplateError as error:
            raise _rejection(error) from None
        try:
            other = renderer.header([*question, *self.round(thought=False)])
        except ChatTemplateError:
            return {"question": first}
        return {"either": first} if first == other else {"question": first, "result": other}

    # -- facts that the ids do not show

    def conversations(self, last_turn: _LastTurn) -> Iterator[_Conversation]:
        if self.messages is not None:
            yield self.known(self.messages, last_turn)
            return
        wants = self.template.capabilities
        tools = self.tools
        question = make_message(wants, "user", QUESTION)
        before = self.round(thought=last_turn.reasoned_before)
        base = (
            [question, *before] if last_turn.turns_before or last_turn.preceded_by == "result" else [question]
        )
        if last_turn.turns_before and last_turn.preceded_by == "question":
            base = [*base, self.turn(thought=last_turn.reasoned_before), question]
        last = self.turn(thought=last_turn.lead is None, calls=self.called())
        yield _Conversation(base, last, tools, "")
        system = make_message(wants, "system", "Unspool's instructions.")
        yield _Conversation([system, *base], last, tools, "the conversation began with a system message")
        if last_turn.turns_before:
            longer = (
                [*base, *before] if last_turn.preceded_by == "result" else [*base[:1], *before, *base[1:]]
            )
            yield _Conversation(longer, last, tools, "there were more turns before")
        if tools is None:
            yield _Conversation(base, last, [PROBED_TOOL], "tools were offered (tools=)")
        others = self.called(other=True)
        if others != self.called():
            other = self.turn(thought=last_turn.lead is None, calls=others)
            hint = "the call has another name or id (name and tool_call_id of the result)"
            yield _Conversation(base, other, tools, hint)

    def turn(self, *, thought: bool, calls: Sequence[ProbeCall] = ()) -> ChatMessage:
        return make_turn(
            self.template.capabilities, find_reasoning_markers(self.template), thought=thought, calls=calls
        )

    def round(self, *, thought: bool) -> list[ChatMessage]:
        """Return messages that stand for an earlier turn of the model: a placeholder call and its result."""
        call = ProbeCall("unspool77", _NAMES[0])
        return make_round(
            self.template.capabilities, find_reasoning_markers(self.template), thought=thought, call=call
        )

    def known(self, messages: Sequence[ChatMessage], last_turn: _LastTurn) -> _Conversation:
        """Return the conversation that the caller passed, with a placeholder for the model's last turn."""
        *history, last = messages
        if last.get("role") != "assistant":
            history, last = [*history, last], {}
        calls = [
            ProbeCall(str(call.get("id", _IDS[0])), str(call.get("function", call).get("name", _NAMES[0])))
            for call in last.get("tool_calls") or ()
        ]
        self.compare_prompt(history)
        stand_in = self.turn(thought=last_turn.lead is None, calls=calls or self.called())
        return _Conversation(history, stand_in, self.tools, "")

    def compare_prompt(self, history: Sequence[ChatMessage]) -> None:
        """Raise an error unless the ids begin with the prompt that the template renders for ``history``."""
        first = next((at for at, each in enumerate(history) if each.get("role") == "assistant"), len(history))
        try:
            prompt = ConversationRenderer(self.template, self.tools or None, self.variables).prompt(
                history[:first]
            )
        except ChatTemplateError:
            return  # rendering the whole conversation will report the same error
        expected = list(self.tokenizer.encode(prompt.header))
        if self.ids[: len(expected)] != expected:
            given = Detokenizer(self.tokenizer, {}).decode(self.ids[: len(expected) + 20])
            raise _NoExtension(
                "The ids do not begin with the prompt that the template writes for these messages.",
                first_difference(given, prompt.header),
            )

    def called(self, *, other: bool = False) -> list[ProbeCall]:
        """Return a placeholder call for each tool result at the beginning of the new messages."""
        results = []
        for message in self.new:
            if message.get("role") != "tool":
                break
            results.append(message)
        return [
            ProbeCall(
                str(message.get("tool_call_id") or f"{_IDS[other]}{number}"),
                str(message.get("name") or _NAMES[other]),
            )
            for number, message in enumerate(results)
        ]

    # -- the end of the model's turn

    def joined(self, text: str, renderings: ExtendedConversation, *, calls: bool) -> Extension:
        """Return the ids with the missing part of ``renderings.rest`` appended."""
        special = self.tokenizer.special_tokens()
        gap, rest = self.split(renderings)
        ending = list(self.tokenizer.encode(rest))
        usual = list(self.tokenizer.encode(renderings.end.removeprefix(gap).rstrip()))
        # `run` is the number of tokens of the ending that the ids may already contain: the usual end of a
        # turn, and any whitespace and special tokens that follow.
        run = len(usual) if ending[: len(usual)] == usual else 0
        while run < len(ending) and (ending[run] in special or self.is_whitespace(ending[run])):
            run += 1
        begin, end = _overlap(self.ids, ending[:run], special)
        if end == 0:
            self.check_open(renderings, calls=calls)
        if gap and begin == 0 and not _without(text, special, self.ids[len(self.ids) - end :]).endswith(gap):
            raise _NoExtension(
                f"The template writes {gap!r} between the model's text and the end of the turn, "
                "but the ids contain other text there."
            )
        suffix = ending[end:]
        return Extension([*self.ids, *suffix], suffix)

    def split(self, renderings: ExtendedConversation) -> tuple[str, str]:
        """Split the rendered text after the model's output at the first special token of this text."""
        literals = "|".join(
            map(re.escape, sorted(self.tokenizer.special_tokens().values(), key=len, reverse=True))
        )
        at = re.compile(literals).search(renderings.rest)
        gap = renderings.rest[: at.start()] if at and at[0] else renderings.rest
        if not at or not at[0] or (gap.strip() and not renderings.end.startswith(gap)):
            raise _NoExtension(
                f"After the model's text, the template writes {gap[:40]!r}, which is not a special token: "
                "tokens could merge across the boundary."
            )
        return gap, renderings.rest[at.start() :]

    def check_open(self, renderings: ExtendedConversation, *, calls: bool) -> None:
        """Raise an error if the ids lack the end of the turn, unless only its last token is missing."""
        special = self.tokenizer.special_tokens()
        ends = [id for id in self.tokenizer.encode(renderings.end) if id in special]
        last = special.get(self.ids[-1], "")
        usual = special.get(ends[-1], "") if ends else ""
        if last and last not in renderings.own:
            raise _NoExtension(
                f"The ids end with {last}, but the template writes {usual or renderings.rest[:20]!r}: "
                f"remove {last} if it only ended the generation."
            )
        if calls and len(ends) > 1 and last not in {special[id] for id in ends}:
            raise _NoExtension(
                f"The ids do not end with the text that the template writes after calls: {renderings.end!r}."
            )

    def is_whitespace(self, id: int) -> bool:
        return not self.tokenizer.token_bytes(id).strip()


def _overlap(ids: Sequence[int], ending: Sequence[int], special: Mapping[int, str]) -> tuple[int, int]:
    """Return the start and the end of the part of ``ending`` that ``ids`` ends with; 0, 0 if there is none.

    Only parts that begin with a special token count.  If there are several, the last one is returned.
    """
    for end in range(len(ending), 0, -1):
        for begin in range(end):
            if ending[begin] in special and list(ids[-(end - begin) :]) == list(ending[begin:end]):
                return begin, end
    return 0, 0


def _without(text: str, special: Mapping[int, str], tail: Sequence[int]) -> str:
    for id in reversed(tail):
        text = text.rstrip().removesuffix(special.get(id, "")) if id in special else text
    return text


def _reasoning(
    before: str, last: str, marks: ReasoningMarkers | None, code_points: Mapping[str, str]
) -> tuple[str | None, bool]:
    """Return the values of ``lead`` and ``reasoned_before`` for ``_LastTurn``.

    :param before: the conversation before the model's last turn.
    :param last: the text of the model's last turn.
    """
    if marks is None:
        return "", False
    opener, closer = (substitute(mark, code_points) for mark in marks[:2])
    emptied = re.sub(rf"{re.escape(opener)}\s*{re.escape(closer)}", "", before)
    opened = last.rfind(opener)
    closed = last.rfind(closer) if marks.own or opened >= 0 else -1
    if opened >= 0 and closed < opened:
        raise _NoExtension(
            "The model's turn was truncated inside its reasoning, so no template can render it."
        )
    inside = last[opened + len(opener) : closed] if opened >= 0 else last[:closed]
    lead = "" if closed < 0 else None if inside.strip() else last[: closed + len(closer)]
    return lead, opener in emptied

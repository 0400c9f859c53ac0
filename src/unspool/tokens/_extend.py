"""The next prompt of a trajectory: what was sampled, and a suffix.

To encode a whole conversation anew changes ids that were sampled: text that the
model wrote in other tokens than its tokenizer would, arguments that come back
in another spelling.  So nothing that was sampled is written again.  The
template writes a conversation in which a stand-in stands for the model's turn,
with the new messages; what it has behind the stand-in is the suffix.

The rule of this file: no guess.  What the ids do not tell about the
conversation (was there a system message? which tools?) is tried both ways, and
an answer that depends on it is none.  A suffix is encoded by itself only where
it begins with a special token, over which no tokenizer merges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from .._core.token_ids.detokenizer import Detokenizer, restore
from .._core.token_ids.tokenizers import Encoder, as_encoder, assign_code_points, substitute
from ..chat_templates._capabilities import PROBED_TOOL, ChatMessage
from ..chat_templates._chat_template import ChatTemplate, ChatTemplateError, as_chat
from ..chat_templates._prefix_stability import (
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
from ..errors import UsageError
from ._label_tokens import as_ids

if TYPE_CHECKING:
    from .._core.token_ids.tokenizers import AnyTokenizer
    from ._label_tokens import Ids

_NAMES: Final = ("unspool_first", "unspool_other")
_IDS: Final = ("unspool0", "unspool1")
"""What calls are called where nobody says; with a digit behind it an id has nine characters, as Mistral's."""


@dataclass(frozen=True, slots=True)
class Extension:
    """The next prompt, or why there is none that keeps what was sampled."""

    ids: list[int] | None
    """The next prompt: the ids that were given, and ``suffix``; None: see ``why``."""
    suffix: list[int] = field(default_factory=list)
    """What comes behind the ids that were given."""
    why: str = ""
    """Why there is no prompt, in a sentence; encode the whole conversation then, and do not train on what
    changed in it."""
    difference: Difference | None = None
    """Where the template would change what stands in the ids, if it is that."""

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
    """The prompt that follows when messages come behind what a model wrote.

    It begins with ``previous_ids``, whatever they are, and is what encoding the whole conversation would
    give, wherever that keeps them.

    :param previous_ids: the ids of one trajectory so far: the prompt, and all that was sampled and put
        behind it; it ends with what the model wrote last, with or without the end of its turn.
    :param new_messages: what comes next: results of its calls, something that a user says.
    :param template: the chat template, or its source.
    :param tokenizer: a tokenizer that can encode.
    :param messages: the conversation that the ids hold, if it is at hand; its last message may be the
        model's turn.  Then nothing of it needs to be stood in for, and the prompt in the ids is compared.
    :param tools: what the request offered; ``[]``: nothing; None: not known.
    :param variables: further variables of the template, such as ``enable_thinking``.
    """
    ids = as_ids(previous_ids)
    new = as_chat(new_messages)
    if not ids or not new:
        raise UsageError(f"{'previous_ids' if new else 'new_messages'} is empty: there is nothing to extend")
    if any(message.get("role") == "assistant" for message in new):
        return Extension(
            None, why="new_messages holds a turn of the model: what it wrote is in the ids already."
        )
    if isinstance(template, str):
        template = ChatTemplate(template)
    known = None if messages is None else as_chat(messages)
    offered = None if tools is None else list(tools)
    try:
        return _Extender(ids, new, template, as_encoder(tokenizer), known, offered, variables).extension()
    except _NoAnswer as reason:
        return Extension(None, why=reason.why, difference=reason.difference)


class _NoAnswer(Exception):
    def __init__(self, why: str, difference: Difference | None = None) -> None:
        self.why = why
        self.difference = difference


def _refused(error: ChatTemplateError | None) -> _NoAnswer:
    reason = "it says nothing" if error is None else error.reason.strip().rstrip(".")
    return _NoAnswer(f"The template refuses such a conversation: {reason}.")


class _Conversation(NamedTuple):
    """A conversation that the ids may hold."""

    history: Sequence[ChatMessage]
    turn: ChatMessage
    tools: Sequence[object] | None
    depends: str
    """What an answer would depend on that is given only with this one; empty: the usual one."""


_Behind: TypeAlias = Literal["question", "result", "either"]


class _Written(NamedTuple):
    """What the ids tell about the model's turn."""

    text: str
    lead: str | None
    """What it begins with: an empty block of reasoning, or nothing; None: a thought."""
    turns_before: bool
    """There were other turns of the model."""
    thought_before: bool
    """There was reasoning in one of them."""
    behind: _Behind
    """What came before it."""


@dataclass(frozen=True, slots=True)
class _Extender:
    """One trajectory, and what is to follow it."""

    ids: list[int]
    new: Sequence[ChatMessage]
    template: ChatTemplate
    tokenizer: Encoder
    messages: Sequence[ChatMessage] | None
    tools: Sequence[object] | None
    variables: Mapping[str, Any]

    def extension(self) -> Extension:
        written = self.written()
        found: ExtendedConversation | None = None
        refusal: ChatTemplateError | None = None
        for conversation in self.conversations(written):
            renderer = ConversationRenderer(self.template, conversation.tools or None, self.variables)
            try:
                each = renderer.extend(
                    conversation.history,
                    conversation.turn,
                    self.new,
                    lead=written.lead,
                    turn_start=written.text,
                )
            except ChatTemplateError as error:
                refusal = refusal or error
                continue
            if found is None:
                found = each
            self.check(each, found, conversation.depends)
        if found is None:
            raise _refused(refusal)
        return self.joined(written.text, found, calls=bool(self.called()))

    def check(self, each: ExtendedConversation, first: ExtendedConversation, depends: str) -> None:
        end = list(self.tokenizer.encode(each.end.strip()))
        difference = each.difference(closed=self.ids[-len(end) :] == end)
        unless = f", if {depends}: give messages=, and it is known" if depends else ""
        if difference is not None:
            raise _NoAnswer(f"The template does not keep what stands in the ids{unless}.", difference)
        if each.rest != first.rest:
            raise _NoAnswer(
                f"What the template writes behind the turn is another text{unless}.",
                first_difference(first.rest, each.rest),
            )

    # -- what the ids tell

    def written(self) -> _Written:
        marks = find_reasoning_markers(self.template)
        headers = self.headers()
        code_points = assign_code_points([*headers.values(), *(marks[:2] if marks else ())], self.tokenizer)
        text = Detokenizer(self.tokenizer, code_points).whole(self.ids)
        places: list[tuple[int, _Behind]] = []
        turns = 0
        for behind, header in headers.items():
            coded = substitute(header, code_points)
            turns += text.count(coded)
            if coded in text:
                places.append((text.rfind(coded) + len(coded), behind))
        if not places:
            shown = " or ".join(map(repr, headers.values()))
            raise _NoAnswer(f"The ids hold no turn of the model as this template begins one: {shown}.")
        start, behind = max(places)
        back = {char: token for token, char in code_points.items()}
        lead, thought_before = _reasoning(text[:start], text[start:], marks, code_points)
        lead = None if lead is None else restore(lead, back)
        last = restore(text[start:], back)
        if not last.removeprefix(lead or "").strip():
            raise _NoAnswer("The ids end with a prompt: the model has written nothing behind it.")
        return _Written(last, lead, turns > 1, thought_before, behind)

    def headers(self) -> dict[_Behind, str]:
        """What a turn of the model begins with, by what it comes behind."""
        wants = self.template.capabilities
        renderer = ConversationRenderer(self.template, self.tools or None, self.variables)
        question = [make_message(wants, "user", QUESTION)]
        try:
            first = renderer.header(question)
        except ChatTemplateError as error:
            raise _refused(error) from None
        try:
            other = renderer.header([*question, *self.round(thought=False)])
        except ChatTemplateError:
            return {"question": first}
        return {"either": first} if first == other else {"question": first, "result": other}

    # -- what they do not

    def conversations(self, written: _Written) -> Iterator[_Conversation]:
        if self.messages is not None:
            yield self.known(self.messages, written)
            return
        wants = self.template.capabilities
        tools = self.tools
        question = make_message(wants, "user", QUESTION)
        before = self.round(thought=written.thought_before)
        base = [question, *before] if written.turns_before or written.behind == "result" else [question]
        if written.turns_before and written.behind == "question":
            base = [*base, self.turn(thought=written.thought_before), question]
        last = self.turn(thought=written.lead is None, calls=self.called())
        yield _Conversation(base, last, tools, "")
        system = make_message(wants, "system", "Unspool's instructions.")
        yield _Conversation([system, *base], last, tools, "the conversation began with a system message")
        if written.turns_before:
            longer = [*base, *before] if written.behind == "result" else [*base[:1], *before, *base[1:]]
            yield _Conversation(longer, last, tools, "there were more turns before")
        if tools is None:
            yield _Conversation(base, last, [PROBED_TOOL], "tools were offered (tools=)")
        others = self.called(other=True)
        if others != self.called():
            other = self.turn(thought=written.lead is None, calls=others)
            hint = "the call has another name or id (name and tool_call_id of the result)"
            yield _Conversation(base, other, tools, hint)

    def turn(self, *, thought: bool, calls: Sequence[ProbeCall] = ()) -> ChatMessage:
        return make_turn(
            self.template.capabilities, find_reasoning_markers(self.template), thought=thought, calls=calls
        )

    def round(self, *, thought: bool) -> list[ChatMessage]:
        """An earlier turn of the model, and what was said to it."""
        call = ProbeCall("unspool77", _NAMES[0])
        return make_round(
            self.template.capabilities, find_reasoning_markers(self.template), thought=thought, call=call
        )

    def known(self, messages: Sequence[ChatMessage], written: _Written) -> _Conversation:
        """The conversation that was given; the model's last turn is stood in for all the same."""
        *history, last = messages
        if last.get("role") != "assistant":
            history, last = [*history, last], {}
        calls = [
            ProbeCall(str(call.get("id", _IDS[0])), str(call.get("function", call).get("name", _NAMES[0])))
            for call in last.get("tool_calls") or ()
        ]
        self.compare_prompt(history)
        stand_in = self.turn(thought=written.lead is None, calls=calls or self.called())
        return _Conversation(history, stand_in, self.tools, "")

    def compare_prompt(self, history: Sequence[ChatMessage]) -> None:
        """The prompt in the ids must be the one that the template writes for these messages."""
        first = next((at for at, each in enumerate(history) if each.get("role") == "assistant"), len(history))
        try:
            prompt = ConversationRenderer(self.template, self.tools or None, self.variables).prompt(
                history[:first]
            )
        except ChatTemplateError:
            return  # which is said of the whole conversation, too
        expected = list(self.tokenizer.encode(prompt.header))
        if self.ids[: len(expected)] != expected:
            given = Detokenizer(self.tokenizer, {}).whole(self.ids[: len(expected) + 20])
            raise _NoAnswer(
                "The ids do not begin with the prompt that the template writes for these messages.",
                first_difference(given, prompt.header),
            )

    def called(self, *, other: bool = False) -> list[ProbeCall]:
        """The calls whose results come first."""
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

    # -- the border

    def joined(self, text: str, found: ExtendedConversation, *, calls: bool) -> Extension:
        """The ids, and what of the rest is not among them yet."""
        special = self.tokenizer.special_tokens()
        gap, rest = self.split(found)
        ending = list(self.tokenizer.encode(rest))
        usual = list(self.tokenizer.encode(found.end.removeprefix(gap).rstrip()))
        run = len(usual) if ending[: len(usual)] == usual else 0
        while run < len(ending) and (ending[run] in special or self.blank(ending[run])):
            run += 1
        begun, end = _overlap(self.ids, ending[:run], special)
        if end == 0:
            self.check_open(found, calls=calls)
        if gap and begun == 0 and not _without(text, special, self.ids[len(self.ids) - end :]).endswith(gap):
            raise _NoAnswer(
                f"The template writes {gap!r} between the model's text and the end of its turn, which is not "
                "what stands in the ids."
            )
        suffix = ending[end:]
        return Extension([*self.ids, *suffix], suffix)

    def split(self, found: ExtendedConversation) -> tuple[str, str]:
        """What the template has before the first special token behind the model's text, and from it on."""
        literals = "|".join(
            map(re.escape, sorted(self.tokenizer.special_tokens().values(), key=len, reverse=True))
        )
        at = re.compile(literals).search(found.rest)
        gap = found.rest[: at.start()] if at and at[0] else found.rest
        if not at or not at[0] or (gap.strip() and not found.end.startswith(gap)):
            raise _NoAnswer(
                f"Behind the model's text the template writes {gap[:40]!r}, which is no special token: "
                "tokens could merge over the border."
            )
        return gap, found.rest[at.start() :]

    def check_open(self, found: ExtendedConversation, *, calls: bool) -> None:
        """The ids do not have the end of the turn: that is right if nothing but its last token is missing."""
        special = self.tokenizer.special_tokens()
        ends = [id for id in self.tokenizer.encode(found.end) if id in special]
        last = special.get(self.ids[-1], "")
        usual = special.get(ends[-1], "") if ends else ""
        if last and last not in found.own:
            raise _NoAnswer(
                f"The ids end with {last}, where the template has {usual or found.rest[:20]!r}: "
                "leave it out if it only ended the generation."
            )
        if calls and len(ends) > 1 and last not in {special[id] for id in ends}:
            raise _NoAnswer(f"The ids do not end as the template ends a turn with calls: {found.end!r}.")

    def blank(self, id: int) -> bool:
        return not self.tokenizer.token_bytes(id).strip()


def _overlap(ids: Sequence[int], ending: Sequence[int], special: Mapping[int, str]) -> tuple[int, int]:
    """From where to where in what ends a turn the ids have it already; the furthest."""
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
    """What the last turn begins with, and whether there is reasoning before it."""
    if marks is None:
        return "", False
    opener, closer = (substitute(mark, code_points) for mark in marks[:2])
    emptied = re.sub(rf"{re.escape(opener)}\s*{re.escape(closer)}", "", before)
    opened = last.rfind(opener)
    closed = last.rfind(closer) if marks.own or opened >= 0 else -1
    if opened >= 0 and closed < opened:
        raise _NoAnswer("The model's turn was cut inside its reasoning: no template writes that.")
    inside = last[opened + len(opener) : closed] if opened >= 0 else last[:closed]
    lead = "" if closed < 0 else None if inside.strip() else last[: closed + len(closer)]
    return lead, opener in emptied

"""Start of the output: what the end of the prompt says about where the output begins.

A chat template may already have opened reasoning, written the header of a message, or closed an
empty thought.  The machine therefore reads the *relevant tail* of the prompt before the output.
Which tail that is depends on who may have written it:

===================  ============================================================================
the output is        the relevant tail
===================  ============================================================================
a new turn           the run of markers that the prompt ends with.  The template writes it after
                     the last message, so no user can have quoted it.
the rest of a turn   that whole turn: reasoning, an answer or a call that it began goes on
(``continues``)
===================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ..dialects._control_tokens import CONTROL_TOKEN
from ..errors import UsageError
from ..events import CallArgs, CallEnd, CallStart, Channel, Event, Markup, Text
from ..policies import DEFAULTS
from .compile_cache import compiled_dialect
from .compiler.text_states import StartState
from .machine import Machine, OutputStart
from .scan.character_runs import skip_whitespace
from .schema.tools import as_tools

if TYPE_CHECKING:
    from ..dialects._declaration import Dialect
    from .compiler.compiled_dialect import CompiledDialect

_NEAR: Final = 256
"""Characters of the prompt to look at first; the last turn nearly always begins there."""
_FAR: Final = 65536
"""Characters of the prompt to look at if the turn does not begin in the nearest ones."""
_SAVED: Final = 64
"""Maximum length of a tail whose start state is saved, and maximum number of them per dialect."""
_FRAMING: Final = frozenset(
    {"reasoning_open", "reasoning_close", "content_open", "content_close", "message_boundary", "dropped"}
)


# -- reading the tail


def read_prompt(machine: Machine, compiled: CompiledDialect, tail: str) -> list[Event]:
    """Let a machine read the relevant tail of a prompt.

    Return the events that the output starts with: the call that the prompt began, or the end of
    reasoning.  The text of the prompt is not part of the output.
    """
    saved_starts = compiled.prompt.saved_starts
    start = saved_starts.get(tail) if len(tail) <= _SAVED else None
    if start is not None:
        machine.restore_start(start)
        return [_reasoning_close()] if start.reasoning_just_closed else []
    events = machine.feed(tail)
    machine.begin_output()
    continued = _continued_events(events, machine)
    # Only calls depend on the tools of the request.  The result for any other tail can be saved.
    if len(tail) <= _SAVED and len(saved_starts) < _SAVED and all(map(_is_framing, events)):
        start = machine.save_start(reasoning_just_closed=bool(continued))
        if start is not None:
            saved_starts[tail] = start
    return continued


def start_in_channel(channel: Channel, machine: Machine, compiled: CompiledDialect) -> list[Event]:
    """Start inside reasoning or after it, whatever the prompt says.

    Return the events that the output starts with.
    """
    states = compiled.states
    if channel == "reasoning":
        inside = [state for wrapper, state in states.inside.items() if wrapper.channel == "reasoning"]
        state = inside[0] if inside else states.bodies.get("reasoning")
        if state is None:
            raise UsageError(
                f"the dialect {compiled.dialect.name!r} has no reasoning that an output could begin in"
            )
        machine.restore_start(StartState(state))
        return []
    if machine.channel == "reasoning":
        machine.restore_start(StartState(states.fresh, reasoning_just_closed=True))
    machine.end_reasoning()
    return [_reasoning_close()] if compiled.has_reasoning else []


def output_start(dialect: Dialect, tail: str) -> OutputStart | None:
    """Return what an output after this relevant tail of a prompt begins with; None: dropped text."""
    if dialect.prompt.echo:
        return "content"  # the output begins with the echoed text
    compiled = compiled_dialect(dialect)
    machine = Machine(
        compiled, as_tools(None), DEFAULTS, base=-len(tail), keep_raw=False, new_id=None, remove_calls=False
    )
    if tail:
        read_prompt(machine, compiled, tail)
    return machine.output_start()


def _continued_events(events: list[Event], machine: Machine) -> list[Event]:
    """Return the events of a prompt that the output starts with."""
    if not machine.call_open:
        visible = [event for event in events if not isinstance(event, Text) or event.text.strip()]
        last = visible[-1] if visible else None
        return [_reasoning_close()] if isinstance(last, Markup) and last.kind == "reasoning_close" else []
    for i in range(len(events) - 1, -1, -1):
        event = events[i]
        if isinstance(event, CallEnd):
            return []  # the open call is silent, so it has no events of its own
        if isinstance(event, (CallStart, CallArgs)):
            event.index = 0
        if isinstance(event, CallStart):
            return events[i:]
    return []


def _reasoning_close() -> Markup:
    """Return the end of reasoning, so that later stages treat the whitespace after it as framing."""
    return Markup("reasoning_close", "", 0, 0)


def _is_framing(event: Event) -> bool:
    """Return whether an event is the same whatever tools the request declares."""
    if isinstance(event, Markup):
        return event.kind in _FRAMING
    return isinstance(event, Text) and not event.text.strip()


# -- finding the tail


def usual_tail(compiled: CompiledDialect) -> str:
    """Return the relevant tail of the prompt that the dialect assumes if no prompt is given."""
    # It is cached in the table itself: a cache beside it would keep every compiled dialect alive.
    prompt = compiled.prompt
    if prompt.usual_tail is None:
        prompt.usual_tail = relevant_tail(compiled.dialect.prompt.start, compiled)
    return prompt.usual_tail


def relevant_tail(prompt: str, compiled: CompiledDialect, *, continues: bool = False) -> str:
    """Return the part of the prompt that the machine must read before the output.

    :param continues: the prompt ends inside the turn that the output continues.
    """
    return relevant_tail_of(lambda last: prompt[-last:], len(prompt), compiled, continues=continues)


def relevant_tail_of(
    end: Callable[[int], str], length: int, compiled: CompiledDialect, *, continues: bool = False
) -> str:
    """Return the relevant tail of a prompt whose text is expensive to get, such as token ids.

    :param end: returns the text of the last n characters or ids.
    :param length: number of characters or ids.
    """
    if not continues:
        return (_last_framing if compiled.frame is None else _last_header)(end(_NEAR), compiled)
    find_turn = _last_turn if compiled.frame is None else _last_message
    is_complete, tail = find_turn(end(_NEAR), compiled)
    if not is_complete and length > _NEAR:
        _, tail = find_turn(end(_FAR), compiled)
    return tail


def _last_framing(text: str, compiled: CompiledDialect) -> str:
    """Return the run of openers and closers that the text ends with."""
    prompt = compiled.prompt
    start = end = len(text.rstrip())
    first = ""
    while end:
        literal = next((literal for literal in prompt.framing if text.endswith(literal, 0, end)), "")
        if not literal:
            break
        first = literal
        start = end - len(literal)
        if literal in compiled.dialect.prompt.turn:
            break  # the message before it may end with anything
        end = len(text[:start].rstrip())
    if not first:
        return _first_opener(text, prompt.first_openers)
    # If the run starts with a closer of reasoning, the template has written a thought in front of it.
    for opener, closer in prompt.reasoning_pairs:
        at = text.rfind(opener, 0, start) if first == closer else -1
        if at >= 0 and prompt.markers.seek(text, at + len(opener), True)[0] == start:
            return text[at:]
    return text[start:]


def _first_opener(text: str, openers: Sequence[str]) -> str:
    """Return the ordinary words at the end of the text that open reasoning at the start of an answer.

    They may also be the end of a user's message.  They are an opener only directly after a control
    token, which starts the answer, or if the prompt consists of nothing else.
    """
    end = len(text.rstrip())
    for opener in openers:
        if text.endswith(opener, 0, end):
            before = text[: end - len(opener)].rstrip()
            starts = (before.rfind("<"), before.rfind("["), len(before) - 1)
            tokens = (CONTROL_TOKEN.match(before, at) for at in starts if at >= 0)
            if not before or any(token is not None and token.end() == len(before) for token in tokens):
                return text[end - len(opener) :]
    return ""


def _last_header(text: str, compiled: CompiledDialect) -> str:
    """Return the header, or the beginning of one, that the text ends with."""
    frame = compiled.frame
    assert frame is not None  # noqa: S101 - only frames have headers
    header = ""
    at = len(text)
    while True:
        at = max(text.rfind(opener, 0, at) for opener in frame.openers)
        if at < 0 or not frame.is_header(text[at:]):
            return header
        header = text[at:]


def begins_turn(text: str, compiled: CompiledDialect) -> bool:
    """Return whether the turn, or message, that a text ends with certainly begins in this text."""
    return (_last_turn if compiled.frame is None else _last_message)(text, compiled)[0]


def _last_turn(text: str, compiled: CompiledDialect) -> tuple[bool, str]:
    """Return the turn that the text ends with, from its first marker on.

    The first value is true if the turn certainly begins in this text.
    """
    prompt = compiled.prompt
    border = _end_of_unknown_token(text, compiled)
    for marker in prompt.turn_borders:
        at = text.rfind(marker)
        if at >= 0:
            # The marker that begins a turn may also open what the output continues.
            is_opener = marker in compiled.dialect.prompt.turn and marker in prompt.markers.literals
            border = max(border, at if is_opener else at + len(marker))
    first, _ = prompt.markers.seek(text, border, True)
    begin = skip_whitespace(text, border)
    if any(text.startswith(word, begin) for word in prompt.first_words):
        first = begin
    return border > 0, text[first:] if first >= 0 else ""


def _end_of_unknown_token(text: str, compiled: CompiledDialect) -> int:
    """Return the index past the last control token that is not part of the dialect; 0 if there is none."""
    # The token is usually near the end, so this looks for the last angle or square bracket first.
    angle, square = text.rfind("<"), text.rfind("[")
    while True:
        at = max(angle, square)
        if at < 0:
            return 0
        match = CONTROL_TOKEN.match(text, at)
        if match is not None and not compiled.prompt.knows(match.group()):
            return match.end()
        if at == angle:
            angle = text.rfind("<", 0, at)
        else:
            square = text.rfind("[", 0, at)


def _last_message(text: str, compiled: CompiledDialect) -> tuple[bool, str]:
    """Return the message that the text ends with; nothing if that message is finished.

    The first value is true if the message certainly begins in this text.
    """
    dialect = compiled.dialect
    frame = compiled.frame
    assert frame is not None  # noqa: S101 - only frames have messages
    markers = compiled.prompt.markers
    places: list[tuple[int, str]] = []
    at, literal = markers.seek(text, 0, True)
    while at >= 0:
        places.append((at, literal))
        at, literal = markers.seek(text, at + len(literal), True)
    if not places:
        return False, ""
    start, opener = places.pop()
    is_complete = not frame.ends
    while places and not is_complete:
        at, literal = places.pop()
        if literal in frame.ends:
            is_complete = True
        elif literal in frame.openers:
            start, opener = at, literal
    rest = text[start + len(opener) :]
    tokens = (match.group() for match in CONTROL_TOKEN.finditer(rest))
    is_finished = any(marker in rest for marker in (*dialect.stop, *dialect.prompt.turn)) or any(
        not compiled.prompt.knows(token) for token in tokens
    )
    return is_complete, "" if is_finished else opener + rest

"""Reader of the end of a prompt, which determines where the output begins.

A chat template may already have opened reasoning, written the header of a message, or written an empty
reasoning block.  The machine therefore reads the *relevant tail*, the last part of the prompt, before the
output.  There are two cases:

===================  ============================================================================
the output is        the relevant tail
===================  ============================================================================
a new turn           the sequence of markers at the end of the prompt.  The chat template writes
                     these after the last message, so they cannot come from a user's text.
the rest of a turn   the whole turn so far, because reasoning, an answer or a call in it may
(``continues``)      continue in the output
===================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ..dialects._control_token_pattern import CONTROL_TOKEN
from ..dialects.list_templates_and_markers import turn_markers
from ..errors import UsageError
from ..events import CallArgs, CallEnd, CallStart, Channel, Event, Markup, Text
from ..policies import DEFAULTS
from .compile_cache import compiled_dialect
from .compiler.states_outside_calls import StartState
from .machine import Machine, OutputStart
from .scan.character_runs import skip_whitespace
from .schema.tools import as_tools

if TYPE_CHECKING:
    from ..dialects._declaration import Dialect
    from .compiler.compiled_dialect import CompiledDialect

_NEAR: Final = 256
"""Number of final prompt characters or ids that are searched first.  The last turn usually begins there."""
_FAR: Final = 65536
"""Number of final prompt characters or ids that are searched if the first search has found no turn."""
_SAVED: Final = 64
"""Maximum number of saved start states per dialect, and maximum length of a tail whose state is saved."""
_FRAMING: Final = frozenset(
    {"reasoning_open", "reasoning_close", "content_open", "content_close", "message_boundary", "dropped"}
)


# -- reading the tail


def read_prompt(machine: Machine, compiled: CompiledDialect, tail: str) -> list[Event]:
    """Feed the relevant tail of a prompt to a machine, and return the first events of the output.

    The result contains the events of a call that continues in the output, or the end of reasoning, but not
    the text of the prompt.
    """
    saved_starts = compiled.prompt.saved_starts
    start = saved_starts.get(tail) if len(tail) <= _SAVED else None
    if start is not None:
        machine.restore_start(start)
        return [_reasoning_close()] if start.reasoning_just_closed else []
    events = machine.feed(tail)
    machine.begin_output()
    continued = _continued_events(events, machine)
    # Only calls depend on the tools of the request, so the state after a tail without calls can be saved.
    if len(tail) <= _SAVED and len(saved_starts) < _SAVED and all(map(_is_format_markup, events)):
        start = machine.save_start(reasoning_just_closed=bool(continued))
        if start is not None:
            saved_starts[tail] = start
    return continued


def start_in_channel(channel: Channel, machine: Machine, compiled: CompiledDialect) -> list[Event]:
    """Start the output in a channel, regardless of any prompt, and return the first events of the output."""
    states = compiled.states
    if channel == "reasoning":
        inside = [state for wrapper, state in states.inside.items() if wrapper.channel == "reasoning"]
        state = inside[0] if inside else states.bodies.get("reasoning")
        if state is None:
            raise UsageError(
                f"start_channel='reasoning': the dialect {compiled.dialect.name!r} has no reasoning"
            )
        machine.restore_start(StartState(state))
        return []
    if machine.channel == "reasoning":
        machine.restore_start(StartState(states.fresh, reasoning_just_closed=True))
    machine.end_reasoning()
    return [_reasoning_close()] if compiled.has_reasoning else []


def output_start(dialect: Dialect, tail: str) -> OutputStart | None:
    """Return where an output begins (such as ``content``), given the relevant tail of the prompt.

    Return None if the output begins in dropped text, or if the output itself determines where it begins.
    """
    if dialect.habits.echo:
        return "content"  # the output begins with a copy of text from the prompt
    compiled = compiled_dialect(dialect)
    machine = Machine(
        compiled, as_tools(None), DEFAULTS, base=-len(tail), keep_raw=False, new_id=None, remove_calls=False
    )
    if tail:
        read_prompt(machine, compiled, tail)
    return machine.output_start()


def _continued_events(events: list[Event], machine: Machine) -> list[Event]:
    """Return the events of the prompt that must also be the first events of the output."""
    if not machine.call_open:
        visible = [event for event in events if not isinstance(event, Text) or event.text.strip()]
        last = visible[-1] if visible else None
        return [_reasoning_close()] if isinstance(last, Markup) and last.kind == "reasoning_close" else []
    for i in range(len(events) - 1, -1, -1):
        event = events[i]
        if isinstance(event, CallEnd):
            return []  # the open call is silent (see ledger.py): it has no events to repeat
        if isinstance(event, (CallStart, CallArgs)):
            event.index = 0
        if isinstance(event, CallStart):
            return events[i:]
    return []


def _reasoning_close() -> Markup:
    """Return a ``reasoning_close`` event without text.

    Because of this event, later stages remove the whitespace at the start of the output.
    """
    return Markup("reasoning_close", "", 0, 0)


def _is_format_markup(event: Event) -> bool:
    """Return whether an event would be the same for all sets of tools in the request."""
    if isinstance(event, Markup):
        return event.kind in _FRAMING
    return isinstance(event, Text) and not event.text.strip()


# -- finding the tail


def usual_tail(compiled: CompiledDialect) -> str:
    """Return the relevant tail of the default prompt of a dialect, for a parser without a prompt."""
    # The result is cached in the compiled dialect, because a separate cache would keep every dialect alive.
    prompt = compiled.prompt
    if prompt.usual_tail is None:
        prompt.usual_tail = relevant_tail(compiled.dialect.prompt.start, compiled)
    return prompt.usual_tail


def relevant_tail(prompt: str, compiled: CompiledDialect, *, continues: bool = False) -> str:
    """Return the part of the prompt that the machine must read before the output.

    :param continues: true if the prompt ends inside a turn that the output continues.
    """
    return relevant_tail_of(lambda last: prompt[-last:], len(prompt), compiled, continues=continues)


def relevant_tail_of(
    end: Callable[[int], str], length: int, compiled: CompiledDialect, *, continues: bool = False
) -> str:
    """Return the relevant tail of a prompt that is expensive to convert to text, such as token ids.

    :param end: a function that returns the text of the last n characters or ids.
    :param length: the number of characters or ids in the prompt.
    """
    if not continues:
        return (_last_format_marker if compiled.frame is None else _last_header)(end(_NEAR), compiled)
    find_turn = _last_turn if compiled.frame is None else _last_message
    is_complete, tail = find_turn(end(_NEAR), compiled)
    if not is_complete and length > _NEAR:
        _, tail = find_turn(end(_FAR), compiled)
    return tail


def _last_format_marker(text: str, compiled: CompiledDialect) -> str:
    """Return the sequence of opening and closing markers at the end of the text."""
    prompt = compiled.prompt
    start = end = len(text.rstrip())
    first = ""
    while end:
        literal = next((literal for literal in prompt.format_markers if text.endswith(literal, 0, end)), "")
        if not literal:
            break
        first = literal
        start = end - len(literal)
        if literal in turn_markers(compiled.dialect):
            break  # text before this marker belongs to the previous message
        end = len(text[:start].rstrip())
    if not first:
        return _first_opener(text, prompt.first_openers)
    # If the sequence starts with a closing reasoning marker, the template wrote reasoning before this marker.
    for opener, closer in prompt.reasoning_pairs:
        at = text.rfind(opener, 0, start) if first == closer else -1
        if at >= 0 and prompt.markers.seek(text, at + len(opener), True)[0] == start:
            return text[at:]
    return text[start:]


def _first_opener(text: str, openers: Sequence[str]) -> str:
    """Return the words at the end of the text if they open reasoning at the start of an answer, else ``""``.

    A user's message may end with the same words.  The words open reasoning only if they directly follow a
    control token, which starts the answer, or if there is no other text.
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
    """Return the complete or incomplete header at the end of the text, or an empty string."""
    frame = compiled.frame
    assert frame is not None  # noqa: S101 - only frames have headers
    header = ""
    at = len(text)
    # A header may contain several opening markers, so search further back for a longer header.
    while True:
        at = max(text.rfind(opener, 0, at) for opener in frame.openers)
        if at < 0 or not frame.is_header(text[at:]):
            return header
        header = text[at:]


def begins_turn(text: str, compiled: CompiledDialect) -> bool:
    """Return whether this end of a prompt certainly contains the beginning of the last turn."""
    return (_last_turn if compiled.frame is None else _last_message)(text, compiled)[0]


def _last_turn(text: str, compiled: CompiledDialect) -> tuple[bool, str]:
    """Return whether the last turn certainly begins within ``text``; also return the text of this turn.

    The text of the turn includes its first marker.
    """
    prompt = compiled.prompt
    boundary = _end_of_unknown_token(text, compiled)
    for marker in prompt.turn_boundaries:
        at = text.rfind(marker)
        if at >= 0:
            # The marker that begins a turn may also open reasoning or content, so it is part of the turn.
            is_opener = marker in turn_markers(compiled.dialect) and marker in prompt.markers.literals
            boundary = max(boundary, at if is_opener else at + len(marker))
    first, _ = prompt.markers.seek(text, boundary, True)
    begin = skip_whitespace(text, boundary)
    if any(text.startswith(word, begin) for word in prompt.first_words):
        first = begin
    return boundary > 0, text[first:] if first >= 0 else ""


def _end_of_unknown_token(text: str, compiled: CompiledDialect) -> int:
    """Return the index just past the last control token of another dialect; 0 if there is no such token."""
    # A control token is usually near the end, so search backwards for its angle or square bracket.
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
    """Return whether the last message certainly begins within ``text``; also return this message's text.

    The text of the message is an empty string if the message is finished.
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
    is_finished = any(marker in rest for marker in (*dialect.stop, *turn_markers(dialect))) or any(
        not compiled.prompt.knows(token) for token in tokens
    )
    return is_complete, "" if is_finished else opener + rest

"""The start state: what the end of the prompt says about the beginning of the output.

The machine reads a tail of the prompt before the output.  Which tail depends on
whose words may stand in it:

* After a generation prompt, only the framing that the prompt ends with: an injected
  ``<think>``, a closed ``<think></think>``, the opener of an answer, the header of a
  framed message.  The template writes it after the last message, so nobody can quote it.
* Where the output continues a turn of the model, that whole turn, with all that was
  begun in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..dialects._control_tokens import CONTROL_TOKEN
from ..errors import UsageError
from ..events import CallArgs, CallEnd, CallStart, Channel, Event, Markup, Text
from .compiler.compiled_dialect import Start
from .scan.runs import behind_space

if TYPE_CHECKING:
    from .compiler.compiled_dialect import CompiledDialect
    from .machine import Machine

_NEAR: Final = 256
"""How far back to look first: nearly always the last turn begins there."""
_REACH: Final = 65536
"""How far back to look at most."""
_USUAL: Final = 64
"""Tails of up to so many characters, and so many of them, are remembered."""
_FRAMING: Final = frozenset(
    {"reasoning_open", "reasoning_close", "content_open", "content_close", "message_boundary", "dropped"}
)


def read_prompt(machine: Machine, syntax: CompiledDialect, tail: str) -> list[Event]:
    """Read what counts of the prompt; what it began and the output goes on with, though not of its text."""
    start = syntax.starts.get(tail) if len(tail) <= _USUAL else None
    if start is None:
        events = machine.feed(tail)
        machine.begin_output()
        begun = _begun(events, machine)
        if len(tail) <= _USUAL and len(syntax.starts) < _USUAL and all(map(_is_framing, events)):
            start = machine.start(closed=bool(begun))
            if start is not None:
                syntax.starts[tail] = start
        return begun
    machine.stand(start)
    return [_reasoning_closed()] if start.closed else []


def begin_in(channel: Channel, machine: Machine, syntax: CompiledDialect) -> list[Event]:
    """Begin inside reasoning, or behind it, whatever the prompt says; what the output begins with."""
    if channel == "reasoning":
        inside = [state for wrapper, state in syntax.inside.items() if wrapper.channel == "reasoning"]
        state = inside[0] if inside else syntax.bodies.get("reasoning")
        if state is None:
            raise UsageError(
                f"the dialect {syntax.dialect.name!r} has no reasoning that an output could begin in"
            )
        machine.stand(Start(state, visible=False, before="", pending="", closed=False, thought=False))
        return []
    if machine.channel == "reasoning":
        machine.stand(Start(syntax.fresh, visible=False, before="", pending="", closed=True, thought=False))
    machine.end_reasoning()
    return [_reasoning_closed()] if syntax.has_reasoning else []


def _begun(events: list[Event], machine: Machine) -> list[Event]:
    if not machine.call_open:
        shown = [event for event in events if not isinstance(event, Text) or event.text.strip()]
        last = shown[-1] if shown else None
        return [_reasoning_closed()] if isinstance(last, Markup) and last.kind == "reasoning_close" else []
    for i in range(len(events) - 1, -1, -1):
        event = events[i]
        if isinstance(event, CallEnd):
            return []  # the open call is text or was removed; it has no events of its own
        if isinstance(event, (CallStart, CallArgs)):
            event.index = 0
        if isinstance(event, CallStart):
            return events[i:]
    return []


def _reasoning_closed() -> Markup:
    # White space behind reasoning is framing, wherever it was closed.
    return Markup("reasoning_close", "", 0, 0)


def _is_framing(event: Event) -> bool:
    """Whether it is the same whatever tools there are: neither of a call nor of what was taken for one."""
    if isinstance(event, Markup):
        return event.kind in _FRAMING
    return isinstance(event, Text) and not event.text.strip()


def usual_tail(syntax: CompiledDialect) -> str:
    """The tail where no prompt is given: of what the dialect says a prompt ends with."""
    # Kept with the syntax: a cache beside it would keep every syntax alive.
    if syntax.usual_tail is None:
        syntax.usual_tail = relevant_tail(syntax.dialect.prompt.start, syntax)
    return syntax.usual_tail


def relevant_tail(prompt: str, syntax: CompiledDialect, *, continues: bool = False) -> str:
    """Return the part of the prompt that the machine must read before the output.

    :param continues: the prompt ends inside the turn that the output continues.
    """
    return relevant_tail_of(lambda last: prompt[-last:], len(prompt), syntax, continues=continues)


def relevant_tail_of(
    end: Callable[[int], str], length: int, syntax: CompiledDialect, *, continues: bool = False
) -> str:
    """Return the same for a prompt of ``length`` characters or ids, of which ``end(n)`` gives the last n."""
    if not continues:
        return (_last_framing if syntax.frame is None else _last_header)(end(_NEAR), syntax)
    tail_in = _turn if syntax.frame is None else _message
    bounded, tail = tail_in(end(_NEAR), syntax)
    if not bounded and length > _NEAR:
        _, tail = tail_in(end(_REACH), syntax)
    return tail


def _last_framing(text: str, syntax: CompiledDialect) -> str:
    """Return the run of openers and closers that the text ends with."""
    start = end = len(text.rstrip())
    first = ""
    while end:
        literal = next((literal for literal in syntax.framing if text.endswith(literal, 0, end)), "")
        if not literal:
            break
        first = literal
        start = end - len(literal)
        if literal in syntax.dialect.prompt.turn:
            break  # the message before it may end with anything
        end = len(text[:start].rstrip())
    for opener, closer in syntax.reasoning_pairs if first else ():
        at = text.rfind(opener, 0, start) if first == closer else -1
        if at >= 0 and syntax.markers.seek(text, at + len(opener), True)[0] == start:
            return text[at:]  # template text in between, such as a thought that is over
    return text[start:] if first else ""


def _last_header(text: str, syntax: CompiledDialect) -> str:
    """Return the header, or the beginning of one, that the text ends with."""
    frame = syntax.frame
    assert frame is not None  # noqa: S101 - only frames have headers
    found = ""
    place = len(text)
    while True:
        place = max(text.rfind(opener, 0, place) for opener in frame.openers)
        if place < 0 or not frame.is_header(text[place:]):
            return found
        found = text[place:]


def begins_turn(text: str, syntax: CompiledDialect) -> bool:
    """Whether the turn, or message, that a text ends with is sure to begin in it."""
    return (_turn if syntax.frame is None else _message)(text, syntax)[0]


def _turn(text: str, syntax: CompiledDialect) -> tuple[bool, str]:
    """The turn that the text ends with, from its first marker on; and whether it begins in this text."""
    dialect = syntax.dialect
    border = _behind_foreign(text, syntax)
    for marker in syntax.borders:
        at = text.rfind(marker)
        if at >= 0:
            # What begins the turn may also begin what the output goes on with.
            opens = marker in dialect.prompt.turn and marker in syntax.markers.literals
            border = max(border, at if opens else at + len(marker))
    first, _ = syntax.markers.seek(text, border, True)
    begins = behind_space(text, border)
    if any(text.startswith(word, begins) for word in syntax.first_words):
        first = begins
    return border > 0, text[first:] if first >= 0 else ""


def _behind_foreign(text: str, syntax: CompiledDialect) -> int:
    """Behind the last control token that is none of the dialect's; it is near the end, as a rule."""
    angle, square = text.rfind("<"), text.rfind("[")
    while True:
        at = max(angle, square)
        if at < 0:
            return 0
        match = CONTROL_TOKEN.match(text, at)
        if match is not None and not syntax.knows(match.group()):
            return match.end()
        if at == angle:
            angle = text.rfind("<", 0, at)
        else:
            square = text.rfind("[", 0, at)


def _message(text: str, syntax: CompiledDialect) -> tuple[bool, str]:
    """The message that the text ends with, and whether that is sure to begin in this text."""
    dialect = syntax.dialect
    frame = syntax.frame
    assert frame is not None  # noqa: S101 - only frames have messages
    places: list[tuple[int, str]] = []
    at, literal = syntax.markers.seek(text, 0, True)
    while at >= 0:
        places.append((at, literal))
        at, literal = syntax.markers.seek(text, at + len(literal), True)
    if not places:
        return False, ""
    start, opener = places.pop()
    bounded = not frame.ends
    while places and not bounded:
        at, literal = places.pop()
        if literal in frame.ends:
            bounded = True
        elif literal in frame.openers:
            start, opener = at, literal
    behind = text[start + len(opener) :]
    over = any(marker in behind for marker in (*dialect.stop, *dialect.prompt.turn))
    foreign = (match.group() for match in CONTROL_TOKEN.finditer(behind))
    over = over or any(not syntax.knows(token) for token in foreign)
    return bounded, "" if over else opener + behind

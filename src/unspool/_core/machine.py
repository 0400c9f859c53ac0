"""State machine of the parser: characters in, events out.

Theory of operation
-------------------

``Machine`` reads one output of a model.  ``feed`` appends a piece of input to the buffer of the ``Ledger``.
``_read`` then determines what the input in the buffer is, as far as possible.  For each piece,
``_read`` calls a ledger method that creates an event.  Input that is still undecided stays in the buffer.

The *head* of a call is everything up to the function's name, or up to the arguments if they follow the name.
The end of the head is the *commit point* of the call.

The machine is always in exactly one of these modes:

========  =========================================  ======================================
mode      the machine is in it while                 reads
========  =========================================  ======================================
text      no other mode applies                      text of a channel, up to the next
                                                     marker of the current ``TextState``
matching  ``_matcher`` is set                        the input after a marker, to find out
                                                     whether a call or other markup begins
between   ``_between_calls`` is true, or             the input after a call in a section,
          ``_repetitions`` is not empty              or directly after the section
arguments,``_call`` is set; these are the phases     the open call, see ``call_reader.py``
tail,     of the call
recovery
========  =========================================  ======================================

In text mode, ``_state`` is a table of the markers to look for, and of the markup that may begin at each
marker.  There are separate states for content before the first visible text, for content after it, for each
reasoning wrapper and for each kind of message body (``compiler/states_outside_calls.py``).

Three rules ensure that results do not depend on how the input is chunked, and that the work is linear:

1. A mode consumes only input whose meaning no further input can change, and leaves the rest in the buffer.
   The length of the rest is bounded (``max_pending``).
2. No event of a call is emitted before its commit point, so that input which merely looks like a call
   can still become text.  After the commit point, nothing is retracted.
3. Every consumed character is in the span of exactly one event.

``feed`` has two fast paths, for the most frequent pieces of input: text without a marker, and the middle of
an argument.  Before ``_read`` returns, it chooses the fast path for the next feed.  A fast path must return
the same events as ``_read`` would; the tests of chunking compare the two for every dialect.  Without the
first fast path, prose takes 3.1 times as long in the interpreter.  Without the second, a long argument takes
2.1 times as long (``benchmarks/shortcuts.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ..dialects._control_token_pattern import CONTROL_TOKEN, is_control_token
from .arguments.select_codec import make_codec
from .call_reader import PHASE_NAMES, OpenCall, match_closers
from .compiler.bare_calls import CODE_FENCE, fence_of
from .compiler.match_program_types import CALL, EMPTY_SECTION, FRAME, OPEN_WRAPPER, PUNCTUATION, SECTION_CLOSE
from .compiler.matcher import CUT, FAIL, MATCH, NEED_MORE, RESTART, Matcher
from .compiler.states_outside_calls import StartState
from .ledger import Ledger, TextObserver
from .scan.character_runs import BOUND, skip_whitespace
from .scan.markers import MarkerSet
from .unique_call_ids import CallIds

if TYPE_CHECKING:
    from ..events import Channel, Event, FinishReason, MarkupKind
    from ..policies import Policies
    from .compiler.argument_codec_base import Codec
    from .compiler.compiled_dialect import CompiledDialect
    from .compiler.match_program_types import Program
    from .compiler.message_headers import FrameForm, Header
    from .compiler.split_templates import CallForm, SectionForm
    from .compiler.states_outside_calls import Entry, TextState
    from .schema.tools import Tools

OutputStart: TypeAlias = Literal["content", "reasoning", "header", "call"]
"""Position at which an output begins: in a channel, in the header of a message, or in a call."""

_NO_MARKERS: Final = MarkerSet(())
_STRAY_KINDS: Final[dict[str, MarkupKind]] = {
    "call": "call",
    "reasoning": "reasoning_close",
    "text": "dropped",
}
_QUOTES: Final = frozenset("\"'`")
_INVENTED_CLOSER: Final = re.compile(
    r"</(?=[\w:.-]*(?:tool|function|invo[kc]|call))[\w:.-]{1,60}>", re.IGNORECASE
)
"""Closing tag that is about calls.  Directly after a call, it belongs to a format that the model made up."""
_INVENTED_CLOSER_BEGINS: Final = re.compile(r"(?:<(?:/[\w:.-]{0,60})?)?\Z")
# Return values of `_read_marker` and `_match_at`.
_IS_TEXT: Final = -1
_NEEDS_MORE: Final = 0
_DECIDED: Final = 1
_IN_CALL_HEADER: Final = "the input ended inside the header of a call"
LOOKAHEAD: Final = 2
"""Number of characters after a marker that `Entry.quick_match` examines before a matcher is created."""
CODE_FUNCTION: Final = "python"
"""Function name that is used for calls that consist of raw code."""


class Machine:
    """State machine that reads one output."""

    __slots__ = (
        "_after_call",
        "_between_calls",
        "_call",
        "_call_ends_reasoning",
        "_call_seen",
        "_checks_names",
        "_compiled",
        "_declared_only",
        "_drops_unknown",
        "_fast_channel",
        "_fast_codec",
        "_fast_first_character",
        "_fast_markers",
        "_fence",
        "_has_visible_text",
        "_ids",
        "_matcher",
        "_matcher_entry",
        "_null_calls",
        "_outer_state",
        "_policies",
        "_quotation",
        "_reasoning_closed",
        "_remove_calls",
        "_repair",
        "_repetitions",
        "_section",
        "_section_is_text",
        "_section_text",
        "_state",
        "_states",
        "_text_closers",
        "_tools",
        "ledger",
    )

    def __init__(
        self,
        compiled: CompiledDialect,
        tools: Tools,
        policies: Policies,
        *,
        base: int,
        keep_raw: bool,
        new_id: Callable[[str, int], str] | None,
        remove_calls: bool,
        unread_calls: TextObserver | None = None,
    ) -> None:
        """Create a machine that has not read any input.

        :param base: offset of the first character in the output; below 0 if it belongs to the prompt.
        :param keep_raw: keep the raw text of the open call, for ``CallEnd.raw``.
        :param new_id: a function that generates the id of a call; None: generate ids in the dialect's format.
        :param remove_calls: turn calls into markup, because the request offered no tools.
        :param unread_calls: a detector that gets all text of the output.
        """
        self._compiled: Final = compiled
        self._states: Final = compiled.states
        self._tools: Final = tools
        self._policies: Final = policies
        self._repair: Final = policies.malformed_call == "repair"
        self._declared_only: Final = policies.unknown_tool == "text" and tools.known
        self._drops_unknown: Final = policies.unknown_tool == "drop" and tools.declared
        self._checks_names: Final = tools.declared
        self._null_calls: Final = compiled.dialect.habits.null_calls
        self._remove_calls: Final = remove_calls
        id_format = compiled.dialect.id_format
        # Families with ids of their own write them last in healthy calls, which need no diagnostic.  Only the
        # stage that waits for the whole call needs it, because the diagnostic contains the id.
        reports_late_ids = policies.commit == "call" or id_format.native_length is None
        self.ledger: Final = Ledger(
            base=base,
            keep_raw=keep_raw or bool(compiled.repetitions),
            reports_late_ids=reports_late_ids,
            unread_calls=unread_calls,
        )
        """Input buffer, and the events that account for the input."""
        self._ids: Final = CallIds(id_format, new_id, native=policies.call_ids == "native")
        # Fast path of the next feed: arguments for `_fast_codec`, or text of `_fast_channel` that contains
        # none of `_fast_markers`.
        self._fast_channel: Channel | None = None
        self._fast_markers = _NO_MARKERS
        # First character of all `_fast_markers`; empty if the markers start with different characters.
        self._fast_first_character = ""
        self._fast_codec: Codec | None = None
        # Text outside calls.
        self._state: TextState = self._states.fresh
        self._outer_state: TextState = self._states.fresh  # the state to return to after dropped text
        # True once this message has content other than whitespace, or a call in its content.
        self._has_visible_text = False
        self._reasoning_closed = not compiled.has_reasoning
        # Code fence that is open in the content, if fences have a meaning in this dialect; otherwise empty.
        self._fence = ""
        # Closing markers to treat as text, because their opening markers were treated as text.
        self._text_closers: set[str] = set()
        # Matcher that waits for more input, and the table entry of the marker at which it started.
        self._matcher: Matcher | None = None
        self._matcher_entry: Entry | None = None
        # Calls and sections of calls.
        self._call: OpenCall | None = None
        self._section: SectionForm | None = None
        self._section_is_text = False  # true if the call that opened the section is shown as text
        self._between_calls = False  # true after a call of the open section has ended
        # Some models write all calls of a section again after the section.  For dialects of such models,
        # `_section_text` is the text of the section, and `_repetitions` are the possible forms of the second
        # copy.
        self._section_text = ""
        self._repetitions: list[str] = []
        self._call_seen = False
        # Quotation mark in front of a marker that has changed; empty after the quotation has ended.
        self._quotation = ""
        self._call_ends_reasoning = False  # the marker of the last call also ends reasoning
        self._after_call = False  # nothing but whitespace and closing tags has followed the last call

    # -- properties of the current state

    @property
    def mode(self) -> str:
        """Name of the machine's mode, for display."""
        if self._call is not None:
            return PHASE_NAMES[self._call.phase]
        buffer = self.ledger.buffer
        in_section = self._between_calls or self._repetitions or self._after_call
        # The buffer may contain a complete marker although there is no matcher, because the machine may need
        # more characters before it creates a matcher.
        if self._matcher is not None or (
            buffer and not in_section and buffer not in self._state.markers.prefixes
        ):
            return "matching"
        return "between" if in_section else "text"

    @property
    def pending(self) -> int:
        """Number of input characters that are not part of any event yet."""
        return self.ledger.pending

    @property
    def max_pending(self) -> int | None:
        """Upper bound of ``pending`` in the current mode; None if there is no bound.

        A head is at most ``BOUND`` characters long, and so is the look-ahead after it.  Only arguments that
        precede the function's name have no bound.
        """
        matcher = self._matcher
        if matcher is not None:
            return None if matcher.envelope is not None and matcher.envelope.awaits_name else 2 * BOUND
        if self._call is None and not (self._between_calls or self._repetitions or self._after_call):
            longest = self._state.markers.longest
            return longest if len(self.ledger.buffer) <= longest else longest + LOOKAHEAD
        return 2 * BOUND

    @property
    def channel(self) -> Channel:
        """Channel to which the next text belongs."""
        return self._state.channel or "content"

    @property
    def reasoning_ended(self) -> bool:
        """True if reasoning was closed, or content or a call has begun."""
        return self._reasoning_closed or self._has_visible_text or self._call is not None

    @property
    def before_output(self) -> bool:
        """True until the text of the prompt has been accounted for."""
        return self.ledger.accounted_to < 0

    @property
    def call_open(self) -> bool:
        """True between the start and the end of a call."""
        return self._call is not None

    # -- the start of the output

    def output_start(self) -> OutputStart | None:
        """Return where the output begins (such as ``content``), after the prompt was read.

        Return None if this depends on the output itself, or if the output begins with dropped text.
        """
        if self._call is not None:
            return "call"
        programs = self._pending_programs()
        actions = {program.action for program in programs}
        # A brace or bracket may also begin an ordinary answer, so it alone does not prove that a call begins.
        if CALL in actions and (
            self._matcher is not None or any(program.has_call_opener for program in programs)
        ):
            return "call" if actions <= {CALL, EMPTY_SECTION} else None
        if FRAME in actions:
            return self._start_after_header()
        for program in programs:
            if program.wrapper is not None:
                return program.wrapper.channel
        return self._state.channel

    def _pending_programs(self) -> list[Program]:
        """Return the programs that may still match at the marker at the end of the input."""
        if self._matcher is not None:
            return self._matcher.programs
        buffer = self.ledger.buffer
        if not buffer or self._between_calls or self._repetitions:
            return []
        entry = self._state.entries.get(self._state.markers.literal_at(buffer, 0))
        return entry.programs if entry is not None else []

    def _start_after_header(self) -> OutputStart | None:
        """Return where the output begins, if the prompt ends with a complete or incomplete header."""
        frame = self._compiled.frame
        header = self.ledger.buffer
        if frame is None or frame.sep not in header:
            return "header"
        into = frame.read_header(header).into
        if into.startswith("{"):
            return "call"
        bodies = self._states.bodies
        return bodies.get(into, bodies["content"]).channel

    def save_start(self, *, reasoning_just_closed: bool) -> StartState | None:
        """Return the machine's state for later reuse; None if the machine is in or after a call."""
        if (
            self._call is not None
            or self._matcher is not None
            or self._between_calls
            or self._call_seen
            or self._text_closers
            or self._section is not None
            or self._state.channel is None
        ):
            return None
        return StartState(
            self._state,
            has_visible_text=self._has_visible_text,
            last_character=self.ledger.last_character,
            pending=self.ledger.buffer,
            reasoning_just_closed=reasoning_just_closed,
            reasoning_closed=self._reasoning_closed,
        )

    def restore_start(self, start: StartState) -> None:
        """Start in a saved state, without reading the prompt again."""
        self._state = start.state
        self._has_visible_text = start.has_visible_text
        self._reasoning_closed = start.reasoning_closed
        self.ledger.continue_after_prompt(start.pending, start.last_character)

    def end_reasoning(self) -> None:
        """Record that reasoning has ended before the start of the output."""
        self._reasoning_closed = True

    def begin_output(self) -> None:
        """Mark the end of the prompt, so that the calls of the output are counted from 0."""
        call = self._call
        # End a complete call without closing markers.  Otherwise the output would end this call.
        if call is not None and call.needs_no_closer:
            call.close()
            self._leave_call(call)
            self._read(final=False)
            self.ledger.end_feed()
        self.ledger.set_last_index(0 if self.call_open and not self.ledger.call_is_silent else -1)

    # -- input

    def feed(self, text: str) -> list[Event]:
        """Read the next chunk of input, and return the events that are now certain."""
        if not text:
            return []
        ledger = self.ledger
        if ledger.buffer:
            text = ledger.take_buffer() + text
        channel = self._fast_channel
        if channel is not None:
            # If all markers start with the same character, text without this character has no marker.
            # Otherwise `_fast_first_character` is empty, and this test never succeeds, because the empty
            # string is in any text.
            if self._fast_first_character not in text:
                return ledger.account_text(channel, text)
            length = self._fast_markers.reach(text)
            if length >= 0:
                if length == len(text):
                    return ledger.account_text(channel, text)
                ledger.hold(text[length:])
                return ledger.account_text(channel, text[:length]) if length else []
        elif self._fast_codec is not None:
            codec = self._fast_codec
            length = codec.step(text, 0, False)
            # The end of the arguments, an error or a diagnostic needs the slow path below.
            if not (codec.done or codec.error or codec.diagnostics):
                if length < len(text):
                    ledger.hold(text[length:])
                    if not length and not codec.text:
                        return []
                    text = text[:length]
                return ledger.account_arguments(codec.text, text)
            call = self._call
            assert call is not None  # noqa: S101 - the codec is that of the open call
            ledger.begin_feed(text)
            if call.resume(length):
                self._read(final=False)
            else:
                self._choose_fast_path()
            return ledger.end_feed()
        ledger.begin_feed(text)
        self._read(final=False)
        return ledger.end_feed()

    def finish(self, reason: FinishReason | None) -> list[Event]:
        """End the input and return the last events."""
        ledger = self.ledger
        ledger.end_input(reason)
        self._read(final=True)
        ended_by_call = self._after_call and self._call_ends_reasoning
        if self._state.channel == "reasoning" and not (self._state.body or ended_by_call):
            ledger.diagnose("unclosed_reasoning", "the input ended inside reasoning")
        ledger.emit_finish(reason)
        return ledger.end_feed()

    def use_native_id(self, native: str) -> str:
        """Reserve an id that the model wrote after the arguments.

        Return the id, or an empty string if the id is not usable.
        """
        return native if self._ids.use(native) else ""

    # -- the loop

    def _read(self, *, final: bool) -> None:
        """Emit events for as much of the buffer as possible.

        Each branch reads in one mode.  A branch returns False if it needs more input, and True if the machine
        may continue in another mode.

        :param final: no more input follows, so nothing may stay undecided.
        """
        going = True
        while going:
            call = self._call
            if call is not None:
                going = call.read(final)
                if call.has_ended:
                    self._leave_call(call)
            elif self._matcher is not None:
                going = self._resume_matcher(self._matcher, final)
            elif self._repetitions:
                going = self._read_repetition(final)
            elif self._between_calls:
                going = self._read_between_calls(final)
            elif self._after_call:
                going = self._read_after_call(final)
            else:
                going = self._read_text(self.ledger.position, final)
        self._choose_fast_path()

    def _choose_fast_path(self) -> None:
        """Choose the fast path of the next feed, which depends on the current mode."""
        call = self._call
        self._fast_codec = None if call is None else call.source
        self._fast_channel = None
        state = self._state
        # The first visible text changes the state, so it must not take the fast path.
        in_section = self._between_calls or self._repetitions or self._after_call
        is_text = call is None and self._matcher is None and not in_section
        is_text = is_text and not self._quotation  # `_show_text` looks for the end of the quotation
        if is_text and (self._has_visible_text or state.channel == "reasoning"):
            channel = state.channel
            if channel is not None:
                self.ledger.change_text_channel(channel)
            self._fast_channel = channel
            self._fast_markers = state.markers
            self._fast_first_character = state.markers.first_character

    # -- text outside calls

    def _read_text(self, at: int, final: bool) -> bool:
        """Read text up to a marker that begins or ends an element.  The search for markers starts at ``at``.

        The input from the current position up to ``at`` is certainly text.  This text is emitted
        later, so that text with many false markers still becomes a single event.
        """
        ledger = self.ledger
        buffer = ledger.buffer
        while at < len(buffer):
            markers = self._state.markers
            at, literal = markers.seek(buffer, at, False)
            if at < 0:
                break
            # There are three cases: (1) A complete literal was found. (2) The buffer ends with the beginning
            # of a literal, and more input may follow; then wait for it. (3) The input ends with the beginning
            # of a literal, which is then text, unless it looks like a marker that was cut off.
            if final and not literal:
                if CONTROL_TOKEN.match(buffer, at):  # a control token of another family
                    self._show_text(at)
                    ledger.emit_markup("dropped", len(buffer) - at)
                    return False
                literal = markers.literal_at(buffer, at)
                if ledger.cut_short and PUNCTUATION.search(buffer, at) and self._may_be_cut(literal, at):
                    self._show_text(at)
                    self._drop_cut_marker()
                    return False
            if (literal and self._state.fresh) or not (literal or final):
                self._show_text(at)
                if self._state.markers is not markers:
                    # This was the first visible text.  Markers that are valid only before visible
                    # text are ordinary text from here on, so search again with the markers of the new state.
                    continue
                if not literal:
                    return False
            answer = self._read_marker(literal, at, final) if literal else _IS_TEXT
            if answer == _IS_TEXT:
                at += 1
            elif answer == _NEEDS_MORE or self._call is not None or self._between_calls:
                return answer == _DECIDED
            else:
                at = ledger.position
        self._show_text(len(buffer))
        return False

    def _may_be_cut(self, literal: str, at: int) -> bool:
        """Return whether the input may end inside a marker at index ``at``.

        :param literal: the complete marker at this index, or an empty string.
        """
        entries = self._state.entries
        if literal and entries[literal].closes:
            return False
        rest = self.ledger.buffer[at:]
        return any(entry.literal.startswith(rest) and not entry.only_bare for entry in entries.values())

    def _drop_cut_marker(self) -> None:
        """Remove the rest of the input, because generation was stopped inside a marker."""
        ledger = self.ledger
        ledger.diagnose("cut_marker", ledger.buffer[ledger.position :])
        ledger.emit_markup("dropped", len(ledger.buffer) - ledger.position)

    def _show_text(self, end: int) -> None:
        """Emit the text from the current position up to index ``end``."""
        if end <= self.ledger.position:
            return
        channel = self._state.channel
        text = self.ledger.emit_text(channel, end)
        if self._quotation and self._quotation in text:
            self._quotation = ""
        if not self._has_visible_text and channel == "content" and not text.isspace():
            self._note_visible_text()

    def _note_visible_text(self) -> None:
        """Enter the state after the first visible text."""
        self._has_visible_text = True
        later = self._state.later
        if later is not None:
            self._state = later

    def _read_marker(self, literal: str, at: int, final: bool) -> int:
        """Process the marker at index ``at``, and return ``_DECIDED``, ``_NEEDS_MORE`` or ``_IS_TEXT``.

        The possible meanings are tried in this order:

        1. The marker closes the element that is open.
        2. The marker ends reasoning whose closing marker is missing.
        3. The marker closes an element that was treated as text, so the marker is text, too.
        4. The marker opens an element.
        5. The marker is a closing marker without an opening marker.
        """
        ledger = self.ledger
        entry = self._state.entries[literal]
        if entry.closes:
            self._show_text(at)
            self._close(literal)
            return _DECIDED
        if entry.ends_reasoning:
            self._show_text(at)
            ledger.diagnose("missing_closer", "reasoning")
            self._reasoning_closed = True
            self._state = self._content_state
            return _DECIDED
        if literal in self._text_closers:
            self._text_closers.discard(literal)
            self._note_fence(entry)
            return _IS_TEXT
        before = ledger.buffer[at - 1] if at > ledger.position else ledger.last_character
        after_quote = before in _QUOTES
        quoted = after_quote and not entry.is_control
        if entry.programs and not (entry.starts_with_dropped and self._removes_stray(entry, quoted)):
            answer = self._match_at(entry, at, quoted, after_quote, final)
            if answer != _IS_TEXT:
                return answer
        if entry.stray and self._removes_stray(entry, quoted):
            self._show_text(at)
            self._remove_stray(entry)
            return _DECIDED
        return _IS_TEXT

    @property
    def _content_state(self) -> TextState:
        return self._states.content if self._has_visible_text else self._states.fresh

    def _match_at(self, entry: Entry, at: int, quoted: bool, after_quote: bool, final: bool) -> int:
        """Find out whether a call or other markup begins at the marker at index ``at``; if so, start it.

        First, the programs that are not allowed at this position are ruled out.  Then ``quick_match`` uses
        the next two characters to reject most markers in prose quickly.  Only after that is a ``Matcher``
        created.  If the matcher needs more input, ``_resume_matcher`` continues it later.
        """
        ledger = self.ledger
        programs = entry.programs
        if entry.reasoning_closers and self._in_mid_line(at):
            programs = entry.mid_line_programs
            if self._state.channel == "content":
                self._text_closers |= entry.reasoning_closers
        if entry.has_slips and after_quote and not self._quotation:
            self._show_text(at)
            self._quotation = ledger.last_character
        if after_quote or entry.anchored or entry.at_line or (self._quotation and entry.has_slips):
            at_start = (
                self._state.fresh
                and not self._has_visible_text
                and not ledger.buffer[ledger.position : at].strip()
            )
            at_line = entry.at_line and not self._fence and not self._in_mid_line(at)
            in_quotes = after_quote or bool(self._quotation)
            programs = [program for program in programs if program.fits(at_start, at_line, quoted, in_quotes)]
        end = at + len(entry.literal)
        unescape = self._compiled.unescape
        answer = entry.quick_match(ledger.buffer[end : end + LOOKAHEAD], unescape) if programs else FAIL
        if answer == NEED_MORE and len(ledger.buffer) < end + LOOKAHEAD and not final:
            self._show_text(at)
            return _NEEDS_MORE
        if answer != FAIL:
            matcher = Matcher(programs, unescape)
            matcher.cut_short = ledger.cut_short
            answer = self._run_matcher(matcher, at, final)
            if answer != FAIL:
                self._show_text(at)
            if answer == NEED_MORE:
                self._matcher_entry = entry
                self._suspend(matcher)
                return _NEEDS_MORE
            if answer != FAIL:
                self._commit(matcher, answer)
                return _DECIDED
        self._treat_as_text(programs, entry)
        return _IS_TEXT

    def _in_mid_line(self, at: int) -> bool:
        """Return whether other text precedes index ``at`` on the same line."""
        ledger = self.ledger
        before = ledger.buffer[at - 1] if at > ledger.position else ledger.last_character
        if not before or before == "\n":
            return False
        if self._has_visible_text or self._state.channel == "reasoning":
            return True
        return bool(ledger.buffer[ledger.position : at].strip())

    def _treat_as_text(self, programs: list[Program], entry: Entry) -> None:
        """Record that a marker is text, so that its closing markers are treated as text as well."""
        self._note_fence(entry)
        if len(programs) == len(entry.programs):
            self._text_closers |= entry.closers
        else:
            self._text_closers.update(*(program.closers for program in programs))

    def _note_fence(self, entry: Entry) -> None:
        """Record that a block of code begins or ends, if the literal is a code fence.

        A block of code may contain objects that look like calls without markers.
        """
        if entry.at_line:
            self._note_fences_in(fence_of(entry.literal))

    def _note_fences_in(self, text: str) -> None:
        """Record the code fences in a piece of text."""
        for fence in CODE_FENCE.findall(text):
            self._fence = fence if not self._fence else self._fence.removeprefix(fence)

    def _removes_stray(self, entry: Entry, quoted: bool) -> bool:
        """Return whether to remove a closing marker that has no opener."""
        if quoted or entry.is_words:
            return False
        return entry.stray != "call" or entry.is_control or self._call_seen

    def _remove_stray(self, entry: Entry) -> None:
        self.ledger.diagnose("stray_closer", entry.literal)
        self.ledger.emit_markup(_STRAY_KINDS[entry.stray], len(entry.literal))

    def _close(self, literal: str) -> None:
        """Close the open wrapper or message body."""
        wrapper = self._state.wrapper
        kind = wrapper.close_kind if wrapper is not None else "message_boundary"
        self.ledger.emit_markup(kind, len(literal))
        if self._state.body:
            self._has_visible_text = False  # another message may begin
        elif wrapper is not None and wrapper.channel == "reasoning":
            self._reasoning_closed = True
        if wrapper is not None and wrapper.channel is None:
            self._state = self._outer_state
        else:
            self._state = self._content_state

    # -- matchers

    def _run_matcher(self, matcher: Matcher, at: int, final: bool) -> int:
        """Run a matcher at index ``at`` of the buffer until it has a result or needs more input.

        If a program matches, but its call is not acceptable given the tools of the request, the program is
        rejected and the matcher tries the next one.
        """
        ledger = self.ledger
        # If generation was stopped, the beginning of a marker is not shown as text.
        cut = final and ledger.cut_short and (matcher.program.marked or not self._calls_unannounced)
        while True:
            answer = matcher.run(ledger.buffer, at, final and not cut)
            if answer == NEED_MORE:
                if not cut:
                    return NEED_MORE
                if matcher.program.has_text:  # the text is no marker, so it must not be removed
                    matcher.reject()
                    continue
                answer = matcher.cut_off(ledger.buffer, at)
            if answer == RESTART:
                ledger.restore()
                at = matcher.set_aside = matcher.offset = 0
            elif self._rejects(matcher, answer, cut):
                matcher.reject()
            else:
                break
        if matcher.set_aside:
            ledger.restore()
            matcher.offset += matcher.set_aside
            matcher.set_aside = 0
        if answer == CUT and not cut and not self._could_become_call(matcher):
            answer = FAIL
        if answer == FAIL and matcher.overlong:
            self._show_text(at)
            ledger.diagnose("overlong_head", matcher.programs[0].trigger)
        return answer

    def _rejects(self, matcher: Matcher, answer: int, cut: bool) -> bool:
        """Return whether to reject a match or the incomplete beginning of a call, given the tools."""
        if answer == MATCH:
            return not self._accepts(matcher)
        if answer != CUT or not cut:
            return False
        return matcher.program.bare or (matcher.program.declared and not self._could_become_call(matcher))

    def _could_become_call(self, matcher: Matcher) -> bool:
        """Return whether the incomplete markup at the end of the input could have become a call."""
        if matcher.cut_needs_declared and not self._tools.known:
            return False
        return self._compiled.names.could_become(matcher.cut_name, self._tools)

    @property
    def _calls_unannounced(self) -> bool:
        """True unless the machine is between the calls of a section that has an opening marker."""
        return not self._between_calls or self._section is None or self._section.bare

    def _accepts(self, matcher: Matcher) -> bool:
        """Return whether to accept the matched beginning of a call, given the tools of the request."""
        program = matcher.program
        if program.action != CALL:
            return self._is_header(matcher) if program.action == FRAME else not matcher.confirmed_by_end
        form = program.call
        assert form is not None  # noqa: S101 - every program for a call has a form
        tools = self._tools
        name = self._name_in_head(matcher)
        if form.unnamed and not name:
            return False
        if matcher.confirmed_by_end and not tools.declares(name):
            of_other_family = self._compiled.owner_of(form) is not self._compiled
            if tools.known or of_other_family:
                return False
        matcher.name, matcher.native_id = self._compiled.names.refine(name, tools)
        if tools.declares(matcher.name):
            return True
        envelope = matcher.envelope
        if program.declared or (envelope is not None and envelope.only_named):
            return False
        if envelope is not None and envelope.is_like_tool and tools.known:
            return False
        return not (program.free_name and not tools.could_be(matcher.name))

    def _name_in_head(self, matcher: Matcher) -> str:
        """Return the function's name from the matched text, the dialect, or the keys of the arguments."""
        if matcher.envelope is not None:
            keys = matcher.envelope.keys
            return matcher.envelope.name if keys is None else self._tools.fitting(keys)
        form = matcher.program.call
        default = CODE_FUNCTION if form is not None and form.payload == "code" else ""
        return matcher.fields.get("name", "") or self._compiled.dialect.names.fixed or default

    def _suspend(self, matcher: Matcher) -> None:
        """Keep a matcher until more input arrives.

        If the matcher has read a long part of an envelope, set this part aside.
        """
        self._matcher = matcher
        if matcher.envelope is not None and matcher.offset > BOUND:
            self.ledger.set_aside(matcher.offset)
            matcher.set_aside += matcher.offset
            matcher.offset = 0

    def _resume_matcher(self, matcher: Matcher, final: bool) -> bool:
        """Continue the matcher that waited for more input."""
        matcher.cut_short = self.ledger.cut_short
        answer = self._run_matcher(matcher, self.ledger.position, final)
        if answer == NEED_MORE:
            self._suspend(matcher)
            return False
        self._matcher = None
        if self._between_calls:
            self._continue_section(matcher, answer)
            return True
        if answer != FAIL:
            self._commit(matcher, answer)
            return True
        entry = self._matcher_entry
        assert entry is not None  # noqa: S101 - outside calls, a matcher starts at an entry
        self._treat_as_text(matcher.programs, entry)
        quoted = self.ledger.last_character in _QUOTES and not entry.is_control
        if entry.stray and self._removes_stray(entry, quoted):
            self._remove_stray(entry)
            return True
        return self._read_text(self.ledger.position + 1, final)

    def _commit(self, matcher: Matcher, answer: int) -> None:
        """Process the result ``MATCH`` or ``CUT`` of a matcher at the current position."""
        ledger = self.ledger
        if answer == CUT:
            if matcher.cut_in_head:
                self._report_cut_head("the input ended before the function's name", len(ledger.buffer))
            elif self._cut_in_call_header():
                self._report_cut_head(_IN_CALL_HEADER, len(ledger.buffer))
            else:
                self._drop_cut_marker()
            return
        program = matcher.program
        action = program.action
        if action == CALL:
            self._start_call(matcher)
        elif action == OPEN_WRAPPER:
            self._open_wrapper(matcher)
        elif action == FRAME:
            self._open_message(matcher)
        elif action == SECTION_CLOSE:
            self._emit_section_markup("call", matcher.offset)
            self._close_section()
        elif action == EMPTY_SECTION:
            ledger.diagnose("empty_section", program.trigger)
            ledger.emit_markup("call", matcher.offset)
        else:  # a marker to drop, or the end of the turn
            if program.anchored:
                ledger.diagnose("broken_header", program.trigger)
            if program.trigger in self._states.call_openers:
                ledger.diagnose("stray_opener", program.trigger)
            ledger.emit_markup("dropped", matcher.offset)

    def _report_cut_head(self, detail: str, end: int) -> None:
        """Remove the incomplete beginning of a call, up to index ``end``."""
        self.ledger.diagnose("cut_head", detail)
        self.ledger.emit_markup("cut", end - self.ledger.position)

    def _cut_in_call_header(self) -> bool:
        """Return whether the rest of the input is an incomplete header whose message would be a call."""
        frame = self._compiled.frame
        if frame is None:
            return False
        return frame.read_header(self.ledger.buffer[self.ledger.position :]).into.startswith("{")

    def _open_wrapper(self, matcher: Matcher) -> None:
        """Enter the state inside a wrapper of reasoning, content or dropped text."""
        wrapper = matcher.program.wrapper
        assert wrapper is not None  # noqa: S101 - every program for a wrapper has a wrapper
        if self._state.channel == "reasoning" and wrapper.channel == "reasoning":
            self.ledger.diagnose("stray_opener", matcher.program.trigger)
        else:
            if wrapper.channel is None:
                self.ledger.diagnose("dropped_text", matcher.program.trigger)
                self._outer_state = self._state
            state = self._states.inside[wrapper]
            later = state.later
            self._state = later if later is not None and self._has_visible_text else state
        self.ledger.emit_markup(wrapper.open_kind, matcher.offset)

    # -- messages with headers

    def _open_message(self, matcher: Matcher) -> None:
        """Begin a message.  The fields of its header determine whether its body is text or a call."""
        frame = self._compiled.frame
        assert frame is not None  # noqa: S101 - only frames have headers
        ledger = self.ledger
        bodies = self._states.bodies
        text = ledger.buffer[ledger.position : ledger.position + matcher.offset]
        opener = matcher.program.trigger
        header = frame.read_header(text)
        finished = opener == frame.sep or matcher.fields["ended"] == frame.sep
        prose = frame.prose(header, text, opener)
        if prose:  # the model wrote text first; the header may follow the text
            ledger.diagnose("broken_header", text[:80])
            ledger.emit_markup("message_boundary", len(opener))
            self._state = bodies["content"]
            self._note_fences_in(text[len(opener) : len(opener) + prose])
            self._show_text(ledger.position + prose)
            if not finished or not header.fields:
                return
            text = text[len(opener) + prose :]
            opener = ""
            header = frame.read_header(text)
        into = header.into
        length = len(text)
        if header.contradicts:
            ledger.diagnose("broken_header", text[:80])
        if finished:
            length += len(frame.sep) if matcher.program.trigger != frame.sep else 0
        else:
            length = self._measure_broken_header(matcher, text, header)
            end = ledger.position + length
            if matcher.confirmed_by_end and end == len(ledger.buffer) and into.startswith("{"):
                self._report_cut_head(_IN_CALL_HEADER, end)
                return
            ledger.diagnose("broken_header", text[:80])
        if finished and into in frame.calls and self._compiled.reads_calls:
            if self._is_wanted(header.name):
                self._start_framed_call(header, frame, frame.calls[into], length)
            else:
                # A call to a tool that was not offered is shown as text, and so is its header.
                if self._checks_names:
                    self.ledger.diagnose("unknown_tool", header.name)
                self._state = bodies["content"]
                self._show_text(ledger.position + length)
            return
        ledger.emit_markup("message_boundary", length)
        self._state = bodies.get(into, bodies["content"])
        self._reasoning_closed = self._reasoning_closed or self._state.channel == "content"

    def _measure_broken_header(self, matcher: Matcher, text: str, header: Header) -> int:
        """Return the number of characters of an unfinished header that are markup; the rest is text."""
        if matcher.confirmed_by_end and not text[header.end :].strip(" "):
            return matcher.offset
        opener = len(matcher.program.trigger)
        if not is_control_token(text[header.begin : header.end]):  # perhaps ordinary text
            return opener
        rest = text[max(header.end, opener) :]
        return len(text) - len(rest.lstrip(" "))

    def _is_wanted(self, name: str) -> bool:
        """Return whether a call to this function is reported as a call."""
        return self._tools.declares(name) if self._declared_only else self._tools.could_be(name)

    def _is_header(self, matcher: Matcher) -> bool:
        """Return whether the text that a matcher has found is really a header.

        The text is a header if a control token opens or ends it.  Otherwise, the text must consist of header
        fields and must not name an unknown tool.
        """
        frame = self._compiled.frame
        assert frame is not None  # noqa: S101 - only frames have headers
        fields = matcher.fields
        opener = matcher.program.trigger
        if opener == frame.sep or matcher.program.control or is_control_token(fields["ended"]):
            return True
        text = opener + fields["header"]
        header = frame.read_header(text)
        tools = self._tools
        name = header.name
        if text[header.end :].strip(" ") or (name and not self._compiled.reads_calls):
            return False
        if tools.declares(name):
            return True
        if matcher.confirmed_by_end:  # the input may have ended inside a header
            can_be_cut = matcher.cut_short or (tools.known and bool(name))
            return can_be_cut and (not name or (tools.could_be(name) and tools.could_become(name)))
        return not name or (fields["next"] == "{" and tools.could_be(name))

    # -- calls

    def _start_framed_call(self, header: Header, frame: FrameForm, form: CallForm, length: int) -> None:
        """Start a call whose arguments are the body of a message."""
        self._section = None
        self._state = self._states.fresh
        name = header.name
        self._announce_call(name, "", length, header.name_at, header.name_at + len(name))
        self._open_call(form, self._new_codec(form, name), frame=frame)

    def _start_call(self, matcher: Matcher) -> None:
        """Start the call whose beginning a matcher has found."""
        program = matcher.program
        form = program.call
        assert form is not None  # noqa: S101 - every program for a call has a form
        section = program.section
        name, native_id = matcher.name, matcher.native_id
        refused = self._declared_only and not self._tools.declares(name)
        if refused:
            if self._checks_names:
                self.ledger.diagnose("unknown_tool", name)
            self._show_call_as_text(program)
        if program.slip:
            self.ledger.diagnose("slip", program.slip)
        if program.has_text:
            self._show_text_before_call(matcher, form)
        self._report_other_form(program, form)
        if form.unnamed:
            self.ledger.diagnose("unnamed_call", self._name_in_head(matcher))
        self._call_ends_reasoning = form.begins_message
        opened = section if self._section is not section else None
        if opened is not None:
            self._section_text = ""
        self._section = section
        envelope = matcher.envelope
        if envelope is not None:
            native_id = envelope.id
        if opened is not None:
            self._section_is_text = refused
            if opened.missing_opener:
                self.ledger.diagnose("missing_opener", opened.missing_opener)
        start = self.ledger.position
        name_start, name_end = self._name_span(name, matcher)
        native_id = matcher.fields.get("id", native_id)
        self._announce_call(name, native_id, matcher.offset, name_start, name_end)
        codec: Codec | None = envelope
        if envelope is not None:
            # The envelope has stopped at its commit point.  Emit the arguments that it has read so far.
            if matcher.args_start >= 0:
                self.ledger.mark_arguments_start(start + matcher.args_start)
            if matcher.args_end >= 0:
                self.ledger.mark_arguments_end(start + matcher.args_end)
            self.ledger.emit_arguments(envelope.text, 0)
            self.ledger.defer_diagnostics(envelope.diagnostics)
        elif form.payload:
            codec = self._new_codec(form, name)
        self._open_call(form, codec, opened=opened)

    def _show_text_before_call(self, matcher: Matcher, form: CallForm) -> None:
        """Emit the text between the opening marker of a section and its first call."""
        ledger = self.ledger
        start = ledger.position
        at = ledger.buffer.index(form.opener, start + len(matcher.program.trigger))
        ledger.emit_markup("dropped", len(matcher.program.trigger))
        self._show_text(at)
        matcher.skip(at - start)

    def _report_other_form(self, program: Program, form: CallForm) -> None:
        """Report a call that is not in a form of the dialect itself."""
        owner = self._compiled.owner_of(form)
        if program.bare:
            self.ledger.diagnose("bare_call", "a JSON object without the markers of the dialect")
        elif owner.dialect is not self._compiled.dialect:
            self.ledger.diagnose("other_family_call", owner.dialect.name)

    def _name_span(self, name: str, matcher: Matcher) -> tuple[int, int]:
        """Return the start and end of the name in the matched text; an empty span if there is no name."""
        if matcher.name_start < 0:
            return matcher.offset, matcher.offset
        if matcher.name_end - matcher.name_start == len(name):
            return matcher.name_start, matcher.name_end
        ledger = self.ledger
        start = ledger.position
        at = ledger.buffer.find(name, start + matcher.name_start, start + matcher.name_end)
        if at < 0:  # the matched text contains the name with escapes
            return matcher.name_start, matcher.name_end
        return at - start, at - start + len(name)

    def _show_call_as_text(self, program: Program) -> None:
        """Show all text of the new call as text of the channel, and do not report the call."""
        self.ledger.silent_channel = self._state.channel or "content"
        entry = self._state.entries.get(program.trigger)
        if entry is not None:
            self._text_closers |= entry.closers - program.closers

    def _announce_call(self, name: str, native_id: str, length: int, name_start: int, name_end: int) -> None:
        """Choose the id of a call, and emit its start, whose span is the next ``length`` characters."""
        ledger = self.ledger
        is_null = name in self._null_calls
        is_unknown = self._checks_names and not is_null and not self._tools.declares(name)
        ledger.call_is_silent = (
            self._remove_calls
            or ledger.silent_channel is not None
            or is_null
            or (is_unknown and self._drops_unknown)
        )
        id = ""
        if is_unknown:
            ledger.diagnose("unknown_tool", name, length)
        elif ledger.call_is_silent:
            ledger.diagnose("null_call", name, length)
        if not ledger.call_is_silent:
            self._call_seen = True
            if native_id and self._ids.use(native_id):
                id = native_id
            else:
                if native_id and self._ids.native:
                    ledger.diagnose("bad_id", native_id, length)
                id = self._ids.new(name, ledger.index + 1)
        ledger.start_call(name, id, length, name_start, name_end)

    @property
    def _next_programs(self) -> list[Program]:
        """Programs for everything that may follow a call in the open section."""
        section = self._section
        return [] if section is None else self._compiled.programs_of(section).next_in_section[section]

    def _open_call(
        self,
        form: CallForm,
        codec: Codec | None,
        *,
        opened: SectionForm | None = None,
        frame: FrameForm | None = None,
    ) -> None:
        """Start reading the arguments of a call.

        :param opened: the section that this call opened, or None.
        :param frame: the form of the message whose body is this call; None if there is no such message.
        """
        if self._section is None:
            resync = self._compiled.follow.resync
        else:
            resync = self._compiled.programs_of(self._section).resync[self._section]
        self._call = OpenCall(
            self.ledger,
            form,
            codec,
            section=opened,
            frame=frame,
            resync=resync,
            repair=self._repair,
        )

    def _new_codec(self, form: CallForm, name: str) -> Codec:
        return make_codec(form, self._compiled, self._tools, name, self._policies)

    def _leave_call(self, call: OpenCall) -> None:
        """Leave the call that has ended, and continue in its section or in ordinary text."""
        self._call = None
        self._reasoning_closed = True
        section = self._section
        # A model that leaves out the opening marker of a section may do so again before the next call.
        # A call without this marker is recognised only if there was no visible text, so the call that has
        # ended must not be recorded as visible text.
        may_be_missing_again = section is not None and section.anchored and bool(section.missing_opener)
        if self._state.channel == "content" and not may_be_missing_again:
            self._note_visible_text()
        if call.frame is not None:
            self._has_visible_text = False  # another message may begin
        if section is not None and self._compiled.repetitions:
            text = self.ledger.last_call_text
            self._add_section_text(text if self._section_text else text[section.first_call_at(text) :])
        if call.closes_section:
            self._section = None
        self._between_calls = self._section is not None and bool(self._next_programs)
        self._after_call = call.frame is None and not self.ledger.call_is_silent

    # -- sections

    def _read_between_calls(self, final: bool) -> bool:
        """Read the input after a call in a section: whitespace, a closing marker, or the next call."""
        section = self._section
        assert section is not None  # noqa: S101 - calls can follow each other only in a section
        ledger = self.ledger
        after = skip_whitespace(ledger.buffer, ledger.position)
        if section.bare:
            self._show_text(after)
        else:
            if self._compiled.repetitions:
                self._add_section_text(ledger.buffer[ledger.position : after])
            self._emit_section_markup("separator", after - ledger.position)
        if ledger.position == len(ledger.buffer):
            if final:
                self._leave_section()
            return final
        if section.closers:
            end = match_closers(section.closers, ledger.buffer, ledger.position, final)
            if end < 0:
                return False
            if end > ledger.position:
                self._emit_section_markup("call", end - ledger.position)
                self._close_section()
                return True
        matcher = Matcher(self._next_programs, self._compiled.unescape)
        matcher.cut_short = ledger.cut_short
        answer = self._run_matcher(matcher, ledger.position, final)
        if answer == NEED_MORE:
            self._suspend(matcher)
            return False
        self._continue_section(matcher, answer)
        return True

    def _emit_section_markup(self, kind: MarkupKind, length: int) -> None:
        """Emit markup of a section, or text if the section is shown as text."""
        if self._section_is_text:
            self._show_text(self.ledger.position + length)
        else:
            self.ledger.emit_markup(kind, length)

    def _continue_section(self, matcher: Matcher, answer: int) -> None:
        """Process the result of a matcher after a call: begin the next call, or leave the section."""
        if answer == FAIL:
            self._leave_section()
        else:
            self._between_calls = False
            self._commit(matcher, answer)

    def _add_section_text(self, text: str) -> None:
        """Store more of the section's text; repetitions of long sections are not recognised."""
        if len(self._section_text) <= BOUND:
            self._section_text += text

    def _close_section(self) -> None:
        """Leave a section that was closed, and prepare to recognise a repetition of it."""
        self._section = None
        self._between_calls = False
        for template in self._compiled.repetitions:
            repetition = template.replace("{calls}", self._section_text)
            if self._section_text and len(repetition) <= BOUND:
                self._repetitions.append(repetition)

    def _read_repetition(self, final: bool) -> bool:
        """Drop the calls of a section if the model repeats them directly after it."""
        ledger = self.ledger
        after = skip_whitespace(ledger.buffer, ledger.position)
        rest = ledger.buffer[after : after + BOUND]
        length = 0
        for repetition in self._repetitions if after - ledger.position <= BOUND else ():
            if rest.startswith(repetition):
                length = len(repetition)
            elif repetition.startswith(rest):
                if not final:
                    return False
                if ledger.cut_short:
                    length = len(rest)
        if length:
            ledger.diagnose("dropped_text", "calls that were repeated")
            ledger.emit_markup("dropped", after - ledger.position + length)
        else:
            self._repetitions = []
        return True

    def _read_after_call(self, final: bool) -> bool:
        """Remove closing tags of no dialect, such as ``</function_invocation>``, directly after a call."""
        ledger = self.ledger
        buffer = ledger.buffer
        after = skip_whitespace(buffer, ledger.position)
        if after == len(buffer):
            if final:
                self._show_text(after)
            if final or after - ledger.position <= BOUND:
                return False
        elif buffer[after] == "<" and not self._state.markers.literal_at(buffer, after):
            match = _INVENTED_CLOSER.match(buffer, after)
            if match is not None:
                ledger.diagnose("stray_closer", match.group())
                ledger.emit_markup("call", match.end() - ledger.position)
                return True
            if not final and _INVENTED_CLOSER_BEGINS.match(buffer, after):
                return False
        self._after_call = False
        return True

    def _leave_section(self) -> None:
        """Leave a section that was not closed."""
        section = self._section
        if section is not None and section.closers and not self._section_is_text:
            self.ledger.diagnose("missing_closer", section.closers[-1])
            self._fence = fence_of(section.opener)
        self._section = None
        self._between_calls = False

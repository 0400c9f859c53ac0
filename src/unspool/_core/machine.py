"""The machine: characters in, events out.

What is being read, and what may come next, is decided here and in ``call.py``; the
text itself, and the events that account for it, are the ledger's.  Theory of
operation:

The machine is always in one *mode*, and each mode looks only for what can
occur in it.

========  ====================================================================
text      running text of some channel; looks for the markers of its state
trial     a marker was found and more input must show what it begins
between   inside a section, after a call
payload   a call is committed; a codec reads its arguments
tail      the arguments are complete; the call's closing markers may follow
junk      the call turned out to be broken; looks for its end
========  ====================================================================

Three rules make every result independent of chunking, and the work linear:

* A mode consumes what is decided and leaves the rest in the buffer; nothing is
  decided that more input could change.  What is left is bounded.
* Before the commit point nothing of a call is shown, and a false alarm gives
  its text back.  After it nothing is taken back.
* Every character consumed is in the span of exactly one event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..dialects._control_tokens import CONTROL_TOKEN, is_control_token
from .arguments.select import make_codec
from .call import PHASE_NAMES, OpenCall, behind_closers
from .call_ids import CallIds
from .compiler import programs as p
from .compiler.compiled_dialect import Start
from .compiler.matcher import CUT, FAIL, MATCH, NEED, RESTART, Matcher
from .compiler.programs import SIGN
from .ledger import Ledger
from .scan.runs import BOUND, behind_space

if TYPE_CHECKING:
    from ..events import Channel, Event, FinishReason, MarkupKind
    from ..policies import Policies
    from .compiler.codec import Codec
    from .compiler.compiled_dialect import CompiledDialect
    from .compiler.forms import CallForm, FrameForm, Header, SectionForm
    from .compiler.programs import Program
    from .compiler.text_states import Entry, TextState
    from .schema.tools import Tools

_STRAY_ROLES: Final[dict[str, MarkupKind]] = {
    "call": "call",
    "reasoning": "reasoning_close",
    "text": "dropped",
}
_QUOTES: Final = frozenset("\"'`")
# What becomes of a marker in running text.
_REJECTED: Final = -1
_WAITING: Final = 0
_DECIDED: Final = 1
_IN_CALL_HEADER: Final = "the input ended inside the header of a call"
AHEAD: Final = 2
"""How many characters behind a marker are looked at before a trial begins."""
CODE_FUNCTION: Final = "python"
"""The function that raw code is for."""


class Machine:
    """One output being read."""

    __slots__ = (
        "_between",
        "_call",
        "_call_seen",
        "_calls",
        "_entry",
        "_ids",
        "_null_calls",
        "_only_declared",
        "_outer",
        "_policies",
        "_released",
        "_repair",
        "_repeated",
        "_section",
        "_section_is_text",
        "_state",
        "_strip",
        "_syntax",
        "_thought",
        "_tools",
        "_trial",
        "_visible",
        "ledger",
    )

    def __init__(
        self,
        syntax: CompiledDialect,
        tools: Tools,
        policies: Policies,
        *,
        base: int,
        keep_raw: bool,
        new_id: Callable[[str, int], str] | None,
        strip: bool,
    ) -> None:
        """``strip``: no tools were offered, so calls are removed."""
        self._syntax: Final = syntax
        self._tools: Final = tools
        self._policies: Final = policies
        self._repair: Final = policies.malformed_call == "repair"
        self._only_declared: Final = policies.unknown_tool == "text" and tools.known
        self._null_calls: Final = syntax.dialect.names.null_calls
        self._strip: Final = strip
        self.ledger: Final = Ledger(base=base, keep_raw=keep_raw or bool(syntax.repetitions))
        """What has come in, and the events that account for it."""
        self._ids: Final = CallIds(syntax.dialect.id_format, new_id, native=policies.call_ids == "native")
        # Running text.
        self._state: TextState = syntax.fresh
        self._outer: TextState = syntax.fresh  # the state around text that is dropped
        self._visible = False  # content that is not blank, or a call in content, has come in this message
        self._thought = not syntax.has_reasoning  # reasoning is over
        self._released: set[str] = set()  # closers of openers that turned out to be text
        # A trial that waits for more: what triggered it, if that is a marker in running text.
        self._trial: Matcher | None = None
        self._entry: Entry | None = None
        # Calls.
        self._call: OpenCall | None = None
        self._section: SectionForm | None = None  # the one that is open
        self._section_is_text = False  # a call that is text has opened it
        self._between = False  # a call of that section has ended
        # The calls of a section as they were written, if the dialect says that they may be repeated;
        # and what a repetition behind the section would be, until it is known that there is none.
        self._calls = ""
        self._repeated: list[str] = []
        self._call_seen = False

    # -- public

    @property
    def mode(self) -> str:
        """Name of the mode, for people."""
        if self._call is not None:
            return PHASE_NAMES[self._call.phase]
        buf = self.ledger.buf
        if self._trial is not None or (
            buf and not (self._between or self._repeated) and buf not in self._state.watch.prefixes
        ):  # a whole marker is held, and its trial is put off
            return "trial"
        return "between" if self._between or self._repeated else "text"

    @property
    def pending(self) -> int:
        """How many characters have come in that no event accounts for yet."""
        return self.ledger.pending

    @property
    def max_pending(self) -> int | None:
        """No more than this is held now; None: arguments have begun, and wait for the name.

        A head reaches ``BOUND`` characters, and what must follow it as many again.
        """
        trial = self._trial
        if trial is not None:
            return None if trial.envelope is not None and trial.envelope.waits else 2 * BOUND
        if self._call is None and not self._between and not self._repeated:
            longest = self._state.watch.longest
            return longest if len(self.ledger.buf) <= longest else longest + AHEAD
        return 2 * BOUND

    @property
    def channel(self) -> Channel:
        """Where text goes."""
        return self._state.channel or "content"

    @property
    def reasoning_ended(self) -> bool:
        """Whether reasoning was closed, or content or a call has begun."""
        return self._thought or self._visible or self._call is not None

    @property
    def before_output(self) -> bool:
        """Whether text of the prompt is still to be accounted for."""
        return self.ledger.accounted < 0

    @property
    def call_open(self) -> bool:
        """Whether a call has started and not ended."""
        return self._call is not None

    def start(self, *, closed: bool) -> Start | None:
        """Where it stands, if that is in running text and it has not come upon any call."""
        if (
            self._call is not None
            or self._trial is not None
            or self._between
            or self._call_seen
            or self._released
            or self._section is not None
            or self._state.channel is None
        ):
            return None
        return Start(
            self._state,
            visible=self._visible,
            before=self.ledger.before,
            pending=self.ledger.buf,
            closed=closed,
            thought=self._thought,
        )

    def stand(self, start: Start) -> None:
        """Begin as if what leads there had been read."""
        self._state = start.state
        self._visible = start.visible
        self._thought = start.thought
        self.ledger.stand(start.pending, start.before)

    def end_reasoning(self) -> None:
        """What comes is behind reasoning."""
        self._thought = True

    def begin_output(self) -> None:
        """End the prompt: what comes next is the output, and its calls are counted from 0."""
        call = self._call
        if call is not None and call.needs_no_closer:
            call.close()
            self._leave_call(call)
            self.read(final=False)
            self.ledger.give()
        self.ledger.count_from(0 if self.call_open and not self.ledger.silent else -1)

    def usable_id(self, native: str) -> str:
        """An id that came late, if it can be used."""
        return native if self._ids.use(native) else ""

    def feed(self, text: str) -> list[Event]:
        """Read on."""
        return self.ledger.feed(text, self)

    def resume(self, reach: int) -> None:
        """Read on where the codec that the ledger had asked has read so far, and has come to something."""
        call = self._call
        assert call is not None  # noqa: S101 - it is its codec
        self.read(going=call.resume(reach), final=False)

    def finish(self, reason: FinishReason | None) -> list[Event]:
        """No more input follows."""
        self.ledger.end_input(reason)
        self.read(final=True)
        if self._state.channel == "reasoning" and not self._state.body:
            self.ledger.note("unclosed_reasoning", "the input ended inside reasoning")
        self.ledger.finish(reason)
        return self.ledger.give()

    # -- the loop

    def read(self, *, going: bool = True, final: bool) -> None:
        """Decide what can be decided of what is in the ledger; ``final``: no more input follows."""
        while going:
            call = self._call
            if call is not None:
                going = call.read(final)
                if call.over:
                    self._leave_call(call)
            elif self._trial is not None:
                going = self._resume_trial(self._trial, final)
            elif self._repeated:
                going = self._read_repetition(final)
            elif self._between:
                going = self._read_between(final)
            else:
                going = self._read_text(self.ledger.pos, final)
        call = self._call
        running = call is None and self._trial is None and not (self._between or self._repeated)
        flows = running and (self._visible or self._state.channel == "reasoning")
        self.ledger.let_flow(self._state if flows else None, None if call is None else call.source)

    # -- running text

    def _read_text(self, at: int, final: bool) -> bool:
        """Text up to the next marker that counts, which is looked for from ``at`` on."""
        ledger = self.ledger
        buf = ledger.buf
        while at < len(buf):
            watch = self._state.watch
            at, literal = watch.seek(buf, at, False)
            if at < 0:
                break
            if final and not literal:
                if CONTROL_TOKEN.match(buf, at):  # a piece of framing, not of text
                    self._show_text(at)
                    ledger.markup("dropped", len(buf) - at)
                    return False
                literal = watch.literal_at(buf, at)
                if ledger.cut_short and SIGN.search(buf, at) and not self._closes(literal):
                    self._show_text(at)
                    self._drop_cut_marker()
                    return False
            if (literal and self._state.fresh) or not (literal or final):
                self._show_text(at)
                if self._state.watch is not watch:  # it was the first visible text, and hid other markers
                    continue
                if not literal:
                    return False
            answer = self._marker(literal, at, final) if literal else _REJECTED
            if answer == _REJECTED:
                at += 1
            elif answer == _WAITING or self._call is not None or self._between:
                return answer == _DECIDED
            else:
                at = ledger.pos
        self._show_text(len(buf))
        return False

    def _closes(self, literal: str) -> bool:
        """Whether a literal ends what is open, without further ado."""
        return bool(literal) and self._state.entries[literal].closes

    def _drop_cut_marker(self) -> None:
        """Generation was stopped inside what was going to be markup: it is no text, and marks nothing."""
        ledger = self.ledger
        ledger.note("cut_marker", ledger.buf[ledger.pos :])
        ledger.markup("dropped", len(ledger.buf) - ledger.pos)

    def _show_text(self, end: int) -> None:
        """Text from the current position up to ``end``."""
        if end <= self.ledger.pos:
            return
        channel = self._state.channel
        text = self.ledger.text(channel, end)
        if not self._visible and channel == "content" and not text.isspace():
            self._becomes_visible()

    def _becomes_visible(self) -> None:
        self._visible = True
        if self._state is self._syntax.fresh and self._syntax.frame is None:
            self._state = self._syntax.content

    def _marker(self, literal: str, at: int, final: bool) -> int:
        """What becomes of a marker that stands at ``at``."""
        ledger = self.ledger
        entry = self._state.entries[literal]
        if entry.closes:
            self._show_text(at)
            self._close(literal)
            return _DECIDED
        if entry.ends:
            self._show_text(at)
            ledger.note("missing_closer", "reasoning")
            self._thought = True
            self._state = self._syntax.content if self._visible else self._syntax.fresh
            return _DECIDED
        if literal in self._released:
            self._released.discard(literal)
            return _REJECTED
        before = ledger.buf[at - 1] if at > ledger.pos else ledger.before
        quoted = before in _QUOTES and not entry.control
        if entry.programs and not (entry.furnished and self._vanishes(entry, quoted)):
            answer = self._try_at(entry, at, quoted, final)
            if answer != _REJECTED:
                return answer
        if entry.stray and self._vanishes(entry, quoted):
            self._show_text(at)
            self._remove_stray(entry)
            return _DECIDED
        return _REJECTED

    def _try_at(self, entry: Entry, at: int, quoted: bool, final: bool) -> int:
        """Whether something begins at this marker."""
        ledger = self.ledger
        programs = entry.programs
        if entry.thought_closers and self._midway(at):
            programs = entry.midway
            if self._state.channel == "content":
                self._released |= entry.thought_closers
        if quoted or entry.anchored:
            fresh = self._state.fresh and not self._visible and not ledger.buf[ledger.pos : at].strip()
            programs = [program for program in programs if program.suits(fresh, quoted)]
        end = at + len(entry.literal)
        unescape = self._syntax.unescape
        sight = entry.first_sight(ledger.buf[end : end + AHEAD], unescape) if programs else FAIL
        if sight == NEED and len(ledger.buf) < end + AHEAD and not final:
            self._show_text(at)
            return _WAITING
        if sight != FAIL:
            trial = Matcher(programs, unescape)
            trial.cut_short = ledger.cut_short
            answer = self._try(trial, at, final)
            if answer != FAIL:
                self._show_text(at)
            if answer == NEED:
                self._entry = entry
                self._suspend(trial)
                return _WAITING
            if answer != FAIL:
                self._commit(trial, answer)
                return _DECIDED
        self._release(programs, entry)
        return _REJECTED

    def _midway(self, at: int) -> bool:
        """Whether text of the same line stands before this place."""
        ledger = self.ledger
        before = ledger.buf[at - 1] if at > ledger.pos else ledger.before
        if not before or before == "\n":
            return False
        if self._visible or self._state.channel == "reasoning":
            return True
        return bool(ledger.buf[ledger.pos : at].strip())

    def _release(self, programs: list[Program], entry: Entry) -> None:
        """What these programs of the entry would have opened is text, and so is what would have closed it."""
        if len(programs) == len(entry.programs):
            self._released |= entry.closers
        else:
            self._released.update(*(program.closers for program in programs))

    def _vanishes(self, entry: Entry, quoted: bool) -> bool:
        """Whether a closer that closes nothing is to be removed."""
        if quoted or entry.words:
            return False
        return entry.stray != "call" or entry.control or self._call_seen

    def _remove_stray(self, entry: Entry) -> None:
        self.ledger.note("stray_closer", entry.literal)
        self.ledger.markup(_STRAY_ROLES[entry.stray], len(entry.literal))

    def _close(self, literal: str) -> None:
        """The wrapper, or the body of a message, that is open ends."""
        wrapper = self._state.wrapper
        self.ledger.markup(wrapper.close_role if wrapper is not None else "message_boundary", len(literal))
        if self._state.body:
            self._visible = False  # another message may begin
        elif wrapper is not None and wrapper.channel == "reasoning":
            self._thought = True
        if wrapper is not None and wrapper.channel is None:
            self._state = self._outer
        else:
            self._state = self._syntax.content if self._visible else self._syntax.fresh

    # -- trials

    def _try(self, trial: Matcher, at: int, final: bool) -> int:
        """Run a trial, whose window begins at ``at``, until it is decided or needs more."""
        ledger = self.ledger
        # Where generation was stopped, what may still become markup does not become text.
        cut = final and ledger.cut_short and (trial.program.marked or not self._in_text)
        while True:
            answer = trial.run(ledger.buf, at, final and not cut)
            if answer == NEED:
                if not cut:
                    return NEED
                answer = trial.cut_off(ledger.buf, at)
            if answer == RESTART:
                ledger.take_back()
                at = trial.aside = trial.offset = 0
            elif self._refused(trial, answer, cut):
                trial.reject()
            else:
                break
        if trial.aside:
            ledger.take_back()
            trial.offset += trial.aside
            trial.aside = 0
        if answer == CUT and not cut and not self._could_become_call(trial):
            answer = FAIL
        if answer == FAIL and trial.overlong:
            self._show_text(at)
            ledger.note("overlong_head", trial.programs[0].trigger)
        return answer

    def _refused(self, trial: Matcher, answer: int, cut: bool) -> bool:
        """Whether what a trial has found, or what it was cut off in, is nothing that counts here."""
        if answer == MATCH:
            return not self._acceptable(trial)
        return answer == CUT and cut and trial.program.declared and not self._could_become_call(trial)

    def _could_become_call(self, trial: Matcher) -> bool:
        """Whether the head that the input ended in could have become that of a call."""
        if trial.only_declared and not self._tools.known:
            return False
        return self._syntax.could_become(trial.cut_name, self._tools)

    @property
    def _in_text(self) -> bool:
        """Whether no markup says that calls are to come."""
        return not self._between or self._section is None or self._section.bare

    def _acceptable(self, trial: Matcher) -> bool:
        """Whether a head that matched counts, given the tools that there are."""
        program = trial.program
        if program.action != p.CALL:
            return self._is_header(trial) if program.action == p.FRAME else not trial.at_end
        form = program.call
        assert form is not None  # noqa: S101 - the action says so
        tools = self._tools
        written = self._raw_name(trial)
        if form.unnamed and not written:
            return False
        if trial.at_end and not tools.declares(written):
            foreign = self._syntax.of(form) is not self._syntax
            if tools.known or foreign:
                return False
        trial.name, trial.native_id = self._syntax.refine(written, tools)
        if tools.declares(trial.name):
            return True
        if program.declared or (trial.envelope is not None and trial.envelope.only_named):
            return False
        return not (program.free_name and not tools.could_be(trial.name))

    def _raw_name(self, trial: Matcher) -> str:
        if trial.envelope is not None:
            keys = trial.envelope.keys
            return trial.envelope.name if keys is None else self._tools.fitting(keys)
        form = trial.program.call
        default = CODE_FUNCTION if form is not None and form.payload == "code" else ""
        return trial.fields.get("name", "") or self._syntax.dialect.names.fixed or default

    def _suspend(self, trial: Matcher) -> None:
        """Wait for more input.  What an envelope has consumed leaves the buffer, if that is much."""
        self._trial = trial
        if trial.envelope is not None and trial.offset > BOUND:
            self.ledger.lay_aside(trial.offset)
            trial.aside += trial.offset
            trial.offset = 0

    def _resume_trial(self, trial: Matcher, final: bool) -> bool:
        trial.cut_short = self.ledger.cut_short
        answer = self._try(trial, self.ledger.pos, final)
        if answer == NEED:
            self._suspend(trial)
            return False
        self._trial = None
        if self._between:
            self._between_decided(trial, answer)
            return True
        if answer != FAIL:
            self._commit(trial, answer)
            return True
        entry = self._entry
        assert entry is not None  # noqa: S101 - it triggered the trial
        self._release(trial.programs, entry)
        if entry.stray and self._vanishes(entry, self.ledger.before in _QUOTES and not entry.control):
            self._remove_stray(entry)
            return True
        return self._read_text(self.ledger.pos + 1, final)

    def _commit(self, trial: Matcher, answer: int) -> None:
        """Something begins here, and the trial says what."""
        ledger = self.ledger
        if answer == CUT:
            if trial.can_cut:
                self._cut_head("the input ended before the function's name", len(ledger.buf) - ledger.pos)
            elif self._cut_in_call_header():
                self._cut_head(_IN_CALL_HEADER, len(ledger.buf) - ledger.pos)
            else:
                self._drop_cut_marker()
            return
        program = trial.program
        action = program.action
        if action == p.CALL:
            self._start_call(trial)
        elif action == p.OPEN_WRAPPER:
            self._open_wrapper(trial)
        elif action == p.FRAME:
            self._open_message(trial)
        elif action == p.SECTION_CLOSE:
            self._section_markup("call", trial.offset)
            self._close_section()
        elif action == p.EMPTY_SECTION:
            ledger.note("empty_section", program.trigger)
            ledger.markup("call", trial.offset)
        else:
            if program.anchored:
                ledger.note("broken_header", program.trigger)
            if program.trigger in self._syntax.call_openers:
                ledger.note("stray_opener", program.trigger)
            ledger.markup("dropped", trial.offset)

    def _cut_head(self, why: str, length: int) -> None:
        self.ledger.note("cut_head", why)
        self.ledger.markup("cut", length)

    def _cut_in_call_header(self) -> bool:
        """Whether the rest of the input is a part of a header, and says that a call was to follow."""
        frame = self._syntax.frame
        if frame is None:
            return False
        return frame.read_header(self.ledger.buf[self.ledger.pos :]).into.startswith("{")

    def _open_wrapper(self, trial: Matcher) -> None:
        wrapper = trial.program.wrapper
        assert wrapper is not None  # noqa: S101 - the action says so
        if self._state.channel == "reasoning" and wrapper.channel == "reasoning":
            self.ledger.note("stray_opener", trial.program.trigger)
        else:
            if wrapper.channel is None:
                self.ledger.note("dropped_text", trial.program.trigger)
                self._outer = self._state
            self._state = self._syntax.inside[wrapper]
        self.ledger.markup(wrapper.open_role, trial.offset)

    # -- framed messages

    def _open_message(self, trial: Matcher) -> None:
        """A header was read: its fields decide what the body is."""
        frame = self._syntax.frame
        assert frame is not None  # noqa: S101 - only frames have headers
        ledger = self.ledger
        text = ledger.buf[ledger.pos : ledger.pos + trial.offset]
        opener = trial.program.trigger
        header = frame.read_header(text)
        finished = opener == frame.sep or trial.fields["ended"] == frame.sep
        prose = frame.prose(header, text, opener)
        if prose:  # the model began with text instead of a header, which may come yet
            ledger.note("broken_header", text[:80])
            ledger.markup("message_boundary", len(opener))
            self._state = self._syntax.bodies["content"]
            self._show_text(ledger.pos + prose)
            if not finished or not header.fields:
                return
            text = text[len(opener) + prose :]
            opener = ""
            header = frame.read_header(text)
        into = header.into
        length = len(text)
        if header.contradicts:
            ledger.note("broken_header", text[:80])
        if finished:
            length += len(frame.sep) if trial.program.trigger != frame.sep else 0
        else:
            length = self._broken_header(trial, text, header)
            if trial.at_end and ledger.pos + length == len(ledger.buf) and into.startswith("{"):
                self._cut_head(_IN_CALL_HEADER, length)
                return
            ledger.note("broken_header", text[:80])
        if finished and into in frame.calls and self._syntax.calls:
            if self._wanted(header.name):
                self._start_framed_call(header, frame, frame.calls[into], length)
            else:
                # Not a tool that was offered, so this is text, header and all.
                self._state = self._syntax.bodies["content"]
                self._show_text(ledger.pos + length)
            return
        ledger.markup("message_boundary", length)
        self._state = self._syntax.bodies.get(into, self._syntax.bodies["content"])
        self._thought = self._thought or self._state.channel == "content"

    def _broken_header(self, trial: Matcher, text: str, header: Header) -> int:
        """How much of a header that was never finished is framing; the rest is text."""
        if trial.at_end and not text[header.end :].strip(" "):
            return trial.offset
        opener = len(trial.program.trigger)
        if not is_control_token(text[header.begin : header.end]):  # words, which nothing tells from text
            return opener
        rest = text[max(header.end, opener) :]
        return len(text) - len(rest.lstrip(" "))

    def _wanted(self, name: str) -> bool:
        """Whether a call to this function is to be seen as one."""
        return self._tools.declares(name) if self._only_declared else self._tools.could_be(name)

    def _is_header(self, trial: Matcher) -> bool:
        """Whether a header counts: where no control token opens or ends it, its words tell it from text."""
        frame = self._syntax.frame
        assert frame is not None  # noqa: S101 - only frames have headers
        fields = trial.fields
        opener = trial.program.trigger
        if opener == frame.sep or trial.program.control or is_control_token(fields["ended"]):
            return True
        text = opener + fields["header"]
        header = frame.read_header(text)
        tools = self._tools
        name = header.name
        if text[header.end :].strip(" ") or (name and not self._syntax.calls):
            return False
        if tools.declares(name):
            return True
        if trial.at_end:  # perhaps half of one
            known = trial.cut_short or (tools.known and bool(name))
            return known and (not name or (tools.could_be(name) and tools.could_become(name)))
        return not name or (fields["next"] == "{" and tools.could_be(name))

    # -- calls

    def _start_framed_call(self, header: Header, frame: FrameForm, form: CallForm, length: int) -> None:
        self._section = None
        self._state = self._syntax.fresh
        name = header.name
        self._announce(name, "", length, header.name_at, header.name_at + len(name))
        self._open_call(form, self._new_codec(form, name), frame=frame)

    def _start_call(self, trial: Matcher) -> None:
        program = trial.program
        form = program.call
        assert form is not None  # noqa: S101 - the action says so
        section = program.section
        name, native = trial.name, trial.native_id
        refused = self._only_declared and not self._tools.declares(name)
        if refused:
            self._read_as_text(program)
        written = self._syntax.of(form)
        if written is not self._syntax:
            self.ledger.note("other_family_call", written.dialect.name)
        if form.unnamed:
            self.ledger.note("unnamed_call", self._raw_name(trial))
        opened = section if self._section is not section else None
        if opened is not None:
            self._calls = ""
        self._section = section
        envelope = trial.envelope
        if envelope is not None:
            native = envelope.id
        if opened is not None:
            self._section_is_text = refused
            if opened.lacks:
                self.ledger.note("missing_opener", opened.lacks)
        start = self.ledger.pos
        name_from, name_to = self._place_of(name, trial)
        self._announce(name, trial.fields.get("id", native), trial.offset, name_from, name_to)
        codec: Codec | None = envelope
        if envelope is not None:
            if trial.args_from >= 0:
                self.ledger.begin_arguments(start + trial.args_from)
            if trial.args_to >= 0:
                self.ledger.end_arguments(start + trial.args_to)
            self.ledger.args(envelope.text, 0)
            self.ledger.take_notes(envelope)
        elif form.payload:
            codec = self._new_codec(form, name)
        self._open_call(form, codec, opened=opened)

    def _place_of(self, name: str, trial: Matcher) -> tuple[int, int]:
        """Where the name stands in the head that a trial has read; an empty place if it does not."""
        if trial.name_from < 0:
            return trial.offset, trial.offset
        if trial.name_to - trial.name_from == len(name):
            return trial.name_from, trial.name_to
        ledger = self.ledger
        at = ledger.buf.find(name, ledger.pos + trial.name_from, ledger.pos + trial.name_to)
        if at < 0:  # it is written otherwise, with escapes
            return trial.name_from, trial.name_to
        return at - ledger.pos, at - ledger.pos + len(name)

    def _read_as_text(self, program: Program) -> None:
        """The call that begins is text: it is read as a call, so that it is text to its end."""
        self.ledger.shown_in = self._state.channel or "content"
        entry = self._state.entries.get(program.trigger)
        if entry is not None:
            self._released |= entry.closers - program.closers

    def _announce(self, name: str, native: str, length: int, name_from: int, name_to: int) -> None:
        """The commit point; ``length``: of the head, in which the name has its place."""
        ledger = self.ledger
        ledger.silent = self._strip or ledger.shown_in is not None or name in self._null_calls
        id = ""
        if ledger.silent:
            ledger.note("null_call", name, length)
        else:
            self._call_seen = True
            if native and self._ids.use(native):
                id = native
            else:
                if native and self._ids.native:
                    ledger.note("bad_id", native, length)
                id = self._ids.new(name, ledger.index + 1)
        ledger.begin_call(name, id, length, name_from, name_to)

    def _open_call(
        self,
        form: CallForm,
        codec: Codec | None,
        *,
        opened: SectionForm | None = None,
        frame: FrameForm | None = None,
    ) -> None:
        section = self._section
        self._call = OpenCall(
            self.ledger,
            form,
            codec,
            section=opened,
            frame=frame,
            resync=self._syntax.follow.resync if section is None else section.resync,
            repair=self._repair,
        )

    def _new_codec(self, form: CallForm, name: str) -> Codec:
        return make_codec(form, self._syntax, self._tools, name, self._policies)

    def _leave_call(self, call: OpenCall) -> None:
        self._call = None
        self._thought = True
        section = self._section
        # Where the opener is missing, it may be missing again in front of the next call.
        again = section is not None and section.anchored and bool(section.lacks)
        if self._state.channel == "content" and not again:
            self._becomes_visible()
        if call.frame is not None:
            self._visible = False  # another message may begin
        if section is not None and self._syntax.repetitions:
            text = self.ledger.called
            self._may_be_repeated(text if self._calls else text[section.behind_opening(text) :])
        if call.closes_section:
            self._section = None
        self._between = self._section is not None and bool(self._section.between)

    # -- sections

    def _read_between(self, final: bool) -> bool:
        section = self._section
        assert section is not None  # noqa: S101 - the mode says so
        ledger = self.ledger
        after = behind_space(ledger.buf, ledger.pos)
        if section.bare:
            self._show_text(after)
        else:
            if self._syntax.repetitions:
                self._may_be_repeated(ledger.buf[ledger.pos : after])
            self._section_markup("separator", after - ledger.pos)
        if ledger.pos == len(ledger.buf):
            if final:
                self._leave_section()
            return final
        if section.closers:
            end = behind_closers(section.closers, ledger.buf, ledger.pos, final)
            if end < 0:
                return False
            if end > ledger.pos:
                self._section_markup("call", end - ledger.pos)
                self._close_section()
                return True
        trial = Matcher(section.between, self._syntax.unescape)
        trial.cut_short = ledger.cut_short
        answer = self._try(trial, ledger.pos, final)
        if answer == NEED:
            self._suspend(trial)
            return False
        self._between_decided(trial, answer)
        return True

    def _section_markup(self, kind: MarkupKind, length: int) -> None:
        """What holds the calls of a section together, which is text if its opener was."""
        if self._section_is_text:
            self._show_text(self.ledger.pos + length)
        else:
            self.ledger.markup(kind, length)

    def _between_decided(self, trial: Matcher, answer: int) -> None:
        """Whether another call of the section begins."""
        if answer == FAIL:
            self._leave_section()
        else:
            self._between = False
            self._commit(trial, answer)

    def _may_be_repeated(self, text: str) -> None:
        """More of a section; a long one is not looked for behind it, however long it gets."""
        if len(self._calls) <= BOUND:
            self._calls += text

    def _close_section(self) -> None:
        self._section = None
        self._between = False
        for template in self._syntax.repetitions:
            repeated = template.replace("{calls}", self._calls)
            if self._calls and len(repeated) <= BOUND:
                self._repeated.append(repeated)

    def _read_repetition(self, final: bool) -> bool:
        """Directly behind a section its calls may be repeated."""
        ledger = self.ledger
        after = behind_space(ledger.buf, ledger.pos)
        rest = ledger.buf[after : after + BOUND]
        length = 0
        for repeated in self._repeated if after - ledger.pos <= BOUND else ():
            if rest.startswith(repeated):
                length = len(repeated)
            elif repeated.startswith(rest):
                if not final:
                    return False
                if ledger.cut_short:
                    length = len(rest)
        if length:
            ledger.note("dropped_text", "calls that were repeated")
            ledger.markup("dropped", after - ledger.pos + length)
        else:
            self._repeated = []
        return True

    def _leave_section(self) -> None:
        if self._section is not None and self._section.closers and not self._section_is_text:
            self.ledger.note("missing_closer", self._section.closers[-1])
        self._section = None
        self._between = False

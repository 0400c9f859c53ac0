"""The machine: characters in, events out.

Everything that affects the state of a parse lives here.  Theory of operation:

The machine is always in one *mode*, and each mode looks only for what can
occur in it.

========  ====================================================================
TEXT      running text of some channel; looks for the markers of its state
TRIAL     a marker was found and more input must show what it begins
PAYLOAD   a call is committed; a codec reads its arguments
TAIL      the arguments are complete; the call's closing markers may follow
BETWEEN   inside a section, after a call
JUNK      the call turned out to be broken; looks for its end
========  ====================================================================

Three rules make every result independent of chunking, and the work linear:

* A mode consumes what is decided and leaves the rest in the buffer; nothing is
  decided that more input could change.  What is left is bounded.
* Before the commit point nothing of a call is shown, and a false alarm gives
  its text back.  After it nothing is taken back.
* Every character consumed is in the span of exactly one event.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..payload.base import BOUND
from ..payload.make import make_codec
from ..search.memo import has_room
from ..search.scan import MORE, behind_literal, behind_space
from ..syntax import trial as t
from ..syntax.syntax import Decision, Start
from ..syntax.trial import Trial, follows
from ..values.events import CallArgs, Event, Finish, Note, Text
from .ledger import Ledger

if TYPE_CHECKING:
    from ..payload.base import Codec
    from ..schema.schema import Tools
    from ..search.watch import Watch
    from ..syntax.forms import CallForm, FrameForm, Header, SectionForm
    from ..syntax.syntax import Entry, Syntax
    from ..values.events import Channel, FinishReason, Role, Status
    from ..values.policies import Policies

TEXT: Final = 0
TRIAL: Final = 1
PAYLOAD: Final = 2
TAIL: Final = 3
BETWEEN: Final = 4
JUNK: Final = 5
MODE_NAMES: Final = ("text", "trial", "payload", "tail", "between", "junk")
_STRAY_ROLES: Final[dict[str, Role]] = {"call": "call", "reasoning": "reasoning_close", "text": "dropped"}
_QUOTES: Final = frozenset("\"'`")
_REJECTED: Final = -1
AHEAD: Final = 2
"""How many characters behind a marker are looked at before a trial begins."""
CODE_FUNCTION: Final = "python"
"""The function that raw code is for."""
_CONTROL_TOKEN: Final = re.compile(r"<[|｜][^<>|｜\s]+[|｜]>|[\ud800-\udfff]")


class Machine(Ledger):
    """One output being read."""

    __slots__ = (
        "_alarm",
        "_between",
        "_codec",
        "_entry",
        "_flowing",
        "_form",
        "_framed",
        "_inner",
        "_mode",
        "_opened",
        "_reason",
        "_released",
        "_repair",
        "_section",
        "_sign",
        "_tools",
        "_trial",
    )

    def __init__(
        self,
        syntax: Syntax,
        tools: Tools,
        policies: Policies,
        *,
        base: int,
        keep_raw: bool,
        new_id: Callable[[str, int], str],
        strip: bool,
    ) -> None:
        super().__init__(syntax, policies, base=base, keep_raw=keep_raw, new_id=new_id, strip=strip)
        self._tools: Final = tools
        self._repair: Final = policies.malformed_call == "repair"
        self._mode = TEXT
        self._reason: FinishReason | None = None
        # If text of a channel goes on, and nothing is held: the channel, and what its markers begin with.
        self._flowing: Channel | None = None
        self._sign = ""
        # A trial that waits for more: what triggered it, or that it stands between calls.
        self._trial: Trial | None = None
        self._entry: Entry | None = None
        self._between = False
        self._released: set[str] = set()  # closers of openers that turned out to be text,
        self._alarm: Entry | None = None  # ... and one whose closers are all among them
        # The call that is open.
        self._codec: Codec | None = None
        self._inner: Codec | None = None  # the one in it that reads on, if its arguments go on
        self._form: CallForm | None = None
        self._section: SectionForm | None = None
        self._framed = False
        self._opened = False  # ... and whether it opened its section

    # -- public

    @property
    def mode(self) -> str:
        """Name of the mode, for people."""
        if self._mode == TEXT and self._buf and self._buf not in self._state.watch.prefixes:
            return MODE_NAMES[TRIAL]  # a whole marker is held, and the trial is put off
        return MODE_NAMES[self._mode]

    @property
    def held(self) -> int:
        """How many characters have come in that no event accounts for yet."""
        return self._base + len(self._buf) - max(self._accounted, 0)

    @property
    def _accounted(self) -> int:
        """Everything before this offset is in the span of some event."""
        start = self._base + self._pos
        if self._trial is not None:
            start -= sum(map(len, self._trial.parts))
        return start

    @property
    def bound(self) -> int | None:
        """No more than this is held now; None: until a value closes."""
        if self._mode == TEXT:
            longest = self._state.watch.longest
            return longest if len(self._buf) <= longest else longest + AHEAD  # a whole marker, and a little
        if self._mode == TRIAL and self._trial is not None and self._trial.envelope is not None:
            return None
        return 2 * BOUND

    @property
    def before_output(self) -> bool:
        """Whether text of the prompt is still to be accounted for."""
        return self._accounted < 0

    @property
    def call_open(self) -> bool:
        """Whether a call has started and not ended."""
        return self._mode in (PAYLOAD, TAIL, JUNK)

    def start(self, *, closed: bool) -> Start | None:
        """Where it stands, if that is in running text and it has not come upon any call."""
        if self._mode != TEXT or self._call_seen or self._released or self._section is not None:
            return None
        return Start(self._state, self._visible, self._last[-1:], self._buf, closed)

    def stand(self, start: Start) -> None:
        """Begin as if what leads there had been read."""
        self._state = start.state
        self._visible = start.visible
        self._last = start.last
        self._buf = start.held
        self._base = -len(start.held)

    def begin_output(self) -> None:
        """What was read so far was the prompt: calls of the output are counted from 0."""
        self._index = 0 if self.call_open and not self._silent else -1

    def feed(self, text: str) -> list[Event]:
        """Read on."""
        # Most pieces change nothing, or decide nothing: these need no loop.
        channel = self._flowing
        if (
            channel is not None
            and text
            # Where markers begin in several ways the sign is empty, and so is in every text.
            and (self._sign not in text or (not self._sign and self._state.watch.plain(text)))
        ):
            start = self._base
            self._base = end = start + len(text)
            self._last = text
            return [Text(channel, text, start, end)]
        if not text:
            return []
        held = self._buf
        if held:
            text = held + text
        codec = self._inner
        if codec is not None:
            taken = codec.passing(text)
            if taken is None:
                codec = self._codec
                assert codec is not None  # noqa: S101 - it has an inner one
                length = codec.step(text, 0, False)
                if codec.done or codec.error or codec.notes or not length:
                    self._take(text)
                    return self._settle(self._stepped(codec, length, final=False))
                self._inner = codec.inner
                taken = text[:length]
            length = len(taken)
            if taken is not text and length < len(text):
                self._buf = text[length:]
                if not length:
                    return []
            elif held:
                self._buf = ""
            start = self._base
            self._base = end = start + length
            if self._keep_raw:
                self._raw.append(taken)
                if end >= self._join_at:
                    self._join_raw(end)
            return [CallArgs(self._index, codec.text, start, end)]
        mode = self._mode
        if mode == TEXT:
            state = self._state
            channel = state.channel
            known = state.decisions.get(text)
            if known is not None and known.holds:
                if not known.marker or self._may_begin(known.marker, self._last[-1:]):
                    self._buf = text
                    self._flowing = None
                    return []
                known = None
            if channel is not None and (self._visible or channel == "reasoning"):
                if known is not None and (known.alarm is None or self._raise_alarm(known.alarm)):
                    return self._flow(channel, text, known.flows)
                if not held and text in state.entries and self._begin_lone_trial(text):
                    return []
                at, literal = self._next_marker(text, 0)
                if not literal or self._too_early(literal, text, at):
                    self._remember(text, at, literal)
                    return self._flow(channel, text, at)
                self._take(text)
                return self._settle(self._read_text(at, literal, final=False))
        elif mode == TRIAL and self._trial is not None:
            taken = self._trial.passing(text)
            if taken is not None:
                self._base += len(taken)
                self._buf = text[len(taken) :]
                return []
        self._take(text)
        return self._settle(going=True)

    def _take(self, text: str) -> None:
        """Begin to read this."""
        self._out = []
        self._buf = text

    def _settle(self, going: bool) -> list[Event]:
        """Go on as long as something is decided; then only what is not is left in the buffer."""
        if going:
            self._drain(final=False)
        if self._pos:
            self._base += self._pos
            self._buf = self._buf[self._pos :]
            self._pos = 0
        self._flowing = None
        if self._mode == TEXT and not self._buf:
            state = self._state
            if self._visible or state.channel == "reasoning":
                self._flowing = state.channel
                self._sign = state.watch.sign
        return self._out

    def _flow(self, channel: Channel, text: str, length: int) -> list[Event]:
        """Text that may become a marker at the end, behind so much of it; -1: it cannot."""
        if length >= 0:
            self._flowing = None
            self._buf = text[length:]
            if not length:
                return []
            text = text[:length]
        else:
            self._flowing = channel
            self._sign = self._state.watch.sign
            self._buf = ""
        start = self._base
        self._base = end = start + len(text)
        self._last = text
        return [Text(channel, text, start, end)]

    def finish(self, reason: FinishReason | None) -> list[Event]:
        """No more input follows."""
        out: list[Event] = []
        self._out = out
        self._reason = reason
        self._drain(final=True)
        end = self._base + self._pos
        if self._state.channel == "reasoning" and not self._state.body:
            self._note("unclosed_reasoning", "the input ended inside reasoning")
        out.append(Finish(reason, end))
        return out

    # -- the loop

    def _drain(self, *, final: bool) -> None:
        going = True
        while going:
            mode = self._mode
            if mode == TEXT:
                going = self._read_text(self._pos, "", final)
            elif mode == PAYLOAD:
                going = self._read_payload(final)
            elif mode == TRIAL:
                going = self._resume_trial(final)
            elif mode == TAIL:
                going = self._read_tail(final)
            elif mode == BETWEEN:
                going = self._read_between(final)
            else:
                going = self._read_junk(final)

    # -- running text

    def _read_text(self, at: int, literal: str, final: bool) -> bool:
        """Text up to the next marker.  ``literal``: what stands at ``at``, if that is known."""
        buf = self._buf
        if at == len(buf):
            self._emit_text(at)
            return False
        watch = self._state.watch
        while True:
            if not literal:
                at, literal = self._next_marker(buf, at)
            if at < 0:
                self._emit_text(len(buf))
                return False
            if not literal and final:
                if _CONTROL_TOKEN.match(buf, at):  # a piece of framing, not of text
                    self._emit_text(at)
                    self._emit_markup("dropped", len(buf) - at)
                    return False
                literal = watch.literal_at(buf, at)
            if literal and at > self._pos and self._state.fresh:
                self._emit_text(at)
                if self._state.watch is not watch:  # it was the first visible text, and hid other markers
                    watch = self._state.watch
                    literal = ""
                    continue
            if literal:
                answer = self._marker(literal, at, final)
                if answer == _REJECTED:
                    at += 1
                elif answer == 1 and self._mode == TEXT:
                    at = self._pos
                else:
                    return answer == 1
                literal = ""
            elif final:
                at += 1
            else:
                self._emit_text(at)
                if self._state.watch is watch:
                    return False
            # The text so far may have been the first visible one.
            watch = self._state.watch

    def _marker(self, literal: str, at: int, final: bool) -> int:
        """A marker stands at ``at``.  1: the mode may have changed; 0: more input is needed."""
        state = self._state
        entry = state.entries[literal]
        if entry.closes:
            self._emit_text(at)
            self._close(literal)
            return 1
        if self._released and literal in self._released:
            self._released.discard(literal)
            self._alarm = None
            return _REJECTED
        before = self._buf[at - 1] if at > self._pos else self._last[-1:]
        quoted = before in _QUOTES and not entry.control if before else False
        programs = entry.programs
        if programs and not (entry.furnished and self._vanishes(entry, quoted)):
            if quoted or entry.anchored:
                fresh = state.fresh and not self._visible and not self._buf[self._pos : at].strip()
                programs = [program for program in programs if program.suits(fresh, quoted)]
            end = at + len(literal)
            known = self._short_trial(entry, self._buf[end : end + AHEAD])
            whole = len(programs) == len(entry.programs)
            if known.answer == t.MATCH and whole and known.program.action != t.CALL:
                self._emit_text(at)
                self._commit(known, t.MATCH)
                return 1
            if known.answer == t.NEED and whole and not final and len(self._buf) < end + AHEAD:
                self._emit_text(at)
                return 0
            if known.answer != t.FAIL and programs:
                trial = known.again() if whole else Trial(programs, self._syntax.dialect, self._repair)
                trial.cut_short = final and self._reason == "length"
                held, self._pos = self._pos, at
                answer = self._try(trial, final)
                self._pos = held
                if answer == t.NEED:
                    self._emit_text(at)
                    self._entry = entry
                    self._between = False
                    self._suspend(trial)
                    return 0
                if answer != t.FAIL:
                    self._emit_text(at)
                    self._commit(trial, answer)
                    return 1
            self._release(_closers_of(programs, entry))
        if entry.stray and self._vanishes(entry, quoted):
            self._emit_text(at)
            self._note("stray_closer", literal)
            self._emit_markup(_STRAY_ROLES[entry.stray], len(literal))
            return 1
        return _REJECTED

    def _release(self, closers: frozenset[str]) -> None:
        """What would have closed something is text."""
        self._released |= closers
        self._alarm = None

    def _raise_alarm(self, entry: Entry) -> bool:
        """An opener opens nothing: what would close it is released.  False: it was released itself."""
        if entry is not self._alarm:
            if entry.literal in self._released:
                return False
            self._release(entry.closers)
            self._alarm = entry
        return True

    def _may_begin(self, literal: str, before: str) -> bool:
        """Whether a marker behind this character is neither released nor quoted."""
        return literal not in self._released and before not in _QUOTES

    def _next_marker(self, text: str, at: int) -> tuple[int, str]:
        """As ``Watch.seek``, without false alarms; what closes them is released."""
        watch = self._state.watch
        entries = self._state.entries
        at, literal = watch.seek(text, at, False)
        while literal:
            entry = entries[literal]
            if not entry.plain:
                break
            end = at + len(literal)
            if self._short_trial(entry, text[end : end + AHEAD]).answer != t.FAIL:
                break
            if not self._raise_alarm(entry):
                break
            at, literal = watch.seek(text, at + 1, False)
        return at, literal

    def _begin_lone_trial(self, literal: str) -> bool:
        """A marker came, and nothing else, as one token does: if its trial has to wait, it begins."""
        entry = self._state.entries[literal]
        if not entry.plain or not self._may_begin(literal, self._last[-1:]):
            return False
        known = self._short_trial(entry, "")
        if known.answer != t.NEED:
            return False
        self._flowing = None
        self._buf = literal
        self._entry = entry
        self._between = False
        self._trial = known.again()
        self._mode = TRIAL
        return True

    def _too_early(self, literal: str, text: str, at: int) -> bool:
        """Whether so little stands behind a marker that it may still be a false alarm."""
        end = at + len(literal)
        if len(text) >= end + AHEAD:
            return False
        entry = self._state.entries[literal]
        if not entry.plain or not self._may_begin(literal, text[at - 1] if at else self._last[-1:]):
            return False
        return self._short_trial(entry, text[end:]).answer == t.NEED

    def _remember(self, text: str, at: int, literal: str) -> None:
        """What became of a text: models, and those who want to harm, write the same ones again and again."""
        state = self._state
        if not has_room(len(state.decisions) - len(state.watch.prefixes), text):
            return
        # Of two markers that overlap this finds one, so there must be none.
        found = state.watch.full.finditer(text)
        alarms = {match.group() for match in found if at < 0 or match.start() < at}
        if not alarms and (not literal or not at):
            state.decisions[text] = Decision(at, literal)
        elif len(alarms) == 1 and not literal and state.watch.apart:
            state.decisions[text] = Decision(at, alarm=state.entries[alarms.pop()])

    def _short_trial(self, entry: Entry, ahead: str) -> Trial:
        """A trial of a marker and the few characters behind it: mostly they are enough to decide."""
        known = entry.trials.get(ahead)
        if known is None:
            known = Trial(entry.programs, self._syntax.dialect, self._repair)
            known.run(entry.literal + ahead, 0, False)
            if has_room(len(entry.trials), ahead):
                entry.trials[ahead] = known
        return known

    def _vanishes(self, entry: Entry, quoted: bool) -> bool:
        """Whether a closer that closes nothing is to be removed."""
        if quoted or entry.words:
            return False
        return entry.stray != "call" or entry.control or self._call_seen

    def _close(self, literal: str) -> None:
        """The wrapper, or the body of a message, that is open ends."""
        wrapper = self._state.wrapper
        role: Role = wrapper.close_role if wrapper is not None else "border"
        self._emit_markup(role, len(literal))
        if self._state.body:
            self._visible = False  # another message may begin
        self._state = self._syntax.content if self._visible else self._syntax.fresh

    # -- trials

    def _try(self, trial: Trial, final: bool) -> int:
        """Run a trial at the current position until it is decided or needs more."""
        while True:
            answer = trial.run(self._buf, self._pos, final)
            if answer == t.RESTART:
                self._restore(trial)
                trial.offset = 0
                continue
            if answer == t.MATCH and not self._acceptable(trial):
                trial.reject()
                continue
            if trial.parts and answer != t.NEED:
                self._restore(trial)
            if answer == t.CUT and not self._syntax.could_become(trial.cut_name, self._tools):
                return t.FAIL
            return answer

    def _acceptable(self, trial: Trial) -> bool:
        """Whether a head that matched counts, given the tools that there are."""
        program = trial.program
        if program.action != t.CALL:
            return True
        if trial.at_end and self._tools.known and not self._tools.declares(self._raw_name(trial)):
            return False
        if program.declared or self._policies.unknown_tool == "text":
            name = self._syntax.refine(self._raw_name(trial), self._tools)[0]
            if not self._tools.declares(name):
                return not program.declared and not self._tools.known
        return True

    def _raw_name(self, trial: Trial) -> str:
        if trial.envelope is not None:
            return trial.envelope.name
        form = trial.program.call
        default = CODE_FUNCTION if form is not None and form.payload == "code" else ""
        return trial.fields.get("name", "") or self._syntax.dialect.names.fixed or default

    def _suspend(self, trial: Trial) -> None:
        """Wait for more input.  What an envelope has consumed leaves the buffer."""
        self._trial = trial
        self._mode = TRIAL
        if trial.envelope is not None:
            end = self._pos + trial.offset
            trial.parts.append(self._buf[self._pos : end])
            self._base += end
            self._buf = self._buf[end:]
            self._pos = 0
            trial.offset = 0

    def _restore(self, trial: Trial) -> None:
        """Put back what left the buffer."""
        text = "".join(trial.parts)
        trial.parts.clear()
        self._base += self._pos - len(text)
        self._buf = text + self._buf[self._pos :]
        self._pos = 0
        trial.offset += len(text)

    def _resume_trial(self, final: bool) -> bool:
        trial = self._trial
        assert trial is not None  # noqa: S101 - the mode says so
        if final:
            trial.cut_short = self._reason == "length"
        answer = self._try(trial, final)
        if answer == t.NEED:
            self._suspend(trial)
            return False
        self._trial = None
        self._mode = TEXT
        if answer != t.FAIL:
            self._commit(trial, answer)
            return True
        if self._between:
            self._leave_section()
            return True
        entry = self._entry
        assert entry is not None  # noqa: S101 - it triggered the trial
        self._release(_closers_of(trial.programs, entry))
        if entry.stray and self._vanishes(entry, self._last[-1:] in _QUOTES and not entry.control):
            self._note("stray_closer", entry.literal)
            self._emit_markup(_STRAY_ROLES[entry.stray], len(entry.literal))
            return True
        return self._read_text(self._pos + 1, "", final)

    def _commit(self, trial: Trial, answer: int) -> None:
        """Something begins here, and the trial says what."""
        if answer == t.CUT:
            self._note("cut_head", "the input ended before the function's name")
            self._emit_markup("cut", len(self._buf) - self._pos)
            return
        program = trial.program
        action = program.action
        if action == t.CALL:
            self._opened = self._section is None or self._section is not program.section
            self._section = program.section
            self._start_call(trial, program.call)
        elif action == t.OPEN_WRAPPER:
            wrapper = program.wrapper
            assert wrapper is not None  # noqa: S101 - the action says so
            if self._state.channel == "reasoning" and wrapper.channel == "reasoning":
                self._note("stray_opener", program.trigger)
                self._emit_markup("reasoning_open", trial.offset)
                return
            self._emit_markup(wrapper.open_role, trial.offset)
            self._state = self._syntax.inside[wrapper]
        elif action == t.FRAME:
            self._open_message(trial)
        elif action == t.SECTION_CLOSE:
            self._emit_markup("call", trial.offset)
            self._section = None
        elif action == t.EMPTY_SECTION:
            self._note("empty_section", program.trigger)
            self._emit_markup("call", trial.offset)
        else:
            self._emit_markup("dropped", trial.offset)

    # -- framed messages

    def _open_message(self, trial: Trial) -> None:
        """A header was read: its fields decide what the body is."""
        frame = self._syntax.frame
        assert frame is not None  # noqa: S101 - only frames have headers
        text = self._buf[self._pos : self._pos + trial.offset]
        header = frame.read_header(text)
        into = header.into
        bare = trial.program.trigger == frame.sep
        finished = bare or trial.fields["ended"] == frame.sep
        if finished:
            length = trial.offset + (0 if bare else len(frame.sep))
        else:
            length = self._broken_header(trial, frame, text, header)
            if trial.at_end and self._pos + length == len(self._buf) and into.startswith("{"):
                self._note("cut_head", "the input ended inside the header of a call")
                self._emit_markup("cut", length)
                return
            self._note("broken_header", text[:80])
        if finished and into in frame.calls:
            if self._syntax.calls and self._wanted(header.name):
                self._begin_framed_call(header.name, frame.calls[into], length)
            else:
                # Not a tool that was offered, so this is text, header and all.
                self._state = self._syntax.bodies["content"]
                self._emit_text(self._pos + length)
            return
        self._emit_markup("border", length)
        self._state = self._syntax.bodies.get(into, self._syntax.bodies["content"])

    def _broken_header(self, trial: Trial, frame: FrameForm, text: str, header: Header) -> int:
        """How much of a header that was never finished is framing; the rest is text."""
        opener = len(trial.program.trigger)
        blank = not text[header.end :].strip(" ")
        if trial.at_end and blank and (frame.sep != "\n" or self._could_be_header(header.fields)):
            return trial.offset
        if frame.sep == "\n":  # a header of words: nothing tells them from text
            return opener
        rest = text[max(header.end, opener) :]
        return len(text) - len(rest.lstrip(" "))

    def _wanted(self, name: str) -> bool:
        """Whether a call to this function is to be seen as one."""
        return self._policies.unknown_tool == "forward" or not self._tools.known or self._tools.declares(name)

    def _could_be_header(self, fields: dict[str, str]) -> bool:
        return any(value == "all" or self._tools.could_become(value) for value in fields.values())

    def _begin_framed_call(self, name: str, form: CallForm, length: int) -> None:
        self._section = None
        self._form = form
        self._framed = True
        self._state = self._syntax.fresh
        self._announce(name, "", length)
        self._codec = self._new_codec(form, name)
        self._mode = PAYLOAD

    # -- calls

    def _start_call(self, trial: Trial, form: CallForm | None) -> None:
        assert form is not None  # noqa: S101 - the action says so
        raw_name = self._raw_name(trial)
        name, native = self._syntax.refine(raw_name, self._tools)
        envelope = trial.envelope
        if envelope is not None:
            native = envelope.id
        native = trial.fields.get("id", native)
        self._form = form
        self._framed = False
        self._announce(name, native, trial.offset)
        if envelope is not None:
            self._codec = envelope
            if envelope.text:
                self._emit_args(envelope.text, 0)
            self._take_notes(envelope)
        elif form.payload:
            self._codec = self._new_codec(form, name)
        else:
            self._emit_args("{}", 0)
            self._mode = TAIL
            return
        self._mode = PAYLOAD

    def _new_codec(self, form: CallForm, name: str) -> Codec:
        return make_codec(form, self._syntax, self._tools, name, self._policies)

    def _read_payload(self, final: bool) -> bool:
        codec = self._codec
        assert codec is not None  # noqa: S101 - the mode says so
        if self._pos == len(self._buf) or codec.error:
            codec.text = ""
            return self._stepped(codec, self._pos, final)
        return self._stepped(codec, codec.step(self._buf, self._pos, final), final)

    def _stepped(self, codec: Codec, end: int, final: bool) -> bool:
        """The codec has read up to ``end``."""
        self._inner = None
        if codec.notes:
            self._take_notes(codec)
        if end > self._pos or codec.text:
            self._emit_args(codec.text, end - self._pos)
        if codec.error:
            return self._broken(codec, final)
        if codec.done:
            self._mode = TAIL
            return True
        if not final:
            # The short cut shows what it reads, as arguments of the output.
            if not self._silent and self._base + self._pos >= 0:
                self._inner = codec.inner
            return False
        status = codec.finish()
        if status == "truncated":
            # What the codec held cannot become anything any more.
            self._emit_args("", len(self._buf) - self._pos)
            self._note("truncated_call", "the input ended inside the arguments")
            self._end_call("truncated", 0)
            return True
        if codec.text:
            self._emit_args(codec.text, 0)
        self._mode = TAIL
        return True

    def _broken(self, codec: Codec, final: bool) -> bool:
        """The payload is not well-formed."""
        if self._repair:
            answer = follows(self._resync, self._buf, self._pos, final)
            if answer == t.NEED:
                return False
            if answer == t.MATCH and codec.close():
                self._emit_args(codec.text, 0)
                self._take_notes(codec)
                self._mode = TAIL
                return True
        self._note("malformed_call", f"expected {codec.error}")
        self._mode = JUNK
        return True

    @property
    def _resync(self) -> Watch:
        """Where a malformed call ends."""
        return self._syntax.resync if self._section is None else self._section.resync

    def _read_junk(self, final: bool) -> bool:
        buf = self._buf
        form = self._form
        assert form is not None  # noqa: S101 - the mode says so
        at, literal = self._resync.seek(buf, self._pos, final)
        if at < 0:
            self._emit_args("", len(buf) - self._pos)
            if final:
                self._end_call("malformed", 0)
            return final
        if not literal:
            self._emit_args("", at - self._pos)
            return False
        self._emit_args("", at - self._pos)
        closers = form.closers
        if self._framed and self._syntax.frame is not None:
            closers = self._syntax.frame.ends
        elif self._opened and self._section is not None:
            # The text of the call has the section's opener, so it gets its closer as well.
            closers = (*closers, *self._section.closers)
        if literal not in closers:
            self._end_call("malformed", 0)
            return True
        end = _match_closers(closers, buf, at, final)
        if end < 0:
            return False
        closed = self._opened and self._section is not None and bool(self._section.closers)
        closed = closed and buf.endswith(self._section.closers[-1], at, end)  # type: ignore[union-attr]
        self._end_call("malformed", end - at)
        if closed:
            self._section = None
            self._mode = TEXT
        return True

    def _read_tail(self, final: bool) -> bool:
        """Closing markers come in parts; those that are there are consumed."""
        form = self._form
        assert form is not None  # noqa: S101 - the mode says so
        if self._framed:
            return self._read_framed_tail(final)
        buf = self._buf
        at = self._pos
        if self._repair:
            at = self._skip_brace(buf, at, final)
            if at > self._pos:
                self._emit_args("", at - self._pos)
                return True
            if at < 0:
                return False
        if not form.closers:
            self._end_call("complete", at - self._pos)
            return True
        end = _match_closers(form.closers, buf, at, final)
        if end < 0:
            return False
        if end == at:
            self._note("missing_closer", form.closers[-1])
        self._end_call("complete", end - self._pos)
        return True

    def _skip_brace(self, buf: str, at: int, final: bool) -> int:
        """Repair: behind a closing brace that closes nothing.  -1: more input is needed."""
        after = behind_space(buf, at)
        if after - at > BOUND:
            return at
        if after == len(buf):
            return at if final else -1
        if buf[after] != "}":
            return at
        self._notes.append(Note("repaired", "stray } removed", max(self._base + after, 0)))
        return after + 1

    def _read_framed_tail(self, final: bool) -> bool:
        """After the arguments of a framed call only the end of the message counts."""
        frame = self._syntax.frame
        assert frame is not None  # noqa: S101 - the call is framed
        buf = self._buf
        at, literal = frame.borders.seek(buf, self._pos, final)
        if at < 0:
            at = len(buf)
        gap = buf[self._pos : at].strip()
        if gap and not self._notes:
            where = max(self._base + buf.index(gap, self._pos), 0)
            self._notes.append(
                Note("trailing_data", "text between the arguments and the end of the message", where)
            )
        self._emit_args("", at - self._pos)
        if not literal:
            if final:
                self._end_call("complete", 0)
            return final
        self._end_call("complete", len(literal) if literal in frame.ends else 0)
        return True

    def _end_call(self, status: Status, length: int) -> None:
        self._emit_end(status, length)
        self._codec = None
        if self._framed:
            self._visible = False  # another message may begin
        section = self._section
        self._mode = TEXT if section is None or not section.between else BETWEEN

    # -- sections

    def _read_between(self, final: bool) -> bool:
        section = self._section
        assert section is not None  # noqa: S101 - the mode says so
        buf = self._buf
        after = behind_space(buf, self._pos)
        if section.bare:
            self._emit_text(after)
        else:
            self._emit_markup("separator", after - self._pos)
        if self._pos == len(buf):
            if final:
                self._leave_section()
            return final
        if section.closers:
            end = _match_closers(section.closers, buf, self._pos, final)
            if end < 0:
                return False
            if end > self._pos:
                self._emit_markup("call", end - self._pos)
                self._section = None
                self._mode = TEXT
                return True
        trial = Trial(section.between, self._syntax.dialect, self._repair)
        answer = self._try(trial, final)
        if answer == t.NEED:
            self._between = True
            self._suspend(trial)
            return False
        if answer == t.FAIL:
            self._leave_section()
            return True
        self._mode = TEXT
        self._commit(trial, answer)
        return True

    def _leave_section(self) -> None:
        if self._section is not None and self._section.closers:
            self._note("missing_closer", self._section.closers[-1])
        self._section = None
        self._mode = TEXT


def _closers_of(programs: list[t.Program], entry: Entry) -> frozenset[str]:
    """What closes what these programs of the entry would have opened."""
    if len(programs) == len(entry.programs):
        return entry.closers
    return frozenset[str]().union(*(program.closers for program in programs))


def _match_closers(closers: tuple[str, ...], buf: str, at: int, final: bool) -> int:
    """Behind those of the closers that stand here, in order; -1: more input is needed."""
    end = at
    for closer in closers:
        after = behind_space(buf, at)
        if after - at > BOUND:
            break
        behind = behind_literal(closer, buf, after)
        if behind >= 0:
            at = end = behind
        elif behind == MORE:
            if not final:
                return -1
            if after < len(buf):
                return len(buf)  # the input ended inside it
    return end

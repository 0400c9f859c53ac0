"""The command ``unspool demo``, which streams example outputs through the parser in small pieces.

There are two views of a :class:`Show`: plain lines for pipes and scripts, and a live view for terminals,
which needs rich.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TextIO, TypeAlias

from ..dialects import Dialect
from ..errors import UsageError
from ..events import CallArgs, CallEnd, CallStart, Diagnostic, Event, Markup, Text
from ..parser import Parser
from ..sample_outputs import SampleOutput, pieces, tools
from .output import terminal

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.layout import Layout
    from rich.text import Text as RichText

TERMINAL_SPEED: Final = 60.0
"""Default number of text pieces to feed per second on a terminal."""

# -- state of a demonstration

Kind: TypeAlias = Literal["reasoning", "content", "call", "markup"]


class ShownCall:
    """The part of a call that has arrived so far."""

    __slots__ = ("arguments", "name", "status")

    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments = ""
        self.status = "open"


class Show:
    """Demonstration that parses one output in small pieces, and stores the state for a view."""

    def __init__(self, recording: SampleOutput) -> None:
        self.recording = recording
        self.parser = Parser(recording.dialect, tools=tools(), prompt=recording.prompt)
        self.raw = ""
        """The input so far."""
        self.decided = 0
        """The number of input characters that the emitted events cover."""
        self.spans: list[tuple[Kind, int, int]] = []
        """Kind, start and end of each part of the input, as reported by events."""
        self.reasoning = ""
        self.content = ""
        self.calls: list[ShownCall] = []
        self.diagnostics: list[Diagnostic] = []
        self.pieces = 0
        """The number of text pieces that were fed to the parser so far."""
        self.max_held = 0
        """The largest number of characters that the parser held back at any time."""
        self._whitespace = self.parser.tidy()

    @property
    def pending(self) -> int:
        """The number of characters that the parser holds back until it has more input."""
        return len(self.raw) - self.decided

    @property
    def finish_reason(self) -> str:
        """The finish reason of the output."""
        return self._whitespace.finish_reason

    def play(self) -> Iterator[list[Event]]:
        """Feed the output to the parser piece by piece, and yield the events of each piece.

        Whitespace that belongs to the markup is left out of the yielded events.
        """
        for piece in pieces(self.recording.output):
            self.raw += piece
            self.pieces += 1
            events = self.parser.feed(piece)
            self._account(events)
            self.max_held = max(self.max_held, self.pending)
            yield self._take(events)
        events = self.parser.finish("stop")
        self._account(events)
        yield self._take(events)

    def _account(self, events: Iterable[Event]) -> None:
        for event in events:
            self.decided = max(self.decided, event.end)
            if isinstance(event, Text):
                self.spans.append((event.channel, event.start, event.end))
            elif isinstance(event, CallStart | CallArgs | CallEnd):
                self.spans.append(("call", event.start, event.end))
            elif isinstance(event, Markup):
                self.spans.append(("markup", event.start, event.end))

    def _take(self, events: Iterable[Event]) -> list[Event]:
        tidy = self._whitespace.feed(events)
        for event in tidy:
            if isinstance(event, Text):
                if event.channel == "reasoning":
                    self.reasoning += event.text
                else:
                    self.content += event.text
            elif isinstance(event, CallStart):
                self.calls.append(ShownCall(event.name))
            elif isinstance(event, CallArgs):
                self.calls[event.index].arguments += event.json
            elif isinstance(event, CallEnd):
                self.calls[event.index].status = event.status
            elif isinstance(event, Diagnostic):
                self.diagnostics.append(event)
        return tidy


# -- plain lines


def play_plain(samples: Iterable[SampleOutput], out: TextIO, speed: float) -> None:
    """Write labelled lines for each output, as soon as the parser emits events."""
    for number, recording in enumerate(samples):
        if number:
            out.write("\n")
        out.write(f"{_title(recording.dialect)}\n{recording.shows}\n")
        show = Show(recording)
        lines = _LabelledLines(out)
        for events in show.play():
            for event in events:
                _write(event, lines)
            out.flush()
            time.sleep(1 / speed)
        lines.end()
        out.write(
            f"{len(show.raw)} characters in {show.pieces} pieces, at most {show.max_held} held back, "
            f"finish_reason {show.finish_reason}\n"
        )
        out.flush()


def _title(dialect: Dialect) -> str:
    return f"{dialect.name}: {dialect.family.models}" if dialect.family.models else dialect.name


def _write(event: Event, lines: _LabelledLines) -> None:
    if isinstance(event, Text):
        lines.put(event.channel, event.text)
    elif isinstance(event, CallStart):
        lines.end()
        lines.put("call", f"{event.name} ")
    elif isinstance(event, CallArgs):
        lines.put("call", event.json)
    elif isinstance(event, CallEnd):
        if event.status != "complete":
            lines.put("call", f" ({event.status})")
        lines.end()
    elif isinstance(event, Diagnostic):
        lines.end()
        lines.put("note", f"{event.kind}: {event.detail}")
        lines.end()


class _LabelledLines:
    """Writer of labelled text, which starts a new line whenever the label changes."""

    _WIDTH: Final = 11

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._label = ""

    def put(self, label: str, text: str) -> None:
        if not text:
            return
        if label != self._label:
            self.end()
            self._label = label
            self._out.write("  " + label.ljust(self._WIDTH))
        self._out.write(text.replace("\n", "\n" + " " * (self._WIDTH + 2)))

    def end(self) -> None:
        if self._label:
            self._out.write("\n")
        self._label = ""


# -- the live view

_STYLES: Final[dict[Kind, str]] = {
    "reasoning": "italic magenta",
    "content": "default",
    "call": "cyan",
    "markup": "bright_black",
}
_HELD: Final = "black on yellow"
_MARKS: Final = {
    "open": ("…", "yellow"),
    "complete": ("✓", "green"),
    "malformed": ("✗ malformed", "red"),
    "truncated": ("✂ truncated", "red"),
}


def play_live(samples: Sequence[SampleOutput], speed: float) -> None:
    """Show parsed outputs on the terminal.

    The Enter key skips to the end of the output or to the next output.  The Q key quits.
    """
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        raise UsageError("the live demo needs rich: pip install 'unspool[cli]', or use --plain") from None
    console = Console(file=terminal(sys.stdout))
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        for number, recording in enumerate(samples, 1):
            show = Show(recording)
            place = f"{number}/{len(samples)}"
            skipping = False
            for _ in show.play():
                if skipping:
                    continue
                live.update(screen(show, place, "enter skips, q quits"), refresh=True)
                key = keys.wait(1 / speed)
                if key == "q":
                    return
                skipping = key == "enter"
            ending = "enter: next" if number < len(samples) else "enter ends"
            live.update(screen(show, place, f"{ending}, q quits"), refresh=True)
            if keys.wait(None) == "q":
                return


def screen(show: Show, place: str, hint: str) -> Layout:
    """Return the layout of the live view."""
    from rich.layout import Layout
    from rich.panel import Panel
    from rich.text import Text as RichText

    calls = RichText()
    for call in show.calls:
        mark, style = _MARKS[call.status]
        calls.append(call.name, "bold cyan").append(" ").append(call.arguments).append(f" {mark}\n", style)
    header = RichText(f" {_title(show.recording.dialect)}", "bold", no_wrap=True, overflow="ellipsis")
    header.append(f"\n {show.recording.shows}", "not bold italic")

    whole, body, right = Layout(), Layout(), Layout()
    footer = _footer(show, place, hint)
    whole.split_column(Layout(header, size=2), body, Layout(footer, size=2))
    body.split_row(Layout(Panel(_Tail(_raw(show)), title="model output")), right)
    right.split_column(
        Layout(Panel(_Tail(RichText(show.reasoning, "italic magenta")), title="reasoning"), ratio=2),
        Layout(Panel(_Tail(RichText(show.content)), title="content"), ratio=2),
        Layout(Panel(_Tail(calls), title="calls"), ratio=3),
    )
    return whole


def _raw(show: Show) -> RichText:
    """Return the input so far, coloured by kind, with the held-back text highlighted."""
    from rich.text import Text as RichText

    text = RichText(show.raw)
    for kind, start, end in show.spans:
        text.stylize(_STYLES[kind], start, end)
    text.stylize(_HELD, show.decided)
    return text


def _footer(show: Show, place: str, hint: str) -> RichText:
    from rich.text import Text as RichText

    parser = show.parser
    max_pending = "until the value closes" if parser.max_pending is None else f"at most {parser.max_pending}"
    text = RichText(no_wrap=True, overflow="ellipsis")
    text.append(f" mode {parser.mode}", "bold").append("   ")
    text.append(f" {show.pending} held back ", _HELD if show.pending else "dim")
    text.append(f"   limit: {max_pending}   peak: {show.max_held}   pieces: {show.pieces}")
    if show.diagnostics:
        text.append(f"   diagnostic: {show.diagnostics[-1].kind}", "red")
    return text.append(f"\n {place}   {hint}", "dim")


class _Tail:
    """Renderable that shows the last lines of text that fit into its area."""

    def __init__(self, text: RichText) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self._text.wrap(console, options.max_width)
        yield from lines[-(options.height or options.max_height) :]


class Keys:
    """Reader for single key presses on the terminal, without echo."""

    def __enter__(self) -> Self:
        self._restore: list[Any] | None = None
        if sys.platform != "win32":
            import termios
            import tty

            self._restore = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if sys.platform != "win32" and self._restore is not None:
            import termios

            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._restore)

    def wait(self, seconds: float | None) -> str:
        """Wait for Enter or q, and return ``enter``, ``q`` or, after a timeout, an empty string."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            key = _read_key(left)
            if key in ("\n", "\r", " "):
                return "enter"
            if key in ("q", "Q", "\x1b", "\x04", "eof"):
                return "q"
            if until is not None and time.monotonic() >= until:
                return ""


def _read_key(seconds: float | None) -> str:
    """Return the next key, ``eof`` at the end of input, or an empty string after a timeout."""
    if sys.platform == "win32":
        import msvcrt

        until = None if seconds is None else time.monotonic() + seconds
        while not msvcrt.kbhit():
            if until is not None and time.monotonic() >= until:
                return ""
            time.sleep(0.005)
        return msvcrt.getwch()
    import os
    import select

    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    if not ready:
        return ""
    # sys.stdin.read() would also buffer the keys after this one, and select() does not see buffered keys.
    return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") or "eof"

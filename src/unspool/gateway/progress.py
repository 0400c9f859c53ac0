"""A sign of life for whoever waits.

Run as a program, before anything is installed, it runs a command in silence and shows
the last line of what that says; all of it only if the command fails::

    python -I progress.py "installing" pip install ...
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

_SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Spinner:
    """A line of the terminal that moves; where there is no terminal, nothing."""

    def __init__(self, what: str, out: TextIO) -> None:
        self.what = what
        """What is going on."""
        self.detail = ""
        """The latest news of it."""
        self._out = out
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._began = time.monotonic()
        if out.isatty():
            self._thread.start()

    def _spin(self) -> None:
        for sign in itertools.cycle(_SIGNS):
            shown = f"{self.what} ({self.seconds:.0f} s) {self.detail}"
            # The last column stays free: some terminals begin a new line there.
            self._out.write(f"\r\x1b[K{sign} {shown[: shutil.get_terminal_size().columns - 3]}")
            self._out.flush()
            if self._stopped.wait(0.1):
                return

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self._began

    def stop(self) -> None:
        """Clear the line."""
        if self._thread.is_alive():
            self._stopped.set()
            self._thread.join()
            self._out.write("\r\x1b[K")
            self._out.flush()


@contextmanager
def step(what: str, out: TextIO) -> Iterator[Spinner]:
    """Show that something is going on, and then how long it took."""
    spinner = Spinner(what, out)
    try:
        yield spinner
    finally:
        spinner.stop()
    out.write(f"{what}: {spinner.seconds:.1f} s\n")
    out.flush()


def main(what: str, command: Sequence[str]) -> int:
    """Run a command; its exit code."""
    lines: list[str] = []
    with (
        step(what, sys.stdout) as spinner,
        subprocess.Popen(  # noqa: S603 - the caller's own
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        for line in process.stdout or ():
            lines.append(line)
            spinner.detail = line.strip()
    if process.returncode:
        sys.stderr.write("".join(lines))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

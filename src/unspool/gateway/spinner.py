"""Progress display for steps that take several seconds.

When this file is run as a script, it runs a command and shows only the last line of the
command's output.  If the command fails, the script prints the whole output.  This file imports
only the standard library, because the script also runs before any package is installed::

    python -I spinner.py "installing" pip install ...
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

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Spinner:
    """Animated progress line in a terminal; nothing is shown if the output is not a terminal."""

    def __init__(self, title: str, out: TextIO) -> None:
        self.title = title
        """The name of the step."""
        self.detail = ""
        """The current status of the step, which is shown after its name."""
        self._out = out
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._started = time.monotonic()
        if out.isatty():
            self._thread.start()

    def _spin(self) -> None:
        for frame in itertools.cycle(_FRAMES):
            line = f"{self.title} ({self.seconds:.0f} s) {self.detail}"
            # Leave the last column empty: some terminals start a new line as soon as it is filled.
            self._out.write(f"\r\x1b[K{frame} {line[: shutil.get_terminal_size().columns - 3]}")
            self._out.flush()
            if self._stopped.wait(0.1):
                return

    @property
    def seconds(self) -> float:
        """The seconds since the step started."""
        return time.monotonic() - self._started

    def stop(self) -> None:
        """Stop the animation and clear the line."""
        if self._thread.is_alive():
            self._stopped.set()
            self._thread.join()
            self._out.write("\r\x1b[K")
            self._out.flush()


@contextmanager
def step(title: str, out: TextIO) -> Iterator[Spinner]:
    """Show a spinner while a step runs, then print how long the step took."""
    spinner = Spinner(title, out)
    try:
        yield spinner
    finally:
        spinner.stop()
    out.write(f"{title}: {spinner.seconds:.1f} s\n")
    out.flush()


def main(title: str, command: Sequence[str]) -> int:
    """Run a command while showing a spinner; return the command's exit code."""
    lines: list[str] = []
    with (
        step(title, sys.stdout) as spinner,
        subprocess.Popen(  # noqa: S603 - the command comes from the Makefile
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

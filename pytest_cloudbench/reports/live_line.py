"""A live line on the terminal for what takes time: a launch, an installation, a workload; plain lines without one.

There is one line for a session. Phases nest, and the innermost is shown. While a phase lasts, the line is written to a
duplicate of the terminal, so captured output stays captured, whoever writes the line and whenever.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import pytest

from pytest_cloudbench.options import setting

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter


LEAST_WIDTH = 60
"""A progress text needs this many columns. If the current line has fewer left, it gets its own line."""

PLAIN_EVERY_S = 30.0
"""Seconds between the plain lines of a phase without a terminal, or in a worker of pytest-xdist."""

PLAIN_FIRST_S = 2.0
"""Seconds after which a phase of the hardware is worth a plain line."""

_TICK_S = 0.5
_FIRST_TICK_S = 0.2


@contextlib.contextmanager
def live_line(
    config: pytest.Config, name: str = "", *, test: str = "", first_s: float = PLAIN_EVERY_S
) -> Iterator[Callable[[str], None] | None]:
    """Show a phase on the live line while the block lasts; yield a function that shows a text in place of the last.

    Until that function is called, the line has ``name`` and how long the phase has lasted, if there is a name. The line
    is cleared at the end. Without a terminal a text is printed as a line every 30 seconds, the first after ``first_s``,
    so that short phases print nothing, or immediately with "on". A worker of pytest-xdist has no terminal: its lines go
    to standard error, which it shares with the controller, name the worker and the test, and come every 30 seconds.

    Yield None if nothing is shown: with --cloudbench-progress=off, with "auto" and -q, without pytest's terminal, and
    in any thread but the main one.
    """
    choice = setting(config, "progress")
    reports = hasattr(config, "workerinput") or config.pluginmanager.hasplugin("terminalreporter")
    shown = reports and (choice == "on" or (choice == "auto" and config.getoption("verbose", 0) >= 0))
    if not shown or threading.current_thread() is not threading.main_thread():
        yield None
        return
    at_once = choice == "on"
    line = config.stash.setdefault(_LINE, _Line(config))
    if line.for_worker:
        first_s = PLAIN_EVERY_S
    begun = time.monotonic()
    phase = _Phase(name, begun, due=begun + (0.0 if at_once else first_s), test=test, at_once=at_once)
    line.enter(phase)
    try:
        yield lambda text: line.show(phase, text)
    finally:
        line.leave(phase)


def hidden(config: pytest.Config) -> AbstractContextManager[None]:
    """Return a context in which the live line is cleared, so that the block may write to the terminal."""
    line = config.stash.get(_LINE, None)
    return contextlib.nullcontext() if line is None else line.hidden()


@dataclass(eq=False)
class _Phase:
    name: str
    begun: float
    due: float
    """When its next plain line is due, by the monotonic clock."""
    test: str = ""
    at_once: bool = False
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"{self.name}: {time.monotonic() - self.begun:.0f} s"


class _Line:
    """The live line of a session, with a thread that keeps it going while phases last."""

    def __init__(self, config: pytest.Config) -> None:
        from pytest_cloudbench.reports.cleaned_output import cleaner_of

        self._config = config
        self._clean = cleaner_of(config).text
        self.for_worker = hasattr(config, "workerinput")
        self._writer: TerminalWriter = config.get_terminal_writer()
        self._plain = self.for_worker or not self._writer.hasmarkup
        self._lock = threading.RLock()
        self._phases: list[_Phase] = []
        self._output: TextIO | None = None
        self._owned = False
        self._width = 80
        self._painted = False
        self._below = False
        self._after = -1
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def enter(self, phase: _Phase) -> None:
        with self._lock:
            if not self._phases:
                self._open()
            self._phases.append(phase)
        if phase.name and self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._keep_going, name="cloudbench-live-line", daemon=True)
            self._thread.start()

    def leave(self, phase: _Phase) -> None:
        with self._lock:
            self._phases.remove(phase)
            if self._phases:
                return
            self._clear()
            self._close()
        if self._thread is not None:
            self._ended.set()
            self._thread.join(timeout=2)
            self._thread = None

    def show(self, phase: _Phase, text: str) -> None:
        with self._lock:
            if phase.at_once and not phase.text:
                phase.due = 0.0
            phase.text = text
            self._paint()

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        with self._lock:
            self._clear()
            yield
            self._after = -1

    def _keep_going(self) -> None:
        wait_s = _FIRST_TICK_S
        while not self._ended.wait(wait_s):
            wait_s = _TICK_S
            with self._lock:
                if self._phases and (self._phases[-1].name or self._phases[-1].text):
                    self._paint()

    def _open(self) -> None:
        """Duplicate the terminal and note its width: both are out of reach while output is captured."""
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            if not self.for_worker:
                self._writer.flush()
                self._width = self._writer.fullwidth
            stream = sys.stderr if self.for_worker else sys.stdout
            try:
                self._output = os.fdopen(
                    os.dup(stream.fileno()), "w", encoding=stream.encoding, errors="replace"
                )
                self._owned = True
            except (OSError, ValueError):  # it is not a file
                self._output, self._owned = stream, False
        self._after = -1

    def _close(self) -> None:
        if self._owned and self._output is not None:
            with contextlib.suppress(OSError):
                self._output.close()
        self._output = None

    def _paint(self) -> None:
        phase = self._phases[-1]
        if self._plain:
            if (now := time.monotonic()) >= phase.due:
                phase.due = now + PLAIN_EVERY_S
                self._write_plain(phase)
            return
        text, used = self._clean(str(phase)), self._writer.width_of_current_line
        room = self._width - used - 1
        if not self._painted:
            self._below = room < LEAST_WIDTH
            if self._below:
                self._write("\n")
            self._painted = True
        if self._below:
            self._write(f"\r\x1b[K{text[: self._width - 1]}")
        else:
            # To the right of pytest's own text, with the cursor restored, so that pytest continues there.
            self._write(f"\x1b7{text[:room]}\x1b[K\x1b8")

    def _write_plain(self, phase: _Phase) -> None:
        used = -1 if self.for_worker else self._writer.width_of_current_line
        before = "" if used in (0, self._after) else "\n"  # pytest has written nothing since the last line
        self._after = used if used > 0 else -1
        who = f"[{self._config.workerinput['workerid']}] " if self.for_worker else ""  # type: ignore[attr-defined]
        test = f"{phase.test}: " if self.for_worker and phase.test else ""
        # In one call, because other workers write there too.
        self._write(f"{before}{who}{test}{self._clean(str(phase))}\n")

    def _clear(self) -> None:
        if not self._painted:
            return
        if self._below:
            # Back to the end of pytest's own text, which is in the line above.
            column = self._writer.width_of_current_line % self._width
            self._write("\r\x1b[K\x1b[A" + (f"\x1b[{column}C" if column else ""))
        else:
            self._write("\x1b[K")
        self._painted = False

    def _write(self, text: str) -> None:
        assert self._output is not None
        with contextlib.suppress(OSError, ValueError):  # a closed terminal
            self._output.write(text)
            self._output.flush()


_LINE: pytest.StashKey[_Line] = pytest.StashKey()

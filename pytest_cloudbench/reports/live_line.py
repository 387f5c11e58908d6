"""A live line on the terminal for a running workload; without a terminal, a plain line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


LEAST_WIDTH = 60
"""A progress text needs this many columns. If the current line has fewer left, it gets its own line."""

PLAIN_EVERY_S = 30.0
"""Seconds between the plain lines of a workload without a terminal, or in a worker of pytest-xdist."""


def is_shown(config: pytest.Config, choice: str) -> bool:
    """Return whether to show progress by the option's value: ``on``, ``off``, or ``auto`` (not with -q)."""
    if not hasattr(config, "workerinput") and not config.pluginmanager.hasplugin("terminalreporter"):
        return False  # with -p no:terminal
    return choice == "on" or (choice == "auto" and config.getoption("verbose", 0) >= 0)


@contextlib.contextmanager
def live_line(
    config: pytest.Config, *, shown: bool, at_once: bool = False, test: str = ""
) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text in place of the previous one; the line is cleared at the end.

    Without a terminal a text is printed as a line every 30 seconds. The first comes after 30 seconds, so that short
    workloads print nothing, or ``at_once``. A worker of pytest-xdist has no terminal: its lines go to standard error,
    which it shares with the controller, and name the worker and the test.
    """
    if not shown:
        yield lambda text: None
        return
    if hasattr(config, "workerinput"):
        yield _now_and_then(_worker_lines(config, test), at_once=at_once)
        return
    writer = config.get_terminal_writer()

    def write(text: str) -> None:
        with _uncaptured(config):
            # Not through the writer, which would count these columns as its own.
            writer.flush()
            sys.stdout.write(text)
            sys.stdout.flush()

    if not writer.hasmarkup:
        yield _now_and_then(lambda text: write(f"\n{text}\n"), at_once=at_once)
        return
    with _uncaptured(config):  # the terminal's width is unknown while output is captured
        width = writer.fullwidth
    room = width - writer.width_of_current_line - 1
    beside = room >= LEAST_WIDTH

    def show(text: str) -> None:
        if beside:
            # To the right of pytest's own text, with the cursor restored, so that pytest continues there.
            write(f"\x1b7{text[:room]}\x1b[K\x1b8")
        else:
            write(f"\r\x1b[K{text[: width - 1]}")

    if not beside:
        write("\n")
    try:
        yield show
    finally:
        write("\x1b[K" if beside else "\r\x1b[K")


def _uncaptured(config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    capture = config.pluginmanager.get_plugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()


def _now_and_then(write: Callable[[str], None], *, at_once: bool) -> Callable[[str], None]:
    """Return a function that writes a text if enough time has passed since the last one."""
    due = time.monotonic() + (0.0 if at_once else PLAIN_EVERY_S)

    def show(text: str) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + PLAIN_EVERY_S
            write(text)

    return show


def _worker_lines(config: pytest.Config, test: str) -> Callable[[str], None]:
    """Return a function that writes a worker's lines, each by one call, because other workers write there too."""
    worker: dict[str, str] = getattr(config, "workerinput", {})
    who = f"[{worker['workerid']}] {test}: " if test else ""

    def write(text: str) -> None:
        with _uncaptured(config):
            sys.stderr.write(f"\n{who}{text}\n")
            sys.stderr.flush()

    return write

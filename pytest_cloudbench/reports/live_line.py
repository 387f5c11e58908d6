"""One live line on the terminal for a running workload; elsewhere a plain line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


LEAST_WIDTH = 60
"""Columns a progress text needs; with fewer left on the current line it gets a line of its own."""

PLAIN_EVERY_S = 30.0
"""Seconds between the plain lines of a workload, where there is no terminal or pytest-xdist has workers."""


def wanted(config: pytest.Config, choice: str) -> bool:
    """Return whether progress is to be shown: ``on``, ``off``, or ``auto`` (not with -q)."""
    if not hasattr(config, "workerinput") and not config.pluginmanager.hasplugin("terminalreporter"):
        return False  # with -p no:terminal there is nowhere to write
    return choice == "on" or (choice == "auto" and config.getoption("verbose", 0) >= 0)


@contextlib.contextmanager
def live_line(
    config: pytest.Config, *, shown: bool, at_once: bool = False, test: str = ""
) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text in place of the one before; the line is cleared at the end.

    Without a terminal a text becomes a line of its own, every 30 seconds; the first only after that time, so that
    short workloads say nothing, or ``at_once``. A worker of pytest-xdist has no terminal; its
    lines go to standard error, which it shares with the controller, and name the worker and the test.
    """
    if not shown:
        yield lambda text: None
        return
    if hasattr(config, "workerinput"):
        yield _now_and_then(_worker_lines(config, test), at_once=at_once)
        return
    writer = config.get_terminal_writer()
    capture = config.pluginmanager.get_plugin("capturemanager")

    def uncaptured() -> contextlib.AbstractContextManager[None]:
        return capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()

    def write(text: str) -> None:
        with uncaptured():
            # Not by the writer itself, which would count these columns as its own.
            writer.flush()
            sys.stdout.write(text)
            sys.stdout.flush()

    if not writer.hasmarkup:
        yield _now_and_then(lambda text: write(f"\n{text}\n"), at_once=at_once)
        return
    with uncaptured():  # the terminal's width is not to be seen through the capture
        width = writer.fullwidth
    room = width - writer.width_of_current_line - 1
    beside = room >= LEAST_WIDTH

    def show(text: str) -> None:
        if beside:
            # Drawn to the right of what pytest has written, with the cursor put back: pytest goes on there.
            write(f"\x1b7{text[:room]}\x1b[K\x1b8")
        else:
            write(f"\r\x1b[K{text[: width - 1]}")

    if not beside:
        write("\n")
    try:
        yield show
    finally:
        write("\x1b[K" if beside else "\r\x1b[K")


def _now_and_then(write: Callable[[str], None], *, at_once: bool) -> Callable[[str], None]:
    """What writes a text when the last one lies long enough behind."""
    due = time.monotonic() + (0.0 if at_once else PLAIN_EVERY_S)

    def show(text: str) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + PLAIN_EVERY_S
            write(text)

    return show


def _worker_lines(config: pytest.Config, test: str) -> Callable[[str], None]:
    """Write lines of a worker of pytest-xdist, each in one piece: other workers write there as well."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    worker: dict[str, str] = getattr(config, "workerinput", {})
    who = f"[{worker['workerid']}] {test}: " if test else ""

    def write(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            sys.stderr.write(f"\n{who}{text}\n")
            sys.stderr.flush()

    return write

"""One live line on the terminal for a running workload."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


LEAST_WIDTH = 60
"""Columns a progress text needs; with fewer left on the current line it gets a line of its own."""


def wanted(config: pytest.Config, choice: str) -> bool:
    """Return whether the live line is to be shown: ``on``, ``off``, or ``auto`` (a terminal, without -q)."""
    if choice != "auto":
        return choice == "on"
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter is not None and reporter.isatty and config.get_verbosity() >= 0


@contextlib.contextmanager
def live_line(config: pytest.Config, *, shown: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text in place of the one before; the line is cleared at the end.

    Without a terminal (``on`` was asked for) each text becomes a line of its own.
    """
    if not shown:
        yield lambda text: None
        return
    writer = config.get_terminal_writer()
    capture = config.pluginmanager.get_plugin("capturemanager")

    def uncaptured() -> contextlib.AbstractContextManager[None]:
        return capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()

    with uncaptured():  # the terminal's width is not to be seen through the capture
        width = writer.fullwidth
    room = width - writer.width_of_current_line - 1
    beside = room >= LEAST_WIDTH

    def write(text: str) -> None:
        with uncaptured():
            # Not by the writer itself, which would count these columns as its own.
            writer.flush()
            sys.stdout.write(text)
            sys.stdout.flush()

    def show(text: str) -> None:
        if not writer.hasmarkup:
            write(f"\n{text}")
        elif beside:
            # Drawn to the right of what pytest has written, with the cursor put back: pytest goes on there.
            write(f"\x1b7{text[:room]}\x1b[K\x1b8")
        else:
            write(f"\r\x1b[K{text[: width - 1]}")

    if writer.hasmarkup and not beside:
        write("\n")
    try:
        yield show
    finally:
        if writer.hasmarkup:
            write("\x1b[K" if beside else "\r\x1b[K")
        else:
            write("\n")

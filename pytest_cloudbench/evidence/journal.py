"""Journals: one JSON object a line, each line carrying the SHA-256 of the line before it.

A line is written by one call and never changed, so a run that is killed leaves every line but perhaps the last
whole; and nothing can be changed, taken out, put in or moved without every later line telling of it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

FIRST = "0" * 64
"""What the first entry has in the place of a sum."""
SUFFIX = ".jsonl"


def utc_now() -> str:
    """The time of an entry: UTC, ISO 8601, milliseconds."""
    return utc_text(datetime.now(timezone.utc))


def utc_text(moment: float | datetime) -> str:
    """A moment, also one in seconds since the epoch, as entries say it."""
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, timezone.utc)
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds")


class Journal:
    """A journal being written. Thread-safe. Raises FileExistsError where one is already."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head = FIRST
        self.entries = 0
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor: int | None = os.open(path, flags, 0o644)

    def add(self, kind: str, content: Mapping[str, Any]) -> int:
        """Append an entry and return its number. Raises OSError when it cannot be written; then nothing is."""
        with self._lock:
            return self._append(self._line(kind, content))

    def prepared(self, kind: str, content: Mapping[str, Any]) -> bytes:
        """The line of an entry that may be appended next, for what has to be known of the journal before that."""
        with self._lock:
            return self._line(kind, content)

    def add_prepared(self, line: bytes) -> int:
        """Append a line that `prepared` gave. Raises ValueError where the journal has gone on since."""
        with self._lock:
            entry = _entry(line)
            if entry is None or (entry["entry"], entry["previous"]) != (self.entries + 1, self.head):
                raise ValueError(f"the journal {self.path} has gone on since the line was prepared")
            return self._append(line)

    def _line(self, kind: str, content: Mapping[str, Any]) -> bytes:
        import msgspec

        entry = {"entry": self.entries + 1, "at": utc_now(), "kind": kind, **content, "previous": self.head}
        return msgspec.json.encode(entry)

    def _append(self, line: bytes) -> int:
        if self._descriptor is None:
            raise ValueError(f"the journal {self.path} is closed")
        _write_whole(self._descriptor, line + b"\n")
        self.entries += 1
        self.head = hashlib.sha256(line).hexdigest()
        return self.entries

    def sync(self) -> None:
        """Have what was written survive a crash of the machine too."""
        with self._lock:
            if self._descriptor is not None:
                os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def _write_whole(descriptor: int, data: bytes) -> None:
    """Write all of it or nothing: half a line would spoil every later one."""
    before = os.fstat(descriptor).st_size
    try:
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except BaseException:
        os.ftruncate(descriptor, before)
        raise


@dataclass
class JournalRead:
    """A journal as it was found: its entries, and a sentence for each thing that is wrong with them.

    ``torn`` is whether its last line is not whole, as a kill in the middle of writing leaves it.
    """

    path: Path
    entries: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    head: str = FIRST
    torn: bool = False

    def last(self, kind: str) -> dict[str, Any] | None:
        """The last entry of a kind."""
        return next((entry for entry in reversed(self.entries) if entry.get("kind") == kind), None)

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Every entry of a kind, in order."""
        return [entry for entry in self.entries if entry.get("kind") == kind]


def read_journal(path: Path) -> JournalRead:
    """Read a journal and follow its chain. Raises OSError where there is none."""
    found = JournalRead(path)
    *lines, rest = path.read_bytes().split(b"\n")
    found.torn = bool(rest)
    links: list[tuple[int, str, str]] = []
    for position, line in enumerate(lines, start=1):
        entry = _entry(line)
        if entry is None:
            found.problems.append(f"line {position} is no entry of a journal")
            links.append((-1, "", hashlib.sha256(line).hexdigest()))
            continue
        found.entries.append(entry)
        links.append((int(entry["entry"]), str(entry["previous"]), hashlib.sha256(line).hexdigest()))
    found.problems += _breaks(links)
    if links:
        found.head = links[-1][2]
    return found


def _entry(line: bytes) -> dict[str, Any] | None:
    import msgspec

    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    whole = isinstance(entry, dict) and {"entry", "kind", "previous"} <= entry.keys()
    return entry if whole and isinstance(entry["entry"], int) else None


def _breaks(links: list[tuple[int, str, str]]) -> list[str]:
    """What the numbers and sums of the entries say was done to the journal, in sentences."""
    numbers = [number for number, _, _ in links if number >= 0]
    if sorted(numbers) != numbers and sorted(numbers) == list(range(1, len(numbers) + 1)):
        moved = [f"{number}" for place, number in enumerate(numbers, start=1) if place != number]
        return [f"its entries are in another order: {', '.join(moved)} are not at their places"]
    told = []
    expected, before = 1, FIRST
    for number, previous, own in links:
        if number > expected:
            lost = f"entry {expected}" if number == expected + 1 else f"entries {expected} to {number - 1}"
            told.append(f"{lost} {'is' if number == expected + 1 else 'are'} missing")
        elif 0 <= number < expected:
            told.append(f"a second entry {number} was put in")
        elif number == expected and previous != before:
            what = f"entry {expected - 1} was altered" if expected > 1 else "its first entry was altered"
            told.append(f"{what}: entry {number} was written after another one")
        expected, before = max(number, expected - 1) + 1, own
    return told

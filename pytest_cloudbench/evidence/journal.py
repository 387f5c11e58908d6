"""Journals: one JSON object per line, each with the SHA-256 of the line before it.

A line is written by one call and never changed, so a killed run leaves every line whole, except perhaps the last one.
A line that is changed, removed, added or moved breaks the chain.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.folder import MOST_JOURNAL_BYTES, MOST_LINE_BYTES, read_regular

FIRST = "0" * 64
"""The first entry has this instead of the sum of a line before it."""
SUFFIX = ".jsonl"


def utc_now() -> str:
    """Return the current time in the format of entries: UTC, ISO 8601, milliseconds."""
    return utc_text(datetime.now(timezone.utc))


def utc_text(moment: float | datetime) -> str:
    """Return a time, a datetime or seconds since the epoch, in the format of entries."""
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, timezone.utc)
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds")


class Journal:
    """A journal open for writing. Thread-safe. Raises FileExistsError if the file exists."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head = FIRST
        self.entries = 0
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor: int | None = os.open(path, flags, 0o644)

    def add(self, kind: str, content: Mapping[str, Any]) -> int:
        """Append an entry and return its number. Raises OSError if it cannot be written; the file is unchanged."""
        with self._lock:
            return self._append(self._line(kind, content))

    def prepared(self, kind: str, content: Mapping[str, Any]) -> bytes:
        """Return the line of the next entry without writing it, to compute the sum of the journal in advance."""
        with self._lock:
            return self._line(kind, content)

    def add_prepared(self, line: bytes) -> int:
        """Append a line of `prepared`. Raises ValueError if another entry was written since."""
        with self._lock:
            entry = _entry(line)
            if entry is None or (entry["entry"], entry["previous"]) != (self.entries + 1, self.head):
                raise ValueError(f"the journal {self.path} has a newer entry than the prepared line")
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
        """Flush to the disk, so that the entries survive a crash of the machine."""
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
    """Write the whole data or nothing, because half a line would break every later one."""
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
    """The content of a journal: its entries, and a sentence for each problem of the chain.

    ``unusable`` has a sentence for each entry that lacks what readers need; such entries are not in ``entries``.
    ``torn`` is True if the last line is not whole, as a kill during writing leaves it.
    """

    path: Path
    entries: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    head: str = FIRST
    torn: bool = False

    def last(self, kind: str) -> dict[str, Any] | None:
        """Return the last entry of a kind; None if there is none."""
        return next((entry for entry in reversed(self.entries) if entry.get("kind") == kind), None)

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return every entry of a kind, in order."""
        return [entry for entry in self.entries if entry.get("kind") == kind]

    def tests(self) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Return, for each test of a process, the entry that began it and the one that sealed it, None without one."""
        ended = {entry["folder"]: entry for entry in self.all("test")}
        return [(begun, ended.get(begun["folder"])) for begun in self.all("begin")]


def read_journal(path: Path, *, of_run: bool = False) -> JournalRead:
    """Read a journal and check its chain; ``of_run``: it is a process's journal, which names the folders of its tests.

    Entries that lack what readers need are left out. Raises OSError if it cannot be read, EvidenceError
    if it is not a regular file or larger than a run writes.
    """
    found = JournalRead(path)
    *lines, rest = read_regular(path, most_bytes=MOST_JOURNAL_BYTES).split(b"\n")
    found.torn = bool(rest)
    links: list[tuple[int, str, str]] = []
    for position, line in enumerate(lines, start=1):
        entry = _entry(line)
        if entry is None:
            found.problems.append(f"line {position} is not an entry of a journal")
            links.append((-1, "", hashlib.sha256(line).hexdigest()))
            continue
        if (lacking := next(_lacking(entry, of_run=of_run), None)) is None:
            found.entries.append(entry)
        else:
            found.unusable.append(
                f"line {position} has no valid {lacking!r}, which an entry {entry['kind']!r} has"
            )
        links.append((int(entry["entry"]), str(entry["previous"]), hashlib.sha256(line).hexdigest()))
    found.problems += _breaks(links)
    if links:
        found.head = links[-1][2]
    return found


def read_journals(folder: Path) -> dict[str, JournalRead]:
    """Return the journals of a run's processes by their names. Raises as `read_journal` does."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    return {path.name.removesuffix(SUFFIX): read_journal(path, of_run=True) for path in paths}


_NEEDED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "open": {"run": str, "format": int, "options": dict, "versions": dict, "by": dict},
    "cloud": {"label": str, "region": str},
    "begin": {"test": str},
    "test": {
        "test": str,
        "folder": str,
        "outcome": str,
        "entries": int,
        "head": str,
        "files": dict,
        "measurements": int,
    },
    "file": {"path": str, "sha256": str},
    "end": {},
    "verdict": {"sentence": str, "verdict": dict},
    "workload": {"name": str, "arguments": dict, "target": object},
    "call": {"name": str, "arguments": list},
    "operation": {"host": str, "name": str, "arguments": list},
    "command": {"host": str, "argv": list, "sudo": bool},
    "phase": {"when": (str, type(None)), "outcome": str},
}
"""The fields that readers rely on, by the kind of entry. An entry may have more."""
_PATHS = ("file", "stdout_file", "stderr_file", "folder", "signed", "of")
_TEXTS = ("options", "versions", "files")
"""Fields whose values are texts."""


def _lacking(entry: Mapping[str, Any], *, of_run: bool) -> Iterator[str]:
    """Yield the names of required fields that an entry lacks, or has with a wrong type."""
    kind = entry["kind"]
    needed: dict[str, Any] = dict(_NEEDED.get(kind, {}))
    if of_run and kind == "begin":
        needed["folder"] = str
    for name, type_ in needed.items():
        value = entry.get(name)
        is_bool = type_ is int and isinstance(value, bool)
        if name not in entry or is_bool or not isinstance(value, type_):
            yield name
    for name in needed.keys() & set(_TEXTS):
        if isinstance(entry.get(name), dict) and not _are_texts([*entry[name].values()]):
            yield name
    yield from (name for name in _PATHS if name in entry and not isinstance(entry[name], str | None))
    if not _are_texts(entry.get("trouble", [])):
        yield "trouble"
    if kind == "command" and not _are_texts(entry.get("argv")):
        yield "argv"
    if kind == "end" and "parts" in entry and not _are_seals(entry["parts"]):  # the run's, not a test's
        yield "parts"


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str | None) for each in value)


def _are_seals(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(each, dict) and isinstance(each.get("entries"), int) and isinstance(each.get("head"), str)
        for each in value.values()
    )


def _entry(line: bytes) -> dict[str, Any] | None:
    import msgspec

    if len(line) > MOST_LINE_BYTES:
        return None
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    whole = isinstance(entry, dict) and {"entry", "kind", "previous", "at"} <= entry.keys()
    if not whole or isinstance(entry["entry"], bool) or not isinstance(entry["entry"], int):
        return None
    return entry if all(isinstance(entry[name], str) for name in ("kind", "previous", "at")) else None


def _breaks(links: list[tuple[int, str, str]]) -> list[str]:
    """Return a sentence for each change of the journal that the entries' numbers and sums reveal."""
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

"""The record of one attempt of a test: a journal of its own, and the files that the journal names."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_cloudbench.evidence.cleaner import Cleaner
from pytest_cloudbench.evidence.folder import EvidenceFolder, journal_of
from pytest_cloudbench.evidence.journal import Journal
from pytest_cloudbench.evidence.restorable import plain

_LONGEST_NAME = 100
INLINE_BYTES = 32 << 10
"""Larger texts become compressed files beside the journal."""


class AttemptRecord:
    """The record of one attempt, in a folder of its own. The cleaner removes secrets from all that is written."""

    def __init__(
        self, folder: EvidenceFolder, nodeid: str, path: str, attempt: int, cleaner: Cleaner
    ) -> None:
        # State of the recorder between two entries.
        self.nodeid = nodeid
        self.path = path
        self.attempt = attempt
        self.files: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.measurements = 0
        self.last_measurement: str | None = None
        # The file of each measurement by its id(); None if it could not be kept.
        self.measured_in: dict[int, str | None] = {}
        self.torn_down = False
        self.properties = 0
        self.answered: set[str] = set()
        self.last_answers: dict[bytes, int] = {}
        self._folder = folder
        self._cleaner = cleaner
        self._inside: list[str] = []
        self._stored: dict[bytes, str] = {}
        self.journal = Journal(folder.root / journal_of(self.path))

    @property
    def outcome(self) -> str:
        """Outcome of the attempt: passed, failed, skipped, error (in setup or teardown), rerun or interrupted."""
        told = self.outcomes
        if "rerun" in told.values():
            return "rerun"
        if "failed" in (told.get("setup"), told.get("teardown")) and told.get("call") != "failed":
            return "error"
        if "call" not in told and not self.torn_down and told.get("setup") != "skipped":
            return "interrupted"
        return told.get("call") or told.get("setup") or ""

    @contextlib.contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Mark every entry of the block as part of ``name``: a call, an operation or a workload."""
        self._inside.append(name)
        try:
            yield
        finally:
            self._inside.remove(name)  # operations on several threads end in any order

    @property
    def is_inside(self) -> bool:
        """True within a block of `inside`."""
        return bool(self._inside)

    def add(self, kind: str, content: Mapping[str, Any], *, sync: bool = False) -> int:
        """Append an entry, without secrets; with ``sync`` it survives a crash of the machine."""
        cleaned = self._cleaner.value(content)
        if self._inside:
            cleaned["inside"] = "/".join(self._inside)
        number = self.journal.add(kind, cleaned)
        if sync:
            self.journal.sync()
        return number

    def keep(self, name: str, data: bytes, what: str, *, compress: bool = False) -> str:
        """Write a file, without secrets, and its entry. Return its path below the evidence folder."""
        kept = self._folder.write(f"{self.path}/{name}", self._cleaner.data(data), compress=compress)
        self.files[kept.path] = kept.sha256
        self.journal.add("file", kept.entry(what))
        return kept.path

    def text(self, name: str, text: str) -> Mapping[str, Any]:
        """Return the fields of a text for an entry: the text itself, or the path of its file if it is long."""
        if len(text) <= INLINE_BYTES:
            return {name: text}
        number = len(self.files) + 1
        return {f"{name}_file": self.keep(f"{name}-{number}.txt", text.encode(), name, compress=True)}

    def plain(self, value: Any, file_prefix: str = "") -> Any:
        """Return a value in restorable form, without secrets; bytes in it become files below ``file_prefix``."""
        names: set[str] = set()

        def store(name: str, data: bytes) -> str:
            digest = hashlib.sha256(data).digest()
            if digest not in self._stored:
                file_name = self.safe(name).removeprefix("raw-")
                while file_name in names:
                    file_name = f"{len(names)}-{file_name}"
                names.add(file_name)
                within = f"{file_prefix}/{file_name}" if file_prefix else file_name
                self._stored[digest] = self.keep(within, data, "raw", compress=True)
            return self._stored[digest]

        return plain(value, clean=self._cleaner.named, store=store)

    def safe(self, name: str) -> str:
        """Return a file name without secrets that every file system accepts."""
        cleaned = self._cleaner.text(name)
        kept = "".join(
            char if (char.isascii() and char.isalnum()) or char in "-_." else "-" for char in cleaned
        )
        return kept.lstrip(".")[-_LONGEST_NAME:] or "data"

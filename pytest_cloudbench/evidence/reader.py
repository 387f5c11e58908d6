"""Read an evidence folder: its run, its tests, and what each of them measured. The run may have been killed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.folder import (
    JOURNALS,
    MAIN,
    MANIFEST,
    EvidenceError,
    EvidenceFolder,
    journal_of,
    no_evidence,
    read_regular,
    uncompressed,
)
from pytest_cloudbench.evidence.journal import JournalRead, read_journal, read_journals
from pytest_cloudbench.evidence.run_facts import FORMAT


class EvidenceAltered(EvidenceError):
    """A journal or file differs from what the run wrote."""


@dataclass(frozen=True)
class RecordedTest:
    """One attempt of a test. Its journal is read at the first use.

    ``outcome`` is passed, failed, skipped, error, rerun or interrupted; "" if the run was killed during the test.
    """

    evidence: Evidence
    nodeid: str
    path: str
    outcome: str
    head: str | None

    @cached_property
    def journal(self) -> JournalRead:
        """The attempt's journal. Raises EvidenceAltered if its chain is broken."""
        try:
            found = read_journal(self.evidence.folder.file(journal_of(self.path)))
        except (OSError, EvidenceError) as error:
            raise EvidenceAltered(f"the journal of {self.nodeid} cannot be read: {error}") from error
        problems = [*found.problems, *found.unusable]
        if problems or (self.head is not None and found.head != self.head):
            what = problems[0] if problems else "its last entries were altered"
            raise EvidenceAltered(
                f"the journal of {self.nodeid} in {self.evidence.root} was altered ({what}): see "
                "cloudbench verify"
            )
        return found

    @property
    def entries(self) -> list[dict[str, Any]]:
        """All entries, in order."""
        return self.journal.entries

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of one kind: begin, call, answer, operation, command, workload, verdict, step ..."""
        return self.journal.all(kind)

    @property
    def verdicts(self) -> list[str]:
        """The sentence of every verdict, in order."""
        return [entry["sentence"] for entry in self.of_kind("verdict")]

    def measurements(self) -> list[dict[str, Any]]:
        """Return the result of each workload as its file has it: arguments, figures, value; failed ones too."""
        return [self.measurement(entry["file"]) for entry in self.of_kind("workload") if "file" in entry]

    def measurement(self, path: str) -> dict[str, Any]:
        """Return the content of one measurement's file."""
        import msgspec

        try:
            found = msgspec.json.decode(self.read(path))
        except (msgspec.DecodeError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise EvidenceAltered(f"{path} is not a measurement")
        return found

    def read(self, path: str) -> bytes:
        """Return a file of this attempt, uncompressed. Raises EvidenceAltered if it differs from its recorded sum."""
        expected = self._sums.get(path)
        if expected is None:
            raise EvidenceAltered(f"{path} is not a file of {self.nodeid}'s record")
        folder = self.evidence.folder
        try:
            data = read_regular(folder.file(path), root=folder.root)
        except (OSError, EvidenceError) as error:
            raise EvidenceAltered(f"{path} cannot be read: {error}") from error
        if hashlib.sha256(data).hexdigest() != expected:
            raise EvidenceAltered(f"{path} in {self.evidence.root} was altered: see cloudbench verify")
        return uncompressed(data, path) if path.endswith(".gz") else data

    def text(self, entry: Mapping[str, Any], name: str) -> str | None:
        """Return a text of an entry, from its own file if it has one; None if only its beginning was recorded."""
        if (path := entry.get(f"{name}_file")) is not None:
            return self.read(path).decode("utf-8", "replace")
        if f"{name}_begins" in entry:
            return None
        return str(entry.get(name, ""))

    @cached_property
    def _sums(self) -> dict[str, str]:
        return {entry["path"]: entry["sha256"] for entry in self.of_kind("file")}


class Evidence:
    """A run's evidence folder. Raises EvidenceError if the folder holds no evidence."""

    def __init__(self, root: str | Path) -> None:
        self.root = root = Path(root)
        self.folder = EvidenceFolder(root)
        try:
            self.parts = read_journals(root / JOURNALS)
        except OSError as error:
            raise EvidenceError(f"the journals in {root} cannot be read: {error}") from error
        self._opened = {
            name: part.entries[0]
            for name, part in self.parts.items()
            if part.entries and part.entries[0].get("kind") == "open"
        }
        problem = next(
            (each for part in self.parts.values() for each in (*part.problems, *part.unusable)), None
        )
        if not self._opened and problem is not None:
            raise EvidenceAltered(f"the journals in {root} are damaged ({problem}): see cloudbench verify")
        if not self._opened:
            raise no_evidence(root)
        if self.run.get("format") != FORMAT:
            wrote = self.run.get("versions", {}).get("pytest-cloudbench", "that wrote it")
            raise EvidenceError(
                f"the evidence in {root} has format {self.run.get('format')}, and this version reads {FORMAT}: "
                f"use version {wrote} of pytest-cloudbench"
            )

    @property
    def run(self) -> dict[str, Any]:
        """The facts of the run: run id, versions, options, command, git revision, machine."""
        return self._opened.get(MAIN) or next(iter(self._opened.values()))

    @property
    def began(self) -> str:
        """When the run's first process began to record: UTC, ISO 8601."""
        return min(str(entry["at"]) for entry in self._opened.values())

    @property
    def clouds(self) -> list[dict[str, Any]]:
        """The regions of the measurements, one entry per process: identity, endpoint, machine behind it."""
        return [entry for part in self.parts.values() for entry in part.all("cloud")]

    @property
    def finished(self) -> bool:
        """True if the run was finished, not killed."""
        main = self.parts.get(MAIN)
        return main is not None and main.last("end") is not None and (self.root / MANIFEST).exists()

    @cached_property
    def tests(self) -> list[RecordedTest]:
        """Every attempt of every test, ordered by process, then by start."""
        found = []
        for part in self.parts.values():
            for begun, ended in part.tests():
                outcome, head = ("", None) if ended is None else (ended["outcome"], ended["head"])
                found.append(RecordedTest(self, begun["test"], begun["folder"], outcome, head))
        return found

    def attempts_of(self, nodeid: str) -> list[RecordedTest]:
        """Return the attempts of a test by its node id, which may be relative to another root folder."""
        exact = [test for test in self.tests if test.nodeid == nodeid]
        if exact:
            return exact
        alike = [test for test in self.tests if is_same_test(test.nodeid, nodeid)]
        return alike if len({test.nodeid for test in alike}) == 1 else []


def readable_runs(folders: Iterable[Path]) -> tuple[list[Evidence], dict[str, str]]:
    """Return the runs in evidence folders, oldest first, and for each other folder why it cannot be read.

    A run may have been killed early, be half copied, or have been recorded by a version with another format.
    """
    runs, unreadable = [], {}
    for folder in folders:
        try:
            runs.append(Evidence(folder))
        except EvidenceError as error:
            unreadable[str(folder)] = str(error)
    return sorted(runs, key=lambda each: each.began), unreadable


def is_same_test(one: str, other: str) -> bool:
    """Return True if two node ids name one test, perhaps relative to different root folders."""
    longer, shorter = sorted((one, other), key=len, reverse=True)
    return longer == shorter or longer.endswith(f"/{shorter}")

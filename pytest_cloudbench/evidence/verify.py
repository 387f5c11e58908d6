"""Check that an evidence folder is as its run wrote it, and name every difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.folder import (
    JOURNALS,
    MAIN,
    MANIFEST,
    PARTIAL,
    SIGNATURE,
    SOURCES,
    EvidenceError,
    EvidenceFolder,
    journal_of,
    no_evidence,
    read_manifest,
    sum_of,
)
from pytest_cloudbench.evidence.journal import SUFFIX, JournalRead, read_journal
from pytest_cloudbench.evidence.signature import check_signature

INTACT, DIFFERENT, UNFINISHED, NO_EVIDENCE = 0, 1, 2, 3
"""Exit codes: unaltered and complete; altered; unaltered, but the run was not finished; no evidence."""


@dataclass
class Verification:
    """The result of a check. ``differences`` are one sentence each; ``notes`` are further findings."""

    root: Path
    tests: int = 0
    files: int = 0
    finished: bool = False
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """INTACT, DIFFERENT or UNFINISHED."""
        if self.differences:
            return DIFFERENT
        return INTACT if self.finished else UNFINISHED

    @property
    def size(self) -> str:
        """The numbers of tests and files, in words."""
        return f"{self.tests:,} test{'s' * (self.tests != 1)}, {self.files:,} file{'s' * (self.files != 1)}"

    def __str__(self) -> str:
        if self.differences:
            count = "1 difference" if len(self.differences) == 1 else f"{len(self.differences)} differences"
            head = f"{self.root}: altered, {count}"
        elif self.finished:
            head = f"{self.root}: intact ({self.size})"
        else:
            head = (
                f"{self.root}: unfinished: the run was killed, or its last entries were removed; the rest is unaltered "
                f"({self.size})"
            )
        return "\n".join([head, *(f"  {line}" for line in (*self.differences, *self.notes))])


def verify(root: Path, *, signers: Path | None = None, manifest_sha256: str | None = None) -> Verification:
    """Check every entry and file of an evidence folder.

    ``signers`` is a public key or an ALLOWED SIGNERS file: the folder must have its signature. ``manifest_sha256`` is
    the manifest's sum that the run reported at its end. Raises EvidenceError if there is no evidence.
    """
    return _Check(root).run(signers, manifest_sha256)


class _Check:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = EvidenceFolder(root)
        self.found = Verification(root)
        self.noted: dict[str, str] = {}
        self.journals: set[str] = set()
        self.not_ended: set[str] = set()
        self.tell = self.found.differences.append
        self.on_disk = set(self.folder.files())
        self.sums = {path: self._sum(path) for path in self.on_disk}
        self.manifest, self.signature = MANIFEST, SIGNATURE

    def run(self, signers: Path | None, manifest_sha256: str | None) -> Verification:
        parts = self._parts()
        main = parts.get(MAIN)
        end = main.last("end") if main is not None else None
        self._find_seals(end)
        for name, part in parts.items():
            self._check_tests(name, part)
        self._check_seals(parts, end)
        self._check_files()
        self._check_manifest(end)
        self._check_signature(end, signers)
        if manifest_sha256 is not None and self.sums.get(self.manifest) != manifest_sha256.strip().lower():
            self.tell(f"{self.manifest}: its sum is not {manifest_sha256}, which was expected")
        self.found.finished = end is not None and self.manifest == MANIFEST
        self.found.files = len(self.on_disk)
        for line in (end or {}).get("trouble", ()):
            self.found.notes.append(f"the run noted: {line}")
        return self.found

    def _find_seals(self, end: Mapping[str, Any] | None) -> None:
        """Find the manifest and signature of a run that was killed before it gave them their final names."""
        if end is None or MANIFEST in self.on_disk or f"{MANIFEST}{PARTIAL}" not in self.on_disk:
            return
        self.manifest = f"{MANIFEST}{PARTIAL}"
        if SIGNATURE not in self.on_disk:
            self.signature = f"{SIGNATURE}{PARTIAL}"
        self.found.notes.append(
            f"{self.manifest}: complete; the run was killed before it could rename the manifest"
        )

    # Journals --------------------------------------------------------------------------------------

    def _parts(self) -> dict[str, JournalRead]:
        paths = [path for path in self.on_disk if path.startswith(f"{JOURNALS}/") and path.endswith(SUFFIX)]
        if not paths and MANIFEST not in self.on_disk:
            raise no_evidence(self.root)
        parts = {Path(path).name.removesuffix(SUFFIX): self._journal(path) for path in sorted(paths)}
        for part in parts.values():
            for entry in part.all("file"):
                self.noted[entry["path"]] = entry["sha256"]
        return parts

    def _journal(self, path: str) -> JournalRead:
        self.journals.add(path)
        try:
            found = read_journal(self.folder.file(path), of_run=path.startswith(f"{JOURNALS}/"))
        except (EvidenceError, OSError) as error:
            self.tell(f"{path}: cannot be read: {error}")
            return JournalRead(self.folder.file(path), problems=["cannot be read"])
        for problem in (*found.problems, *found.unusable):
            self.tell(f"{path}: {problem}")
        if found.torn:
            self.found.notes.append(
                f"{path}: its last line is not whole, because the run was killed while writing it"
            )
        return found

    def _check_tests(self, name: str, part: JournalRead) -> None:
        for begun, ended in part.tests():
            path = journal_of(begun["folder"])
            self.found.tests += 1
            if ended is None:
                self.not_ended.add(begun["folder"])
                if path not in self.on_disk and self.manifest not in self.on_disk:
                    self.found.notes.append(f"{begun['test']}: began when the run was killed")
                    continue
            if path not in self.on_disk:
                self.tell(f"{path}: missing: the record of {begun['test']}")
                continue
            record = self._journal(path)
            for entry in record.all("file"):
                self.noted[entry["path"]] = entry["sha256"]
            first = record.entries[0] if record.entries else begun
            if first.get("test") != begun["test"]:
                self.tell(f"{path}: is the record of {first.get('test')}, where that of {begun['test']} was")
            self._check_seal(path, record, ended, f"{JOURNALS}/{name}{SUFFIX}")
        ends, begins = ({entry["folder"] for entry in part.all(kind)} for kind in ("test", "begin"))
        for folder in ends - begins:
            self.tell(f"{JOURNALS}/{name}{SUFFIX}: {folder} ended but did not begin")

    def _check_seal(
        self, path: str, record: JournalRead, seal: Mapping[str, Any] | None, sealed_by: str
    ) -> None:
        """Compare a journal with the entry that sealed it: the number of entries and the sum of the last one."""
        if seal is None or record.problems:
            return
        count = len(record.entries) + len(record.unusable)
        if count < seal["entries"]:
            self.tell(
                f"{path}: cut off: {count} of {seal['entries']} entries are there, says {sealed_by}"
                if count
                else f"{path}: empty: {seal['entries']} entries were there, says {sealed_by}"
            )
        elif count > seal["entries"]:
            self.tell(f"{path}: goes on after its end: {count} entries, not {seal['entries']}")
        elif record.head != seal["head"]:
            self.tell(f"{path}: entry {count}, the last, was altered, says {sealed_by}")

    def _check_seals(self, parts: Mapping[str, JournalRead], end: Mapping[str, Any] | None) -> None:
        if end is None:
            return
        seals = end.get("parts", {})
        for name, seal in seals.items():
            if name in parts:
                self._check_seal(f"{JOURNALS}/{name}{SUFFIX}", parts[name], seal, f"{JOURNALS}/main{SUFFIX}")
            else:
                self.tell(f"{JOURNALS}/{name}{SUFFIX}: missing: the journal of a process of the run")
        last = parts[MAIN].entries[-1]
        if last is not end and last.get("entry") != end.get("entry"):
            self.tell(f"{JOURNALS}/{MAIN}{SUFFIX}: goes on after the end of the run")

    # Files -----------------------------------------------------------------------------------------

    def _check_files(self) -> None:
        by_sum = {sha256: path for path, sha256 in self.noted.items()}
        for path, expected in sorted(self.noted.items()):
            actual = self.sums.get(path)
            if actual is None:
                self.tell(f"{path}: missing")
            elif actual == "unread":
                continue  # reported already
            elif actual == "link":
                self.tell(f"{path}: replaced by a link or another thing that is not a file")
            elif actual != expected:
                other = by_sum.get(actual)
                what = (
                    f"has the content of {other}" if other else f"content altered: {actual}, not {expected}"
                )
                self.tell(f"{path}: {what}")

    def _check_manifest(self, end: Mapping[str, Any] | None) -> None:
        if self.manifest not in self.on_disk:
            if end is not None:
                self.tell(f"{self.manifest}: missing, although the run was finished")
            self._check_strangers(set(self.noted) | self.journals)
            return
        try:
            listed = read_manifest(self.root, self.manifest)
        except (EvidenceError, OSError) as error:
            self.tell(str(error))
            return
        if end is None:
            self.tell(
                f"{self.manifest}: exists, although the journal has no end of the run: entries were cut off"
            )
        for path, sha256 in sorted(listed.items()):
            noted, actual = self.noted.get(path), self.sums.get(path)
            if noted is not None and noted != sha256:
                self.tell(f"{self.manifest}: says {sha256} of {path}, where the journal says {noted}")
            elif noted is None and actual is None:
                self.tell(f"{path}: missing")
            elif noted is None and actual not in (sha256, "unread"):
                self.tell(f"{path}: altered: its sum is {actual}, not {sha256}")
        for path in sorted(self.noted.keys() - listed.keys()):
            self.tell(f"{self.manifest}: leaves out {path}")
        self._check_strangers(set(listed) | set(self.noted))

    def _check_strangers(self, known: set[str]) -> None:
        """Report files that no journal names, except those that a killed run had not named yet."""
        for path in sorted(self.on_disk - known - {self.manifest, self.signature}):
            if self.manifest not in self.on_disk and self._was_being_written(path):
                self.found.notes.append(f"{path}: was being written when the run was killed")
            else:
                self.tell(f"{path}: added: the run wrote no such file")

    def _was_being_written(self, path: str) -> bool:
        begun = [path.startswith(f"{folder}/") for folder in self.not_ended]
        return any(begun) or path.startswith(f"{SOURCES}/") or path.endswith(PARTIAL)

    def _check_signature(self, end: Mapping[str, Any] | None, signers: Path | None) -> None:
        promised = (end or {}).get("signed")
        if self.signature not in self.on_disk or self.manifest not in self.on_disk:
            if promised and self.signature not in self.on_disk:
                self.tell(f"{self.signature}: missing: the run was signed by {promised}")
            elif signers is not None:
                self.tell(f"{self.signature}: missing: nobody signed this run")
            elif end is not None and not promised:
                self.found.notes.append(
                    "not signed: whoever can write to this folder could have replaced all of it"
                )
            return
        try:
            signed = check_signature(self.root, signers, manifest=self.manifest, signature=self.signature)
        except EvidenceError as error:
            self.tell(f"{self.signature}: does not fit: {error}")
            return
        if promised and signed.fingerprint != promised:
            self.tell(
                f"{self.signature}: made by {signed.fingerprint}, where the run was signed by {promised}"
            )
            return
        whose = f"a key of {signers}" if signers is not None else "whose key that is was not checked"
        self.found.notes.append(f"signed by {signed.fingerprint} ({whose})")

    def _sum(self, path: str) -> str:
        file = self.root / path
        if file.is_symlink() or not file.is_file():
            return "link"
        try:
            return sum_of(file)
        except (EvidenceError, OSError) as error:
            self.found.differences.append(f"{path}: cannot be read: {error}")
            return "unread"

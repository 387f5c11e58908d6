"""Finish a run: seal its journals with a last entry, list the sum of every file in a manifest, and sign the manifest.

Manifest and signature are written under temporary names, then the last entry is written, then both files are renamed.
So a run that is killed in between has either no last entry, or a last entry with its manifest and signature.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.folder import (
    JOURNALS,
    MAIN,
    MANIFEST,
    PARTIAL,
    SIGNATURE,
    EvidenceError,
    EvidenceFolder,
    journal_of,
    manifest_of,
    sum_of,
)
from pytest_cloudbench.evidence.journal import SUFFIX, Journal, JournalRead, read_journal, read_journals
from pytest_cloudbench.evidence.signature import fingerprint_of, signature_of


@dataclass(frozen=True)
class FinishedRun:
    """A run whose evidence is complete. ``manifest_sha256`` stands for all of it: keep it in another place."""

    root: Path
    tests: int
    measurements: int
    size_bytes: int
    manifest_sha256: str
    signed_by: str | None
    trouble: tuple[str, ...]

    def summary(self, directory: Path) -> str:
        """Return a line about the run; its path is relative to ``directory`` if it is below that."""
        root = self.root.relative_to(directory) if self.root.is_relative_to(directory) else self.root
        tests = "1 test" if self.tests == 1 else f"{self.tests:,} tests"
        measured = "1 measurement" if self.measurements == 1 else f"{self.measurements:,} measurements"
        signed = f", signed by {self.signed_by}" if self.signed_by else ""
        size = f"{self.size_bytes / 1024:,.0f} KiB"
        return (
            f"evidence of {tests} with {measured} in {root} ({size}{signed}; SHA-256 of the manifest "
            f"{self.manifest_sha256})"
        )


def finish_run(root: Path, journal: Journal, *, sign: Path | None = None) -> FinishedRun:
    """Seal the folder of a run whose processes have all stopped writing; ``journal`` is its main one, still open.

    Raises EvidenceError if the run cannot be signed; everything except the signature is written then.
    """
    folder = EvidenceFolder(root)
    parts = read_journals(root / JOURNALS)
    tests = [entry for part in parts.values() for entry in part.all("test")]
    trouble = [
        *_not_ended(parts),
        *(line for part in parts.values() for line in (part.last("close") or {}).get("trouble", ())),
    ]
    others = {name: part for name, part in parts.items() if name != MAIN}
    last = {
        "parts": {name: {"entries": len(part.entries), "head": part.head} for name, part in others.items()},
        "tests": len(tests),
        "measurements": sum(entry["measurements"] for entry in tests),
        "trouble": trouble,
    }
    sums = _sums(folder, parts)
    try:
        sealed = _sealed(journal, last, sums, sign)
        unsigned = None
    except EvidenceError as error:
        sealed, unsigned = _sealed(journal, last, sums, None), error
    _put(root, journal, sealed)
    if unsigned is not None:
        raise unsigned
    return FinishedRun(
        root=root,
        tests=len(tests),
        measurements=last["measurements"],
        size_bytes=sum(folder.file(path).lstat().st_size for path in folder.files()),
        manifest_sha256=hashlib.sha256(sealed.manifest).hexdigest(),
        signed_by=sealed.signed_by,
        trouble=tuple(trouble),
    )


@dataclass(frozen=True)
class _Sealed:
    """The last line of a run's journal, the manifest that goes with it, and the signature of the manifest."""

    end: bytes
    manifest: bytes
    signed: bytes | None
    signed_by: str | None


def _sealed(journal: Journal, last: Mapping[str, Any], sums: Mapping[str, str], sign: Path | None) -> _Sealed:
    signed_by = fingerprint_of(sign) if sign is not None else None
    end = journal.prepared("end", {**last, "signed": signed_by})
    name = f"{JOURNALS}/{MAIN}{SUFFIX}"
    manifest = manifest_of({**sums, name: sum_of(journal.path, end + b"\n")})
    return _Sealed(end, manifest, signature_of(manifest, sign) if sign is not None else None, signed_by)


def _put(root: Path, journal: Journal, sealed: _Sealed) -> None:
    # The manifest gets its name last: with it, the run is complete.
    contents = {SIGNATURE: sealed.signed, MANIFEST: sealed.manifest}
    files = {root / name: data for name, data in contents.items() if data is not None}
    for path, data in files.items():
        with path.with_name(f"{path.name}{PARTIAL}").open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    journal.add_prepared(sealed.end)
    journal.sync()
    journal.close()
    for path in files:
        path.with_name(f"{path.name}{PARTIAL}").rename(path)


def _sums(folder: EvidenceFolder, parts: Mapping[str, JournalRead]) -> dict[str, str]:
    """Return the sum of every file: from the journal that has it, else from the file as it is now."""
    noted: dict[str, str] = {}
    for part in parts.values():
        noted |= {entry["path"]: entry["sha256"] for entry in part.all("file")}
        for begun, ended in part.tests():
            noted |= _noted_in(folder, begun["folder"]) if ended is None else ended["files"]
    return {path: noted.get(path) or sum_of(folder.file(path)) for path in folder.files()} | {
        path: sha256 for path, sha256 in noted.items() if not folder.file(path).exists()
    }


def _noted_in(folder: EvidenceFolder, test_folder: str) -> dict[str, str]:
    try:
        record = read_journal(folder.file(journal_of(test_folder)))
    except OSError:
        return {}
    return {entry["path"]: entry["sha256"] for entry in record.all("file")}


def _not_ended(parts: Mapping[str, JournalRead]) -> list[str]:
    return [
        f"the process {name} ended in the middle of {begun['test']}; what it had measured is kept"
        for name, part in parts.items()
        for begun, ended in part.tests()
        if ended is None
    ]

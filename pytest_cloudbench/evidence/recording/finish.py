"""The end of a run: its journals sealed by the last entry, everything summed in a manifest, the manifest signed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.recording.folder import (
    JOURNALS,
    MAIN,
    MANIFEST,
    SIGNATURE,
    EvidenceError,
    EvidenceFolder,
    journal_of,
    sum_of,
)
from pytest_cloudbench.evidence.recording.journal import SUFFIX, Journal, JournalRead, read_journal
from pytest_cloudbench.evidence.recording.manifest import write_manifest
from pytest_cloudbench.evidence.recording.signature import fingerprint_of, sign_manifest


@dataclass(frozen=True)
class FinishedRun:
    """A run whose evidence is complete. ``manifest_sha256`` is worth noting elsewhere: it stands for all of it."""

    root: Path
    tests: int
    measurements: int
    size_bytes: int
    manifest_sha256: str
    signed_by: str | None
    trouble: tuple[str, ...]

    def __str__(self) -> str:
        tests = "1 test" if self.tests == 1 else f"{self.tests:,} tests"
        measured = "1 measurement" if self.measurements == 1 else f"{self.measurements:,} measurements"
        signed = f", signed by {self.signed_by}" if self.signed_by else ""
        size = f"{self.size_bytes / 1024:,.0f} KiB"
        return (
            f"evidence of {tests} with {measured} in {self.root} ({size}{signed}; SHA-256 of the manifest "
            f"{self.manifest_sha256})"
        )


def finish_run(root: Path, journal: Journal, *, sign: Path | None = None) -> FinishedRun:
    """Seal the folder of a run of which no process writes any more; ``journal`` is its main one, still open.

    Raises EvidenceError where it cannot be signed; it is complete then, but for the signature.
    """
    folder = EvidenceFolder(root)
    parts = {
        path.name.removesuffix(SUFFIX): read_journal(path)
        for path in sorted((root / JOURNALS).glob(f"*{SUFFIX}"))
    }
    tests = [entry for part in parts.values() for entry in part.all("test")]
    trouble = [
        *_not_ended(parts),
        *(line for part in parts.values() for line in (part.last("close") or {}).get("trouble", ())),
    ]
    signed_by, unsigned = None, None
    if sign is not None:
        try:
            signed_by = fingerprint_of(sign)
        except EvidenceError as error:
            unsigned = error
    journal.add(
        "end",
        {
            "parts": {
                name: {"entries": len(part.entries), "head": part.head}
                for name, part in parts.items()
                if name != MAIN
            },
            "tests": len(tests),
            "measurements": sum(entry["measurements"] for entry in tests),
            "trouble": trouble,
            "signed": signed_by,
        },
    )
    journal.sync()
    journal.close()
    sums = _sums(folder, parts)
    manifest = write_manifest(root, sums)
    if unsigned is not None:
        raise unsigned
    if sign is not None:
        sign_manifest(root, sign)
    return FinishedRun(
        root=root,
        tests=len(tests),
        measurements=sum(entry["measurements"] for entry in tests),
        size_bytes=sum(folder.file(path).lstat().st_size for path in folder.files()),
        manifest_sha256=manifest,
        signed_by=signed_by,
        trouble=tuple(trouble),
    )


def _sums(folder: EvidenceFolder, parts: Mapping[str, JournalRead]) -> dict[str, str]:
    """The sum of every file: as it was when it was written, where a journal says so, else as it is."""
    noted: dict[str, str] = {}
    for part in parts.values():
        noted |= {entry["path"]: entry["sha256"] for entry in part.all("file")}
        for test in part.all("test"):
            noted |= test["files"]
        ended = {test["folder"] for test in part.all("test")}
        for begun in part.all("begin"):
            if begun["folder"] not in ended:
                noted |= _noted_in(folder, begun["folder"])
    unsealed = (MANIFEST, SIGNATURE)
    return {
        path: noted.get(path) or sum_of(folder.file(path)) for path in folder.files() if path not in unsealed
    } | {path: sha256 for path, sha256 in noted.items() if not folder.file(path).exists()}


def _noted_in(folder: EvidenceFolder, test_folder: str) -> dict[str, str]:
    try:
        record = read_journal(folder.file(journal_of(test_folder)))
    except OSError:
        return {}
    return {entry["path"]: entry["sha256"] for entry in record.all("file")}


def _not_ended(parts: Mapping[str, JournalRead]) -> list[str]:
    told = []
    for name, part in parts.items():
        ended = {entry["folder"] for entry in part.all("test")}
        begun: list[dict[str, Any]] = [each for each in part.all("begin") if each["folder"] not in ended]
        told += [
            f"the process {name} ended in the middle of {each['test']}; what it had measured is kept"
            for each in begun
        ]
    return told

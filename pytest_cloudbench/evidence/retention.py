"""Retention: remove the oldest runs from a folder of evidence.

Only a folder that a run wrote is removed: it has a journal with the run's first entry, and nothing but what runs write.
A run in progress holds a lock on its folder of journals. Links are not followed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from pytest_cloudbench.evidence.folder import (
    IGNORED,
    JOURNALS,
    MANIFEST,
    PARTIAL,
    SIGNATURE,
    SOURCES,
    TESTS,
    EvidenceError,
    EvidenceFolder,
)
from pytest_cloudbench.evidence.reader import Evidence

_OF_A_RUN = frozenset(
    {JOURNALS, TESTS, SOURCES, MANIFEST, SIGNATURE, f"{MANIFEST}{PARTIAL}", f"{SIGNATURE}{PARTIAL}", IGNORED}
)
_STILL_WRITTEN_S = 3600.0
"""A run without an end that wrote something within this time may still be in progress on another machine."""


@dataclass(frozen=True)
class Pruned:
    """What `prune` did: the runs that it removed and kept, and for each other entry why it was left alone."""

    removed: tuple[Path, ...]
    kept: tuple[Path, ...]
    left_alone: dict[Path, str]

    def __str__(self) -> str:
        lines = [f"removed {len(self.removed)} of {len(self.removed) + len(self.kept)} runs"]
        lines += [f"  {path}" for path in self.removed]
        lines += [f"  left alone: {path}: {why}" for path, why in self.left_alone.items()]
        return "\n".join(lines)


def prune(folder: Path, *, keep: int, dry: bool = False) -> Pruned:
    """Remove the runs in a folder except the ``keep`` newest; with ``dry`` only return which.

    Raises EvidenceError if ``folder`` is not a folder, is a link, or is the evidence of one run.
    """
    if keep < 0:
        raise EvidenceError(f"--keep={keep}: the number of runs to keep, 0 or more")
    if folder.is_symlink() or not folder.is_dir():
        raise EvidenceError(f"{folder} is not a directory, or is a link: name the evidence directory")
    if (folder / JOURNALS).exists():
        raise EvidenceError(f"{folder} is the evidence of one run: name the folder above it")
    runs: list[tuple[str, Path]] = []
    left_alone: dict[Path, str] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name == IGNORED:
            continue
        why, began = _reason_to_keep(entry)
        if why:
            left_alone[entry] = why
        else:
            runs.append((began, entry))
    runs.sort()
    oldest = [path for _, path in runs[: max(0, len(runs) - keep)]]
    removed = []
    for path in oldest:
        if dry or _removed(path):
            removed.append(path)
        else:
            left_alone[path] = "a run writes to it"
    gone = set(removed)
    return Pruned(tuple(removed), tuple(path for _, path in runs if path not in gone), left_alone)


def _reason_to_keep(path: Path) -> tuple[str, str]:
    """Return why an entry of the folder is not removed, "" if it may be; and when its run began."""
    if path.is_symlink():
        return "a link", ""
    if not path.is_dir():
        return "not a folder", ""
    try:
        evidence = Evidence(path)
    except EvidenceError:
        return "not the evidence of a run", ""
    entries = sorted(path.iterdir())
    strangers = [f"has {each.name}, which no run writes" for each in entries if each.name not in _OF_A_RUN]
    strangers += [f"{each.name} is a link" for each in entries if each.is_symlink()]
    if strangers:
        return strangers[0], ""
    newest = max(
        path.stat().st_mtime, *((path / each).lstat().st_mtime for each in EvidenceFolder(path).files())
    )
    if not evidence.finished and time.time() - newest < _STILL_WRITTEN_S:
        return "its run has not ended, and wrote something within the last hour", ""
    return "", evidence.began


def _removed(path: Path) -> bool:
    """Remove a run; return False if a process still writes to it."""
    descriptor = os.open(path / JOURNALS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        # Under another name first: an interrupted removal must not look like an altered run.
        going = path.with_name(f".{path.name}.removed")
        path.rename(going)
        shutil.rmtree(going)
        return True
    finally:
        os.close(descriptor)

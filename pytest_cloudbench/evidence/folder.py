"""The evidence folder: its layout, its files, each written whole, and the manifest, which lists their sums."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import hashlib
import os
import re
import shutil
import stat
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from pytest_cloudbench.errors import InfrastructureError

JOURNALS = "journals"
TESTS = "tests"
SOURCES = "sources"
SOURCE_SUFFIX = ".source"
MANIFEST = "MANIFEST.sha256"
SIGNATURE = f"{MANIFEST}.sig"
MAIN = "main"
"""Name of the part of the evidence that the session's process writes; with xdist, the controller."""
PARTIAL = ".partial"
"""Suffix of a file that is still being written."""
RUN = "{run}"
"""Placeholder for the run id in the name of a folder."""

DEFAULT_FOLDER = "cloudbench-evidence"
IGNORED = ".gitignore"
"""Written into the default folder if a run created it, so that evidence is not committed by accident."""
_IGNORE_ALL = "# Made by pytest-cloudbench.\n*\n"
LEAST_FREE_BYTES = 64 << 20
"""A run does not begin with less room: a full disk would end its evidence in the middle of a measurement."""
MOST_FILES = 1_000_000
MOST_BYTES = 16 << 30
"""Larger files are not summed: no run writes them."""
MOST_READ_BYTES = 512 << 20
"""Larger files are not read into memory, nor larger contents of compressed files."""
MOST_JOURNAL_BYTES = 256 << 20
MOST_LINE_BYTES = 16 << 20
"""A line of a journal has texts of at most 32 KiB; longer ones are files."""
_SLUG_LENGTH = 80
_COMPRESSION = 3


class EvidenceError(InfrastructureError, RuntimeError):
    """The evidence cannot be written, read or signed; the message says what to do."""


def no_evidence(root: Path) -> EvidenceError:
    """Return the error for a folder that no run wrote, with a hint if it is the folder above the runs."""
    below = sorted(path.parent for path in root.glob(f"*/{JOURNALS}") if path.is_dir())
    hint = f": it is a folder of runs; the last is {below[-1]}" if below else ""
    return EvidenceError(
        f"{root} holds no evidence of a run{hint}"
        if root.is_dir()
        else f"{root} does not exist: give the folder of a run"
    )


def new_run_id() -> str:
    """Return a run id: unique, sortable by time, and short enough for every name that contains it."""
    return f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"


def folder_name_of(nodeid: str) -> str:
    """Return the name of a test's folder: safe on every file system, readable, and unique."""
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", nodeid).strip("-.")[-_SLUG_LENGTH:].lstrip("-.")
    digest = hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{readable}-{digest}" if readable else digest


def journal_of(folder: str) -> str:
    """Return the path of a test's journal in its folder ("tests/NAME/1")."""
    return f"{folder}/journal.jsonl"


@dataclass(frozen=True)
class KeptFile:
    """A file of the folder: its path below the folder, the SHA-256 of what is on disk, and its size."""

    path: str
    sha256: str
    size_bytes: int

    def entry(self, what: str) -> dict[str, Any]:
        """Return the file's entry for a journal; ``what`` names its content."""
        return {"path": self.path, "sha256": self.sha256, "bytes": self.size_bytes, "what": what}


class EvidenceFolder:
    """A folder that one run writes, from one process or several."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock: int | None = None

    def prepare(self) -> None:
        """Create the folder. Raises EvidenceError if that fails."""
        above = self.root.parent
        try:
            new = above.name == DEFAULT_FOLDER and not above.exists()
            for name in (JOURNALS, TESTS, SOURCES):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            if new:
                (above / IGNORED).write_text(_IGNORE_ALL, encoding="ascii")
            free = shutil.disk_usage(self.root).free
        except OSError as error:
            raise EvidenceError(
                f"the evidence of this run cannot be written to {self.root} ({error.strerror or error}): give a "
                "writable folder with --cloudbench-evidence=DIR, or --cloudbench-evidence=off to keep none"
            ) from error
        if free < LEAST_FREE_BYTES:
            raise EvidenceError(
                f"the disk of {self.root} has {free / 2**20:,.0f} MiB free, and the evidence of a run may need "
                f"{LEAST_FREE_BYTES >> 20} MiB: make room (cloudbench evidence prune), or give another folder with "
                "--cloudbench-evidence=DIR"
            )

    def discard(self) -> None:
        """Remove a folder in which no test was recorded, and the one above if `prepare` made it for this run."""
        for journal in (self.root / JOURNALS).glob("*.jsonl"):
            journal.unlink()
        with contextlib.suppress(OSError, EvidenceError):  # something else is in there
            for folder in (self.root / JOURNALS, self.root / TESTS, self.root / SOURCES, self.root):
                folder.rmdir()
            above = self.root.parent
            ours = above.name == DEFAULT_FOLDER and [each.name for each in above.iterdir()] == [IGNORED]
            if ours and read_regular(above / IGNORED) == _IGNORE_ALL.encode():
                (above / IGNORED).unlink()
                above.rmdir()

    def lock(self) -> None:
        """Mark the folder as in use until `unlock` or the end of this process, so that `retention.prune` skips it."""
        self._lock = os.open(self.root / JOURNALS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def unlock(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def new_test(self, nodeid: str) -> tuple[str, int]:
        """Create the folder of a test's next attempt. Return its path below the root and the number, from 1."""
        name = f"{TESTS}/{folder_name_of(nodeid)}"
        (self.root / name).mkdir(exist_ok=True)
        attempt = 1
        while True:
            try:
                (self.root / name / str(attempt)).mkdir()
            except FileExistsError:
                attempt += 1
            else:
                return f"{name}/{attempt}", attempt

    def write(self, path: str, data: bytes, *, compress: bool = False) -> KeptFile:
        """Write a new file whole; with ``compress`` as gzip, with the suffix ".gz". Raises FileExistsError."""
        if compress:
            path, data = f"{path}.gz", gzip.compress(data, _COMPRESSION, mtime=0)
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}{PARTIAL}")
        with partial.open("xb") as stream:
            stream.write(data)
        if target.exists():
            raise FileExistsError(f"{target} exists already and is not overwritten")
        partial.rename(target)
        return KeptFile(path, hashlib.sha256(data).hexdigest(), len(data))

    def file(self, path: str) -> Path:
        """Return the path of a file in the folder. Raises EvidenceError for a path outside it."""
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise EvidenceError(f"{path!r} is not a path within an evidence folder")
        return self.root / path

    def files(self) -> list[str]:
        """Return the sorted paths of everything below the root that is not a folder, links included."""
        found = []
        for directory, folders, names in os.walk(self.root):
            below = Path(directory).relative_to(self.root)
            links = [name for name in folders if (Path(directory) / name).is_symlink()]
            found += [(below / name).as_posix() for name in (*names, *links)]
            if len(found) > MOST_FILES:
                raise EvidenceError(
                    f"{self.root} has more than {MOST_FILES:,} files: it is not the folder of one run"
                )
        return sorted(found)


def open_regular(path: Path, *, root: Path | None = None, most_bytes: int = MOST_BYTES) -> BinaryIO:
    """Open a regular file for reading; never wait for another kind of file, never follow a link below ``root``.

    Raises EvidenceError if it is something else (a link, a pipe, a device), or has more than ``most_bytes``.
    """
    for folder in path.parents if root is not None else ():
        if folder == root:
            break
        if folder.is_symlink():
            raise EvidenceError(f"{folder} is a link: evidence has only folders and files of its own")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise EvidenceError(f"{path} is not a regular file: evidence has no others") from None
        raise
    except ValueError as error:
        raise EvidenceError(f"{str(path)!r} is not the name of a file: {error}") from None
    stream = os.fdopen(descriptor, "rb", closefd=True) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    if stream is None:
        os.close(descriptor)
        raise EvidenceError(f"{path} is not a regular file: evidence has no others")
    if (size := os.fstat(descriptor).st_size) > most_bytes:
        stream.close()
        raise EvidenceError(f"{path} has {size:,} bytes, where a run writes at most {most_bytes:,}")
    return stream


def read_regular(path: Path, *, root: Path | None = None, most_bytes: int = MOST_READ_BYTES) -> bytes:
    """Return the content of a regular file. Raises EvidenceError as `open_regular` does."""
    with open_regular(path, root=root, most_bytes=most_bytes) as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise EvidenceError(f"{path} grows while it is read: no run writes that")
    return data


def uncompressed(data: bytes, path: str) -> bytes:
    """Return the content of a gzip file. Raises EvidenceError if it is not one, or is larger than a run writes."""
    reader = zlib.decompressobj(wbits=31)
    try:
        content = reader.decompress(data, MOST_READ_BYTES)
    except zlib.error as error:
        raise EvidenceError(f"{path} cannot be uncompressed: {error}") from None
    if reader.unconsumed_tail or not reader.eof:
        raise EvidenceError(f"{path} is cut off, or larger than {MOST_READ_BYTES:,} bytes when uncompressed")
    return content


def sum_of(path: Path, more: bytes = b"") -> str:
    """Return the SHA-256 of a regular file followed by ``more``. The file is read in pieces."""
    digest = hashlib.sha256()
    with open_regular(path) as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    digest.update(more)
    return digest.hexdigest()


_LINE = re.compile(r"(\\?)([0-9a-f]{64})  (.+)\Z")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


def manifest_of(sums: Mapping[str, str]) -> bytes:
    """Return the content of a manifest, sorted by path."""
    return "".join(_line(path, sums[path]) for path in sorted(sums)).encode("utf-8", "surrogateescape")


def read_manifest(root: Path, name: str = MANIFEST) -> dict[str, str]:
    """Return a manifest's sums by path. Raises EvidenceError for an invalid line, and for a path listed twice."""
    sums: dict[str, str] = {}
    text = read_regular(root / name, root=root).decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        match = _LINE.match(line)
        if match is None:
            raise EvidenceError(f"{name}, line {number}, is not a sum and path")
        path = _unescaped(match[3]) if match[1] else match[3]
        if path in sums:
            raise EvidenceError(f"{name} names {path} twice")
        sums[path] = match[2]
    return sums


def _line(path: str, sha256: str) -> str:
    escaped = "".join(_ESCAPES.get(char, char) for char in path)
    return f"{'' if escaped == path else chr(92)}{sha256}  {escaped}\n"


def _unescaped(path: str) -> str:
    found = {escaped: char for char, escaped in _ESCAPES.items()}
    return re.sub(r"\\[\\nr]", lambda match: found[match[0]], path)

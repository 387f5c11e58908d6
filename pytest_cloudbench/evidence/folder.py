"""The evidence folder: its layout, its files, which are written whole, their sums, and the manifest of the sums."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_cloudbench.errors import InfrastructureError

JOURNALS = "journals"
TESTS = "tests"
SOURCES = "sources"
SOURCE_SUFFIX = ".source"
MANIFEST = "MANIFEST.sha256"
SIGNATURE = f"{MANIFEST}.sig"
MAIN = "main"
"""Name of the part of the process that runs the session; with xdist, of its controller."""
PARTIAL = ".partial"
"""Suffix of a file that is still being written."""
RUN = "{run}"
"""Placeholder for the run id in the name of a folder."""

_SLUG_LENGTH = 80
_COMPRESSION = 3


class EvidenceError(InfrastructureError, RuntimeError):
    """The evidence cannot be written, read or signed; the message says what to do."""


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
    """A file of the folder: its path below it, the SHA-256 of what is on disk, and its size."""

    path: str
    sha256: str
    size_bytes: int

    def entry(self, what: str) -> dict[str, Any]:
        """Return its entry in a journal; ``what`` is what it contains."""
        return {"path": self.path, "sha256": self.sha256, "bytes": self.size_bytes, "what": what}


class EvidenceFolder:
    """A folder that one run writes, from one process or several."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self) -> None:
        """Create the folder. Raises EvidenceError if that fails."""
        try:
            for name in (JOURNALS, TESTS, SOURCES):
                (self.root / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EvidenceError(
                f"the evidence of this run cannot be written to {self.root} ({error.strerror or error}): give a "
                "writable folder with --cloudbench-evidence=DIR, or --cloudbench-evidence=off to keep none"
            ) from error

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

    def read(self, path: str) -> bytes:
        """Return a file that `write` wrote, uncompressed. Raises EvidenceError for a path outside the folder."""
        data = self.file(path).read_bytes()
        return gzip.decompress(data) if path.endswith(".gz") else data

    def file(self, path: str) -> Path:
        """Return the path of a file in the folder. Raises EvidenceError for a path outside it."""
        if path.startswith("/") or ".." in path.split("/"):
            raise EvidenceError(f"{path!r} is not a path within an evidence folder")
        return self.root / path

    def files(self) -> list[str]:
        """Return the sorted paths of everything below the root that is not a folder, links included."""
        found = []
        for directory, folders, names in os.walk(self.root):
            below = Path(directory).relative_to(self.root)
            links = [name for name in folders if (Path(directory) / name).is_symlink()]
            found += [(below / name).as_posix() for name in (*names, *links)]
        return sorted(found)


def sum_of(path: Path, more: bytes = b"") -> str:
    """Return the SHA-256 of a file followed by ``more``. The file is read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    digest.update(more)
    return digest.hexdigest()


_LINE = re.compile(r"(\\?)([0-9a-f]{64})  (.+)\Z")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


def manifest_of(sums: Mapping[str, str]) -> bytes:
    """Its content, sorted by path."""
    return "".join(_line(path, sums[path]) for path in sorted(sums)).encode("utf-8", "surrogateescape")


def read_manifest(root: Path, name: str = MANIFEST) -> dict[str, str]:
    """The sums by path. Raises EvidenceError for a line that is none, and for a path that is there twice."""
    sums: dict[str, str] = {}
    text = (root / name).read_bytes().decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        match = _LINE.match(line)
        if match is None:
            raise EvidenceError(f"{name}, line {number}, is no sum and path")
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

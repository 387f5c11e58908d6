"""The manifest: the SHA-256 sum of every file of a finished run, as `sha256sum --check` reads it too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pytest_cloudbench.evidence.folder import MANIFEST, EvidenceError

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

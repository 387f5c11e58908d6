"""Evidence folders that somebody changed: every file by bytes, every journal by values with a valid chain.

``python tests/evidence/mutated_evidence.py [COUNT] [SEED]`` verifies and reads so many of them, and prints what failed
otherwise than by an error of evidence, and the slowest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.cleaner import Cleaner
from pytest_cloudbench.evidence.folder import EvidenceError
from pytest_cloudbench.evidence.journal import FIRST
from pytest_cloudbench.evidence.measured import measured_in
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.replay import NotRecorded, ReplayedTest
from pytest_cloudbench.evidence.restorable import NotRestored, measurement_from
from pytest_cloudbench.evidence.verify import verify

KEPT = Path(__file__).parent / "kept" / "0.1.tar.xz"
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**70, 1.5, "", "x", "../../etc/passwd", "/dev/zero", "a\0b", [], [1, 2], {}, {"a": 1}, [[]],
    "9" * 5000,
)  # fmt: skip
SLOW_S = 5.0


def small_evidence(folder: Path, tests: int = 1) -> Path:
    """Unpack kept evidence and leave only some of its tests in it."""
    shutil.unpack_archive(KEPT, folder)
    root = folder / "evidence"
    journal = root / "journals" / "main.jsonl"
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    kept = [entry["folder"] for entry in entries if entry["kind"] == "test"][:tests]
    for each in (root / "tests").glob("*/*"):
        if f"tests/{each.parent.name}/{each.name}" not in kept:
            shutil.rmtree(each.parent)
    rest = [entry for entry in entries if entry.get("folder", kept[0]) in kept]
    write_chain(journal, rest)
    (root / "MANIFEST.sha256").unlink()
    return root


def write_chain(path: Path, entries: list[dict[str, Any]]) -> str:
    """Write a journal with a valid chain, and return the sum of its last line."""
    head, lines = FIRST, []
    for number, entry in enumerate(entries, start=1):
        line = json.dumps({**entry, "entry": number, "previous": head}, default=str).encode()
        head = hashlib.sha256(line).hexdigest()
        lines.append(line)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return head


def changed_value(value: Any, rng: random.Random, depth: int = 0) -> Any:
    """Return the value with one part of it replaced, removed or doubled."""
    if isinstance(value, dict) and value and (depth == 0 or rng.random() < 0.8):
        key = rng.choice(sorted(value))
        if rng.random() < 0.15:
            return {name: each for name, each in value.items() if name != key}
        return {**value, key: changed_value(value[key], rng, depth + 1)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], changed_value(value[at], rng, depth + 1), *value[at + 1 :]]
    return rng.choice(VALUES)


def change_journal(root: Path, rng: random.Random) -> str:
    """Change a value of a journal, and seal it again as somebody who knows the format would."""
    path = rng.choice(sorted(root.rglob("*.jsonl")))
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    at = rng.randrange(len(entries))
    entries[at] = changed_value(entries[at], rng)
    head = write_chain(path, [entry for entry in entries if isinstance(entry, dict)])
    if path.name == "journal.jsonl":
        _seal(root, str(path.parent.relative_to(root)), head=head, entries=len(entries))
    return f"a value of {path.relative_to(root)}"


def change_measurement(root: Path, rng: random.Random) -> str:
    """Change a value of a measurement, and its sums."""
    path = rng.choice(sorted(root.rglob("measurement-*.json")))
    content = json.dumps(changed_value(json.loads(path.read_text()), rng)).encode()
    path.write_bytes(content)
    name, folder = str(path.relative_to(root)), path.parent
    entries = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    for entry in entries:
        if entry.get("path") == name:
            entry["sha256"] = hashlib.sha256(content).hexdigest()
    head = write_chain(folder / "journal.jsonl", entries)
    _seal(root, str(folder.relative_to(root)), head=head, entries=len(entries))
    return f"a value of {name}"


def _seal(root: Path, folder: str, **seal: Any) -> None:
    main = root / "journals" / "main.jsonl"
    entries = [json.loads(line) for line in main.read_text().splitlines()]
    for entry in entries:
        if entry["kind"] == "test" and entry["folder"] == folder:
            entry.update(seal)
    write_chain(main, entries)


def change_bytes(root: Path, rng: random.Random) -> str:
    """Change, remove or add bytes of any file."""
    path = rng.choice(sorted(each for each in root.rglob("*") if each.is_file()))
    data = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.choice((0, 1, 8, 10**6))] = rng.choice(
            (b"", b"\0", b"\n", rng.randbytes(4), b'{"' * 3000)
        )
    path.write_bytes(data)
    return f"bytes of {path.relative_to(root)}"


def replace_file(root: Path, rng: random.Random) -> str:
    """Put another thing in the place of a file."""
    path = rng.choice(sorted(each for each in root.rglob("*") if each.is_file()))
    path.unlink()
    kind = rng.choice(
        ("FIFO", "link to /dev/zero", "link to itself", "folder", "sparse", "deep", "socket", "device link")
    )
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind.startswith("link"):
        path.symlink_to("/dev/zero" if "zero" in kind else path)
    elif kind == "device link":
        path.symlink_to("/dev/stdin")
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        with path.open("wb") as stream:
            stream.truncate(1 << 44)
    elif kind == "deep":
        path.write_bytes(b"[" * 200_000 + b"\n")
    else:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    return f"{kind} at {path.relative_to(root)}"


CHANGES: tuple[Callable[[Path, random.Random], str], ...] = (
    change_journal, change_journal, change_journal, change_measurement, change_measurement, change_bytes, replace_file,
)  # fmt: skip


def read_all(root: Path) -> None:
    """Do what verify, replay and comparisons do with a folder; errors of evidence are expected."""
    with contextlib.suppress(EvidenceError):
        str(verify(root))
    with contextlib.suppress(EvidenceError):
        evidence = Evidence(root)
        _ = evidence.began, evidence.clouds, evidence.finished, evidence.run.get("options", {})
        list(measured_in(evidence))
        for test in evidence.tests:
            with contextlib.suppress(EvidenceError):
                ReplayedTest(test, Cleaner({}))
                _ = test.verdicts
                for entry in test.of_kind("workload"):
                    if "file" not in entry:
                        continue
                    with contextlib.suppress(EvidenceError, NotRestored, NotRecorded):
                        measurement_from(test.measurement(entry["file"]), test.read)


def tried(original: Path, scratch: Path, seed: int) -> tuple[str, str | None, float]:
    """Change a copy of evidence by a seed and read it. Return the change, the traceback of a crash, and the seconds."""
    rng = random.Random(seed)
    root = scratch / "evidence"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(original, root, copy_function=shutil.copyfile)
    what = rng.choice(CHANGES)(root, rng)
    began = time.monotonic()
    try:
        read_all(root)
    except Exception:
        return what, traceback.format_exc(), time.monotonic() - began
    return what, None, time.monotonic() - began


def main() -> int:
    """Try so many seeds and print the failures."""
    count, first = (int(each) for each in (*sys.argv[1:], *("1000", "0")[len(sys.argv) - 1 :])[:2])
    crashes, slowest = 0, (0.0, "")
    places: dict[str, int] = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        original = small_evidence(Path(name) / "original")
        for seed in range(first, first + count):
            what, crash, seconds = tried(original, Path(name), seed)
            slowest = max(slowest, (seconds, f"seed {seed}: {what}"))
            if crash is not None:
                crashes += 1
                place = "".join(crash.strip().splitlines()[-3:])
                places[place] = places.get(place, 0) + 1
                if places[place] == 1:
                    print(f"seed {seed}: {what}\n{crash}")
    print(f"{count:,} folders, {crashes} crashes, slowest {slowest[0]:.2f} s ({slowest[1]})")
    return crashes


if __name__ == "__main__":
    sys.exit(main() > 0)

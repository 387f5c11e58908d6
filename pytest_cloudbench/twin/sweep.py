"""Removing what regions left that were killed. The kernel has removed most of it already."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from pytest_cloudbench.twin.slots import BASE, Slot, numbers_with_records, try_lock
from pytest_cloudbench.twin.volumes.volume_process import end_leftovers


def sweep_slot(number: int, base: Path = BASE) -> bool:
    """Remove what is left of a slot whose lock the caller holds. Whether there was anything."""
    slot = Slot(number, base)
    end_leftovers(slot.directory)
    # The lock that the caller holds speaks for the machine's interfaces only where all regions take their slots.
    has_link = base == BASE and (Path("/sys/class/net") / slot.interface).exists()
    was_there = slot.directory.exists() or has_link
    if has_link:
        subprocess.run(["ip", "link", "delete", slot.interface], capture_output=True, timeout=20, check=False)
    shutil.rmtree(slot.directory, ignore_errors=True)
    return was_there


def sweep(base: Path = BASE) -> list[int]:
    """Sweep every slot that nobody owns. The numbers of those that had something left."""
    swept = []
    for number in numbers_with_records(base):
        lock = try_lock(number, base)
        if lock is None:
            continue
        try:
            if sweep_slot(number, base):
                swept.append(number)
            with contextlib.suppress(FileNotFoundError):
                (base / f"{number}.lock").unlink()
        finally:
            os.close(lock)
    return swept

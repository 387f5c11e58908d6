"""One load on a device at a time: two at once would measure each other. A test can permit it by concurrent=True.

Within this process a table of all loads, also those in directories, ensures it. Between processes the kernel's lock on
a raw device (flock(2)) does, which fio holds from its start to its end, however it ends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_cloudbench.errors import RequestError
from pytest_cloudbench.workloads.errors import StorageLost, TargetError
from pytest_cloudbench.workloads.target import Target

BUSY = 97
"""The exit code of a load that found another one on its device. No tool here uses it."""
GONE = 96
"""The exit code of a load whose device could not be opened."""
_WAIT_S = 5.0
_OPEN = 'command exec 9< "$1" || exit "$2"; shift 2; exec "$@"'
"""Opens an existing device. If the device has gone, flock(1) by itself would leave a regular file in /dev."""
_OPENED = "/proc/self/fd/9"

_guard = threading.Lock()
_loads: dict[str, list[bool]] = {}
"""The running loads on each device of each host: True for one that permits others beside it."""


class LoadRunning(TargetError, RequestError):
    """Another load uses the target at this moment. Nothing was started."""


@contextlib.contextmanager
def one_load(target: Any, *, concurrent: bool = False) -> Iterator[None]:
    """Reserve the target's devices for the block; a target that is not storage has none.

    Raises LoadRunning if another load of this process uses one of them, unless both are ``concurrent``.
    """
    devices = _devices(target)
    with _guard:
        for device in devices:
            if (others := _loads.get(device)) and not (concurrent and all(others)):
                raise LoadRunning(_sentence(device))
        for device in devices:
            _loads.setdefault(device, []).append(concurrent)
    try:
        yield
    finally:
        with _guard:
            for device in devices:
                _loads[device].remove(concurrent)
                if not _loads[device]:
                    del _loads[device]


def alone_on(target: Target, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs `argv` and holds the lock of each raw device.

    It ends with `GONE` if a device does not exist, and with `BUSY` if another process still locks it after 5 s.
    It waits because udev holds a shared lock on a disk while it probes the disk, after each process that wrote to it
    (https://systemd.io/BLOCK_DEVICE_LOCKING, read 2026-11).
    """
    if target.kind != "block":
        return tuple(argv)
    shared = all(all(_loads.get(device, [False])) for device in _devices(target))
    how = "--shared" if shared else "--exclusive"
    lock = ["flock", "--no-fork", "--timeout", str(_WAIT_S), "--conflict-exit-code", str(BUSY), how]
    locked = (("sh", "-c", _OPEN, "sh", path, str(GONE), *lock, _OPENED) for path in target.paths)
    return (*(word for words in locked for word in words), *argv)


def check_started(exit_code: int | None, target: Target) -> None:
    """Raise LoadRunning or StorageLost if a command of `alone_on` has ended because a device is held or gone."""
    if target.kind != "block":
        return
    where = f"{', '.join(target.paths)} on {target.host.label}"
    if exit_code == BUSY:
        raise LoadRunning(_sentence(where))
    if exit_code == GONE:
        raise StorageLost.before_load(f"{where} cannot be opened any more")


def _devices(target: Any) -> list[str]:
    """Return the names of a target's devices; the paths of a target from outside this package."""
    found = []
    for part in getattr(target, "parts", (target,)):
        if getattr(part, "kind", None) in ("block", "directory", "file"):
            names: Sequence[str] = getattr(part, "device_names", None) or getattr(part, "paths", None) or ()
            found += [f"{name} on {getattr(part.host, 'label', 'its host')}" for name in names]
    return list(dict.fromkeys(found))


def _sentence(device: str) -> str:
    return (
        f"another load uses {device} now, and two at once would measure each other: run one after the other, or say "
        "concurrent=True in both calls"
    )

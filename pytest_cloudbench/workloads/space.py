"""Space for a workload's data on the machine behind a target: checked before a run and after a failure.

Only an embedded region has such a limit: it keeps its volumes' data in memory or in a folder.
"""

from __future__ import annotations

import contextlib

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.target import Target

KEPT_FREE = 0.05
"""Share of the space that is left to the file systems' own data."""
_SPENT = Size(128 << 20)
"""With less space than this, a device's refusal is attributed to the machine, whose limit moves in steps of 64 MiB."""
_REFUSED = ("Input/output error", "No space left on device")


def shortage(target: Target, words: str) -> str:
    """Return the end of a sentence that explains why devices refused data; "" unless the machine is out of space.

    ``words`` is the workload's own error message. An embedded region limits its volumes' data by the memory that is
    left, so space that was sufficient before a run may be used up by other programs during it.
    """
    if not any(word in words for word in _REFUSED):
        return ""
    with contextlib.suppress(Exception):  # an error here must not hide the workload's own
        room = target.room()
        if room is not None and room < _SPENT:
            return (
                f"the machine behind {target.label} is out of room for volumes' data ({room} are left), used up by "
                "this data or by other programs: write less, or give the embedded region a folder with "
                "--cloudbench-twin-backing=DIR"
            )
    return ""


def fits(room: Size | None, data: Size) -> bool:
    """Return True if that much more data fits into ``room``, which is None if unlimited."""
    return room is None or data.bytes <= room.bytes * (1 - KEPT_FREE)


def check_room(target: Target, data: Size, what: str, instead: str) -> None:
    """Raise TargetError unless ``data`` more fits the machine behind the target.

    ``what`` begins the message ("writing every block of ..."); ``instead`` says what else to do.
    """
    room = target.room()
    if not fits(room, data):
        raise TargetError(
            f"{what} would bring {data} of data, and the machine behind it has room for {room}: {instead}, or "
            "give the embedded region a folder with --cloudbench-twin-backing=DIR"
        )

"""Does data that a workload is about to write fit the machine behind its target? Said before anything is written."""

from __future__ import annotations

from pytest_cloudbench.promises.quantities import Size
from pytest_cloudbench.workloads.fio.errors import TargetError
from pytest_cloudbench.workloads.target import Target

KEPT_FREE = 0.05
"""Share of the room left for what file systems add of their own."""


def fits(room: Size | None, data: Size) -> bool:
    """Whether that much more data fits; it always does where no limit is known."""
    return room is None or data.bytes <= room.bytes * (1 - KEPT_FREE)


def check_room(target: Target, data: Size, what: str, instead: str) -> None:
    """Raise TargetError unless `data` more fits the machine behind the target.

    `what` begins the sentence ("writing every block of ..."), `instead` is what else could be done.
    """
    room = target.room()
    if not fits(room, data):
        raise TargetError(
            f"{what} would bring {data} of data, and the machine behind it has room for {room}: {instead}, or "
            "give the embedded region a folder with --cloudbench-twin-backing=DIR"
        )

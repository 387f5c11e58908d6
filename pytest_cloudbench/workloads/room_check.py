"""Has the machine behind a target room for its data? Asked before anything is written, and again when that failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.fio.errors import FioRefused, TargetError
from pytest_cloudbench.workloads.target import Target

KEPT_FREE = 0.05
"""Share of the room left for what file systems add of their own."""


_SPENT = Size(128 << 20)
"""With less room than that, what a device refuses is due to the machine. Its bound moves in steps of 64 MiB."""
_REFUSED = ("Input/output error", "No space left on device")


def shortage(target: Target, words: str) -> str:
    """Why devices refused what they were given, as the end of that sentence; "" unless the machine is out of room.

    ``words`` are what the workload said. An embedded region bounds its volumes' data by the memory that is left,
    whoever else takes it: what was enough before a run may be too little during it.
    """
    if not any(word in words for word in _REFUSED):
        return ""
    with contextlib.suppress(Exception):  # the first error is the one to be seen
        room = target.room()
        if room is not None and room < _SPENT:
            return (
                f"the machine behind {target.label} is out of room for volumes' data ({room} are left), used up by "
                "what was written or by other programs meanwhile: write less, or give the embedded region a folder "
                "with --cloudbench-twin-backing=DIR"
            )
    return ""


@contextlib.contextmanager
def telling_shortage(target: Target) -> Iterator[None]:
    """Have fio's own words about a device that refuses data followed by the machine's shortage, where that is why."""
    try:
        yield
    except FioRefused as error:
        if why := shortage(target, str(error)):
            raise FioRefused(f"{error}; {why}") from error
        raise


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
